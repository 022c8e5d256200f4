// Package simcarrier is a Twilio that runs on loopback: a real server with real
// sockets, whose callees pick up, listen and hang up, and which can fail in the
// ways that real carriers do. Tests use it in process, the demo and the crash
// harness as `dibs carrier serve`.
//
// # Contract
//
//   - What a client of the real thing relies on behaves alike: the REST calls with
//     their JSON and error bodies, the order of a call's states, signed callbacks,
//     TwiML, Media Streams. It shares no code with package twilio, so that neither
//     can hide the other's mistakes; the signature is written a second time here.
//   - A callee proves what it heard: when the first sound came, and which DTMF tag
//     was mixed into it ([Heard]). Audio is played at its real speed; what clear
//     drops was not heard.
//   - Every dial is on the books ([Server.Calls], GET /sim/calls) whether or not its
//     reply was lost, so "was anybody dialled twice?" has an answer.
//   - With the same seed and numbers, the n-th dial of a number goes the same way,
//     whatever else goes on at the same time.
//   - Only [Server.Run] has goroutines; when it returns there are none left.
//
// # Picture
//
//	POST Calls.json        ┌───────────────── one call ─────────────────┐
//	GET, list, update ───▶ │ queued ▸ initiated ▸ ringing ▸ in-progress │──▶ signed
//	/sim/inbound           │     ╲         ╲         ╲          │       │    callbacks
//	                       │      canceled  failed    busy,     ▼       │
//	/sim/faults            │                       no-answer  completed │
//	/sim/calls, /sim/stats └──────────────┬─────────────────────────────┘
//	                                      │ TwiML, verb by verb
//	                   media socket ◀── <Connect><Stream> : start, media every 20 ms,
//	                      of a bot   ──▶ media, mark, clear : played, heard, recorded
//
// One goroutine per call follows its life, one per open stream owns that stream,
// and one clock for all of them ([pacer]) wakes the streams, a quarter of them each
// 5 ms, so that a hundred do not write in the same instant.
//
// # What is not here
//
// Dial, Gather, Play, Record, conferences, prices and accounts. An unknown verb is passed
// over with a warning on the call, as Twilio does. Machine detection knows what the
// profile says, not what is heard. The control addresses (/sim/…) ask for no
// password: listen on loopback.
//
// # If something dies
//
// The bot (its socket closes): the next verb, or the call ends. The webhook's
// server: a callback is tried [Config.CallbackTries] times and given up. The
// simulated carrier itself: its calls end with it, and nothing is remembered.
package simcarrier
