// Package backend joins the conversations into one backend: the HTTP API, the
// roster, the asker, the line, the records and the dispatcher that runs for
// office. cmd/backend runs one; any number of them may run side by side.
//
// # Contract
//
//   - Every replica answers the whole API; one of them, whoever it is, is in office.
//   - Nothing is kept in the process: records, line and events are in NATS.
//   - It starts when NATS is there, waits for it a bounded time, and says so.
//   - It stops in two steps: the API takes no more, then what runs is finished, at
//     most StopIn; the office is given back at once.
//
// # Picture
//
//	HTTP ──▶ server ──▶ dispatch.Desk ──┬─ queue   (put)
//	                │                   ├─ cdr     (get, list)
//	                │                   └─ desk ──NATS──▶ whoever is in office
//	                └──▶ claim.Asker, pool.Roster ──NATS──▶ bots
//	leader ──office──▶ dispatch.Dispatcher ──▶ carrier
//
// # If X dies
//
//   - A replica: the others serve; its office, if it had it, is taken in 2 s.
//   - NATS: the API answers 503 with a code; everything goes on when it is back.
//   - The carrier: see package dispatch.
package backend
