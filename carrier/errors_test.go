package carrier_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"dibs/carrier"
)

func TestVerdictOf(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want carrier.Verdict
	}{
		{"none", nil, ""},
		{"plain", io.EOF, carrier.Unknown},
		{"given up", context.Canceled, carrier.Unknown},
		{"not placed", &carrier.Error{Verdict: carrier.NotPlaced}, carrier.NotPlaced},
		{"wrapped", fmt.Errorf("place: %w", &carrier.Error{Verdict: carrier.RateLimited}), carrier.RateLimited},
		{"joined", errors.Join(io.EOF, &carrier.Error{Verdict: carrier.Refused}), carrier.Refused},
	} {
		if got := carrier.VerdictOf(test.err); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestErrorText(t *testing.T) {
	e := &carrier.Error{Verdict: carrier.Refused, Status: 400, Code: 21211, Detail: "the number is not valid", Err: io.EOF}
	if got, want := e.Error(), "carrier: rejected (HTTP 400, code 21211): the number is not valid: EOF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(e, io.EOF) {
		t.Error("the cause is lost")
	}
	if got, want := (&carrier.Error{Verdict: carrier.NotPlaced}).Error(), "carrier: not_placed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTerminal(t *testing.T) {
	for s, want := range map[carrier.Status]bool{
		carrier.Queued: false, carrier.Initiated: false, carrier.Ringing: false, carrier.InProgress: false,
		carrier.Completed: true, carrier.Busy: true, carrier.NoAnswer: true, carrier.Canceled: true, carrier.Failed: true,
		"": false, "thinking": false,
	} {
		if got := s.Terminal(); got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
}

// A dial that failed, and what may be done about it.
func ExampleVerdictOf() {
	for _, err := range []error{
		&carrier.Error{Verdict: carrier.NotPlaced, Detail: "no connection"},
		&carrier.Error{Verdict: carrier.Unknown, Detail: "no reply"},
	} {
		switch carrier.VerdictOf(err) {
		case carrier.NotPlaced, carrier.RateLimited:
			fmt.Println("dial again:", err)
		default:
			fmt.Println("find out, and never dial again:", err)
		}
	}
	// Output:
	// dial again: carrier: not_placed: no connection
	// find out, and never dial again: carrier: unknown: no reply
}
