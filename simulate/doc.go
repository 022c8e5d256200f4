// Package simulate says what a setting would do before anybody is called with it:
// the real [admission] and the real [demand] over a scenario, in fake time, with a
// model of the autoscaler and of pods between them, policy beside policy.
//
// # Contract
//
// The same scenario gives the same report: there is no clock, no randomness and no
// I/O. Every call that came is done, refused, waiting or in flight at the end, and
// counted once. Nothing that is decided here is decided here: who goes is
// [admission.State], how many bots there should be [demand.Compute], what a
// HorizontalPodAutoscaler makes of it [demand.HPA].
//
//	arrivals ──▶ admission ──a bot is idle──▶ talk ──▶ done
//	               │   ▲                        │
//	               │   └────── slot, bot ◀──────┘
//	               ▼
//	            demand ──15 s──▶ HPA ──▶ pods: starting ─35 s─▶ idle ⇄ busy ─▶ leaving
//
// # What the model leaves out
//
//   - The autoscaler reads the demand of the moment: no scrape, no lost sample. Its
//     first look is one interval after the start, the worst that it can be.
//   - A bot has one seat and is free as its call ends. Which of the idle ones is
//     taken makes no difference; pods that start go first on the way down, then
//     idle ones, and a busy one is told to stop but finishes its call.
//   - A campaign call begins only when a bot is idle. Every other call is tried at
//     once: an inbound one that finds no bot is refused, an outbound one waits
//     [BotWait] from its first miss and is refused at the first miss after that.
//   - Nobody is busy, hangs up or is rung in vain: a call lasts as long as it says.
package simulate
