package warmup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// Code says what went wrong, in a word that stays the same over versions.
type Code string

// The codes. "permanent" marks the call's own fault: another bot would fail it too.
const (
	FlowNotFound        Code = "flow_not_found"        // permanent: no such flow, or not in the version asked for
	FlowTooLarge        Code = "flow_too_large"        // permanent: over MaxFlow
	FlowMalformed       Code = "flow_malformed"        // permanent: Field says where
	FlowForbidden       Code = "flow_forbidden"        // refused (401, 403, redirect elsewhere); permanent when the call's URL is not allowed here
	FlowUnavailable     Code = "flow_unavailable"      // its source does not answer, or there is none
	ProviderUnknown     Code = "provider_unknown"      // permanent: the call or its flow names one that is not configured
	ProviderRefused     Code = "provider_refused"      // no connection, or a status that is no yes
	ProviderRateLimited Code = "provider_rate_limited" // 429
	ProviderSilent      Code = "provider_silent"       // no answer in time: to the handshake, or no first message
	ProviderClosed      Code = "provider_closed"       // hung up on us
	GreetingFailed      Code = "greeting_failed"       // permanent when the call chose what the voice refused
	TimedOut            Code = "warmup_timeout"        // a step's budget or the whole one is used up
	Cancelled           Code = "cancelled"             // whoever asked does not want it any more
	StepFailed          Code = "step_failed"           // a step of [Run] whose error is not an *Error
)

// Error is why a warm-up failed. Its text is fit for logs, metrics and replies:
// no credentials, no URLs, no numbers.
type Error struct {
	Step      string
	Code      Code
	Permanent bool // the call's own fault: a breaker must not count it, another bot need not try

	Provider   string        // of provider codes: its name
	Field      string        // of flow_malformed: the path of the field, "greeting.text"
	RetryAfter time.Duration // of provider_rate_limited: not before; 0: not said
	Detail     string        // one sentence for people

	Err    error  // for errors.Is; not in the text
	Report Report // from [Run] and [Warmer.Prepare]: how far it came
}

func (e *Error) Error() string {
	parts := []string{"warm-up"}
	for _, s := range []string{e.Step, string(e.Code), e.Field, e.Detail} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

func (e *Error) Unwrap() error { return e.Err }

// Counts reports whether a breaker must count err as this bot's failure. The
// call's own faults and withdrawn calls do not count; nil does not either.
func Counts(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return !e.Permanent && e.Code != Cancelled
	}
	return true
}

// reason is err's text without the URLs that HTTP clients put around it.
func reason(err error) string {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return oneLine(err.Error())
}

// oneLine makes text from outside fit for one line of a log.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// errOver says that a stream has more than it may have.
var errOver = errors.New("over the limit")

// readAtMost reads r to its end, or returns errOver if that is beyond limit bytes.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w of %d bytes", errOver, limit)
	}
	return data, nil
}
