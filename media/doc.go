// Package media is the socket over which a call is heard: the bot's end of a
// carrier's media stream (Twilio Media Streams: 8 kHz µ-law in JSON text
// messages), opened once per call by a token in the path.
//
//	Open(call) ──▶ /m/<bot>/<token> ──▶ carrier's instructions
//
//	waiting ──GET, token right──▶ connected ──start──▶ started ──▶ over ──▶ Ended(Report), once
//	   │                              │                  │  greeting out at once, then Talk
//	   └─Close: withdrawn             └─no start in 10 s └─ stop, either side closes, Close,
//	                                                        max length, silence, stall, bad input
//
// What it guarantees:
//   - A token lets in one connection. A used, withdrawn or invented one, another
//     bot's, a query string, anything that is not an upgrade: all get the same 404,
//     and tokens are compared in constant time.
//   - The first 20 ms of the greeting leave as soon as start is read, before
//     anything else is done; the rest follows in messages of 300 ms, as fast as
//     the carrier takes them, because it buffers and plays in order. A mark named
//     [GreetingMark] follows, and comes back when the greeting has been heard.
//   - Nothing the other side does, or leaves undone, holds a call for longer than
//     the deadlines of [Config]. Messages are bounded, channels drop their oldest
//     when nobody reads.
//   - Ended is called exactly once for every call that Open took, after the
//     socket is closed and Talk has returned.
//
// When the call is over the socket is closed, and the carrier goes on with its
// next instruction: to hang up, or to be led to another bot.
//
// If X dies:
//   - the carrier, or the way to it: silence is noticed after Config.Idle (a live
//     stream brings 50 frames a second), a peer that takes nothing after
//     Config.Write, a closed connection at once.
//   - the carrier before it says start: Config.Handshake. Half an HTTP request
//     never gets here; [Server.HTTP] makes a server that cuts it off.
//   - no carrier ever comes: the token waits until [Server.Close]. How long a call
//     may ring is the bot's business.
//   - Talk, by error or panic: the call ends (talk_error), others do not notice. A
//     Talk that ignores its context is waited for 5 s and then reported.
//   - this process: its sockets close, and the carrier knows at once.
package media
