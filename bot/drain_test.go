package bot_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"dibs/bot"
	"dibs/claim"
	"dibs/wire"
)

// SIGTERM with three calls: nothing new is taken, nothing is lost, and the bot is
// gone when the last call is over. It stays ready all that time: Kubernetes deletes
// a pod that is not ready first.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	b := w.bot(func(c *bot.Config) { c.Seats = 4 })
	first, _ := w.onCall("call_1")
	second, _ := w.onCall("call_2")
	third := w.claim(call("call_3")) // its phone rings still
	b.stop()
	w.until("the fleet knows that it drains", func() bool {
		beat, ok := b.beat()
		return ok && beat.Draining
	})
	if r, _ := w.asks(b, "call_4").hears(); r.Status != wire.Draining {
		t.Errorf("asked directly it says %+v", r)
	}
	if r := w.refused(call("call_4")); r.Code != claim.CodeBotsDraining {
		t.Errorf("the next call: %v", r)
	}
	stays := func() {
		t.Helper()
		if ok, why := b.Ready(); !ok {
			t.Errorf("not ready: %s", why)
		}
		select {
		case err := <-b.done:
			t.Fatalf("gone with a call on it: %v", err)
		default:
		}
	}
	stays()
	second.hangUp()
	b.is(wire.SeatIdle, "call_2")
	stays()
	c := dial(t, third.Media.URL) // answered, after the stop
	c.start()
	if heard := c.greeting(); heard != tagOf("call_3") {
		t.Errorf("heard %q", heard)
	}
	b.is(wire.SeatLive, "call_3")
	first.hangUp()
	b.is(wire.SeatIdle, "call_1")
	stays()
	c.hangUp()
	if err := b.ended(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	w.until("it says goodbye", func() bool { _, there := b.beat(); return !there })
}

// The command drain is the same, and Run says who asked for it. Twice is once.
func TestDrainByCommand(t *testing.T) {
	w := newWorld(t)
	b := w.bot(nil)
	c, _ := w.onCall("call_1")
	for range 2 {
		if a := w.tell(b.ID(), wire.VerbDrain, ""); !a.OK {
			t.Errorf("answered %+v", a)
		}
	}
	w.until("it drains", func() bool { beat, _ := b.beat(); return beat.Draining })
	b.is(wire.SeatLive, "call_1")
	c.hangUp()
	if err := b.ended(); !errors.Is(err, bot.ErrDrained) {
		t.Errorf("Run returned %v, want %v", err, bot.ErrDrained)
	}
}

// A call that outlasts the patience is hung up, whatever state it is in, and even
// if the bot's own program does not listen.
func TestOutOfPatience(t *testing.T) {
	w := newWorld(t)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	b := w.bot(func(c *bot.Config) {
		c.Seats, c.DrainIn, c.CloseIn = 4, 100*time.Millisecond, 500*time.Millisecond
		c.Warmup = slowly(nil)
		c.Warmup.Voice = only{"Hello, call_warming"}
		c.Talk = func(ctx context.Context, call *bot.Call) error {
			if call.Request.CallID == "call_stubborn" {
				<-never
			}
			<-ctx.Done()
			return nil
		}
	})
	live, _ := w.onCall("call_live")
	stubborn, _ := w.onCall("call_stubborn")
	w.claim(call("call_assigned"))
	warming := w.asks(b, "call_warming")
	accepted, back := warming.hears()
	warming.confirms(accepted, back)
	b.is(wire.SeatWarming, "call_warming")
	b.stop()
	live.closed()
	stubborn.closed()
	if r, _ := warming.hears(); r.Status != wire.Failed || r.Code != "draining" {
		t.Errorf("the call that warmed up is told %+v", r)
	}
	if err := b.ended(); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// only is a voice that never says one text.
type only struct{ not string }

func (v only) Speak(ctx context.Context, text, voice, locale string) ([]int16, int, error) {
	if text == v.not {
		return hangs{}.Speak(ctx, text, voice, locale)
	}
	return beep{}.Speak(ctx, text, voice, locale)
}

// Cordoned, a bot takes no call and keeps the one it has, until it is uncordoned.
func TestCordon(t *testing.T) {
	w := newWorld(t)
	b := w.bot(func(c *bot.Config) { c.Seats = 2 })
	c, _ := w.onCall("call_1")
	if a := w.tell(b.ID(), wire.VerbCordon, ""); !a.OK {
		t.Errorf("answered %+v", a)
	}
	if r, _ := w.asks(b, "call_2").hears(); r.Status != wire.Cordoned || r.Detail != "test" {
		t.Errorf("asked directly it says %+v", r)
	}
	w.until("nobody is asked", func() bool {
		r := w.refused(call("call_2"))
		return answers(r.Attempts) == "no_responders, no_responders" && r.Code == claim.CodeBotsDraining
	})
	if ok, why := b.Ready(); !ok {
		t.Errorf("not ready: %s", why)
	}
	b.is(wire.SeatLive, "call_1")
	c.hangUp()
	b.is(wire.SeatIdle, "call_1")
	if a := w.tell(b.ID(), wire.VerbUncordon, ""); !a.OK {
		t.Errorf("answered %+v", a)
	}
	for i := range 2 {
		w.onCall(fmt.Sprint("call_", 3+i))
	}
}

// A verb of a later version is refused, and not mistaken for another.
func TestUnknownVerb(t *testing.T) {
	w := newWorld(t)
	b := w.bot(nil)
	if a := b.Command("dance", wire.Command{}); a.OK || a.Code != "unknown_verb" {
		t.Errorf("answered %+v", a)
	}
}
