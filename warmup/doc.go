// Package warmup does, while the phone is still ringing, what would otherwise
// keep a caller waiting: it loads the flow, opens the provider sessions and makes
// the greeting, so that the bot speaks with its first frame.
//
// # Contract
//
//   - [Run] runs named steps beside each other, each with a budget, within one
//     budget for all (8 s). The first failure, the budget or the end of the
//     caller's context ends every step at once; Run returns when none runs any
//     more, and the [Report] says how long each took.
//   - [Warmer.Prepare] returns either a [Prepared] call, whose sessions stay open
//     until its Close, or an [*Error] and nothing that is left open: no
//     connection, no process, no goroutine.
//   - An [*Error] has a step, a stable [Code] and whether the call itself is at
//     fault (Permanent). [Counts] tells a breaker which failures are this bot's.
//     Its text carries no credentials, URLs or numbers.
//   - A flow is a strict JSON document ([Flow]), read from a directory, an HTTP
//     URL, a source of your own, or the call itself; an HTTP source is asked each
//     time whether its copy still holds (ETag). A call's own URL is followed only
//     to origins that the configuration names, and never by a redirect elsewhere.
//   - A provider's session is a real connection, WebSocket or HTTP, kept by pings.
//     Headers come from the environment and are never shown.
//   - A greeting is 8 kHz µ-law in whole frames, from an OpenAI-compatible speech
//     endpoint, ElevenLabs, espeak-ng or, without any of them, a built-in tune.
//
// # Picture
//
//	Prepare ──┬─ flow ──────────────┬─ provider_tts (the flow's or the first) ─┬─▶ Prepared
//	          ├─ provider_stt ──────│──────────────────────────────────────────┤     │ the call
//	          └─ provider_llm ──────┴─ greeting ───────────────────────────────┘     ▼
//	             (chosen by the call: at once)                                     Close
//
// # If X dies
//
//   - The flow's source: a copy that it vouched for within the last hour stands in,
//     and is counted; without one, flow_unavailable. A source that answers "no" is
//     believed, and its copy is dropped.
//   - A provider, before it is open: provider_refused, _rate_limited, _silent or
//     _closed. After that and before all is ready: the warm-up ends the same way.
//     During the call: [Session.Done] and [Session.Err] say so.
//   - A provider that took the session but whose answer is lost: our side is closed,
//     so the provider sees the end of it and holds nothing for us.
//   - The speech engine, in the middle of a greeting: greeting_failed; half a
//     greeting is neither kept nor played.
//   - Whoever asked: the context ends, and with it everything above.
package warmup
