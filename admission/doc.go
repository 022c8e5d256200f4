// Package admission decides which call goes next, and says of every other call
// why it does not. It is arithmetic over settings and a set of calls: no clock, no
// I/O, no goroutine, no randomness. The same history gives the same decisions.
//
// # Contract
//
// A call holds a slot from its admission to its end, and one set says which calls
// these are. Every count (platform, org, class, campaign, owed) is the length of a
// part of that set; nothing is ever incremented and decremented. So an end that is
// told twice frees one slot, and an end that is never told is one call too many
// until [State.End], never a number that is wrong for ever.
//
// One decision asks four questions in one step and keeps every no:
//
//	providers  has some alternative of each need room?
//	org        is it below its ceiling, less what its inbound is owed? Its campaign below its cap?
//	platform   is there a slot, less what inbound reserves are owed?
//	entitled?  inbound takes a line that was kept for it, and a provider that is full
//
// Inbound is decided on arrival ([State.Inbound]), the rest in a tick
// ([State.Tick]), to be run after whatever could have made room:
//
//	       Enqueue            Tick                    End
//	call ─────────▶ waiting ────────▶ in flight ──────────▶ gone
//	                   │  ▲ Verdict      ▲
//	                   ▼                 │ Restore (on taking office), Inbound
//	                 Remove
//
//	floor phase   orgs below their floor, largest shortfall first, one slot each per
//	              pass; a pass outlives the tick, or with single slots the largest
//	              customer would always be first
//	burst phase   all orgs, fewest running first, one slot each per pass
//	inside an org api, retry, workflow, campaign; but a protected class goes once in
//	              every E admissions while it could. Retries by the end of their
//	              window, campaigns by turns, everything else by arrival
//
// A reserve is a part of the floor that outbound may not use. What is owed of it
// is what inbound does not use just now. It is cut to the floor and to one line
// below the ceiling, and all reserves together to one slot below the cap: no
// setting can keep everybody waiting for an inbound call that never comes.
// [Validate] refuses such settings on writing, the arithmetic bears them.
//
// # Cost
//
// Calls that every question treats alike (org, class, region, campaign, needs)
// are one sub-queue, and only its first call is looked at, so a blocked call hides
// none and nothing ever ages out of a scan window. A verdict is made for the
// sub-queue and holds for all in it. A tick of ten slots over 200 orgs and 100,000
// calls takes less than a millisecond; a waiting call costs 100 bytes and its id.
//
// # If something goes wrong
//
//   - The owner dies: the next one makes a new [State], restores what is in flight
//     and enqueues what is in the line. Lost are only turns: the floor pass, who was
//     served last and how long a class has watched.
//   - A limit is lowered, an org is deleted, a campaign moves: nothing is hung up,
//     nothing is admitted until the count is below the limit again.
//   - A call's end is not heard of: it counts until it is ended, so the owner must
//     give every call a deadline.
//   - Providers cannot be counted: they answer [Uncounted] and never say no.
//
// A [State] is not safe for concurrent use.
package admission
