package sim

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/call"
	"dibs/demand"
	"dibs/dispatch"
	"dibs/wire"
)

// Two calls and one bot: the second one waits, and everything that is said about it
// comes from the same set: why, the position, the demand.
func TestWhyAndDemand(t *testing.T) {
	inWorld(t, talks(4*time.Second), whyAndDemand)
}

func whyAndDemand(w *world) {
	t := w.t
	scale, err := dispatch.NewScale(demand.Config{})
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	nc := w.broker.Connect(t)
	go func() { done <- scale.Run(ctx, nc, zerolog.Nop()) }()
	t.Cleanup(func() { stop(); <-done })
	if _, _, err := scale.Wanted("eu-west", time.Now()); !errors.Is(err, demand.ErrUnknown) {
		t.Errorf("before anybody said anything: %v, want unknown and never 0", err)
	}
	w.addBots(1)
	w.put("c1")
	w.until("the first call is answered", w.state("c1", call.Live))
	w.put("c2")
	w.until("the second one waits for a bot", func() bool {
		r, err := w.desk.Get(t.Context(), "c2")
		return err == nil && !r.BotWaitSince.IsZero() && r.State == call.Queued
	})
	var why api.Why
	w.until("it is back in line", func() bool { // its record says so a moment earlier
		why, err = w.desk.Why(t.Context(), "c2")
		return err == nil && why.State == call.Queued
	})
	if why.WouldDial || why.Reason != "no_idle_bot" || why.Scope != "bots:eu-west" || why.BotWait == nil {
		t.Errorf("why: %+v", why)
	}
	var gates []string
	for _, g := range why.Gates {
		if g.OK {
			gates = append(gates, g.Gate+" ok")
		} else {
			gates = append(gates, g.Gate+" "+g.Code)
		}
	}
	if diff := cmp.Diff([]string{"time ok", "person ok", "bot no_idle_bot", "org ok", "platform ok"}, gates); diff != "" {
		t.Error(diff)
	}
	w.until("the demand is told", func() bool {
		got, _, err := scale.Wanted("eu-west", time.Now())
		return err == nil && got.Demand == 2
	})
	got, _, err := scale.Wanted("eu-west", time.Now())
	check(t, err)
	if diff := cmp.Diff([]demand.Term{{Name: "in_flight", Seen: 1, Counts: 1}, {Name: "direct", Seen: 1, Counts: 1}, {Name: "campaign"}}, got.Terms); diff != "" || got.Bots != 3 {
		t.Errorf("wanted %d bots: %s", got.Bots, diff)
	}
	if got, _, err := scale.Wanted("us-east", time.Now()); err != nil || got.Bots != 3 || got.Demand != 0 {
		t.Errorf("a region without calls: %+v %v, want its floor", got, err)
	}
	if _, _, err := scale.Wanted("eu-west", time.Now().Add(dispatch.ScaleStale+5*time.Second)); !errors.Is(err, demand.ErrUnknown) {
		t.Errorf("stale numbers: %v, want unknown", err)
	}
	w.until("the second call ends", w.ended("c2"))
	if _, err := w.desk.Why(t.Context(), "c2"); !errors.Is(err, api.ErrEnded) {
		t.Errorf("why of a call that has ended: %v", err)
	}
	if _, err := w.desk.Why(t.Context(), "nobody"); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("why of nobody: %v", err)
	}
}

// A call that waits for a bot asks every few seconds. Whenever the demand is counted it
// waits, and is never in flight by the accident of the same tick.
func TestDemandOfOneWhoWaits(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		var mu sync.Mutex
		var told []dispatch.RegionNumbers
		_, err := w.broker.Connect(w.t).Subscribe(wire.Scale(), func(m *nats.Msg) {
			var n dispatch.Numbers
			if err := json.Unmarshal(m.Data, &n); err != nil {
				w.t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if r, ok := n.Regions["eu-west"]; ok {
				told = append(told, r)
			}
		})
		check(w.t, err)
		w.put("c1")
		w.until("it waits", func() bool { return !w.get("c1").BotWaitSince.IsZero() })
		time.Sleep(80 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if asked := len(w.get("c1").Attempts); asked < 10 || len(told) < 75 {
			w.t.Errorf("%d attempts, told %d times: this looks at nothing", asked, len(told))
		}
		for i, r := range told {
			if *r.Input.InFlight != 0 || *r.Input.Direct != 1 {
				w.t.Errorf("second %d: %d in flight, %d wait", i, *r.Input.InFlight, *r.Input.Direct)
			}
		}
	})
}
