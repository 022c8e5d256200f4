package carrier

import (
	"context"
	"net/http"
)

// Voice is a carrier that asks what to do with a call: with one that comes in, with
// one whose media socket has closed while the caller is still there, and with one
// that we take away from its socket.
type Voice interface {
	Carrier

	// Asked authenticates a question and reads it; the body is bounded. The error is
	// [ErrSignature], [ErrAccount] or [ErrMalformed].
	Asked(r *http.Request) (Question, error)

	// Instruct is an answer as the carrier reads it. The error names what it would not
	// take; whoever gets one may still answer the zero Instruction.
	Instruct(i Instruction) (contentType string, body []byte, err error)

	// Redirect ends what an answered call does now, its media socket included, and lets
	// the carrier ask at url how to go on: for a bot that holds its socket and says
	// nothing. A call that has ended, or that nobody has answered, is an [*Error] with
	// [Refused]; twice is as good as once.
	Redirect(ctx context.Context, id, url string) error
}

// Question is what a carrier says of the call it asks about.
type Question struct {
	ID     string // the carrier's id of the call
	From   string // E.164; empty when the number is withheld, or is none
	To     string // E.164; inbound: ours
	Status Status
}

// Instruction is what a carrier is to do with a call. The zero value ends it.
type Instruction struct {
	Media *Media // lead it to this socket …
	Next  string // … and ask here when that has closed; empty: end it then

	Say      string // without Media: speak this and end it
	Language string // of Say, as the carrier has it; empty: the carrier's default

	Busy bool // refuse a call that comes in, unanswered and unbilled; its caller hears the busy tone
}
