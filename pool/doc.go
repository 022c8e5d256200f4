// Package pool is who is there: the seats of one bot, the beats by which a bot
// tells about itself, and the roster in which a backend keeps what it heard.
// Both ends of that conversation stand here; taking a seat for a call is the
// conversation of package claim.
//
// # Contract
//
//   - A seat belongs to at most one claim. [Seats.Take] is the only way in and is
//     a compare-and-set: of two claims that want the last seat one gets it.
//   - Every later move names the claim it acts for. A move for a claim that has
//     lost the seat does nothing and says so, so nobody frees another's seat.
//   - A beat is the whole truth about a bot, numbered; a roster keeps the newest.
//     Nothing is counted up or down, so a lost beat is mended by the next one.
//   - Ages are measured by whoever speaks of its own state and added to the time
//     since the roster heard it; two clocks are never compared.
//
// # Seat
//
//	idle ─Take─▶ claimed ─confirm─▶ warming ─ready─▶ assigned ─media─▶ live ─▶ wrapup ─▶ idle
//	  ▲            │ no confirm 1 s    │ failed          │ no ack 1 s,     │
//	  └────────────┴─ withdraw ────────┴─ released ──────┴─ no media ──────┘
//
// # Beat
//
// Every 5 s, and within 100 ms of any change. Not heard for 12 s: not asked
// directly. For 30 s: not capacity. For an hour: forgotten. A bot that leaves on
// purpose says goodbye in its last beat and is gone at once.
//
// # If X dies
//
//   - A bot: its offers go with its connection; the roster forgets it by age.
//   - NATS: beats are lost, the roster ages; with the connection the member's next
//     beat comes within 5 s and repairs everything.
//   - The backend: a new roster is whole after one beat interval.
package pool
