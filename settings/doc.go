// Package settings keeps what operators may change while everything runs: our
// telephone numbers and what happens to a call that comes in there; and what
// admission is told: envelopes of orgs, caps of campaigns, the platform.
//
// # Contract
//
//   - A change is known to every replica within moments, without a restart.
//   - Nothing is stored that could not be used: [Check], [CheckOrg] and their like name
//     every field. Limits are judged together, with admission's own rules and numbers:
//     a write is refused by the store when anything has changed since the whole was
//     read, so two that write at once are each judged with the other's.
//   - What was wrong before (a smaller cap at the start, say) stands in nobody's way;
//     it is a standing warning ([Limits.Warnings]).
//   - Reading what is set needs no round trip.
//   - A file at the start is the other way to set all of it. What stands in it is put
//     when it differs from what the file said the last time: a change made over the
//     API stays until somebody edits the file. What is taken out of the file stays;
//     delete it over the API.
//
// # Picture
//
//	file at start ─┐          number.<digits>                                        ┌▶ Number(to)
//	PUT, DELETE ───┴──▶ KV dibs_settings: org.<id> campaign.<id> platform ──watch──▶ memory ─┴▶ Limits(), Watch()
//
// # If X dies
//
//   - NATS: everything is read from memory; changes are refused with [ErrUnavailable].
//   - A replica in the middle of a change: it was stored or it was not. In the middle
//     of a file: the next start puts the rest.
//   - An entry that cannot be read (written by hand): it is logged and counts as not
//     there; the others work.
package settings
