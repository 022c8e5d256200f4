package claim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"dibs/claim"
	"dibs/internal/natstest"
	"dibs/wire"
)

// Random histories: bots with slow, failing and quick warm-ups, callers that give
// up at random moments, calls that end. Whatever happened, no seat is in two
// calls, and at the end every seat is idle.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) { history(t, seed) })
		})
	}
}

func history(t *testing.T, seed uint64) {
	f := newFleet(t)
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 1)) // shared: the order of draws is not fixed, the numbers are
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rnd.IntN(n)
	}
	warm := func(ctx context.Context, req wire.ClaimRequest) (wire.Reply, error) {
		select {
		case <-time.After(time.Duration(draw(400)) * time.Millisecond):
		case <-ctx.Done():
			return wire.Reply{}, context.Cause(ctx)
		}
		if draw(10) == 0 {
			return wire.Reply{}, &claim.Failure{Code: "provider_closed"}
		}
		return ready(req), nil
	}
	byID := map[string]*testBot{}
	for range 5 {
		b := f.bot(1+draw(3), warm)
		byID[b.id] = b
	}
	a := f.asker(claim.AskerConfig{})
	live := map[string]string{} // bot and seat → call, as the callers see it
	var assigned, refused, cancelled int
	var wg sync.WaitGroup
	for caller := range 12 {
		wg.Go(func() {
			for i := range 15 {
				id := fmt.Sprintf("c%d-%d", caller, i)
				patience := time.Duration(50+draw(2000)) * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				got, err := a.Assign(ctx, call(id))
				cancel()
				_, isRefused := errors.AsType[*claim.Refused](err)
				mu.Lock()
				switch {
				case err == nil:
					assigned++
					place := fmt.Sprint(got.BotID, " ", got.Seat)
					if had := live[place]; had != "" {
						t.Errorf("seat %s given to %s while %s has it", place, id, had)
					}
					live[place] = id
				case isRefused:
					refused++
				default:
					cancelled++
				}
				mu.Unlock()
				if err != nil {
					time.Sleep(time.Duration(draw(200)) * time.Millisecond)
					continue
				}
				time.Sleep(time.Duration(draw(600)) * time.Millisecond)
				mu.Lock()
				delete(live, fmt.Sprint(got.BotID, " ", got.Seat))
				mu.Unlock()
				byID[got.BotID].end(id)
			}
		})
	}
	wg.Wait()
	time.Sleep(11 * time.Second) // the longest window
	f.idle()
	if assigned+refused+cancelled != 12*15 || assigned == 0 {
		t.Errorf("%d assigned, %d refused, %d cancelled", assigned, refused, cancelled)
	}
}
