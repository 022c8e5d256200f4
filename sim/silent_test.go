package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/dispatch"
)

const botSilent = "call.bot_silent"

// freeze stops a bot as SIGSTOP, or its machine's loss of power, does: its sockets
// stay open, and nothing comes out of them.
func (w *world) freeze(r *robot) {
	r.link.Freeze()
	w.net.freeze(r.media, true)
}

func (w *world) thaw(r *robot) {
	w.net.freeze(r.media, false)
	r.link.Thaw()
}

// busy is the bot that has a call.
func (w *world) busy(id string) *robot {
	w.t.Helper()
	bot := w.get(id).Last().Bot
	i := slices.IndexFunc(w.bots, func(r *robot) bool { return r.ID() == bot })
	if i < 0 {
		w.t.Fatalf("%s has the bot %q", id, bot)
	}
	return w.bots[i]
}

// A bot freezes in the middle of a call, with its media socket open: the call is taken
// away from it and led to another one. One that is only cut off from NATS, or of which
// we cannot know, keeps its conversation.
func TestSilentBot(t *testing.T) {
	down := simcarrier.Faults{Delay: time.Minute} // it does what it is told, and does not answer
	for _, tt := range []struct {
		name    string
		bots    int
		silence func(w *world, r *robot)
		onTaken func(w *world, r *robot) // as it is decided to take the call away
		taken   bool
	}{
		{name: "frozen", bots: 2, silence: (*world).freeze, taken: true},
		{name: "its machine is gone", bots: 2, silence: func(w *world, r *robot) {
			r.link.Freeze()
			mend := w.net.refuse(r.media)
			w.t.Cleanup(mend)
		}, taken: true},
		{name: "it wakes as it is decided, and says that its call has ended", bots: 2, silence: func(w *world, r *robot) {
			w.askNext = func() {
				w.until("it is connected again", func() bool { return r.nc.IsConnected() && r.nc.Stats().Reconnects > 0 })
			}
			w.freeze(r)
		}, onTaken: (*world).thaw, taken: true},
		{name: "the carrier does not answer", bots: 2, silence: (*world).freeze, onTaken: func(w *world, _ *robot) {
			check(w.t, w.carrier.SetFaults(down))
		}, taken: true},
		{name: "the carrier is away at first", bots: 2, silence: (*world).freeze, onTaken: func(w *world, _ *robot) {
			mend := w.net.refuse(w.api.addr)
			time.AfterFunc(7*time.Second, mend)
		}, taken: true},
		{name: "cut off from NATS", bots: 2, silence: func(_ *world, r *robot) { r.link.Freeze() }},
		{name: "cut off from NATS, and we from all media", bots: 2, silence: func(w *world, r *robot) {
			r.link.Freeze()
			for _, b := range w.bots {
				w.net.freeze(b.media, true)
			}
		}},
		{name: "nobody to go to", bots: 1, silence: (*world).freeze},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBotWorld(t, talks(50*time.Second), func(w *world) {
				w.addBots(tt.bots)
				to := w.put("c1")
				w.until("it is live", w.state("c1", call.Live))
				first := w.busy("c1")
				w.onTell(func(h dispatch.Happening) {
					if h.Type == botSilent && tt.onTaken != nil {
						tt.onTaken(w, first)
					}
				})
				begun := time.Now()
				tt.silence(w, first)
				streams := func() []simcarrier.StreamView { return w.carrier.CallsTo(to)[0].Streams }
				if tt.taken {
					w.within(40*time.Second, "another bot is heard", func() bool {
						s := streams()
						return len(s) == 2 && s[1].Heard.Sound
					})
					w.t.Logf("another bot after %v", time.Since(begun))
					if second := w.busy("c1"); second == first && w.askNext == nil { // who woke may well be the next
						w.t.Errorf("the record names %s still", second.ID())
					}
				}
				w.until("it ends", w.ended("c1"))
				check(w.t, w.carrier.SetFaults(simcarrier.Faults{}))
				w.wantEnd("c1", call.Completed, 1)
				c := w.carrier.CallsTo(to)[0]
				if c.EndedBy != "callee" || c.Ended.Sub(c.Answered) < 50*time.Second {
					w.t.Errorf("ended by %s after %v", c.EndedBy, c.Ended.Sub(c.Answered))
				}
				if n := len(streams()); (n == 2) != tt.taken {
					w.t.Errorf("%d streams\n%s", n, w.story())
				}
				if told := slices.Contains(w.types("c1"), botSilent); told != tt.taken {
					w.t.Errorf("told of a silent bot: %t, want %t", told, tt.taken)
				}
				for _, b := range w.bots {
					w.thaw(b)
				}
				w.nothingLeft()
			})
		})
	}
}

// The carrier asks while we are still looking whether the bot is there: the call is led
// to another one, and what is then found out of the first is not held against that.
func TestSilentBotGoneMeanwhile(t *testing.T) {
	inBotWorld(t, talks(50*time.Second), func(w *world) {
		w.addBots(3)
		to := w.put("c1")
		w.until("it is live", w.state("c1", call.Live))
		w.freeze(w.busy("c1"))
		// The third check asks NATS and then the media server, and waits for that until 17.4 s.
		time.AfterFunc(16*time.Second, func() {
			c := w.carrier.CallsTo(to)[0]
			check(w.t, w.twilio.Redirect(context.Background(), c.SID, w.public+"/v1/carriers/twilio/next/"+c.Attempt))
		})
		w.until("it ends", w.ended("c1"))
		w.wantEnd("c1", call.Completed, 1)
		if n := len(w.carrier.CallsTo(to)[0].Streams); n != 2 || slices.Contains(w.types("c1"), botSilent) {
			w.t.Errorf("%d streams, want 2: the second bot was there\n%s", n, w.story())
		}
		for _, b := range w.bots {
			w.thaw(b)
		}
		w.nothingLeft()
	})
}

// inBotWorld is inWorld with bots that can be frozen.
func inBotWorld(t *testing.T, profile simcarrier.Profile, f func(w *world)) {
	t.Helper()
	inWorld(t, profile, func(w *world) {
		w.links = true
		f(w)
	})
}
