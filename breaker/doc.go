// Package breaker keeps a bot whose warm-up keeps failing from taking calls that
// it would only fail again: a circuit breaker in two steps, [Breaker.Allow]
// before the warm-up and a verdict on the [Try] after it.
//
// # Contract
//
//   - Three failures in a row open it (Config.Failures). Open, it refuses every
//     try for 30 s (Config.OpenFor); then, half open, it lets one probe through
//     and refuses the rest. The probe's success closes it, its failure opens it
//     for as long again.
//   - A try ends exactly once: with Done, with Forget, or by itself after
//     Config.MaxHold, which counts as a failure. What comes after the first end
//     is ignored, so neither a lost nor a doubled verdict can harm.
//   - Forget is for what says nothing about this bot: the asker withdrew, or the
//     call itself was at fault (its flow does not exist). It counts as neither;
//     in half open it gives the probe back, and the next try is the probe.
//   - A verdict on a try that began before the last change of state is ignored:
//     an old success cannot close what newer failures have opened.
//   - Nothing here blocks, and nothing is called back: [Breaker.Changed] holds at
//     most one note, "look at View".
//
// # Picture
//
//	         3 failures in a row            30 s
//	closed ──────────────────────▶ open ──────────▶ half_open
//	  ▲                             ▲                │  │  ↺ Forget: the probe is free again
//	  │                             └─ probe failed ─┘  │
//	  └────────────────── probe succeeded ──────────────┘
//
// # If X dies
//
//   - The holder of a try dies or forgets it: after MaxHold it counts as failed.
//     Without that, a lost probe would refuse calls for ever.
//   - The process dies: the breaker dies with it and begins closed, as a new bot does.
//   - Nobody reads Changed: the note waits; no change of state is held up.
package breaker
