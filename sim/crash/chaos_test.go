package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/call"
	"dibs/carrier/simcarrier"
)

// TestChaos puts many calls while backends, bots and the broker are killed and
// started again at random. Every call ends, no attempt is dialled twice, and
// nothing is left.
func TestChaos(t *testing.T) {
	calls, seed := 60, uint64(1)
	if os.Getenv("DIBS_CHAOS") == "long" {
		calls = 1000
	}
	if s := os.Getenv("DIBS_CHAOS_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		check(t, err)
		seed = n
	}
	t.Logf("%d calls, seed %d", calls, seed)
	rnd := rand.New(rand.NewPCG(seed, 7))
	const bots = 5
	w := newWorld(t, bots, simcarrier.Profile{
		Busy: 0.1, NoAnswer: 0.1, Fail: 0.05, GivesUp: 700 * time.Millisecond,
		Ring: simcarrier.Range{Min: 50 * time.Millisecond, Max: 300 * time.Millisecond},
		Talk: simcarrier.Range{Min: 200 * time.Millisecond, Max: 1200 * time.Millisecond},
	})
	w.backend.start()
	w.until("the backend is ready", w.ready)
	w.until("the bots are there", func() bool { return w.idle() == bots })

	stop := make(chan struct{})
	var wg sync.WaitGroup
	kills := map[string]int{}
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(1000+rnd.IntN(3000)) * time.Millisecond):
			}
			var p *process
			switch rnd.IntN(4) {
			case 0:
				p = w.natsP
			case 1, 2:
				p = w.backend
			default:
				p = w.bots[rnd.IntN(bots)]
			}
			p.kill()
			kind, _, _ := strings.Cut(p.name, "-")
			kills[kind]++
			<-time.After(time.Duration(rnd.IntN(1500)) * time.Millisecond) // how long it is gone
			p.start()
		}
	})
	ids := make([]string, calls)
	for i := range calls {
		ids[i] = w.put(fmt.Sprintf("k%d", i), number(i), fmt.Sprintf("%04d", i))
	}
	ended := func() (n int) {
		for _, id := range ids {
			if r, ok := w.record(id); ok && r.State.Terminal() {
				n++
			}
		}
		return n
	}
	// The killing goes on until most are through, then the rest must end in peace.
	w.untilIn("three quarters of the calls end", 10*time.Minute, func() bool { return ended() >= calls*3/4 })
	close(stop)
	wg.Wait()
	t.Logf("killed: %v", kills)
	w.untilIn("every call ends", 8*time.Minute, func() bool { return ended() == calls })

	outcomes := map[call.Outcome]int{}
	for i, id := range ids {
		r, _ := w.record(id)
		outcomes[r.Outcome()]++
		seen := map[string]int{}
		for _, c := range w.carrier.CallsTo(number(i)) {
			seen[c.Attempt]++
		}
		for attempt, n := range seen {
			if n > 1 {
				t.Errorf("%s: attempt %s was dialled %d times", id, attempt, n)
			}
		}
		if len(seen) > 1 {
			t.Errorf("%s: the phone rang for %d attempts: %v", id, len(seen), seen)
		}
	}
	t.Logf("outcomes: %v", outcomes)
	w.until("the backend is ready", w.ready)
	w.nothingLeft(bots)
}

func number(i int) string { return fmt.Sprintf("+4915200%06d", i) }
