package claim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"dibs/claim"
	"dibs/internal/natstest"
	"dibs/wire"
)

func answers(as []claim.Attempt) (out []string) {
	for _, a := range as {
		out = append(out, string(a.Phase)+" "+a.Answer)
	}
	return out
}

func refusal(t *testing.T, err error) *claim.Refused {
	t.Helper()
	r, ok := errors.AsType[*claim.Refused](err)
	if !ok {
		t.Fatalf("error %v, want a *claim.Refused", err)
	}
	return r
}

// wait blocks until ctx ends: a warm-up that takes for ever.
func hang(ctx context.Context, _ wire.ClaimRequest) (wire.Reply, error) {
	<-ctx.Done()
	return wire.Reply{}, context.Cause(ctx)
}

func TestAssign(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(1, nil)
		a := f.asker(claim.AskerConfig{})
		got, err := a.Assign(t.Context(), call("c1"))
		if err != nil {
			t.Fatal(err)
		}
		if got.BotID != b.id || got.Media.URL != "wss://bot/m/c1" {
			t.Errorf("got %s at %s", got.BotID, got.Media.URL)
		}
		if diff := cmp.Diff([]string{"pool ready"}, answers(got.Attempts)); diff != "" {
			t.Error(diff)
		}
		synctest.Wait()
		if v := b.seats.View(time.Now())[0]; v.State != wire.SeatAssigned || v.CallID != "c1" {
			t.Errorf("seat %+v, want assigned to c1", v)
		}
		b.end("c1")
		synctest.Wait()
		if _, err := a.Assign(t.Context(), call("c2")); err != nil {
			t.Errorf("the seat was not offered again: %v", err)
		}
		b.end("c2")
		f.idle()
	})
}

// Twelve calls at once on six bots: six are assigned on their first ask, six
// learn at once that nobody is idle.
func TestBurst(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		for range 6 {
			f.bot(1, nil)
		}
		a := f.asker(claim.AskerConfig{Counts: func(region, pool string) wire.Counts { return wire.Counts{Bots: 6, Seats: 6} }})
		var mu sync.Mutex
		var wg sync.WaitGroup
		by := map[string]string{}
		codes := map[string]int{}
		for i := range 12 {
			wg.Go(func() {
				got, err := a.Assign(t.Context(), call(fmt.Sprintf("c%d", i)))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					codes[refusal(t, err).Code]++
					return
				}
				if had := by[got.BotID]; had != "" {
					t.Errorf("%s took c%d and %s", got.BotID, i, had)
				}
				by[got.BotID] = fmt.Sprintf("c%d", i)
			})
		}
		begun := time.Now()
		wg.Wait()
		if len(by) != 6 || codes[claim.CodeNoIdleBot]+codes[claim.CodeBotsBusy] != 6 {
			t.Errorf("%d assigned, refusals %v; want 6 and 6", len(by), codes)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("took %v of fake time", took)
		}
		for bot, c := range by {
			for _, b := range f.bots {
				if b.id == bot {
					b.end(c)
				}
			}
		}
		f.idle()
	})
}

func TestWhichNobody(t *testing.T) {
	for _, tc := range []struct {
		name   string
		counts *wire.Counts
		want   string
	}{
		{"without a roster", nil, claim.CodeNoIdleBot},
		{"empty region", &wire.Counts{}, claim.CodeNoBotRegistered},
		{"all on calls", &wire.Counts{Bots: 3, Seats: 3, Live: 3}, claim.CodeNoIdleBot},
		{"all draining", &wire.Counts{Bots: 3, Seats: 3, Draining: 3}, claim.CodeBotsDraining},
		{"all broken or draining", &wire.Counts{Bots: 3, Seats: 3, Draining: 1, Broken: 2}, claim.CodeBreakerOpen},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				f := newFleet(t)
				cfg := claim.AskerConfig{}
				if tc.counts != nil {
					cfg.Counts = func(region, pool string) wire.Counts { return *tc.counts }
				}
				a := f.asker(cfg)
				begun := time.Now()
				_, err := a.Assign(t.Context(), call("c1"))
				r := refusal(t, err)
				if r.Code != tc.want {
					t.Errorf("code %s, want %s (%v)", r.Code, tc.want, err)
				}
				if diff := cmp.Diff([]string{"pool no_responders", "region no_responders"}, answers(r.Attempts)); diff != "" {
					t.Error(diff)
				}
				if took := time.Since(begun); took > 0 {
					t.Errorf("nobody was known after %v of fake time, want at once", took)
				}
			})
		})
	}
}

// A call whose pool is empty is served by the region's other pools.
func TestRegionFallback(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(1, nil)
		a := f.asker(claim.AskerConfig{})
		req := call("c1")
		req.Pool = "spanish"
		got, err := a.Assign(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"pool no_responders", "region ready"}, answers(got.Attempts)); diff != "" {
			t.Error(diff)
		}
		req = call("c2")
		req.Region = "us-east"
		if _, err := a.Assign(t.Context(), req); refusal(t, err).Code != claim.CodeNoIdleBot {
			t.Errorf("a call left its region: %v", err)
		}
		b.end("c1")
		f.idle()
	})
}

// A bot asked directly while its seat is taken says who has it.
func TestBusySaysWho(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(1, nil)
		a := f.asker(claim.AskerConfig{})
		if _, err := a.Assign(t.Context(), call("c1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		r := askDirectly(t, f.broker.Connect(t), b.id, "k2", "c2")
		if r.Status != wire.Busy || r.Busy == nil || r.Busy.CallID != "c1" || r.Busy.SinceMS != 3000 || r.RetryAfterMS != 150 {
			t.Errorf("got %+v busy %+v", r, r.Busy)
		}
		b.end("c1")
		f.idle()
	})
}

func askDirectly(t *testing.T, nc *nats.Conn, bot, claimID, callID string) wire.Reply {
	t.Helper()
	subj, err := wire.Bot(bot, wire.VerbClaim)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nc.RequestWithContext(t.Context(), subj, request(t, claimID, callID))
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.Decode[wire.Reply](m.Data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func request(t *testing.T, claimID, callID string) []byte {
	t.Helper()
	data, err := wire.Encode(wire.ClaimRequest{V: 1, ClaimID: claimID, CallID: callID, Region: "eu-west", AcceptMS: 150, ReadyMS: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The same claim asked twice gets the same answer and one seat, while it warms
// up and after it is assigned.
func TestSameClaimTwice(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(2, func(ctx context.Context, req wire.ClaimRequest) (wire.Reply, error) {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			return ready(req), ctx.Err()
		})
		nc := f.broker.Connect(t)
		synctest.Wait()
		c := listenTo(t, nc, b.id)
		c.ask("k1", "c1")
		c.ask("k1", "c1")
		first, second := c.next(), c.next()
		if first.r.Status != wire.Accepted || second.r.Status != wire.Accepted || first.r.Seat != second.r.Seat {
			t.Fatalf("got %+v and %+v, want two accepted of one seat", first.r, second.r)
		}
		c.say(second, wire.Confirm)
		third := c.next()
		if third.r.Status != wire.Ready {
			t.Fatalf("got %+v, want ready", third.r)
		}
		c.say(third, wire.Ack)
		synctest.Wait()
		c.ask("k1", "c1")
		fourth, fifth := c.next(), c.next()
		if fourth.r.Status != wire.Accepted || fifth.r.Status != wire.Ready || fifth.r.Media.URL != third.r.Media.URL {
			t.Errorf("after assigned: got %+v and %+v, want the same answer again", fourth.r, fifth.r)
		}
		if u := b.seats.InUse(); u.InUse != 1 || b.begun != 1 {
			t.Errorf("%d seats in use, %d sessions begun; want 1 and 1", u.InUse, b.begun)
		}
		b.end("c1")
		f.idle()
	})
}

// A minimal bot, in any language, answers ready and nothing else.
func TestMinimalBot(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		nc := f.broker.Connect(t)
		subj, _ := wire.ClaimRegion("eu-west")
		sub, err := nc.QueueSubscribe(subj, wire.IdleGroup, func(m *nats.Msg) {
			var req map[string]any
			if err := json.Unmarshal(m.Data, &req); err != nil {
				t.Error(err)
			}
			_ = m.Respond(fmt.Appendf(nil, `{"status":"ready","claim_id":%q,"bot_id":"tiny","media":{"url":"wss://tiny/x"}}`, req["claim_id"]))
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = sub.AutoUnsubscribe(1)
		a := f.asker(claim.AskerConfig{})
		got, err := a.Assign(t.Context(), call("c1"))
		if err != nil {
			t.Fatal(err)
		}
		if got.BotID != "tiny" || got.Media.URL != "wss://tiny/x" {
			t.Errorf("got %+v", got)
		}
	})
}
