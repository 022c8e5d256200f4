package pool_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dibs/pool"
	"dibs/wire"
)

var epoch = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func seats(t testing.TB, n int) *pool.Seats {
	t.Helper()
	s, err := pool.NewSeats(n, pool.Deadlines{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSeatsSize(t *testing.T) {
	for _, n := range []int{-1, 0, wire.MaxSeats + 1} {
		if _, err := pool.NewSeats(n, pool.Deadlines{}, epoch); err == nil {
			t.Errorf("%d seats were allowed", n)
		}
	}
}

func TestTakePrefers(t *testing.T) {
	s := seats(t, 3)
	if n, _, _ := s.Take(epoch, "a", "ca", 1); n != 1 {
		t.Errorf("took %d, want the preferred 1", n)
	}
	if n, _, _ := s.Take(epoch, "b", "cb", 1); n != 0 {
		t.Errorf("took %d, want the first idle 0", n)
	}
	if n, again, _ := s.Take(epoch, "a", "ca", 2); n != 1 || !again {
		t.Errorf("the same claim got seat %d again=%v, want 1 true", n, again)
	}
	s.Take(epoch, "c", "cc", -1)
	if _, _, ok := s.Take(epoch, "d", "cd", -1); ok {
		t.Error("took a fourth of three seats")
	}
}

func TestStuck(t *testing.T) {
	s := seats(t, 1)
	s.Take(epoch, "a", "ca", -1)
	s.Move(epoch, 0, "a", wire.SeatWarming)
	if v := s.View(epoch.Add(10 * time.Second))[0]; v.Stuck || v.ForMS != 10_000 {
		t.Errorf("at its deadline: %+v", v)
	}
	if v := s.View(epoch.Add(10*time.Second + 1))[0]; !v.Stuck {
		t.Errorf("past its deadline: %+v", v)
	}
}

// The seat table against a model: no seat in two claims, no move by a stranger,
// every watcher told of every change.
func TestSeatsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "seats")
		s, err := pool.NewSeats(n, pool.Deadlines{}, epoch)
		if err != nil {
			t.Fatal(err)
		}
		watch := s.Watch()
		type held struct {
			claim string
			state wire.SeatState
		}
		model := make([]held, n)
		for i := range model {
			model[i].state = wire.SeatIdle
		}
		after := map[wire.SeatState][]wire.SeatState{
			wire.SeatClaimed: {wire.SeatWarming, wire.SeatAssigned}, wire.SeatWarming: {wire.SeatAssigned},
			wire.SeatAssigned: {wire.SeatLive, wire.SeatWrapup}, wire.SeatLive: {wire.SeatWrapup},
		}
		now := epoch
		claims := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		told := func(want bool) {
			select {
			case <-watch:
				if !want {
					t.Fatal("told of no change")
				}
			default:
				if want {
					t.Fatal("not told of a change")
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				c := claims.Draw(t, "claim")
				seat, again, ok := s.Take(now, c, "call-"+c, rapid.IntRange(-1, n).Draw(t, "prefer"))
				had := slices.IndexFunc(model, func(h held) bool { return h.claim == c })
				free := slices.IndexFunc(model, func(h held) bool { return h.state == wire.SeatIdle })
				switch {
				case had >= 0:
					if seat != had || !again || !ok {
						t.Fatalf("claim %s has seat %d, got %d %v %v", c, had, seat, again, ok)
					}
					told(false)
				case free < 0:
					if ok {
						t.Fatalf("took seat %d of a full bot", seat)
					}
					told(false)
				default:
					if !ok || again || model[seat].state != wire.SeatIdle {
						t.Fatalf("took seat %d (%s), ok %v", seat, model[seat].state, ok)
					}
					model[seat] = held{c, wire.SeatClaimed}
					told(true)
				}
			},
			"move": func(t *rapid.T) {
				seat := rapid.IntRange(-1, n).Draw(t, "seat")
				c := claims.Draw(t, "claim")
				to := rapid.SampledFrom([]wire.SeatState{wire.SeatIdle, wire.SeatClaimed, wire.SeatWarming, wire.SeatAssigned, wire.SeatLive, wire.SeatWrapup, "nonsense"}).Draw(t, "to")
				got := s.Move(now, seat, c, to)
				want := seat >= 0 && seat < n && model[seat].claim == c && (to == wire.SeatIdle || slices.Contains(after[model[seat].state], to))
				if got != want {
					t.Fatalf("move %d of %s to %s: %v, want %v (model %v)", seat, c, to, got, want, model)
				}
				if want {
					model[seat].state = to
					if to == wire.SeatIdle {
						model[seat].claim = ""
					}
				}
				told(want)
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) {
				inUse := 0
				for i, v := range s.View(now) {
					if v.State != model[i].state {
						t.Fatalf("seat %d is %s, want %s", i, v.State, model[i].state)
					}
					if v.State != wire.SeatIdle {
						inUse++
						if state, ok := s.Holds(i, model[i].claim); !ok || state != v.State {
							t.Fatalf("claim %s holds %v %v", model[i].claim, state, ok)
						}
					}
				}
				if diff := cmp.Diff(wire.InUse{Total: n, InUse: inUse}, s.InUse()); diff != "" {
					t.Fatal(diff)
				}
			},
		})
	})
}
