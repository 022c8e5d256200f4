package claim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/claim"
	"dibs/internal/natstest"
)

// A full claim (accepted, ready, confirm, ack; nothing to warm up) next to a raw
// NATS request-reply on the same server, in turn.
func BenchmarkAssign(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n, " idle bots"), func(b *testing.B) {
			broker := natstest.StartWith(b, natstest.Options{Listen: true})
			var conns []*nats.Conn
			for range 10 {
				conns = append(conns, broker.Connect(b))
			}
			bots := map[string]*testBot{}
			for i := range n {
				t := startBot(b, conns[i%10], fmt.Sprintf("bot-%d", i), 1, nil)
				bots[t.id] = t
				if _, err := conns[i%10].QueueSubscribe("raw", "idle", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
					b.Fatal(err)
				}
			}
			nc := broker.Connect(b)
			a, err := claim.New(nc, claim.AskerConfig{})
			if err != nil {
				b.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
			var raws, claims []time.Duration
			body := make([]byte, 300)
			i := 0
			for b.Loop() {
				i++
				begun := time.Now()
				if _, err := nc.RequestWithContext(b.Context(), "raw", body); err != nil {
					b.Fatal(err)
				}
				raws = append(raws, time.Since(begun))
				id := fmt.Sprintf("c%d", i)
				begun = time.Now()
				got, err := a.Assign(b.Context(), call(id))
				if err != nil {
					b.Fatal(err)
				}
				claims = append(claims, time.Since(begun))
				bots[got.BotID].end(id)
			}
			p50 := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)/2].Microseconds())
			}
			b.ReportMetric(p50(raws), "raw_p50_us")
			b.ReportMetric(p50(claims), "claim_p50_us")
			b.ReportMetric(p50(claims)/p50(raws), "ratio")
		})
	}
}
