// Package claim is the conversation by which a call gets a warm bot: the asking
// side ([Asker], a public library for backends) and the answering side
// ([Answerer], inside every bot).
//
// # Contract
//
//   - A claim ends within its windows with one seat or with a [*Refused] that says
//     which kind of "nobody" it was. A call never leaves its region.
//   - A seat is never held by nobody: whoever dies or leaves at any point, the
//     bot's side frees the seat within 1 s of knowing it.
//   - The same claim asked twice of one bot gets the same answer and one seat.
//   - Neither side ever waits for the other without a deadline.
//
// # The one idea: an offer is good for one request
//
// Only seats that can take a call now are members of the queue group. Each idle
// seat holds one subscription on the pool's subject and one on the region's, both
// with AutoUnsubscribe(1): the server removes it as it delivers, so a busy seat
// cannot be asked, a frozen bot loses at most one ask per seat and subject, and
// "no responders" truthfully says "nobody is idle". Taking a seat withdraws its
// other offer, once the asker has had its answer. A withdrawn offer is drained, not
// dropped: a request that the server had already sent is still answered (busy)
// instead of met with silence. An offer that is used up without its seat being taken
// (a request that cannot be read, a claim asked twice) is made anew.
//
// # Picture
//
//	asker                                     bot
//	  request ─────────────────────────────▶    closed? → draining, cordoned, breaker_open
//	                                            no idle seat → busy
//	  ◀──── accepted (reply: the bot's inbox) ─ seat claimed, warm-up runs
//	  ───── confirm | withdraw ────────────▶    no confirm in 1 s → seat idle
//	  ◀──── ready (reply: the bot's inbox) ──── seat assigned        or failed
//	  ───── ack ───────────────────────────▶    no ack in 1 s → seat idle
//
// Nobody waits for confirm: a bot with nothing to prepare sends accepted and ready
// back to back and the claim costs one round trip.
//
// The asker goes through phases: directed (its place is kept; the roster's choice
// comes with placement) → pool → region. Inside a phase it asks again after
// 150 ms when the answer was busy, draining or cordoned, at once when it was
// breaker_open or silence, at most 4 times; "no responders" ends the phase. A
// failed warm-up lets it try one more bot, at once, twice at most in a claim. When
// the region said nothing but busy to the end, the pool is asked once more.
//
// # If X dies
//
//   - The asker, at any point: accepted or ready meets "no responders", or its
//     confirm or ack does not come; the warm-up is aborted and the seat is idle.
//   - The bot before accepted: silence, given up after 150 ms, another is asked.
//   - The bot after accepted: the confirm, repeated twice a second, meets "no
//     responders"; the next ask follows at once. If even that is lost, the window ends it.
//   - A frozen bot that wakes: its late accepted reaches an asker that no longer
//     knows the claim, and is answered with withdraw.
//   - NATS: the asks of that moment end as silence; offers are restored by the
//     client when the connection is back.
package claim
