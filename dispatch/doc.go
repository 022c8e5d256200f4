// Package dispatch is the elected brain: one process of an environment is in
// office, reads the line, decides who goes, finds each call a bot, dials, and
// follows the call to its end. [Desk] is the way to it for everybody else.
//
// # Contract
//
//   - Every put call reaches a terminal state, and no attempt of it is dialled
//     twice, whatever is killed when (package call says how; this package stores
//     before it acts).
//   - Nothing in the loop waits: a slow warm-up, carrier or store holds up its own
//     call and no other.
//   - A call that comes in has its answer within 8 s, from any replica, and the same
//     question the same one. Its record is written once by whoever answered, and then
//     by the office alone.
//   - A call whose bot is lost while somebody is on the line goes on with another bot,
//     or ends with a sentence; nobody is left in silence.
//   - A call that finds no bot waits at most 90 s from its first miss, on the line,
//     and is tried whenever a seat becomes idle; then once more, and then it ends.
//
// # Picture
//
//	queue ──items──▶ office.run (one goroutine)         caller (one goroutine a call in flight)
//	beats ─────────▶   known: who waits                   letters, claim, dial, look-up
//	desk ──asks────▶   serve: who goes ──────begin──────▶   event ─ call.Apply ─ store ─ act
//	5 s, moments ──▶   people, room, cap  ◀─────left──────  it waits again, or it is over
//
//	carrier ─▶ Reception (any replica): claim, record ──adopt──▶ desk ──▶ a caller for it
//	carrier ─▶ next: the socket has closed ──▶ desk ──▶ caller: asks the bot, rescues
//	        ◀─ Redirect: ask, although it has not ─────────────────┘ its bot is gone
//
// # Taking office
//
// The leader's office first, then the records that are open, then the line from its
// beginning. A record in flight gets a caller at once, which learns that the term
// before is over: a call in placing goes back in line, one in dialing is looked up,
// one that rings or talks is followed. A message whose call has a record joins it;
// one whose call has ended is taken off the line.
//
// # The re-queue
//
// A miss stores bot_wait_since and gives the message back with a delay (nak), so it
// survives everything. The wait is kept here as well: when a seat becomes idle the
// call goes at once, and its message is taken off the line when it comes back.
//
// # If X dies
//
//   - This process: another is in office within 2 s; see package call for each step.
//     The end of a call that it stored and did not live to tell is told by the next,
//     as the same event; any other step that was not told is missing in the timeline,
//     and the record has it. It leaves no seat behind of which no record tells, unless
//     it is killed: then the bot frees that seat when no media comes.
//   - It is paused: its office is over by its own clock before another can have it;
//     its writes meet newer revisions and are refused; an intent older than 5 s is
//     not sent.
//   - NATS: the office is doubted after 1.5 s and given up; calls in flight go on at
//     the carrier and the bot; the next office reconciles.
//   - The carrier's API: intents stand; look-ups repeat every 10 s; 300 s without
//     evidence is unknown.
//   - A bot before the dial: the claim takes another. While it rings: the carrier
//     connects to nothing, asks, and is led to another. In the conversation: the same.
//   - A bot that holds its media socket and says nothing, because it is frozen or its
//     machine has lost its power: silent.go. The caller hears silence for some 17 s.
//     One that is only cut off from NATS talks on; nobody hangs up on it.
//   - Whoever answered a call that came in, after its record: the next office, or the
//     first thing that is said of it, finds the record. Nobody in office when a bot
//     dies: the carrier's question waits 5 s for one, then the sentence.
package dispatch
