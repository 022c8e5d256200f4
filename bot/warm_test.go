package bot_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"dibs/bot"
	"dibs/breaker"
	"dibs/claim"
	"dibs/warmup"
	"dibs/wire"
)

// A flow that is not there is the call's own fault: no other bot is tried, and the
// breaker does not count it.
func TestFlowMissing(t *testing.T) {
	w := newWorld(t)
	b := w.bot(func(c *bot.Config) { c.Warmup.Flows.Dir = t.TempDir() })
	for range 4 { // one more than the breaker would bear
		req := call("call_1")
		req.Flow = wire.Flow{ID: "nope"}
		var r *claim.Refused
		for r == nil || r.Code == claim.CodeNoIdleBot { // the seat is just being offered again
			r = w.refused(req)
		}
		if r.Code != "flow_not_found" || !r.CallsFault {
			t.Fatalf("refused with %v", r)
		}
	}
	w.until("the breaker is told as closed", func() bool {
		beat, ok := b.beat()
		return ok && beat.Breaker.State == "closed" && beat.Breaker.Failures == 0
	})
	w.onCall("call_2")
}

// A bot with more flows in its cache than a beat can tell is heard all the same.
func TestManyFlows(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	b := w.bot(func(c *bot.Config) { c.Warmup.Flows.Dir = dir })
	for i := range wire.MaxFlows + 2 {
		id := fmt.Sprint("flow-", i)
		if err := os.WriteFile(filepath.Join(dir, id+".json"), []byte(`{}`), 0o600); err != nil {
			t.Fatal(err)
		}
		req := call("call_1")
		req.Flow = wire.Flow{ID: id}
		w.claim(req)
		b.Release("call_1")
	}
	w.until("the newest flows are told", func() bool {
		beat, ok := b.beat()
		return ok && len(beat.Flows) == wire.MaxFlows && beat.Flows[0] == fmt.Sprint("flow-", wire.MaxFlows+1)
	})
}

// vendor is a provider that a test can make ill.
type vendor struct {
	url string
	ill atomic.Bool
}

// newVendor opens sessions, or, while ill, does what sick does.
func newVendor(t *testing.T, sick func(http.ResponseWriter, *http.Request)) *vendor {
	t.Helper()
	v := &vendor{}
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if v.ill.Load() {
			sick(rw, r)
			return
		}
		conn, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		_, _, _ = conn.Read(r.Context()) // until the bot says goodbye
	}))
	t.Cleanup(func() {
		close(over)
		s.CloseClientConnections()
		s.Close()
	})
	v.url = "ws" + strings.TrimPrefix(s.URL, "http")
	return v
}

// What a provider can do to a warm-up: the claim fails with a code that says it,
// and three in a row open the breaker. Then nobody is asked, and the fleet knows;
// after a while one call is tried, and all is well again.
func TestProviderIll(t *testing.T) {
	for _, tc := range []struct {
		name string
		sick func(http.ResponseWriter, *http.Request)
		code string
	}{
		{"refuses", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) }, "provider_refused"},
		{"is silent", func(rw http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "provider_silent"},
		{"hangs up at once", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "provider_closed"},
		{"hangs up while the rest is prepared", func(rw http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(rw, r, nil)
			if err != nil {
				return
			}
			_ = conn.Close(websocket.StatusGoingAway, "maintenance")
		}, "provider_closed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			v := newVendor(t, tc.sick)
			voice := &switched{ill: &v.ill}
			b := w.bot(func(c *bot.Config) {
				c.Breaker = breaker.Config{OpenFor: 500 * time.Millisecond}
				c.Warmup = slowly(voice)
				c.Warmup.Providers = []warmup.Provider{{Name: "acme", Kind: warmup.STT, URL: v.url, Timeout: 200 * time.Millisecond}}
			})
			w.onCall("call_0")
			b.Release("call_0")
			v.ill.Store(true)
			codes := map[string]int{}
			var last *claim.Refused
			for i := 0; codes[tc.code] < 3; i++ {
				last = w.refused(call("call_1"))
				for _, a := range last.Attempts {
					if a.Code != "" {
						codes[a.Code]++
					}
				}
				if len(codes) > 1 || codes[tc.code] > 3 {
					t.Fatalf("codes %v, want only %s", codes, tc.code)
				}
			}
			w.until("the fleet counts it as broken", func() bool {
				return w.roster.Counts(time.Now(), region, "").Broken == 1 || b.state() != breaker.StateOpen
			})
			if b.state() == breaker.StateOpen {
				r := w.refused(call("call_2"))
				if b.state() == breaker.StateOpen && (r.Code != claim.CodeBreakerOpen || strings.Contains(answers(r.Attempts), "failed")) {
					t.Errorf("while it is open: %v, asks %s", r, answers(r.Attempts))
				}
			}
			v.ill.Store(false)
			w.claimPast(call("call_3"))
			w.until("the breaker is closed", func() bool { return b.state() == breaker.StateClosed })
			w.until("the fleet knows", func() bool {
				beat, ok := b.beat()
				return ok && beat.Breaker.State == "closed" && beat.Minute.Errors == 3
			})
		})
	}
}

// claimPast claims until the bot's breaker lets a call through.
func (w *world) claimPast(req claim.Request) *claim.Assignment {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for {
		got, err := w.asker.Assign(ctx, req)
		if err == nil {
			return got
		}
		if r, ok := asRefused(err); !ok || r.Code != claim.CodeBreakerOpen && r.Code != claim.CodeNoIdleBot {
			w.t.Fatalf("claim for %s: %v", req.CallID, err)
		}
	}
}

// switched is a voice that, while ill, hangs: whatever is wrong with a provider
// shows before the greeting is done.
type switched struct{ ill *atomic.Bool }

func (v *switched) Speak(ctx context.Context, text, voice, locale string) ([]int16, int, error) {
	if v.ill.Load() {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	return beep{}.Speak(ctx, text, voice, locale)
}

// Half open, one call is the probe; while it is under way no other seat is offered.
func TestOneProbe(t *testing.T) {
	w := newWorld(t)
	v := newVendor(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	speak := make(chan struct{})
	b := w.bot(func(c *bot.Config) {
		c.Seats = 3
		c.Breaker = breaker.Config{Failures: 1, OpenFor: 50 * time.Millisecond}
		c.Warmup = slowly(hangs{speak})
		c.Warmup.Providers = []warmup.Provider{{Name: "acme", Kind: warmup.STT, URL: v.url}}
	})
	v.ill.Store(true)
	w.refused(call("call_0"))
	v.ill.Store(false)
	w.until("a probe is let through", func() bool { return b.state() == breaker.StateHalfOpen })
	probe := make(chan error, 1)
	go func() {
		for {
			_, err := w.asker.Assign(t.Context(), call("call_1"))
			if r, ok := asRefused(err); ok && (r.Code == claim.CodeNoIdleBot || r.Code == claim.CodeBreakerOpen) {
				continue // not offered again yet
			}
			probe <- err
			return
		}
	}()
	b.is(wire.SeatWarming, "call_1")
	w.until("the others are offered no more", func() bool {
		r := w.refused(call("call_2"))
		return answers(r.Attempts) == "no_responders, no_responders"
	})
	if r, _ := w.asks(b, "call_2").hears(); r.Status != wire.BreakerOpen || r.Breaker.State != "half_open" {
		t.Errorf("asked directly it says %+v", r)
	}
	close(speak)
	if err := <-probe; err != nil {
		t.Errorf("the probe: %v", err)
	}
	w.until("the breaker is closed", func() bool { return b.state() == breaker.StateClosed })
	w.claim(call("call_2"))
	w.claim(call("call_3"))
}

// A probe that says nothing about the bot gives its place to the next one.
func TestProbeIsGivenBack(t *testing.T) {
	w := newWorld(t)
	v := newVendor(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	b := w.bot(func(c *bot.Config) {
		c.Seats = 2
		c.Breaker = breaker.Config{Failures: 1, OpenFor: 50 * time.Millisecond}
		c.Warmup.Flows.Dir = t.TempDir()
		c.Warmup.Providers = []warmup.Provider{{Name: "acme", Kind: warmup.STT, URL: v.url}}
	})
	v.ill.Store(true)
	w.refused(call("call_0"))
	w.until("the breaker has heard of it", func() bool { return b.state() != breaker.StateClosed })
	v.ill.Store(false)
	missing := call("call_1")
	missing.Flow = wire.Flow{ID: "nope"}
	w.until("the probe is a call whose flow is missing", func() bool { return w.refused(missing).CallsFault })
	if s := b.state(); s != breaker.StateHalfOpen {
		t.Errorf("breaker %s after a probe that did not count, want half_open", s)
	}
	w.claimPast(call("call_2"))
	w.until("the breaker is closed", func() bool { return b.state() == breaker.StateClosed })
}

// Slow is not broken for ever: a warm-up over its own budget is this bot's failure,
// said with the step that took so long, well within the asker's window.
func TestOverBudget(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := w.bot(func(c *bot.Config) {
		c.Warmup.Budget = 100 * time.Millisecond
		c.Warmup.Providers = []warmup.Provider{{Name: "acme", Kind: warmup.TTS, URL: "ws://" + l.Addr().String(), Timeout: time.Minute}}
		c.Breaker.Failures = 1
	})
	r := w.refused(call("call_1"))
	if at := r.Attempts[0]; at.Code != "warmup_timeout" || !strings.Contains(at.Detail, "provider_tts") {
		t.Errorf("the asker heard %+v", at)
	}
	w.until("the breaker is open: it was this bot's failure", func() bool { return b.state() == breaker.StateOpen })
}
