package breaker

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var errBoom = errors.New("boom")

func newBreaker(t *testing.T, cfg Config) *Breaker {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func allow(t *testing.T, b *Breaker) *Try {
	t.Helper()
	try, err := b.Allow()
	if err != nil {
		t.Fatalf("Allow: %v", err)
	}
	return try
}

func refused(t *testing.T, b *Breaker) *Open {
	t.Helper()
	_, err := b.Allow()
	o, ok := errors.AsType[*Open](err)
	if !ok {
		t.Fatalf("Allow: got %v, want an *Open", err)
	}
	return o
}

func wantView(t *testing.T, b *Breaker, want View) {
	t.Helper()
	if diff := cmp.Diff(want, b.View()); diff != "" {
		t.Fatalf("View (-want +got):\n%s", diff)
	}
}

// open fails b until it is open.
func open(t *testing.T, b *Breaker) {
	t.Helper()
	for range b.cfg.Failures {
		allow(t, b).Done(errBoom)
	}
	if got := b.View().State; got != StateOpen {
		t.Fatalf("state after %d failures: got %q, want open", b.cfg.Failures, got)
	}
}

func TestOpensAfterFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Config{})
		allow(t, b).Done(errBoom)
		allow(t, b).Done(errBoom)
		wantView(t, b, View{State: StateClosed, Failures: 2, LastError: "boom"})
		allow(t, b).Done(nil)
		wantView(t, b, View{State: StateClosed})

		allow(t, b).Done(errBoom)
		allow(t, b).Done(errBoom)
		allow(t, b).Done(errors.New("the last straw"))
		want := View{State: StateOpen, Failures: 3, LastError: "the last straw", RetryIn: 30 * time.Second}
		wantView(t, b, want)
		if diff := cmp.Diff(Open(want), *refused(t, b)); diff != "" {
			t.Errorf("Allow (-want +got):\n%s", diff)
		}
		if got, want := refused(t, b).Error(), "breaker open after 3 failures in a row, next try in 30s: the last straw"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestOneProbeInHalfOpen(t *testing.T) {
	for _, tc := range []struct {
		name    string
		verdict func(*Try)
		want    View
	}{
		{"success closes", func(p *Try) { p.Done(nil) }, View{State: StateClosed}},
		{"failure opens again", func(p *Try) { p.Done(errors.New("still")) }, View{State: StateOpen, Failures: 4, LastError: "still", RetryIn: 30 * time.Second}},
		{"forgotten is free again", func(p *Try) { p.Forget() }, View{State: StateHalfOpen, Failures: 3, LastError: "boom"}},
		{"lost counts as failed", func(*Try) { time.Sleep(20 * time.Second); synctest.Wait() }, View{State: StateOpen, Failures: 4, LastError: "no verdict within 20s", RetryIn: 30 * time.Second}},
		{"forgotten twice is forgotten once", func(p *Try) { p.Forget(); p.Forget() }, View{State: StateHalfOpen, Failures: 3, LastError: "boom"}},
		{"success after forgotten is ignored", func(p *Try) { p.Forget(); p.Done(nil) }, View{State: StateHalfOpen, Failures: 3, LastError: "boom"}},
		{"success after lost is ignored", func(p *Try) { time.Sleep(21 * time.Second); p.Done(nil) }, View{State: StateOpen, Failures: 4, LastError: "no verdict within 20s", RetryIn: 29 * time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, Config{})
				open(t, b)
				time.Sleep(30*time.Second - time.Nanosecond)
				refused(t, b)
				time.Sleep(time.Nanosecond)
				wantView(t, b, View{State: StateHalfOpen, Failures: 3, LastError: "boom"})

				probe := allow(t, b)
				if o := refused(t, b); o.State != StateHalfOpen || o.RetryIn != 0 {
					t.Errorf("beside the probe: got %+v, want half_open and no time", o)
				}
				tc.verdict(probe)
				wantView(t, b, tc.want)

				// However it went, it must come back to life.
				time.Sleep(b.View().RetryIn)
				allow(t, b).Done(nil)
				wantView(t, b, View{State: StateClosed})
			})
		})
	}
}

// A call's own fault in the probe frees the place, as often as it happens, and
// only one place.
func TestForgottenProbesNeverClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Config{})
		open(t, b)
		time.Sleep(30 * time.Second)
		for range 1000 {
			probe := allow(t, b)
			refused(t, b)
			probe.Forget()
			if got := b.View().State; got != StateHalfOpen {
				t.Fatalf("state: got %q, want half_open", got)
			}
		}
	})
}

func TestForgottenCountsAsNeitherInClosed(t *testing.T) {
	b := newBreaker(t, Config{})
	for range 2 {
		allow(t, b).Done(errBoom)
		allow(t, b).Forget()
	}
	wantView(t, b, View{State: StateClosed, Failures: 2, LastError: "boom"})
	allow(t, b).Done(errBoom)
	if got := b.View().State; got != StateOpen {
		t.Errorf("state: got %q, want open: forgotten tries broke the row", got)
	}
}

func TestDoubledVerdictCountsOnce(t *testing.T) {
	b := newBreaker(t, Config{})
	try := allow(t, b)
	try.Done(errBoom)
	try.Done(errBoom)
	try.Done(errBoom)
	try.Done(nil)
	wantView(t, b, View{State: StateClosed, Failures: 1, LastError: "boom"})
}

func TestOldSuccessDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Config{MaxHold: time.Hour})
		slow, slower := allow(t, b), allow(t, b)
		open(t, b)
		slow.Done(nil)
		if got := b.View().State; got != StateOpen {
			t.Fatalf("state: got %q, want open", got)
		}
		time.Sleep(30 * time.Second)
		slower.Done(errors.New("old news"))
		wantView(t, b, View{State: StateHalfOpen, Failures: 3, LastError: "boom"})
	})
}

func TestLostTriesOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Config{MaxHold: 5 * time.Second})
		for range 3 {
			allow(t, b)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantView(t, b, View{State: StateOpen, Failures: 3, LastError: "no verdict within 5s", RetryIn: 30 * time.Second})
	})
}

func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, Config{})
		noted := func() bool {
			synctest.Wait()
			select {
			case <-b.Changed():
				return true
			default:
				return false
			}
		}
		if noted() {
			t.Error("a note before any change")
		}
		open(t, b)
		if !noted() || noted() {
			t.Error("opened: want one note")
		}
		// Nobody asks; half open is noticed all the same, when it is due.
		time.Sleep(30 * time.Second)
		if !noted() {
			t.Error("half open: no note")
		}
		allow(t, b).Done(errBoom)
		time.Sleep(30 * time.Second)
		allow(t, b).Done(nil)
		if !noted() || noted() {
			t.Error("three changes unread: want one note")
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	b := newBreaker(t, Config{OpenFor: time.Millisecond, MaxHold: time.Millisecond})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 500 {
				if try, err := b.Allow(); err == nil {
					switch (i + n) % 4 {
					case 0:
						try.Done(nil)
					case 1, 2:
						try.Done(errBoom)
					case 3:
						try.Forget()
					}
				}
				b.View()
				select {
				case <-b.Changed():
				default:
				}
			}
		})
	}
	wg.Wait()
}

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		field string
		cfg   Config
	}{
		{"Failures", Config{Failures: -1}},
		{"Failures", Config{Failures: 1001}},
		{"OpenFor", Config{OpenFor: time.Nanosecond}},
		{"OpenFor", Config{OpenFor: -time.Second}},
		{"MaxHold", Config{MaxHold: -time.Second}},
	} {
		if _, err := New(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.field) {
			t.Errorf("New(%+v): got %v, want an error that names %s", tc.cfg, err, tc.field)
		}
	}
}

func TestLastErrorIsFitToShow(t *testing.T) {
	for _, tc := range []struct{ name, err, want string }{
		{"plain", "flow: not found", "flow: not found"},
		{"an address stays", "dial tcp 127.0.0.1:8080: connect: connection refused", "dial tcp 127.0.0.1:8080: connect: connection refused"},
		{"words stay", "provider_rate_limited: unknown key, want a token", "provider_rate_limited: unknown key, want a token"},
		{"url", `Get "https://me:pw@api.example.com/v1/x?key=abc": EOF`, `Get "https://api.example.com/…": EOF`},
		{"media token", "dial wss://edge.example.com/m/bot-1/s3cr3t failed", "dial wss://edge.example.com/… failed"},
		{"bearer", "Authorization: Bearer abc.def-1 refused", "Authorization: … … refused"},
		{"credential", `{"api_key":"abc","password": "x y"}`, `{"api_key":…,"password": …}`},
		{"key alone", "bad value sk-proj-Ab12Cd34Ef56Gh78 sent", "bad value … sent"},
		{"number", "call to +44 20 7946 0018 and 4930123456789", "call to … and …"},
		{"lines", "a\n\tb\x1b[31m", "a b [31m"},
		{"invalid UTF-8", "a\xffb", "a b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBreaker(t, Config{})
			allow(t, b).Done(errors.New(tc.err))
			if got := b.View().LastError; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	long := show(strings.Repeat("ö ", 300))
	if len(long) > maxShown || !utf8.ValidString(long) {
		t.Errorf("long text: got %d bytes, valid %v", len(long), utf8.ValidString(long))
	}
}

func Example() {
	b, err := New(Config{})
	if err != nil {
		panic(err)
	}
	warmUp := func() error { return errors.New("speech-to-text does not answer") }
	for range 4 {
		try, err := b.Allow()
		if err != nil {
			fmt.Println(b.View().State, "after", b.View().Failures)
			continue
		}
		try.Done(warmUp()) // or try.Forget(), when the call itself was at fault
	}
	// Output: open after 3
}
