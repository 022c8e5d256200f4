package claim_test

import (
	"context"
	"errors"
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

// client is an asking side that a test drives by hand, to die where it wants.
type client struct {
	t   *testing.T
	nc  *nats.Conn
	bot string
	sub *nats.Subscription
}

type heard struct {
	r    wire.Reply
	back string
}

func listenTo(t *testing.T, nc *nats.Conn, bot string) *client {
	t.Helper()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	return &client{t: t, nc: nc, bot: bot, sub: sub}
}

func (c *client) ask(claimID, callID string) {
	c.t.Helper()
	subj, _ := wire.Bot(c.bot, wire.VerbClaim)
	if err := c.nc.PublishRequest(subj, c.sub.Subject, request(c.t, claimID, callID)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) next() heard {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	m, err := c.sub.NextMsgWithContext(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := wire.Decode[wire.Reply](m.Data)
	if err != nil {
		c.t.Fatalf("%q: %v", m.Data, err)
	}
	return heard{r, m.Reply}
}

func (c *client) say(h heard, word wire.Say) {
	c.t.Helper()
	data, _ := wire.Encode(wire.Control{V: 1, ClaimID: h.r.ClaimID, Say: word})
	if err := c.nc.Publish(h.back, data); err != nil {
		c.t.Fatal(err)
	}
}

// The asker dies at every point of the conversation; the seat is idle again
// within a second of the bot's knowing it.
func TestAskerDies(t *testing.T) {
	soon := func(ctx context.Context, req wire.ClaimRequest) (wire.Reply, error) {
		select {
		case <-time.After(300 * time.Millisecond):
			return ready(req), nil
		case <-ctx.Done():
			return wire.Reply{}, context.Cause(ctx)
		}
	}
	for _, tc := range []struct {
		name   string
		die    func(c *client)
		within time.Duration
		cause  error
	}{
		{"after the request", func(c *client) { _ = c.sub.Unsubscribe(); c.ask("k1", "c1") }, 0, claim.ErrAskerGone},
		{"after accepted, silently", func(c *client) { c.ask("k1", "c1"); c.next() }, time.Second, claim.ErrNoAck},
		{"after accepted, its connection closes", func(c *client) { c.ask("k1", "c1"); c.next(); c.nc.Close() }, time.Second, claim.ErrAskerGone},
		{"after confirm", func(c *client) { c.ask("k1", "c1"); c.say(c.next(), wire.Confirm); c.nc.Flush(); c.nc.Close() }, time.Second, claim.ErrAskerGone},
		{"after ready", func(c *client) { c.ask("k1", "c1"); c.say(c.next(), wire.Confirm); c.next() }, 1300 * time.Millisecond, claim.ErrNoAck},
		{"withdraws after accepted", func(c *client) { c.ask("k1", "c1"); c.say(c.next(), wire.Withdraw) }, 0, claim.ErrWithdrawn},
		{"withdraws after ready", func(c *client) {
			c.ask("k1", "c1")
			c.say(c.next(), wire.Confirm)
			c.say(c.next(), wire.Withdraw)
		}, 300 * time.Millisecond, claim.ErrWithdrawn},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				f := newFleet(t)
				b := f.bot(1, soon)
				c := listenTo(t, f.broker.Connect(t), b.id)
				synctest.Wait()
				begun := time.Now()
				tc.die(c)
				synctest.Wait()
				if tc.name == "after accepted, silently" {
					tc.within = 1300 * time.Millisecond // its ready goes out at 300 ms, and then no ack comes
				}
				time.Sleep(tc.within - time.Since(begun))
				f.idle()
				if diff := cmp.Diff([]string{tc.cause.Error()}, causes(b)); diff != "" {
					t.Error(diff)
				}
				if _, err := f.asker(claim.AskerConfig{}).Assign(t.Context(), call("c2")); err != nil {
					t.Errorf("the next call is not served: %v", err)
				}
				b.end("c2")
			})
		})
	}
}

func causes(b *testBot) (out []string) {
	for _, err := range b.dropped() {
		out = append(out, err.Error())
	}
	return out
}

// No confirm comes while the warm-up runs: it is aborted after a second.
func TestUnconfirmed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(1, hang)
		c := listenTo(t, f.broker.Connect(t), b.id)
		synctest.Wait()
		c.ask("k1", "c1")
		c.next()
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		if u := b.seats.InUse(); u.InUse != 1 {
			t.Error("the seat was freed before its time")
		}
		time.Sleep(time.Millisecond)
		f.idle()
		if diff := cmp.Diff([]string{claim.ErrUnconfirmed.Error()}, causes(b)); diff != "" {
			t.Error(diff)
		}
	})
}

// The caller gives up while the bot warms up: the warm-up is cancelled and the
// seat idle at once.
func TestCallerGivesUp(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(1, hang)
		a := f.asker(claim.AskerConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := a.Assign(ctx, call("c1"))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		f.idle()
		if diff := cmp.Diff([]string{claim.ErrWithdrawn.Error()}, causes(b)); diff != "" {
			t.Error(diff)
		}
	})
}

// A bot is killed after it accepted: the confirm meets nobody within half a
// second and another bot takes the call.
func TestBotDiesWarmingUp(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		nc := f.broker.Connect(t)
		var dies *testBot
		dies = f.botOn(nc, 1, func(ctx context.Context, _ wire.ClaimRequest) (wire.Reply, error) {
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
		{"with one bot only", warms(bad), claim.CodeWarmupFailed, nil, 0}, // who may be back, or not yet, for the second ask
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
		if b.answer.Release("c9") {
			t.Error("released a call that is not here")
		}
		b.quick()
		if !b.answer.Release("c1") {
			t.Error("not released")
		}
		<-done // the asker takes the failure for what it is and asks one more bot: the same one, idle again
		b.end("c1")
		f.idle()
	})
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

func TestBadRequests(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(1, nil)
		nc := f.broker.Connect(t)
		synctest.Wait()
		subj, _ := wire.Bot(b.id, wire.VerbClaim)
		for _, data := range []string{"", "x", "{}", `{"claim_id":"a b"}`, `{"v":2,"claim_id":"k","call_id":"c","region":"r","accept_ms":1,"ready_ms":1}`} {
			m, err := nc.RequestWithContext(t.Context(), subj, []byte(data))
			if err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			if r, err := wire.Decode[wire.Reply](m.Data); err != nil || r.Status != wire.Rejected || r.Code != "bad_request" || r.Detail == "" {
				t.Errorf("%q: got %+v %v, want a rejection with a detail", data, r, err)
			}
		}
		f.idle()
		a := f.asker(claim.AskerConfig{})
		for _, req := range []claim.Request{{}, {CallID: "c", Region: "a.b"}, {CallID: "c", Region: "r", ReadyMS: -1}} {
			if _, err := a.Assign(t.Context(), req); err == nil {
				t.Errorf("asker sent %+v", req)
			}
		}
	})
}

// A thousand callers that wait one millisecond each: nothing is left behind, and
// the next claim is served at normal speed.
func TestImpatientCallers(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		f.bot(1, hang)
		b := f.bots[0]
		a := f.asker(claim.AskerConfig{})
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := a.Assign(ctx, call(fmt.Sprintf("c%d", i))); err == nil {
				t.Fatal("assigned by a bot that never gets ready")
			}
			cancel()
		}
		f.idle()
		b.quick()
		begun := time.Now()
		if _, err := a.Assign(t.Context(), call("last")); err != nil || time.Since(begun) > 0 {
			t.Errorf("after the storm: %v in %v", err, time.Since(begun))
		}
		b.end("last")
	})
}
