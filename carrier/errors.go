package carrier

import (
	"errors"
	"fmt"
	"time"
)

// Verdict says what an error of [Carrier.Place] means for the phone.
type Verdict string

// The verdicts. Only NotPlaced and RateLimited allow another dial of the same order.
const (
	NotPlaced   Verdict = "not_placed"   // certainly not processed: the connection was refused
	RateLimited Verdict = "rate_limited" // certainly not processed: asked too fast (429); RetryAfter says when
	Refused     Verdict = "rejected"     // processed and refused (4xx): it would be refused again
	Unknown     Verdict = "unknown"      // time-out, 5xx, reset: a phone may ring
)

// Error is a carrier's failure with its verdict.
type Error struct {
	Verdict    Verdict
	Status     int           // HTTP status, 0: none came
	Code       int           // the carrier's own code (Twilio: 20429 …), 0: none
	Detail     string        // one sentence, no secrets, no full numbers
	RetryAfter time.Duration // RateLimited: not before; 0: not said
	Err        error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("carrier: %s", e.Verdict)
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d, code %d)", e.Status, e.Code)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// ErrAnswered is why Cancel did nothing: somebody has picked up. Hangup still ends the call.
var ErrAnswered = errors.New("carrier: the call is answered already")

// VerdictOf is the verdict of err: that of an [*Error], "" for nil, and Unknown
// for anything else, because what cannot be known must not be dialled again.
func VerdictOf(err error) Verdict {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Verdict
	}
	return Unknown
}

// Why a webhook was not accepted.
var (
	ErrSignature = errors.New("carrier: webhook signature does not match")
	ErrAccount   = errors.New("carrier: webhook of another account")
	ErrMalformed = errors.New("carrier: webhook cannot be read")
)
