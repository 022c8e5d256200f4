package sim

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/dispatch"
	"dibs/events"
)

// The only bot dies between its assignment and the dial, or while the phone rings: the
// call does not hang, the phone does not ring twice, and the next call goes well.
func TestBotDies(t *testing.T) {
	for _, step := range []dispatch.Step{dispatch.StepBot, dispatch.StepIntent, dispatch.StepCarrierID} {
		t.Run(fmt.Sprintf("after step %d", step), func(t *testing.T) {
			inWorld(t, talks(2*time.Second), func(w *world) {
				w.addBots(1)
				w.nodes[0].onStep(func(s dispatch.Step, _ string) {
					if s == step {
						w.kill(w.bots[0])
					}
				})
				w.put("c1")
				w.within(2*time.Minute, "it ends", w.ended("c1"))
				w.wantEnd("c1", call.Interrupted, 1) // nobody else could take it over
				w.nodes[0].onStep(nil)
				time.Sleep(31 * time.Second) // until nobody believes in it any more
				w.addBots(1)
				w.put("c2")
				w.until("the next call ends", w.ended("c2"))
				w.wantEnd("c2", call.Completed, 1)
				w.nothingLeft()
			})
		})
	}
}

// The broker is restarted while calls wait, are scheduled, ring and talk: none is
// lost and no phone rings twice.
func TestBrokerRestarts(t *testing.T) {
	for _, away := range []time.Duration{0, 30 * time.Second} {
		t.Run(fmt.Sprintf("away for %v", away), func(t *testing.T) {
			inWorld(t, talks(45*time.Second), func(w *world) {
				w.addBots(2)
				check(w.t, w.carrier.SetNumber(numberOf("rings"), simcarrier.Profile{
					Ring: simcarrier.Range{Min: 20 * time.Second, Max: 20 * time.Second}, Talk: simcarrier.Range{Min: 3 * time.Second, Max: 3 * time.Second},
				}))
				w.put("talks")
				w.until("one talks", w.state("talks", call.Live))
				w.put("rings")
				w.until("one rings", w.state("rings", call.Ringing))
				w.put("waits")
				w.until("one waits for a bot", func() bool { return !w.get("waits").BotWaitSince.IsZero() })
				w.put("scheduled", func(o *call.Order) { o.NotBefore = time.Now().Add(2 * time.Minute) })
				w.put("untried", func(o *call.Order) { o.Class, o.Campaign = call.ClassCampaign, "spring" })
				w.broker.Stop()
				time.Sleep(away)
				w.broker.Restart()
				for _, id := range []string{"talks", "rings", "waits", "scheduled", "untried"} {
					w.within(5*time.Minute, id+" ends", w.ended(id))
					w.wantEnd(id, call.Completed, 1)
				}
				if c := w.carrier.CallsTo(numberOf("talks"))[0]; c.EndedBy != "callee" || c.Ended.Sub(c.Answered) < 45*time.Second {
					w.t.Errorf("the conversation was ended by %s after %v", c.EndedBy, c.Ended.Sub(c.Answered))
				}
				w.nothingLeft()
			})
		})
	}
}

// A dispatcher that stops in good order hands over within a second; calls in flight
// go on under the next one.
func TestHandOver(t *testing.T) {
	inWorld(t, talks(10*time.Second), func(w *world) {
		w.until("the first is in office", w.inOffice)
		w.addNode("two")
		w.addBots(1)
		w.put("c1")
		w.until("it is answered", w.state("c1", call.Live))
		w.put("c2")
		w.until("the next one waits", func() bool { return !w.get("c2").BotWaitSince.IsZero() })
		w.nodes[0].stop()
		w.nodes = w.nodes[1:]
		w.within(time.Second, "the second is in office", w.inOffice)
		for _, id := range []string{"c1", "c2"} {
			w.until(id+" ends", w.ended(id))
			w.wantEnd(id, call.Completed, 1)
		}
		w.nothingLeft()
	})
}

// A dispatcher that vanishes is followed by another within the time-to-live of its
// office, with a hundred calls in every state; none is lost and none dialled twice.
func TestDispatcherVanishes(t *testing.T) {
	inWorld(t, talks(3*time.Second), func(w *world) {
		one := w.nodes[0]
		w.until("the first is in office", w.inOffice)
		w.addNode("two")
		w.addBots(10)
		for i := range 100 {
			w.put(fmt.Sprintf("c%d", i), func(o *call.Order) {
				if i%2 == 0 {
					o.Class, o.Campaign = call.ClassCampaign, "spring"
				}
			})
		}
		time.Sleep(5 * time.Second)
		one.link.Freeze()
		w.nodes = w.nodes[1:]
		took := w.within(4*time.Second, "the second is in office", w.inOffice)
		w.t.Logf("nobody in office for %v", took)
		for i := range 100 {
			w.within(5*time.Minute, "it ends", w.ended(fmt.Sprintf("c%d", i)))
		}
		one.link.Thaw()
		time.Sleep(5 * time.Second)
		for i := range 100 {
			w.wantEnd(fmt.Sprintf("c%d", i), call.Completed, 1)
		}
		w.nothingLeft()
	})
}

// The one in office leaves between the bot's ready and the record of it: nobody would
// ever release the seat for which there is no record, so it is done on the way out.
func TestOfficeEndsBeforeTheRecord(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		first, once := w.nodes[0], new(sync.Once)
		w.addBots(1)
		w.onTell(func(h dispatch.Happening) {
			if h.Type == events.CallClaimed {
				once.Do(func() {
					go first.stop()
					time.Sleep(time.Millisecond) // of fake time: everybody knows
				})
			}
		})
		w.put("c1")
		w.until("it has claimed", func() bool { return len(w.heard("c1")) > 1 })
		w.within(time.Second, "the seat is idle", w.idleSeats(1))
		if r := w.get("c1"); r.State != call.Placing || r.Last().Bot != "" {
			w.t.Fatalf("the record has the bot: %+v", r)
		}
		w.addNode("second")
		w.until("it ends", w.ended("c1"))
		w.wantEnd("c1", call.Completed, 1)
		w.nothingLeft()
	})
}

// The one in office dies between the record of a call's end and the telling of it: the
// next one tells it, as the same event, once.
func TestEndIsTold(t *testing.T) {
	inBareWorld(t, func(w *world) {
		ids := map[string][]string{} // who told it, by the event's id
		var mu sync.Mutex
		hears := func(name string, deaf bool) func(*dispatch.Config) {
			return func(c *dispatch.Config) {
				c.Emit = func(h dispatch.Happening) {
					if h.Type != events.CallEnded || deaf {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					ids[h.ID] = append(ids[h.ID], name)
				}
			}
		}
		first := w.addNode("first", hears("first", true)) // as if it died: its last words are lost
		w.addBots(1)
		w.put("c1")
		w.until("it ends", w.ended("c1"))
		first.stop()
		w.addNode("second", hears("second", false))
		w.until("the end is told", func() bool { mu.Lock(); defer mu.Unlock(); return len(ids) > 0 })
		second := w.nodes[1]
		w.put("c2")
		w.until("another one ends", w.ended("c2"))
		second.stop()
		time.Sleep(2 * time.Minute) // what is old was told, or nobody can tell it once
		w.addNode("third", hears("third", false))
		w.put("c3")
		w.until("a third one ends", w.ended("c3"))
		mu.Lock()
		defer mu.Unlock()
		want := map[string][]string{"c1/ended": {"second"}, "c2/ended": {"second"}, "c3/ended": {"third"}}
		if diff := cmp.Diff(want, ids); diff != "" {
			w.t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
