// Package queue is the line: outbound calls that have not been tried yet, kept by
// NATS JetStream until the one elected dispatcher has dealt with them. Both ends
// stand here: [Line.Put] for whoever wants a call made, [Office] for the
// dispatcher. What an order says, who goes next and whether a call may go at all
// is not known here; the line moves bytes.
//
// # Contract
//
//   - A call waits at most once. Its subject is
//     dibs.v1.line.<region>.<class>.<org>.<call>, the stream keeps one message a
//     subject and refuses a second ([ErrDuplicate]), also while the first one is
//     being placed or waits for a bot.
//
//   - Putting is one publish with an answer. Any program in any language can do it:
//
//     nats req dibs.v1.line.eu-west.api.acme.call_01J8 "$(cat order.json)"
//
//   - When [Line.Put] returns nil the order is stored, on every replica's disk that
//     the stream's settings ask for. [ErrUnavailable] means that nobody knows: put
//     it again. While the first one waits the repeat is refused, so a call is never
//     in line twice; when it has left the line meanwhile, the repeat is a new
//     message, and the dispatcher sees from the call's record that it was dealt with.
//
//   - What was put leaves the line only by [Item.Ack], [Item.Term], [Item.Park] or
//     [Line.Cancel]. Nothing expires and nothing is given up after so many tries.
//
//   - One program reads. Taking office ([Line.TakeOffice]) ends the term before, and
//     hands over everything that has not left the line, oldest first.
//
//   - Within one term each message is handed over once, and once more after each
//     [Item.Nak].
//
// # Picture
//
//	Put ──publish, answer──▶ DIBS_LINE  (work queue, 1 message a subject, file)
//	                           │  one durable pull consumer a term
//	                           ▼
//	 TakeOffice ─▶ Office.Run ─▶ items ─┬─ Ack    left the line: dialled, or over
//	                ▲                   ├─ Nak(d) no bot: back in line, again in d
//	                │                   ├─ Park   nobody can read it ─▶ DIBS_PARKED
//	                │                   └─ Term   refused, with a reason
//	       next term: TakeOffice by anyone ─▶ Run, Ack, Nak, Term here: ErrLost
//
// # Taking office
//
// The server allows a work queue one reader of everything, and that is the fence:
// TakeOffice deletes the consumer of the term before and makes one of its own, whose
// name occurs once. Of two that do so at the same time one is refused and tries
// again, so the last one wins and the other gets [ErrLost] from its next exchange.
// The old consumer's unconfirmed deliveries and running delays go with it: the new
// one starts at the oldest message.
//
// # AckWait
//
// A message is unconfirmed for as long as its call waits, which may be hours, and
// there may be 100,000. A short AckWait would deliver all of them again and again;
// telling the server "in progress" for each would cost as much. So AckWait is an
// hour, a redelivery of what the office still holds is swallowed here, and messages
// that got lost on the way (the connection broke while they were sent) are noticed
// at once instead: the server numbers deliveries without gaps, and Run compares its
// numbers with the consumer's every ten seconds and after every trouble. A gap ends
// Run with [ErrGap]; the cure is to take office again.
//
// # If X dies
//
//   - The putter before its answer: it does not know; it puts again (see above).
//   - The dispatcher: its messages are unconfirmed; the next one reads them all.
//   - A dispatcher that was paused and wakes: its consumer is gone, it gets ErrLost.
//   - NATS: puts fail with ErrUnavailable; Run waits, and goes on when the server is
//     back; unconfirmed messages stay so, and delays go on by the server's clock.
//   - A message that nobody can read: it is an item like any other and blocks
//     nothing; [Item.Park] stores it aside before it takes it off the line.
package queue
