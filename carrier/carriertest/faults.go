package carriertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/carrier"
)

// find looks calls up, which must succeed.
func (s *suite) find(t *testing.T, q carrier.Query) []carrier.Found {
	t.Helper()
	f, err := s.Carrier.Find(t.Context(), q)
	if err != nil {
		t.Fatalf("Find(%+v): %v", q, err)
	}
	return f
}

func findByID(t *testing.T, s *suite) {
	d := s.dial(Answers)
	p := s.place(t, d)
	s.Receiver.Events(t, d.Attempt, carrier.Completed)
	f := s.find(t, carrier.Query{ID: p.ID})
	if len(f) != 1 {
		t.Fatalf("got %d calls, want 1", len(f))
	}
	if got := f[0]; got.ID != p.ID || got.To != d.To || got.From != d.From || got.Status != carrier.Completed || got.Started.IsZero() {
		t.Errorf("got %+v, want the completed call", got)
	}
}

func findByNumbers(t *testing.T, s *suite) {
	began := time.Now()
	d := s.dial(IsBusy)
	first := s.place(t, d)
	s.Receiver.Events(t, d.Attempt, carrier.Busy)
	s.place(t, s.dial(IsBusy)) // to another number

	f := s.find(t, carrier.Query{To: d.To, From: d.From, StartedSince: began})
	if len(f) != 1 || f[0].ID != first.ID || f[0].Status != carrier.Busy {
		t.Errorf("by both numbers: got %+v, want call %s, busy", f, first.ID)
	}
	if f := s.find(t, carrier.Query{To: d.To, StartedSince: began}); len(f) != 1 {
		t.Errorf("by one number: got %d calls, want 1", len(f))
	}
	if f := s.find(t, carrier.Query{To: d.To, From: d.From, StartedSince: time.Now().Add(time.Hour)}); len(f) != 0 {
		t.Errorf("since later: got %d calls, want none", len(f))
	}
	second := s.place(t, carrier.Dial{Attempt: "again", To: d.To, From: d.From, Media: d.Media})
	f = s.find(t, carrier.Query{To: d.To, From: d.From, StartedSince: began})
	if len(f) != 2 || f[0].ID != second.ID {
		t.Errorf("after a second call: got %+v, want two, %s first", f, second.ID)
	}
}

// findQueued: a call that the carrier keeps in its own queue is no "none".
func findQueued(t *testing.T, s *suite) {
	began := time.Now()
	d := s.dial(Queued)
	p := s.place(t, d)
	f := s.find(t, carrier.Query{To: d.To, From: d.From, StartedSince: began})
	if len(f) != 1 || f[0].ID != p.ID || f[0].Status != carrier.Queued {
		t.Errorf("got %+v, want the queued call", f)
	}
	if err := s.Carrier.Hangup(t.Context(), p.ID); err != nil {
		t.Errorf("Hangup: %v", err)
	}
}

func findNothing(t *testing.T, s *suite) {
	if f := s.find(t, carrier.Query{To: s.Number(Answers), From: s.From, StartedSince: time.Now()}); len(f) != 0 {
		t.Errorf("by numbers: got %+v, want none", f)
	}
	p := s.place(t, s.dial(IsBusy))
	other := strings.Map(func(r rune) rune { // the same form, another call
		switch r {
		case '0':
			return '1'
		case '1':
			return '0'
		}
		return r
	}, p.ID)
	if f := s.find(t, carrier.Query{ID: other}); len(f) != 0 && other != p.ID {
		t.Errorf("by id: got %+v, want none", f)
	}
	for _, q := range []carrier.Query{{}, {To: s.From}, {StartedSince: time.Now()}} {
		if f, err := s.Carrier.Find(t.Context(), q); err == nil {
			t.Errorf("Find(%+v): got %+v, want an error: it asks for nothing", q, f)
		}
	}
}

// findDown: a look-up that failed must not look like "none".
func findDown(t *testing.T, s *suite) {
	began := time.Now()
	d := s.dial(Rings)
	p := s.place(t, d)
	s.Fault(t, LookupDown)
	for _, q := range []carrier.Query{{ID: p.ID}, {To: d.To, From: d.From, StartedSince: began}} {
		f, err := s.Carrier.Find(t.Context(), q)
		if _, ok := errors.AsType[*carrier.Error](err); !ok || f != nil {
			t.Errorf("Find while down: got %v, %v; want a *carrier.Error", f, err)
		}
	}
	s.Fault(t, NoFault)
	if f := s.find(t, carrier.Query{ID: p.ID}); len(f) != 1 {
		t.Errorf("Find afterwards: got %d calls, want 1", len(f))
	}
}

func createFaults(t *testing.T, s *suite) {
	for _, test := range []struct {
		fault Fault
		want  carrier.Verdict
		calls int // really made
	}{
		{LoseReply, carrier.Unknown, 1},
		{Truncate, carrier.Unknown, 1},
		{LoseRequest, carrier.Unknown, 0},
		{RateLimit, carrier.RateLimited, 0},
		{ServerError, carrier.Unknown, 0},
		{ErrorButMade, carrier.Unknown, 1},
		{Slow, carrier.Unknown, 1},
	} {
		t.Run(string(test.fault), func(t *testing.T) {
			began := time.Now()
			d := s.dial(Rings)
			s.Fault(t, test.fault)
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if test.fault == Slow {
				ctx, cancel = briefly(t)
			}
			defer cancel()
			p, err := s.Carrier.Place(ctx, d)
			s.Fault(t, NoFault)
			s.wantVerdict(t, err, test.want, d)
			if p != (carrier.Placed{}) {
				t.Errorf("Place: got %+v beside an error", p)
			}
			if got := s.Calls(d.To); len(got) != test.calls {
				t.Fatalf("calls made: got %d, want %d", len(got), test.calls)
			}
			// What really happened can be found out, once it is over.
			f := s.find(t, carrier.Query{To: d.To, From: d.From, StartedSince: began})
			if len(f) != test.calls {
				t.Errorf("Find: got %d calls, want %d", len(f), test.calls)
			}
			for _, c := range f {
				if err := s.Carrier.Hangup(t.Context(), c.ID); err != nil {
					t.Errorf("Hangup: %v", err)
				}
			}
		})
	}
}

// wantVerdict checks the error of a Place, and that it gives nothing away.
func (s *suite) wantVerdict(t *testing.T, err error, want carrier.Verdict, d carrier.Dial) {
	t.Helper()
	e, ok := errors.AsType[*carrier.Error](err)
	if !ok {
		t.Fatalf("Place: got %v, want a *carrier.Error", err)
	}
	if e.Verdict != want || carrier.VerdictOf(err) != want {
		t.Errorf("verdict: got %s (%v), want %s", e.Verdict, err, want)
	}
	for _, private := range []string{d.To, d.From, strings.TrimPrefix(d.To, "+"), d.Media.URL, d.StatusURL} {
		if private != "" && strings.Contains(err.Error(), private) {
			t.Errorf("error gives away %q: %v", private, err)
		}
	}
}

func nobodyListens(t *testing.T, s *suite) {
	d := s.dial(Answers)
	_, err := s.Refused.Place(t.Context(), d)
	s.wantVerdict(t, err, carrier.NotPlaced, d)
	if f, err := s.Refused.Find(t.Context(), carrier.Query{To: d.To, From: d.From, StartedSince: time.Now()}); err == nil {
		t.Errorf("Find: got %v, want an error", f)
	}
}

func givenUp(t *testing.T, s *suite) {
	d := s.dial(Answers)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Carrier.Place(ctx, d)
	s.wantVerdict(t, err, carrier.NotPlaced, d)
	if got := s.Calls(d.To); len(got) != 0 {
		t.Errorf("calls made: got %d, want none", len(got))
	}
}

func refusedNumber(t *testing.T, s *suite) {
	d := s.dial(Answers)
	d.To = s.BadNumber
	_, err := s.Carrier.Place(t.Context(), d)
	s.wantVerdict(t, err, carrier.Refused, d)
	if got := s.Calls(d.To); len(got) != 0 {
		t.Errorf("calls made: got %d, want none", len(got))
	}
}

// badDials are refused before anything is sent: nothing would make them better.
func badDials(t *testing.T, s *suite) {
	for name, spoil := range map[string]func(*carrier.Dial){
		"no number":       func(d *carrier.Dial) { d.To = "" },
		"not a number":    func(d *carrier.Dial) { d.To = "+1&From=+2" },
		"no from":         func(d *carrier.Dial) { d.From = "" },
		"no media":        func(d *carrier.Dial) { d.Media.URL = "" },
		"media by http":   func(d *carrier.Dial) { d.Media.URL = "https://bot.example.com/m" },
		"media unsafe":    func(d *carrier.Dial) { d.Media.URL = "ws://bot.example.com/m" },
		"media and query": func(d *carrier.Dial) { d.Media.URL += "?token=1" },
		"status url":      func(d *carrier.Dial) { d.StatusURL = "://" },
		"ring":            func(d *carrier.Dial) { d.Ring = -time.Second },
		"max call":        func(d *carrier.Dial) { d.MaxCall = -time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			d := s.dial(Answers)
			number := d.To
			spoil(&d)
			_, err := s.Carrier.Place(t.Context(), d)
			s.wantVerdict(t, err, carrier.Refused, carrier.Dial{Media: carrier.Media{URL: d.Media.URL}})
			if got := s.Calls(number); len(got) != 0 {
				t.Errorf("calls made: got %d, want none", len(got))
			}
		})
	}
}

func webhooks(t *testing.T, s *suite) {
	for f, want := range map[Forgery]error{
		Genuine:      nil,
		Unsigned:     carrier.ErrSignature,
		OtherKey:     carrier.ErrSignature,
		OtherPath:    carrier.ErrSignature,
		Tampered:     carrier.ErrSignature,
		OtherAccount: carrier.ErrAccount,
		Huge:         carrier.ErrMalformed,
		NoForm:       carrier.ErrMalformed,
	} {
		t.Run(string(f), func(t *testing.T) {
			e, err := s.Carrier.Event(s.Webhook(f, "att_hook"))
			if !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
			if want == nil && (e.Attempt != "att_hook" || e.Status != carrier.Completed || e.ID == "") {
				t.Errorf("got %+v, want the end of att_hook", e)
			}
			if want != nil && e != (carrier.Event{}) {
				t.Errorf("got %+v beside an error", e)
			}
		})
	}
	t.Run("replayed", func(t *testing.T) {
		r := s.Webhook(Genuine, "att_hook")
		b := body(r)
		first, err1 := s.Carrier.Event(r)
		r.Body = io.NopCloser(bytes.NewReader(b))
		second, err2 := s.Carrier.Event(r)
		if err1 != nil || err2 != nil || first != second {
			t.Errorf("got %+v, %v and then %+v, %v; want the same twice", first, err1, second, err2)
		}
	})
	t.Run("another host", func(t *testing.T) {
		// The Host header is the sender's to choose; it must not be looked at.
		r := s.Webhook(Genuine, "att_hook")
		r.Host = "evil.example.com"
		if _, err := s.Carrier.Event(r); err != nil {
			t.Errorf("got %v, want the public address to count", err)
		}
	})
	t.Run("body breaks off", func(t *testing.T) {
		r := s.Webhook(Genuine, "att_hook")
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body(r)), brokenReader{}))
		if _, err := s.Carrier.Event(r); !errors.Is(err, carrier.ErrMalformed) {
			t.Errorf("got %v, want ErrMalformed", err)
		}
	})
	t.Run("no body", func(t *testing.T) {
		r := s.Webhook(Genuine, "att_hook")
		r.Body = http.NoBody
		if _, err := s.Carrier.Event(r); err == nil {
			t.Error("got an event, want an error")
		}
	})
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
