// Package wire is the protocol between backends, bots and anything else that
// speaks to Dibs over NATS: subjects, messages, reply codes and limits. It is
// version 1 and has no behaviour: who says what, and when, stands with the
// conversation (packages claim, pool, queue, capacity).
//
// # Contract
//
//   - Subjects and keys are made only here, by functions that check every token
//     ([CheckToken]); a bad token is an error, never another subject.
//   - Messages are JSON objects in snake_case of at most [MaxMessage] bytes.
//     Durations are integers of milliseconds in fields that end in _ms; wall
//     clocks never cross the wire, so nobody's clock has to be right.
//   - A message that its Check agrees to is written and read again as the same;
//     one without a version is of version 1.
//   - Unknown fields are ignored and unknown enum values are kept as they came;
//     a receiver treats them as "unknown". So additions stay version 1.
//   - A message of a newer version is refused with [ErrVersion], one that is too
//     long with [ErrTooLarge], anything else that cannot be read with [ErrMalformed].
//
// # Picture
//
//	claim.<region>.<pool>   request, queue group "idle"   ClaimRequest → Reply …
//	claim.<region>          request, queue group "idle"   the same, any pool of the region
//	bot.<id>.claim          request                       the same, this bot
//	bot.<id>.release …      request                       Command → Answer
//	beat.<region>.<id>      publish                       Beat
//
// All of them stand below "dibs.v1.". docs/PROTOCOL.md tells the same story for
// people who write bots in other languages; testdata/protocol holds vectors that
// any language can read.
package wire
