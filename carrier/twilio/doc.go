// Package twilio is [carrier.Carrier] over Twilio's REST API of 2010-04-01, TwiML
// and webhooks: five requests and a signature, written by hand so that no request
// is ever sent twice and the base address can be a simulated Twilio.
//
// # Contract
//
//   - One method call is at most one create. Requests are never repeated, by us or
//     by net/http: each has its own connection, its body cannot be rewound, and
//     redirects are not followed.
//   - Place sends the whole instruction with the call (inline TwiML), so that an
//     answered call needs nothing of us to reach its bot.
//   - Webhooks are checked against the public address from the configuration, never
//     against the request's Host; without one, every webhook is refused.
//   - Errors carry Twilio's number and a cleaned sentence: no token, no address, no
//     full phone number.
//
// # Picture
//
//	Place   POST Calls.json        To From Twiml StatusCallback Timeout TimeLimit
//	                                └ <Response><Connect><Stream url><Parameter/>…</Stream></Connect>
//	                                  <Redirect>NextURL</Redirect></Response>
//	Cancel  POST Calls/{sid}.json  Status=canceled     ┐ 20404: it has ended, which is success
//	Hangup  POST Calls/{sid}.json  Status=completed    ┘
//	Redirect
//	        POST Calls/{sid}.json  Url= Method=POST: only a live call; any other is 21220
//	Find    GET  Calls/{sid}.json  or Calls.json twice: Status=queued, then StartTime>=day
//	Event   ◀── POST <PublicURL>…/<attempt>            X-Twilio-Signature
//
// # What a failed create means
//
//	no connection was had (refused, no such host, no route, dial time-out)   not_placed
//	429, code 20429                                                          rate_limited
//	any other 4xx                                                            rejected
//	5xx, 3xx, time-out, reset, a 2xx that cannot be read                     unknown
//
// # Why Find asks twice
//
// A call that waits in Twilio's own queue (one create a second is the default) has
// no start time yet, so a list by start time does not hold it and an honest "none"
// would be false. The queued calls are asked for first: a call that leaves the
// queue in between is then seen by the second list.
//
// # If Twilio dies
//
// Place says not_placed or unknown within [Config.Timeout]; look-ups are errors;
// events stop. Nothing is held here, so nothing has to be found again afterwards.
package twilio
