package inbound

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/api"
	"dibs/bot"
)

func p95ms(ds []time.Duration) float64 {
	slices.Sort(ds)
	return float64(ds[min(len(ds)-1, len(ds)*95/100)].Microseconds()) / 1000
}

// BenchmarkInbound is the carrier's view of a call that comes in: from its webhook to
// the instruction that leads to a bot, 50 at once; and, for comparison, to the refusal
// of a call to a number that is not ours, which needs neither bot nor record.
func BenchmarkInbound(b *testing.B) {
	const atOnce = 50
	w := newWorld(b, 1)
	w.line(func(n *api.Number) { n.Greeting, n.Metadata = api.Greeting{}, nil }) // nothing to warm up
	for range 5 {
		w.addBot(func(c *bot.Config) { c.Seats, c.Talk = 2*atOnce/5, nil })
	}
	w.until("the bots are there", w.idle(2*atOnce))
	var took, refused []time.Duration
	n := 0
	for b.Loop() {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range atOnce {
			n++
			form := voiceForm(fmt.Sprintf("CA%032x", n), caller)
			wg.Go(func() {
				begun := time.Now()
				status, body := w.ask(w.base, api.InboundPath("twilio"), form)
				d := time.Since(begun)
				if status != 200 || !strings.Contains(body, "<Stream") {
					b.Errorf("%d %s", status, body)
				}
				form.Set("To", "+4930000000")
				form.Set("CallSid", strings.Replace(form.Get("CallSid"), "CA0", "CAf", 1))
				begun = time.Now()
				w.ask(w.base, api.InboundPath("twilio"), form)
				r := time.Since(begun)
				mu.Lock()
				defer mu.Unlock()
				took, refused = append(took, d), append(refused, r)
			})
		}
		wg.Wait()
		for i := n - atOnce + 1; i <= n; i++ { // they hang up; seats are free again
			end := voiceForm(fmt.Sprintf("CA%032x", i), caller)
			end.Set("CallStatus", "completed")
			w.ask(w.base, api.InboundPath("twilio")+"/status", end)
		}
		w.until("the seats are idle", w.idle(2*atOnce))
	}
	b.ReportMetric(p95ms(took), "twiml_p95_ms")
	b.ReportMetric(p95ms(refused), "refused_p95_ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRescue is how long a caller hears nothing when the bot dies: from the cut
// of all its connections to the first sound of the next one's greeting.
func BenchmarkRescue(b *testing.B) {
	w := newWorld(b, 1)
	w.line()
	var silence []time.Duration
	w.addBot()
	for b.Loop() {
		w.addBot()
		w.until("a bot is free", func() bool { page, err := w.api.Bots(b.Context(), "", ""); return err == nil && page.Counts.Idle >= 1 })
		sid := w.callIn(caller, time.Minute)
		w.heard(sid, 0)
		who, _ := w.talking()
		w.until("another bot is free", func() bool { page, err := w.api.Bots(b.Context(), "", ""); return err == nil && page.Counts.Idle >= 1 })
		killed := time.Now()
		who.kill()
		w.heard(sid, 1)
		s := w.sim(sid).Streams[1]
		silence = append(silence, s.Opened.Add(s.Heard.FirstAudio).Sub(killed))
		w.carrier.Hangup(sid)
		w.talking()
	}
	b.ReportMetric(p95ms(silence), "silence_p95_ms")
	b.ReportMetric(0, "ns/op")
}
