package claim_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"dibs/claim"
	"dibs/internal/natstest"
	"dibs/wire"
)

// A bot is killed after it accepted: the confirm meets nobody within half a
// second and another bot takes the call.
func TestBotDiesWarmingUp(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		nc := f.broker.Connect(t)
		dies := f.botOn(nc, 1, func(ctx context.Context, _ wire.ClaimRequest) (wire.Reply, error) {
			time.AfterFunc(100*time.Millisecond, nc.Close)
			<-ctx.Done()
			return wire.Reply{}, context.Cause(ctx)
		})
		a := f.asker(claim.AskerConfig{})
		begun := time.Now()
		type result struct {
			got *claim.Assignment
			err error
		}
		done := make(chan result)
		go func() {
			got, err := a.Assign(t.Context(), call("c1"))
			done <- result{got, err}
		}()
		synctest.Wait()
		lives := f.bot(1, nil)
		r := <-done
		if r.err != nil {
			t.Fatal(r.err)
		}
		if took := time.Since(begun); took > 600*time.Millisecond {
			t.Errorf("took %v, want half a second", took)
		}
		if diff := cmp.Diff([]string{"pool lost", "pool ready"}, answers(r.got.Attempts)); diff != "" {
			t.Error(diff)
		}
		if r.got.Attempts[0].BotID != dies.id || r.got.BotID != lives.id {
			t.Errorf("attempts %+v", r.got.Attempts)
		}
	})
}

// A frozen bot costs its seat one ask of 150 ms; no call fails; when it wakes
// its late accepted is withdrawn and the seat is idle.
func TestFrozenBot(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		link := f.broker.Link(t)
		frozen := f.botOn(f.broker.Connect(t, nats.InProcessServer(link)), 1, nil)
		synctest.Wait()
		link.Freeze()
		for range 4 {
			f.bot(1, nil)
		}
		a := f.asker(claim.AskerConfig{})
		silent := 0
		for i := range 50 {
			id := fmt.Sprintf("c%d", i)
			got, err := a.Assign(t.Context(), call(id))
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			for _, at := range got.Attempts {
				if at.Answer == claim.Silence {
					silent++
				}
			}
			for _, b := range f.bots[1:] {
				b.end(id)
			}
			synctest.Wait()
		}
		if silent != 1 {
			t.Errorf("%d asks met silence, want exactly 1: the frozen seat's offer was good for one", silent)
		}
		link.Thaw()
		time.Sleep(time.Second)
		f.idle()
		if diff := cmp.Diff([]string{claim.ErrWithdrawn.Error()}, causes(frozen)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWarmupFails(t *testing.T) {
	bad := func(context.Context, wire.ClaimRequest) (wire.Reply, error) {
		return wire.Reply{}, &claim.Failure{Code: "provider_refused", Detail: "tts said 429"}
	}
	flow := func(context.Context, wire.ClaimRequest) (wire.Reply, error) {
		return wire.Reply{}, &claim.Failure{Code: "flow_not_found", Detail: "no flow \"x\"", CallsFault: true}
	}
	for _, tc := range []struct {
		name  string
		warms []func(context.Context, wire.ClaimRequest) (wire.Reply, error)
		code  string // empty: assigned
		asked []string
		took  time.Duration
	}{
		{"with one bot only", warms(bad), claim.CodeWarmupFailed, nil, time.Second}, // who may be back, or not yet, for the second ask
		{"twice, then no third bot is tried", warms(bad, bad, bad), claim.CodeWarmupFailed, []string{"pool failed", "pool failed"}, 0},
		{"the call's own fault: no other bot is tried", warms(flow, flow), "flow_not_found", []string{"pool rejected"}, 0},
		{"over its budget of 8 s: the bot fails first and says why", warms(hang), claim.CodeWarmupFailed, nil, 16 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				f := newFleet(t)
				for _, w := range tc.warms {
					f.bot(1, w)
				}
				a := f.asker(claim.AskerConfig{})
				begun := time.Now()
				_, err := a.Assign(t.Context(), call("c1"))
				r := refusal(t, err)
				if r.Code != tc.code {
					t.Errorf("code %s, want %s", r.Code, tc.code)
				}
				if diff := cmp.Diff(tc.asked, answers(r.Attempts)); tc.asked != nil && diff != "" {
					t.Error(diff)
				}
				if took := time.Since(begun); took > tc.took+time.Millisecond {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				f.idle()
			})
		})
	}
}

func warms(ws ...func(context.Context, wire.ClaimRequest) (wire.Reply, error)) []func(context.Context, wire.ClaimRequest) (wire.Reply, error) {
	return ws
}

// A bot that drains has no offers, and says so to what was already on its way.
func TestDraining(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(2, nil)
		a := f.asker(claim.AskerConfig{})
		if _, err := a.Assign(t.Context(), call("c1")); err != nil {
			t.Fatal(err)
		}
		b.close(wire.Draining)
		synctest.Wait()
		_, err := a.Assign(t.Context(), call("c2"))
		if diff := cmp.Diff([]string{"pool no_responders", "region no_responders"}, answers(refusal(t, err).Attempts)); diff != "" {
			t.Errorf("a draining bot is still asked: %s", diff)
		}
		if r := askDirectly(t, f.broker.Connect(t), b.id, "k3", "c3"); r.Status != wire.Draining {
			t.Errorf("asked directly it says %s", r.Status)
		}
		if v := b.seats.View(time.Now()); v[0].State != wire.SeatAssigned && v[1].State != wire.SeatAssigned {
			t.Error("draining touched the call")
		}
		b.end("c1")
	})
}

// bot.<id>.release reaches a warm-up and aborts it.
func TestReleaseDuringWarmup(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(1, hang)
		a := f.asker(claim.AskerConfig{})
		done := make(chan error)
		go func() {
			_, err := a.Assign(t.Context(), call("c1"))
			done <- err
		}()
		time.Sleep(time.Second)
		if b.answer.Release("c9", "") {
			t.Error("released a call that is not here")
		}
		if b.answer.Release("c1", "another") {
			t.Error("released for a claim that is not here")
		}
		b.quick()
		if !b.answer.Release("c1", "") {
			t.Error("not released")
		}
		<-done // the asker takes the failure for what it is and asks one more bot: the same one, idle again
		b.end("c1")
		f.idle()
	})
}

// The same call is on the bot twice, assigned by one claim and warming up for
// another: the release finds the one that can still be aborted.
func TestReleaseOfTwo(t *testing.T) {
	for i := range 10 { // which of the two is found first is chance
		natstest.Bubble(t, func(t *testing.T) {
			f := newFleet(t)
			b := f.bot(2, nil)
			a := f.asker(claim.AskerConfig{})
			if _, err := a.Assign(t.Context(), call("c1")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			b.slow(hang)
			c := listenTo(t, f.broker.Connect(t), b.id)
			c.ask("k2", "c1")
			c.say(c.next(), wire.Confirm)
			synctest.Wait()
			if !b.answer.Release("c1", "") {
				t.Fatalf("round %d: not released", i)
			}
			if u := b.seats.InUse(); u.InUse != 1 {
				t.Errorf("%d seats in use, want the assigned one", u.InUse)
			}
			b.end("c1")
			f.idle()
		})
	}
}

// NATS stops and comes back: the offers are there again.
func TestBrokerRestart(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(3, nil)
		a := f.asker(claim.AskerConfig{})
		if _, err := a.Assign(t.Context(), call("c1")); err != nil {
			t.Fatal(err)
		}
		f.broker.Stop()
		time.Sleep(30 * time.Second)
		b.end("c1") // while NATS is away
		f.broker.Restart()
		time.Sleep(10 * time.Second) // two beats
		for i := range 3 {
			if _, err := a.Assign(t.Context(), call(fmt.Sprintf("d%d", i))); err != nil {
				t.Fatalf("seat %d did not come back: %v", i, err)
			}
		}
		for i := range 3 {
			b.end(fmt.Sprintf("d%d", i))
		}
		f.idle()
	})
}
