package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dibs/call"
	"dibs/carrier/simcarrier"
)

// TestChaos puts many calls while backends, bots and the broker are killed and
// started again at random, and backends and bots stopped for a while. Every call ends, no
// attempt is dialled twice, nobody's phone rings twice, and nothing is left.
func TestChaos(t *testing.T) {
	t.Parallel()
	calls, bots, seed := 60, 5, uint64(1)
	if os.Getenv("DIBS_CHAOS") == "long" {
		calls, bots = 1000, 20
	}
	if s := os.Getenv("DIBS_CHAOS_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		check(t, err)
		seed = n
	}
	t.Logf("%d calls, seed %d (DIBS_CHAOS_SEED)", calls, seed)
	w := newWorld(t, bots, simcarrier.Profile{
		Busy: 0.1, NoAnswer: 0.1, Fail: 0.05, GivesUp: 700 * time.Millisecond,
		Ring: simcarrier.Range{Min: 50 * time.Millisecond, Max: 300 * time.Millisecond},
		Talk: simcarrier.Range{Min: 200 * time.Millisecond, Max: 1200 * time.Millisecond},
	})
	backends := w.pair()
	w.until("a backend is ready", w.ready)
	w.until("the bots are there", func() bool { return w.idle() == bots })

	havoc := newHavoc(w, backends, seed)
	ids := make([]string, calls)
	rnd := rand.New(rand.NewPCG(seed, 8))
	for i := range calls {
		havoc.pause(time.Duration(rnd.IntN(20_000/calls)+rnd.IntN(400)) * time.Millisecond)
		campaign := "" // somebody has just asked for it, and it waits 90 s for a bot at most
		if calls > 100 && i%4 != 0 {
			campaign = "spring"
		}
		ids[i] = w.put(fmt.Sprintf("k%d", i), number(i), fmt.Sprintf("%04d", i), campaign)
	}
	over := map[string]bool{}
	ended := func() int {
		for _, id := range ids {
			if r, ok := w.record(id); !over[id] && ok && r.State.Terminal() {
				over[id] = true
			}
		}
		return len(over)
	}
	// The killing goes on until most are through, then the rest must end in peace.
	w.untilIn("three quarters of the calls end", 30*time.Minute, func() bool { return ended() >= calls*3/4 })
	havoc.end()
	t.Logf("what was done: %v", havoc.done)
	w.untilIn("every call ends", 10*time.Minute, func() bool { return ended() == calls })

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
		if len(seen) == 0 && r.Outcome() != call.BotUnavailable {
			t.Errorf("%s: ended as %s (%s), and no phone rang", id, r.Outcome(), r.Reason)
		}
	}
	t.Logf("outcomes: %v", outcomes)
	w.until("a backend is ready", w.ready)
	w.nothingLeft(bots)
}

func number(i int) string { return fmt.Sprintf("+4915200%06d", i) }

// havoc kills and stops processes at random, one after another, until its end.
type havoc struct {
	done map[string]int
	stop chan struct{}
	wg   sync.WaitGroup
}

func newHavoc(w *world, backends []*process, seed uint64) *havoc {
	h := &havoc{done: map[string]int{}, stop: make(chan struct{})}
	rnd := rand.New(rand.NewPCG(seed, 7))
	ms := func(lo, hi int) time.Duration { return time.Duration(lo+rnd.IntN(hi-lo)) * time.Millisecond }
	h.wg.Go(func() {
		for h.pause(ms(300, 2500)) {
			var p *process
			switch rnd.IntN(6) {
			case 0:
				p = w.natsP
			case 1, 2, 3:
				p = backends[rnd.IntN(len(backends))]
			default:
				p = w.bots[rnd.IntN(len(w.bots))]
			}
			kind, _, _ := strings.Cut(p.name, "-")
			if kind != "nats" && rnd.IntN(3) == 0 {
				p.signal(syscall.SIGSTOP)
				h.pause(ms(500, 6000))
				p.signal(syscall.SIGCONT)
				h.done[kind+" stopped"]++
				continue
			}
			p.kill()
			h.pause(ms(1, 1500))
			p.start()
			h.done[kind+" killed"]++
		}
	})
	return h
}

// pause lets d pass; false: it is the end.
func (h *havoc) pause(d time.Duration) bool {
	select {
	case <-h.stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (h *havoc) end() {
	close(h.stop)
	h.wg.Wait()
}
