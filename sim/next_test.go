package sim

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/call"
	"dibs/dispatch"
	"dibs/wire"
)

// The carrier's question how to go on is heard by an office that dies with it: it is
// put again, the next office hears it, and the caller hears another bot.
func TestQuestionLostWithTheOffice(t *testing.T) {
	inWorld(t, talks(40*time.Second), func(w *world) {
		w.until("the first is in office", w.inOffice)
		w.addNode("two")
		w.addBots(2)
		to := w.put("c1")
		w.until("it is live", w.state("c1", call.Live))
		one, bot := w.nodes[0], w.busy("c1")
		w.askNext = sync.OnceFunc(func() {
			w.nodes = w.nodes[1:]
			one.link.Freeze()
		})
		begun := time.Now()
		w.kill(bot)
		w.until("another bot is heard", func() bool {
			s := w.carrier.CallsTo(to)[0].Streams
			return len(s) == 2 && s[1].Heard.Sound
		})
		w.t.Logf("another bot after %v", time.Since(begun))
		w.until("it ends", w.ended("c1"))
		w.wantEnd("c1", call.Completed, 1)
		one.link.Thaw()
		w.nothingLeft()
	})
}

// The claim of another bot takes longer than it takes until the carrier's question is
// put again: it is one question, and one claim.
func TestQuestionPutAgain(t *testing.T) {
	inWorld(t, talks(40*time.Second), func(w *world) {
		w.addBots(2, slow(3300*time.Millisecond))
		to := w.put("c1")
		w.until("it is live", w.state("c1", call.Live))
		asked := 0
		w.onTell(func(h dispatch.Happening) {
			if h.Type == "call.rescued" {
				asked++
			}
		})
		subj, err := wire.Desk("call.next")
		check(w.t, err)
		questions, err := w.nc.SubscribeSync(subj)
		check(w.t, err)
		w.kill(w.busy("c1"))
		w.until("another bot is heard", func() bool {
			s := w.carrier.CallsTo(to)[0].Streams
			return len(s) == 2 && s[1].Heard.Sound
		})
		q, err := questions.NextMsg(time.Second)
		check(w.t, err)
		late, err := w.nc.Request(subj, q.Data, 5*time.Second) // one that was under way all the time
		check(w.t, err)
		if url := w.carrier.CallsTo(to)[0].Streams[1].URL; !strings.Contains(string(late.Data), strings.TrimSuffix(url, "…")) {
			w.t.Errorf("put again later: %s, want what was answered first, %s", late.Data, url)
		}
		w.until("it ends", w.ended("c1"))
		r := w.wantEnd("c1", call.Completed, 1)
		if n := len(w.carrier.CallsTo(to)[0].Streams); n != 2 || asked != 1 {
			w.t.Errorf("rescued %d times, %d streams: %s\n%s", asked, n, r.State, w.story())
		}
		if types := w.types("c1"); slices.Contains(types, "call.claim_refused") {
			w.t.Errorf("a second claim: %v", types)
		}
		w.nothingLeft()
	})
}
