// Package demand says how many bots a region wants, and why. It is the number that
// the autoscaler trusts, so it is small, exact and explained term by term.
//
// # Contract
//
//	in flight   calls from admission to end, placing, warming and stuck ones too: they hold bots
//	+ direct    calls that somebody waits for and that have no bot
//	+ campaign  by policy: those that admission would let go if only bots were unlimited
//	= demand    in calls;  wanted = ceil(demand / 0.7 per bot), between floor 3 and ceiling 50
//
// The arithmetic is in whole numbers: 14 calls at 0.7 per bot are 20 bots, never
// the 21 that rounding would make of it. What is not known is an error
// ([ErrUnknown]) and never 0: a scaler that is told nothing keeps what it has, one
// that is told 0 hangs up on people.
//
// The policies differ in the campaign term only. On the day when 109 calls were
// queued behind a campaign that may run 5, the backlog as it was asked for 50
// bots (raw), clamped to what runs plus four for 20 (active+4), and counted up to
// what the campaign may use for 8 (headroom).
//
// [HPA] is the other half: what a Kubernetes HorizontalPodAutoscaler does with the
// number, as arithmetic over a clock that the caller holds.
//
// # If something is missing
//
//   - A term is unknown (no dispatcher in office, roster not loaded): [Compute]
//     fails, the API answers 503, the metric has no sample, the autoscaler holds.
//   - The autoscaler restarts: it forgets its window and begins a new one, as
//     [NewHPA] does; nothing shrinks early.
package demand
