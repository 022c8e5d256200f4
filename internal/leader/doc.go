// Package leader elects one holder of an office among processes that share a
// NATS account, and tells that one, and only that one, for how long it may act.
// The dispatcher of an environment is such an office.
//
// # Contract
//
//   - At any moment at most one process is told that it holds the office: the
//     context given to the function in office is alive, and [Leader.Leading] says
//     ok, only within the trusted time. (The proof is below; it needs clocks that
//     run at about the same speed, not clocks that agree.)
//   - Every time in office has a term, the revision under which the key was
//     taken. Terms only go up. Who writes something that a later holder must win
//     over, writes the term with it.
//   - A process that stops in good order gives the office back; another has it
//     within about a tenth of a second. After a silent death it takes 1.2 to
//     1.8 s, with the defaults.
//   - Nobody is in office while JetStream cannot be reached for longer than the
//     trusted time. The election comes back by itself.
//
// # Picture
//
// The office is one key in the bucket [wire.BucketOffice], with the holder as its
// value and a TTL. Taking and renewing are the same write: compare-and-set on the
// revision last seen, TTL sent again each time (a write without it would stay for
// ever).
//
//	          key vacant, or silent for 9/8 of trust, write stored
//	┌───────────┐ ────────────────────────────────────────────▶ ┌───────────┐
//	│ candidate │                                               │ in office │──┐ every 0.5 s:
//	│ looks at  │ ◀──────────────────────────────────────────── │ ctx alive │◀─┘ renew, stored
//	│ the key   │   not renewed within 1.5 s of the last        └───────────┘
//	│ 10 times/s│   renewal's SENDING: ErrDoubted                  │ Run's ctx ends, or the
//	└───────────┘   key has another holder or none: ErrTaken       │ function returns
//	      ▲                                                        ▼
//	      └────────── (others, at once) ◀────────────────── key deleted, Run returns
//
// # Why two are never in office
//
//	holder     S ── sent ──────────────── trusted until S + 1.5 s ─┤
//	broker          R ≥ S ── stored ───────────────────────────── R + 2 s: key expires
//	candidate              seen ≥ R ───────────────── seen + 1.69 s: may overwrite
//
// The holder counts from before the broker could have stored the renewal, the
// broker and the others count from after it, and theirs is longer, by an eighth at
// least: so much may the speeds of two clocks differ. A write that
// was based on an older revision is refused. A reply that comes late, or never,
// adds no time. What remains is the time between a check and the act that follows
// it: a process that is paused there finds out when it wakes, and the term is what
// lets the receiver of the act know better.
//
// # What happens when
//
//   - the holder dies, or its machine or network vanishes: its key expires.
//   - the holder is paused: when it wakes it is not in office any more, by its own
//     clock, before it asks anybody.
//   - the broker restarts: within the trusted time nobody notices; over a longer
//     outage the office ends and is taken anew, with a new term.
//   - a write's reply is lost: the key is looked at; the holder's own record is
//     recognised by a word that each Run makes anew.
//   - the key is deleted by hand: the office ends with the next renewal, and is
//     taken once that must have happened, 2 s later.
//   - the bucket is deleted by hand: it is made again. Terms then start anew; this
//     is the one thing that must not be done while anything of an old term lives.
package leader
