// Package carrier is the one seam to a telephone company: place a call, stop it,
// look it up, read what its webhooks say. Everything a company does differently
// stays behind [Carrier]; package carriertest holds every implementation to the
// same behaviour, and package simcarrier is a company that runs on loopback.
//
// # Contract
//
// A phone that rings twice for one order is the fault that cannot be taken back.
// So each failure says what it means for the phone, and nothing below this seam
// asks twice:
//
//   - An implementation never repeats a request, and its transport must not
//     either. Who may ask again is decided by the caller, from the [Verdict].
//   - A failure is [NotPlaced] or [RateLimited] only with proof that the carrier
//     did not process it; everything else that is not a plain refusal is [Unknown].
//   - Find answers "none" only when the carrier said so, about every state a call
//     can be in, waiting in the carrier's own queue included.
//   - A webhook is believed only with the carrier's signature over the public
//     address, and then only about our own account. The same webhook may come
//     twice, late and out of order: Event reads each of them alike, and whoever
//     applies them goes by rank and [Event.Seq].
//   - No error and no log carries a secret, a media token or a full number.
//
// # Picture
//
//	            Place ──────────▶ nil            the carrier has it: Placed.ID
//	intent        │               not_placed     dial again
//	stored ───────┤               rate_limited   dial again, after RetryAfter
//	before        │               rejected       never again: it would be refused again
//	              └──(no answer)─ unknown        ask Find, listen to Event; never dial again
//
//	Event  ◀── queued, initiated, ringing, in_progress ── and one of
//	           completed, busy, no_answer, canceled, failed, which end the call
//
// # What a second carrier has to bring
//
// Telnyx has been read for it, and its TeXML, which looks like Twilio's, is not enough:
// the reply to a create is documented without the call's id, its look-ups are
// eventually consistent and filter by ended statuses only, so that Find could never
// say "none", and a call that comes in is answered before its instructions are asked
// for. Its Call Control has the id, and command_id against a second dial; but there a
// closed socket is a webhook that wants a command, and not a question, so [Voice]
// would have to become one.
//
// # If something dies
//
// The carrier's API: Place says not_placed (nobody could be reached) or unknown,
// Find says an error, never "none". The webhooks: Find. We, between asking and
// hearing: the stored intent and Find, or the attempt id that every webhook
// brings back in its path.
package carrier
