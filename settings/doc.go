// Package settings keeps what operators may change while everything runs: today
// our telephone numbers, and what happens to a call that comes in there.
//
// # Contract
//
//   - A change is known to every replica within moments, without a restart.
//   - Nothing is stored that could not be used: [Check] names every field.
//   - Reading a number that is set needs no round trip.
//   - A file at the start is the other way to set numbers. What stands in it is put
//     when it differs from what the file said the last time: a change made over the
//     API stays until somebody edits the file. A number that is taken out of the file
//     stays; delete it over the API.
//
// # Picture
//
//	file at start ─┐
//	PUT, DELETE ───┴──▶ KV dibs_settings: number.<digits> ──watch──▶ every replica's memory ──▶ Number(to)
//
// # If X dies
//
//   - NATS: numbers are read from memory; changes are refused with [ErrUnavailable].
//   - A replica in the middle of a change: it was stored or it was not.
//   - An entry that cannot be read (written by hand): it is logged and counts as not
//     there; the others work.
package settings
