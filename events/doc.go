// Package events tells the world what happened: the timeline of every call, what
// bots and vendors did, what the scaler wanted, who changed what. It writes
// CloudEvents into a JetStream stream and reads them back for people; nothing that
// decides about a call reads them.
//
// # Contract
//
//   - An event is a CloudEvent 1.0 in binary mode: attributes in ce-* headers, the
//     data as JSON in the body. Any subscriber can read it without this package.
//   - [Log.Publish] returns when the event is stored. Repeating it with the same id
//     within two minutes stores nothing more, so it may be repeated.
//   - [Log.Emit] never waits. What finds its buffer full is dropped and counted
//     ([Stats]); what was taken is published by [Log.Run], in order for each subject,
//     and repeated until it is stored or the shutdown's patience is over.
//   - No full telephone number reaches the stream: whatever looks like one in the
//     data ("+" and 7 to 15 digits) is masked on the way in.
//   - Events are kept for [Config].MaxAge and up to MaxBytes, then the oldest go.
//
// # Subjects
//
// An event lies under dibs.v1.events.<type>.<shard>, where the type's dots make
// tokens and the shard is two hex digits of a hash of its subject, the call or bot it
// is about:
//
//	dibs.v1.events.call.ended.x3f      ce-type: dibs.call.ended    ce-subject: call_01J8…
//
// So a subscriber chooses by type (dibs.v1.events.call.ended.*, or all of call.>),
// and the timeline of one call is read by *.*.x3f from the time the call began,
// which is a 256th of what happened since. The id itself does not stand in the
// subject, because the server remembers every subject it holds: with 45 million
// events that would be gigabytes of its memory; this way it is some ten thousand.
//
// # Picture
//
//	call paths ──Emit──▶ 8 bounded buffers, by hash of the subject ──Run──▶ DIBS_EVENTS
//	operators  ──Publish──────────────────────────────────────────────────▶     │
//	console, API, webhooks ◀──Timeline, Since, Follow───────────────────────────┘
//
// # If X dies
//
//   - NATS: Emit goes on until the buffers are full, then drops and counts; Run
//     publishes what it has when the server is back. Publish fails with
//     [ErrUnavailable].
//   - The process: what was in its buffers is lost. The truth about a call is its
//     record, not its timeline. Of the end of a call the next dispatcher tells again,
//     with the id <call>/ended, when it is no older than 100 s.
//   - Its context ends: Run publishes what it has for five more seconds.
//   - A reader: it goes on from the cursor of the last event it saw.
package events
