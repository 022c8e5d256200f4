package crash

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/call"
	"dibs/carrier/simcarrier"
)

// A bot's process is stopped in the middle of a call: its media socket stays open, so
// nobody tells the carrier. The caller hears another bot all the same, and the first
// one, when it goes on, is idle.
func TestFrozenBot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, simcarrier.Profile{Ring: simcarrier.Range{Min: 20 * time.Millisecond}, Talk: simcarrier.Range{Min: 5 * time.Minute}})
	w.backend.start()
	w.until("a backend is ready", w.ready)
	w.until("the bots are there", func() bool { return w.idle() == 2 })
	to := number(1)
	id := w.put("k1", to, "4711", "")
	heard := func(nth int) func() bool {
		return func() bool {
			calls := w.carrier.CallsTo(to)
			return len(calls) == 1 && len(calls[0].Streams) > nth && calls[0].Streams[nth].Heard.Tag == "4711"
		}
	}
	w.until("the first bot is heard", heard(0))
	var first string
	w.until("it is live", func() bool {
		r, ok := w.record(id)
		if ok && r.State == call.Live {
			first, _, _ = strings.Cut(r.Last().Bot, "_")
		}
		return first != ""
	})
	i := slices.IndexFunc(w.bots, func(p *process) bool { return p.name == first })
	if i < 0 {
		t.Fatalf("the bot is %q", first)
	}
	w.bots[i].signal(syscall.SIGSTOP)
	begun := time.Now()
	w.until("another bot is heard", heard(1))
	t.Logf("another bot after %v", time.Since(begun))
	if r, _ := w.record(id); strings.HasPrefix(r.Last().Bot, first+"_") {
		t.Errorf("the record names %s still", r.Last().Bot)
	}
	w.bots[i].signal(syscall.SIGCONT)
	w.carrier.Hangup(w.carrier.CallsTo(to)[0].SID)
	w.until("it ends", func() bool {
		r, ok := w.record(id)
		return ok && r.State.Terminal()
	})
	if r, _ := w.record(id); r.Outcome() != call.Completed {
		t.Errorf("ended as %s (%s)", r.Outcome(), r.Reason)
	}
	w.nothingLeft(2)
}
