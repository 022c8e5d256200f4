package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/claim"
	"dibs/wire"
)

func request(id string) claim.Request {
	return claim.Request{CallID: id, Region: region, Pool: lane, Class: "api", From: "+15005550006", To: "+4915112345678"}
}

// busyReplies is how often a call is answered busy although a seat is idle: 45
// calls at once on 50 bots, on one server and on three, and next to it bots that
// stay in the group while they are busy.
func busyReplies(ctx context.Context) (rows []Row, err error) {
	for _, n := range []int{1, 3} {
		offers, err := busyAt(ctx, n, true)
		if err != nil {
			return rows, err
		}
		stay, err := busyAt(ctx, n, false)
		if err != nil {
			return rows, err
		}
		name := map[int]string{1: "one server", 3: "three servers"}[n]
		r := Row{Name: "busy replies a claim, " + name, Value: offers, Unit: "replies"}
		holds := offers <= 0.01
		r.Bar, r.Holds = "value <= 0.01", &holds
		rows = append(rows, r.against("bots that stay in the group", stay))
	}
	return rows, nil
}

func busyAt(ctx context.Context, servers int, offers bool) (float64, error) {
	const bots, callers, each = 50, 45, 60
	urls, stop, err := nodes(ctx, servers)
	defer stop()
	if err != nil {
		return 0, err
	}
	var f *fleet
	var ends func(bot, call string) error
	if offers {
		f, err = newFleet(ctx, urls, bots, 1, bots)
		ends = func(bot, call string) error { return f.bots[bot].end(call) }
	} else {
		f, ends, err = stayers(urls, bots)
	}
	defer f.stop()
	if err != nil {
		return 0, err
	}
	var busy, claims atomic.Int64
	err = callersOf(ctx, urls, callers, each, 20*time.Millisecond, func(a *claim.Asker, call string) (string, error) {
		got, err := a.Assign(ctx, request(call))
		if err != nil {
			if _, refused := errors.AsType[*claim.Refused](err); !refused {
				return "", err
			}
		}
		claims.Add(1)
		attempts := []claim.Attempt(nil)
		if r, ok := errors.AsType[*claim.Refused](err); ok {
			attempts = r.Attempts
		} else {
			attempts = got.Attempts
		}
		for _, at := range attempts {
			if at.Answer == string(wire.Busy) {
				busy.Add(1)
			}
		}
		if got == nil {
			return "", nil
		}
		return got.BotID, nil
	}, ends)
	return float64(busy.Load()) / float64(claims.Load()), err
}

// callersOf runs callers beside each other, each with calls one after another that
// last about hold.
func callersOf(ctx context.Context, urls []string, callers, each int, hold time.Duration, assign func(*claim.Asker, string) (string, error), end func(bot, call string) error) error {
	errs := make(chan error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		nc, err := nats.Connect(urls[c%len(urls)])
		if err != nil {
			return err
		}
		defer nc.Close()
		asker, err := claim.New(nc, claim.AskerConfig{})
		if err != nil {
			return err
		}
		wg.Go(func() {
			for i := range each {
				call := fmt.Sprintf("c%d-%d", c, i)
				bot, err := assign(asker, call)
				if err != nil {
					errs <- err
					return
				}
				if hold > 0 {
					time.Sleep(hold + rand.N(hold))
				}
				if bot == "" {
					continue
				}
				if err := end(bot, call); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// stayers are bots as most people write them: members for as long as they live,
// who answer busy when they are.
func stayers(urls []string, n int) (*fleet, func(bot, call string) error, error) {
	f := &fleet{bots: map[string]*benchBot{}, cancel: func() {}}
	taken := make([]atomic.Bool, n)
	index := map[string]int{}
	subject, err := wire.ClaimPool(region, lane)
	if err != nil {
		return f, nil, err
	}
	for i := range n {
		nc, err := nats.Connect(urls[i%len(urls)])
		if err != nil {
			return f, nil, err
		}
		f.conns = append(f.conns, nc)
		id := fmt.Sprintf("bot-%d", i)
		index[id] = i
		_, err = nc.QueueSubscribe(subject, wire.IdleGroup, func(m *nats.Msg) {
			var req struct {
				ClaimID string `json:"claim_id"`
			}
			_ = json.Unmarshal(m.Data, &req)
			r := wire.Reply{V: 1, Status: wire.Busy, ClaimID: req.ClaimID, BotID: id}
			if taken[i].CompareAndSwap(false, true) {
				r.Status, r.Media = wire.Ready, wire.Media{URL: "wss://bot.example/x"}
			}
			if data, err := wire.Encode(r); err == nil {
				_ = m.Respond(data)
			}
		})
		if err != nil {
			return f, nil, err
		}
	}
	return f, func(bot, _ string) error { taken[index[bot]].Store(false); return nil }, f.settle()
}

// hundredThousand is 100,000 claims at 90 % load: 90 callers on 100 seats. There is
// always an idle seat, so every refusal is a false one.
func hundredThousand(ctx context.Context) ([]Row, error) {
	const callers, each = 90, 1112
	urls, stop, err := nodes(ctx, 1)
	defer stop()
	if err != nil {
		return nil, err
	}
	f, err := newFleet(ctx, urls, 50, 2, 50)
	defer f.stop()
	if err != nil {
		return nil, err
	}
	var refused, claims atomic.Int64
	begun := time.Now()
	// Calls of 10 to 20 ms: shorter ones measure how long a seat needs to be offered
	// again (with 1 ms, 3 of 100,000 met nobody in that moment).
	err = callersOf(ctx, urls, callers, each, 10*time.Millisecond, func(a *claim.Asker, call string) (string, error) {
		got, err := a.Assign(ctx, request(call))
		claims.Add(1)
		if _, ok := errors.AsType[*claim.Refused](err); ok {
			refused.Add(1)
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return got.BotID, nil
	}, func(bot, call string) error { return f.bots[bot].end(call) })
	if err != nil {
		return nil, err
	}
	took := time.Since(begun)
	time.Sleep(1500 * time.Millisecond) // what was withdrawn is idle within a second
	held, doubles := f.left()
	zero := func(name string, n int) Row { return Row{Name: name, Value: float64(n), Unit: "of 100k"}.atMost(0) }
	return []Row{
		{Name: "claims at 90 % load, 90 callers", Value: float64(claims.Load()) / took.Seconds(), Unit: "claims/s"},
		zero("false nobody at 90 % load", int(refused.Load())),
		zero("seats in two calls", doubles),
		zero("seats left held", held),
	}, nil
}
