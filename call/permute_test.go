package call

import (
	"fmt"
	"testing"
	"time"
)

// Every order in which a carrier's words about one call may come, each word twice,
// or not at all, leads to the same end and frees the slot once.
func TestEveryOrderOfStatuses(t *testing.T) {
	for _, words := range [][]string{
		{"initiated", "ringing", "in_progress", "completed"},
		{"initiated", "ringing", "busy"},
		{"initiated", "ringing", "no_answer"},
		{"queued", "failed"},
		{"initiated", "ringing", "canceled"},
	} {
		end := words[len(words)-1]
		for missing := range 1 << (len(words) - 1) { // the end itself always comes, some day
			counts := make([]int, len(words))
			for i := range words {
				if missing&(1<<i) == 0 {
					counts[i] = 2
				}
			}
			t.Run(fmt.Sprintf("%s without %04b", end, missing), func(t *testing.T) {
				start := dialled(t)
				outcomes, orders := map[State]int{}, 0
				var try func(r Record, releases int)
				try = func(r Record, releases int) {
					done := true
					for i, n := range counts {
						if n == 0 {
							continue
						}
						done = false
						counts[i]--
						ev, ok := StatusEvent(words[i])
						if !ok {
							t.Fatalf("%q is no status", words[i])
						}
						ev.Attempt, ev.CarrierID = "c-1", "CA1"
						next, effects := Apply(r, ev, start.UpdatedAt.Add(time.Second))
						freed := 0
						for _, e := range effects {
							if e.Act == Release {
								freed++
							}
						}
						try(next, releases+freed)
						counts[i]++
					}
					if done {
						orders++
						outcomes[r.State]++
						if releases != 1 {
							t.Errorf("released %d times", releases)
						}
						if err := r.Check(); err != nil {
							t.Error(err)
						}
					}
				}
				try(start, 0)
				if len(outcomes) != 1 || orders == 0 {
					t.Errorf("%d orders end as %v, want one end", orders, outcomes)
				}
			})
		}
	}
}

func dialled(t *testing.T) Record {
	t.Helper()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	r := New(Order{V: Version, CallID: "c", Org: "acme", Class: ClassAPI, Region: "eu", From: "+493012345678", To: "+4915112345678"}, now)
	for _, ev := range []Event{{Kind: EvAdmitted}, {Kind: EvBot, Bot: "b1"}, {Kind: EvIntent}} {
		r, _ = Apply(r, ev, now)
	}
	if r.State != Dialing {
		t.Fatalf("state %s", r.State)
	}
	return r
}
