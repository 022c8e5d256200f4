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
