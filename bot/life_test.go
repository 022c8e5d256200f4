package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"dibs/bot"
	"dibs/claim"
	"dibs/wire"
)

// A whole life, twice: claimed, prepared, on the air, heard, over, idle.
func TestLife(t *testing.T) {
	w := newWorld(t)
	b := w.bot(nil)
	for _, id := range []string{"call_1", "call_2"} {
		got := w.claim(call(id))
		if got.BotID != b.ID() || !got.Warmup.GreetingReady || got.Warmup.Steps == nil {
			t.Errorf("assigned %+v", got)
		}
		b.is(wire.SeatAssigned, id)
		c := dial(t, got.Media.URL)
		c.start()
		if heard := c.greeting(); heard != tagOf(id) {
			t.Errorf("%s heard %q, want its own greeting %q", id, heard, tagOf(id))
		}
		b.is(wire.SeatLive, id)
		c.hangUp()
		if status := c.closed(); status != websocket.StatusNormalClosure {
			t.Errorf("closed with %d", status)
		}
		b.is(wire.SeatIdle, id)
	}
	w.until("the bot tells what it did", func() bool {
		beat, _ := b.beat()
		return beat.Calls == 2 && beat.Minute.Ended == 2 && beat.Minute.Failed == 0
	})
	b.stop()
	if err := b.ended(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	w.until("it says goodbye", func() bool { _, there := b.beat(); return !there })
}

// Seats are independent: as many calls as seats, and no more.
func TestSeats(t *testing.T) {
	w := newWorld(t)
	b := w.bot(func(c *bot.Config) { c.Seats = 3 })
	var carriers []*carrier
	for i := range 3 {
		c, _ := w.onCall(fmt.Sprint("call_", i))
		carriers = append(carriers, c)
	}
	if r := w.refused(call("call_3")); r.Code != claim.CodeNoIdleBot && r.Code != claim.CodeBotsBusy {
		t.Errorf("a fourth call on three seats: %v", r)
	}
	carriers[1].hangUp()
	b.is(wire.SeatIdle, "call_1")
	w.onCall("call_4")
	for _, id := range []string{"call_0", "call_2", "call_4"} {
		b.is(wire.SeatLive, id)
	}
}

// Media never comes: the seat frees itself, and the token is worth nothing.
func TestMediaNeverComes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config func(*bot.Config)
		asked  wire.Millis
	}{
		{"by the bot's patience", func(c *bot.Config) { c.MediaIn = 200 * time.Millisecond }, 0},
		{"by the claim's", nil, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			b := w.bot(tc.config)
			req := call("call_1")
			req.MediaMS = tc.asked
			got := w.claim(req)
			if got.Media.ExpiresMS != 200 {
				t.Errorf("the asker was told %d ms, want 200", got.Media.ExpiresMS)
			}
			b.is(wire.SeatIdle, "call_1")
			w.until("its token is dead", func() bool {
				c, status := tryDial(t, got.Media.URL)
				return c == nil && status == http.StatusNotFound
			})
			w.onCall("call_2")
		})
	}
}

// Nobody gets in but by the call's own unused token, and who tries does no harm.
func TestTokens(t *testing.T) {
	w := newWorld(t)
	b := w.bot(func(c *bot.Config) { c.Seats = 2 })
	other := w.bot(nil)
	got := w.claim(call("call_1"))
	for got.BotID != b.ID() { // the other one has got it
		w.tell(other.ID(), wire.VerbRelease, "call_1")
		got = w.claim(call("call_1"))
	}
	url := got.Media.URL
	at := strings.LastIndex(url, "/")
	for name, wrong := range map[string]string{
		"another token":         url[:at+1] + strings.Repeat("A", len(url)-at-1),
		"no token":              url[:at+1],
		"a part of it":          url[:len(url)-1],
		"a query besides":       url + "?x=1",
		"at another bot's path": strings.Replace(url, b.ID(), other.ID(), 1),
	} {
		if c, status := tryDial(t, wrong); c != nil || status != http.StatusNotFound {
			t.Errorf("%s: HTTP %d, want 404", name, status)
		}
	}
	c := dial(t, url)
	c.start()
	if heard := c.greeting(); heard != tagOf("call_1") {
		t.Errorf("heard %q", heard)
	}
	if again, status := tryDial(t, url); again != nil || status != http.StatusNotFound {
		t.Errorf("a used token: HTTP %d, want 404", status)
	}
	b.is(wire.SeatLive, "call_1")
	c.hangUp()
	b.is(wire.SeatIdle, "call_1")
}

// The media comes and goes before the asker's ack: the seat is idle, and the
// deadline for the ack, when it passes, does not touch the seat's next call.
func TestOverBeforeAck(t *testing.T) {
	w := newWorld(t)
	b := w.bot(nil)
	ask := w.asks(b, "call_1")
	var url string
	for url == "" {
		r, _ := ask.hears()
		url = r.Media.URL
	}
	c := dial(t, url)
	c.start()
	c.greeting()
	c.hangUp()
	c.closed()
	b.is(wire.SeatIdle, "call_1")
	next, _ := w.onCall("call_2")
	deadline := time.After(1500 * time.Millisecond) // the first claim's ack was due within 1 s
	for over := false; !over; {
		select {
		case <-deadline:
			over = true
		case <-time.After(20 * time.Millisecond):
		}
		if s := b.Seats()[0]; s.CallID != "call_2" && s.State != wire.SeatIdle {
			t.Fatalf("the seat is %+v", s)
		}
	}
	b.is(wire.SeatLive, "call_2")
	next.hangUp()
	b.is(wire.SeatIdle, "call_2")
}

// What a bot's own program does wrong ends its call and no other.
func TestTalkGoesWrong(t *testing.T) {
	for name, talk := range map[string]bot.Talk{
		"panics": func(context.Context, *bot.Call) error { panic("at the disco") },
		"fails":  func(context.Context, *bot.Call) error { return errors.New("out of words") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := w.bot(func(c *bot.Config) {
				c.Seats = 2
				c.Talk = func(ctx context.Context, call *bot.Call) error {
					if call.Request.CallID == "call_bad" {
						return talk(ctx, call)
					}
					return bot.Echo(ctx, call)
				}
			})
			good, _ := w.onCall("call_good")
			got := w.claim(call("call_bad"))
			bad := dial(t, got.Media.URL)
			bad.start()
			bad.closed()
			b.is(wire.SeatIdle, "call_bad")
			good.speak([]byte{1, 2, 3, 4})
			for {
				m, err := good.hear()
				if err != nil {
					t.Fatalf("the other call: %v", err)
				}
				if m.Event == "media" && string(m.Media.Payload) == "\x01\x02\x03\x04" {
					break
				}
			}
			w.onCall("call_next")
			w.until("the failure is told", func() bool { beat, _ := b.beat(); return beat.Minute.Failed == 1 })
		})
	}
}
