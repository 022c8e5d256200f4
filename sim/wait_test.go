package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"dibs/bot"
	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/dispatch"
	"dibs/events"
	"dibs/wire"
)

// A call for which there is never a bot waits 90 s from the first miss, is tried
// once more, and ends; it says all the while what it waits for and how long it may.
func TestNoBotEver(t *testing.T) {
	for _, tt := range []struct {
		name   string
		region string
		bots   int    // busy ones, of eu-west
		code   string // of the refusals
	}{
		{"a region that nobody serves", "mars", 1, "no_bot_registered"},
		{"every bot is busy", "eu-west", 1, "no_idle_bot"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, talks(2*time.Minute), func(w *world) {
				w.addBots(tt.bots)
				w.put("busy")
				w.until("the bot is busy", w.state("busy", call.Live))
				begun := time.Now()
				w.put("c1", func(o *call.Order) { o.Region = tt.region })
				w.until("it waits for a bot", func() bool { return !w.get("c1").BotWaitSince.IsZero() })
				time.Sleep(30 * time.Second)
				r := w.get("c1")
				if r.State != call.Queued || r.Final {
					w.t.Errorf("after 30 s it is %s, final %v", r.State, r.Final)
				}
				why, err := w.desk.Why(w.t.Context(), "c1")
				check(w.t, err)
				if b := why.BotWait; b == nil || b.RemainingMS > 60_000 || b.RemainingMS < 59_000 {
					w.t.Errorf("remaining %+v, want about a minute", b)
				}
				w.within(2*time.Minute, "it ends", w.ended("c1"))
				r = w.wantEnd("c1", call.BotUnavailable, 0)
				if r.Reason != tt.code {
					w.t.Errorf("reason %q, want %q", r.Reason, tt.code)
				}
				if took := r.EndedAt.Sub(begun); took < call.BotWait || took > call.BotWait+time.Second {
					w.t.Errorf("ended after %v, want 90 s", took)
				}
				var after []call.Attempt
				for _, a := range r.Attempts {
					if a.At.Sub(begun) >= call.BotWait {
						after = append(after, a)
					}
				}
				// The miss at the end of the wait makes the next attempt the final one; before,
				// the oldest asks every five seconds, whatever the roster says.
				if len(after) != 2 || len(r.Attempts) < 18 || len(r.Attempts) > 21 {
					w.t.Errorf("%d attempts, %d of them at the end of the wait; want one every five seconds, and there two", len(r.Attempts), len(after))
				}
				types := w.types("c1")
				if !slices.Contains(types, events.CallBotWaitStarted) {
					w.t.Errorf("told %v, want the start of the wait", types)
				}
				w.until("the other ends", w.ended("busy"))
				w.nothingLeft()
			})
		})
	}
}

// A call that takes no wait ends with the first miss.
func TestNoWait(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		begun := time.Now()
		w.put("c1", func(o *call.Order) { o.NoWait = true })
		w.until("it ends", w.ended("c1"))
		if r := w.wantEnd("c1", call.BotUnavailable, 0); len(r.Attempts) != 1 || time.Since(begun) > time.Second {
			w.t.Errorf("%d attempts in %v, want one at once", len(r.Attempts), time.Since(begun))
		}
		w.nothingLeft()
	})
}

// A bot of another make that answers and never beats gets the calls that wait, too.
func TestBotWithoutBeats(t *testing.T) {
	inWorld(t, simcarrier.Profile{Busy: 1}, func(w *world) {
		for i := range 3 {
			w.put(fmt.Sprintf("c%d", i))
		}
		w.until("they wait", func() bool { return !w.get("c2").BotWaitSince.IsZero() })
		_, err := w.nc.QueueSubscribe("dibs.v1.claim.eu-west.default", wire.IdleGroup, func(m *nats.Msg) {
			var req wire.ClaimRequest
			check(w.t, json.Unmarshal(m.Data, &req))
			check(w.t, m.Respond(fmt.Appendf(nil, `{"v":1,"status":"ready","claim_id":%q,"bot_id":"other","media":{"url":"ws://127.0.0.1:1/m/other/token"}}`, req.ClaimID)))
		})
		check(w.t, err)
		for i := range 3 {
			w.within(20*time.Second, "it ends", w.ended(fmt.Sprintf("c%d", i)))
			w.wantEnd(fmt.Sprintf("c%d", i), call.Busy, 1)
		}
	})
}

// The bot that comes, or becomes idle, while calls wait is given to them at once,
// the oldest first.
func TestWokenByASeat(t *testing.T) {
	inWorld(t, talks(3*time.Second), func(w *world) {
		for i := range 3 {
			w.put(fmt.Sprintf("c%d", i))
		}
		time.Sleep(40 * time.Second) // deep in the pauses of who asks in vain
		w.addBots(1)
		w.within(300*time.Millisecond, "the first goes", w.state("c0", call.Ringing, call.Live))
		for i := range 3 {
			w.until("it ends", w.ended(fmt.Sprintf("c%d", i)))
			w.wantEnd(fmt.Sprintf("c%d", i), call.Completed, 1)
		}
		for i := range 2 {
			gap := w.get(fmt.Sprintf("c%d", i+1)).Last().At.Sub(w.get(fmt.Sprintf("c%d", i)).EndedAt)
			if gap > 500*time.Millisecond {
				w.t.Errorf("the seat was idle for %v between two calls", gap)
			}
		}
		w.nothingLeft()
	})
}

// A hundred campaign calls on two bots wait for admission, not for a bot: nobody's
// wait begins because somebody else has just taken the seat.
func TestCampaignWaitsForSeats(t *testing.T) {
	inWorld(t, talks(time.Second), func(w *world) {
		w.addBots(2)
		for i := range 100 {
			w.put(fmt.Sprintf("c%d", i), func(o *call.Order) { o.Class, o.Campaign = call.ClassCampaign, "spring" })
		}
		for i := range 100 {
			w.within(3*time.Minute, "all end", w.ended(fmt.Sprintf("c%d", i)))
		}
		misses := 0
		for i := range 100 {
			r := w.wantEnd(fmt.Sprintf("c%d", i), call.Completed, 1)
			misses += len(r.Attempts) - 1
		}
		// Now and then a claim meets a seat that is not offered yet, in the instant in
		// which its beat is heard. Without the count of seats it is every call at every wake.
		if misses > 10 {
			w.t.Errorf("%d claims found nobody, want hardly any", misses)
		}
		w.nothingLeft()
	})
}

// One call's slow warm-up holds nothing but its own seat.
func TestSlowWarmup(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(6, func(c *bot.Config) {
			c.Warmup.Voice = slowVoice{Voice: c.Warmup.Voice, takes: 5 * time.Second, only: "slow"}
		})
		w.put("c0", func(o *call.Order) { o.Greeting.Text = "slow" })
		w.until("it is being placed", w.state("c0", call.Placing))
		begun := time.Now()
		for i := 1; i <= 5; i++ {
			w.put(fmt.Sprintf("c%d", i))
		}
		w.within(3*time.Second, "the others end", func() bool {
			return !slices.ContainsFunc([]string{"c1", "c2", "c3", "c4", "c5"}, func(id string) bool { return !w.ended(id)() })
		})
		for i := 1; i <= 5; i++ {
			if d := w.get(fmt.Sprintf("c%d", i)).Last().IntentAt.Sub(begun); d > 500*time.Millisecond {
				w.t.Errorf("c%d was dialled after %v", i, d)
			}
		}
		w.until("the slow one ends", w.ended("c0"))
		w.wantEnd("c0", call.Completed, 1)
		w.nothingLeft()
	})
}

// What is told of one call, in order, is the whole of it.
func TestTold(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.put("c1")
		w.until("it waits for a bot", func() bool { return !w.get("c1").BotWaitSince.IsZero() })
		w.addBots(1)
		w.until("it ends", w.ended("c1"))
		w.nothingLeft()
		want := []string{
			events.CallAdmitted, "call.claim_refused", events.CallBotWaitStarted,
			events.CallAdmitted, events.CallClaimed, "call.changed", events.CallDialing, events.CallRinging, "call.changed", events.CallAnswered, events.CallEnded,
		}
		var types []string
		var last dispatch.Happening
		for _, h := range w.heard("c1") {
			if h.Type == events.CallVerdict {
				continue // once a second, and what it says is TestWhyAndDemand's
			}
			types = append(types, h.Type)
			if h.At.Before(last.At) {
				w.t.Errorf("%s at %v, after %s at %v", h.Type, h.At, last.Type, last.At)
			}
			last = h
		}
		if diff := cmp.Diff(want, types); diff != "" {
			w.t.Errorf("told (-want +got):\n%s", diff)
		}
		if last.Detail["outcome"] != "completed" || last.Record == nil || last.Record.State != call.State(call.Completed) {
			w.t.Errorf("the last word is %+v", last)
		}
	})
}
