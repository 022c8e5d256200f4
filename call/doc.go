// Package call knows what a call is: the order it is made from, the record that is
// kept of it, the machine that moves the record, and the rules about when and whom one
// may dial. It is pure: it has no lock, no clock, no store and no network, and every
// decision takes now. Whoever owns a call reads its record, asks this package, stores the
// answer by compare-and-set, and only then acts.
//
// # Contract
//
// Nobody is ever dialled twice and no call is ever lost, whatever dies when. That
// rests on six rules:
//
//   - The intent to dial is stored before the carrier is asked ([EvIntent]). After
//     that this attempt is never dialled again; a new attempt comes only after proof that
//     no phone rang.
//   - Proof is the carrier's own "not processed", or the owner's own "not sent", or
//     all three of: the look-up found nothing, 120 s since the intent, the owner's office
//     has ended ([Reconcile]). Silence is no proof: it ends as [Unknown], which is said.
//   - The owner sends within 5 s of its own stored intent ([MaySend]) or takes it back.
//   - Attempt numbers only go up, and their ids travel with the dial and its status
//     events. Events of another attempt, late ones and repeated ones change nothing.
//   - Every write is a compare-and-set against the writer's own last revision, never
//     against one read again: who was paused finds out before it acts.
//   - What was decided and is not done is a part of the record ([Pending]).
//
// # Picture
//
//	            due                admitted            intent stored
//	scheduled ───────▶ queued ───────────────▶ placing ─────────────▶ dialing
//	     ▲               ▲ ▲   no bot, 30 s, owner │                   │ │ │
//	     │               │ └── gone: no intent, so ┘                   │ │ │
//	     │               │     nobody was dialled                      │ │ │
//	     │               └── 429, taken back, not placed (proof) ──────┘ │ │
//	     └── placing: the callee's hours are over         carrier has it │ │
//	                                                                     ▼ │
//	   completed  no_answer  busy  failed  voicemail  ◀── end ──── ringing │
//	   cancelled  expired  bot_unavailable  rejected      │          │     │
//	   unknown (300 s without evidence; 1 h without end) ◀┼──────────┼─────┘
//	   interrupted ◀── worker lost ── live ◀──────────────┼──────────┘ answered
//	                                   └──── end ─────────┘
//
// An inbound call is admitted, gets a bot (ringing: its caller hears it ring) and goes
// live; it has no intent and is never requeued.
//
//	state      holds                          deadline (Deadline)
//	scheduled  nothing                        next_at → due; the window closes → expired
//	queued     nothing                        the window closes → expired; see bot-wait
//	placing    slot, leases, person, a bot    30 s → queued
//	dialing    the same                       120 s, or owner gone → look-up; 300 s → unknown
//	ringing    the same                       20 s silent → look-up; 1 h → unknown
//	live       the same                       60 s silent → look-up; 1 h → unknown
//	terminal   nothing
//
// Bot-wait: from the first miss the call has 90 s, in which every miss gives all back
// and queues it again. The first miss at or past 90 s leaves it one final attempt;
// when that misses too it ends as bot_unavailable. Waiting for admission does not count.
//
// # When the dispatcher is killed after a step
//
//	step                           dials  what the next one finds and does
//	1 message received               1    no record: begins anew
//	2 guards, 3 slot, 4 person       1    the same; slots and people are counted from records
//	5 placing stored                 1    placing, owner gone: no intent, queued, new attempt
//	6 bot assigned                   1    the same; the bot is released
//	7 intent stored                  1    dialing: look-up says none, 120 s, owner gone → new attempt;
//	                                 0    the look-up is down: unknown at 300 s
//	8 carrier accepted               1    status event or look-up tells; neither: unknown at 300 s
//	9 carrier id stored              1    ringing: status events or look-up tell the rest;
//	10 message acknowledged          1    neither: unknown after 1 h
//
// A bot that dies before the answer: another is claimed and noted ([EvBot]), or the
// call is hung up. One that dies in the conversation: interrupted, hung up, and a callback
// if one is wanted. A cancel works in every state: at once before the intent, after it as
// soon as there is a call to hang up. And should the carrier ever speak of a dial that was
// proved not to be made, that dial is hung up and there is no further one.
package call
