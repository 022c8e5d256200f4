// Package cdr keeps the call records: what was tried, and the truth about every
// call that is going on. It stores what package call decided, and lets nobody
// overwrite what they have not seen. The locks on persons stand here too, because
// they are kept in the same way.
//
// # Contract
//
//   - One record a call, in the key-value bucket dibs_calls. [Store.Create] makes it,
//     [Store.Update] advances it against the revision of the writer's own last
//     write. Of any number of writers on one revision exactly one wins; the others
//     get [ErrLost] and have changed nothing. So a dispatcher that was paused and
//     wakes cannot overwrite what its successor has stored.
//   - A write counts once from the caller's view. When its answer is lost it is sent
//     again; the server then either stores it or refuses it, and a refusal because
//     of our own first copy is recognised by the mark that every write carries, and
//     is success.
//   - err_code 10164 is not a lost race: in a cluster it says that an earlier write
//     of this key is still on its way. The same write is sent again, a little later.
//     Only 10071, and a last write that is not ours, is [ErrLost].
//   - Reads that decide something are answered by the bucket's leader; a replica may
//     lag behind the reader's own write.
//   - A record that nobody can read (edited by hand, of a newer version) is reported
//     by its key and stops nothing.
//
// # Open and done
//
// A record lies under open.<call> while something is left to do (not terminal, or
// effects owed), and under done.<call> afterwards, for [Config].Retention. So a new
// dispatcher reads what is open and not the last month; its time does not grow with
// what has ended. Both keys are one place: every write, wherever it goes, compares
// the last revision of *.<call>. The write that moves a record is one message; the
// one it supersedes is then deleted by its number, and if the writer dies between
// the two, [Store.Load] sees that it is superseded.
//
//	Create ──▶ open.<call> ──Update──▶ open.<call> ──Update, settled──▶ done.<call>
//	              rev 17                  rev 23                          rev 31, TTL
//	         expects 0 of *.<call>   expects 17                      expects 23
//
// An open record never expires. A done one is kept for Retention, and as long as it
// is there the call cannot be created again.
//
// # Person locks
//
// One key a person (org and number) in the bucket dibs_people, created with the
// attempt's id, which expires unless it is refreshed. The owner may take it again;
// nobody else can until it is unlocked or its holder has died and the TTL is over.
// Numbers are not in clear: a key is an HMAC.
//
// # If X dies
//
//   - The writer before its answer: stored or not; its successor loads what is there.
//   - NATS: writes are repeated until the deadline, then [ErrUnavailable], which says
//     that nobody knows. The same write may be tried again with the same revision.
//   - One of three servers: the two others go on; a write waits for the election.
//   - A holder of a person lock: the lock goes with its TTL.
package cdr
