// Package api is what is said over HTTP between a Dibs backend and whoever uses
// it: requests, answers, problems, and a small client. The server answers with
// these types and the command line reads them, so the two cannot drift apart; the
// OpenAPI description is made from them, too.
//
// # Contract
//
//   - JSON objects in snake_case. Moments are RFC 3339, durations are integers of
//     milliseconds in fields that end in _ms. A field that has nothing to say is
//     left out.
//   - What a request says and the server does not know is refused with its path.
//     What an answer says and a reader does not know is to be ignored: new fields and
//     new words may come at any time.
//   - Everything that is not done is a [Problem]: one stable code, one sentence, and
//     the fields that are to blame. The codes stand in [Codes].
//   - Telephone numbers are masked ("+49151•••89"), and what was said about a person
//     is left out, unless somebody who may asks for it to be revealed.
//
// # Picture
//
//	PlaceCall ──POST /v1/calls──▶ 202 Call {state: queued} ─┐
//	                                                        │ GET /v1/calls/{id}
//	   scheduled → queued → placing → dialing → ringing → live → an outcome
//	                                                        │
//	Reason ────DELETE /v1/calls/{id}──▶ 202 Call ───────────┘
//
// # If X dies
//
//   - The server, before it answered a POST: send it again with the same
//     idempotency key; the answer is the same call.
//   - The client: the call goes on. Its id follows from the key, so it is found again
//     by sending the same request.
package api
