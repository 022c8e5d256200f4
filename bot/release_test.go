package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"dibs/bot"
	"dibs/warmup"
	"dibs/wire"
)

// hangs is a voice that speaks when its channel is closed, or never.
type hangs struct{ until <-chan struct{} }

func (v hangs) Speak(ctx context.Context, text, voice, locale string) ([]int16, int, error) {
	select {
	case <-v.until:
		return beep{}.Speak(ctx, text, voice, locale)
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

// slowly gives every warm-up a minute, so that what ends one sooner is no budget.
func slowly(v warmup.Voice) warmup.Config {
	return warmup.Config{Voice: v, Budget: time.Minute, GreetingBudget: time.Minute}
}

// The carrier said busy, or nobody answered, or the call was cancelled: the seat is
// idle when the release is answered, whatever it was doing.
func TestRelease(t *testing.T) {
	t.Run("while it warms up", func(t *testing.T) {
		w := newWorld(t)
		b := w.bot(func(c *bot.Config) { c.Warmup = slowly(hangs{}) })
		ask := w.asks(b, "call_1")
		accepted, back := ask.hears()
		if accepted.Status != wire.Accepted {
			t.Fatalf("answered %+v", accepted)
		}
		ask.confirms(accepted, back)
		b.is(wire.SeatWarming, "call_1")
		begun := time.Now()
		w.releases(b, "call_1")
		if r, _ := ask.hears(); r.Status != wire.Failed || r.Code != "released" {
			t.Errorf("the asker is told %+v", r)
		}
		if took := time.Since(begun); took > patience/2 {
			t.Errorf("the warm-up was waited for, not aborted: %v", took)
		}
	})
	t.Run("while it waits for media", func(t *testing.T) {
		w := newWorld(t)
		b := w.bot(nil)
		got := w.claim(call("call_1"))
		b.is(wire.SeatAssigned, "call_1")
		w.releases(b, "call_1")
		if c, status := tryDial(t, got.Media.URL); c != nil || status != http.StatusNotFound {
			t.Errorf("its token lets in: HTTP %d", status)
		}
	})
	t.Run("while it is on the air", func(t *testing.T) {
		w := newWorld(t)
		b := w.bot(nil)
		c, _ := w.onCall("call_1")
		w.releases(b, "call_1")
		if status := c.closed(); status != websocket.StatusNormalClosure {
			t.Errorf("the socket closed with %d", status)
		}
	})
	t.Run("while providers take their time for a goodbye", func(t *testing.T) {
		const calls = 8
		w := newWorld(t)
		b := w.bot(func(c *bot.Config) {
			c.Seats, c.Warmup.Providers = calls, []warmup.Provider{{Name: "acme", Kind: warmup.STT, URL: deaf(t), Ping: -1}}
		})
		for i := range calls {
			w.onCall(fmt.Sprint("call_", i))
		}
		begun := time.Now()
		for i := range calls {
			w.releases(b, fmt.Sprint("call_", i))
		}
		// A goodbye is given a second; neither seats nor answers wait for it.
		if took := time.Since(begun); took > calls*time.Second/2 {
			t.Errorf("%d releases took %v", calls, took)
		}
	})
	t.Run("by who comes late, for a claim that was another", func(t *testing.T) {
		w := newWorld(t)
		b := w.bot(nil)
		got := w.claim(call("call_1"))
		late := wire.Command{CallID: "call_1", ClaimID: "an-earlier-one", Reason: "too late"}
		if a := b.Command(wire.VerbRelease, late); a.OK || a.Code != "unknown_call" {
			t.Errorf("answered %+v", a)
		}
		b.is(wire.SeatAssigned, "call_1")
		late.ClaimID = got.ClaimID
		if a := b.Command(wire.VerbRelease, late); !a.OK {
			t.Errorf("its own: answered %+v", a)
		}
		b.is(wire.SeatIdle, "")
	})
	t.Run("of a call that is not there", func(t *testing.T) {
		w := newWorld(t)
		b := w.bot(nil)
		for _, id := range []string{"call_9", ""} {
			if a := w.tell(b.ID(), wire.VerbRelease, id); a.OK || a.Code == "" {
				t.Errorf("release of %q: %+v", id, a)
			}
		}
	})
}

// deaf is a provider that opens sessions and answers nothing after that, no
// goodbye either.
func deaf(t *testing.T) string {
	t.Helper()
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		<-over
	}))
	t.Cleanup(func() {
		close(over)
		s.CloseClientConnections()
		s.Close()
	})
	return "ws" + strings.TrimPrefix(s.URL, "http")
}

// releases releases a call: its seat is idle when the answer is there, and a
// second release finds nothing.
func (w *world) releases(b *running, id string) {
	w.t.Helper()
	if a := w.tell(b.ID(), wire.VerbRelease, id); !a.OK {
		w.t.Fatalf("answered %+v", a)
	}
	for _, s := range b.Seats() {
		if s.CallID == id {
			w.t.Errorf("answered while the seat is %+v", s)
		}
	}
	if a := w.tell(b.ID(), wire.VerbRelease, id); a.OK || a.Code != "unknown_call" {
		w.t.Errorf("the second release: %+v", a)
	}
	w.until("it says how the call ended", func() bool { // a warm-up that is aborted ends a moment later
		a := w.tell(b.ID(), wire.VerbCall, id)
		return a.State == wire.CallEnded && a.Why == "released"
	})
}
