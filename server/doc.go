// Package server is the way in over HTTP: calls, claims and bots for programs and
// people, webhooks for carriers, health and metrics for operators. It decides
// nothing: calls are whoever's who implements [Calls], claims are package claim's,
// bots are package pool's. What it answers with are the types of package api.
//
// # Contract
//
//   - Every path below /v1/ needs a bearer token, except a carrier's webhooks, which
//     prove themselves by their signature. A path that nobody thought about needs
//     an admin's. Tokens are compared in constant time and only as hashes.
//   - Whatever is not done is answered as application/problem+json with a code from
//     [api.Codes]: no such path, a wrong method, a body too large, bad JSON, unknown
//     fields and our own panics included.
//   - A body is read whole before anything is done with it, 128 KiB at most. One
//     that announces more is refused unread. The request's context lasts from there
//     to the end of the handler, whatever the connection's read deadline was.
//   - Nothing waits without a deadline: the line and the records 5 s, a bot 2 s, a
//     claim 30 s.
//   - One line of log a request, and one count. No line, metric or problem holds a
//     token, a body or a whole telephone number.
//   - Nothing is kept here. Two servers side by side, or one that was killed and
//     came back, make no difference to anybody.
//
// # Picture
//
//	request ─▶ id, log, recover ─▶ path? ─▶ token? ─▶ body ─▶ fields? ─▶ handler
//	              │                 404      401       413     400        │
//	              │                 405      403       408     422        ├─▶ Calls      put, get, list, cancel
//	problem+json ◀┴──────────────────┴────────┴─────────┴───────┴─────────┤            ◀─ carrier's events
//	                                                                      ├─▶ claim.Asker ─NATS─▶ bot
//	                                                                      └─▶ pool.Roster, pool.Tell
//
// # The same request twice
//
// The id of a call follows from the token, the org and the idempotency key, so a
// repeated request names the same call. It is looked up first: what is known and was
// asked for with the same words is answered again, with other words refused. What is
// not known is put on the line, which takes one message a call; a second one that
// came meanwhile is told so and looks again. Without a key the id is random; only
// the server itself repeats such a put, because nobody else knows the id.
//
// # If X dies
//
//   - The line, or NATS: POST /v1/calls says queue_unavailable; with a key it is to be
//     sent again. Reading says unavailable. /readyz says why.
//   - The dispatcher: calls are taken as before, they wait; cancels and webhooks are
//     answered 503 for the seconds until another takes office, and carriers repeat
//     or are asked.
//   - The server in the middle of a claim: the bot hears nothing more and frees the seat.
//   - The caller in the middle of a claim: the claim is withdrawn, the seat is free.
package server
