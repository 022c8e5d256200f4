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

// block is how many of one kind are measured before the other kind's turn: what
// a claim leaves to be done after it must not fall into the other's time.
const block = 25

// rest is how long everybody waits before each of either: calls come one by one
// and not as a loop does, in which nobody ever has to be woken.
const rest = 500 * time.Microsecond

// A full claim (accepted, ready, confirm, ack; nothing to warm up) next to a raw
// NATS request-reply to as many members on the same server, by sockets. Before each
// of either the server is quiet: the seat before has been offered again.
func BenchmarkAssign(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n, " idle bots"), func(b *testing.B) {
			f := newBenchFleet(b, n)
			var raws, claims []time.Duration
			for b.Loop() {
				for range block {
					raws = append(raws, f.raw())
				}
				for range block {
					claims = append(claims, f.claim())
				}
			}
			p50 := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)/2]) / float64(time.Microsecond)
			}
			b.ReportMetric(p50(raws), "raw_p50_us")
			b.ReportMetric(p50(claims), "claim_p50_us")
			b.ReportMetric(p50(claims)/p50(raws), "ratio")
			b.ReportMetric(0, "ns/op") // a block with its waiting: says nothing
		})
	}
}

// benchFleet is n idle bots and n members of a raw queue group, on ten
// connections, and an asker on one of its own.
type benchFleet struct {
	b     *testing.B
	conns []*nats.Conn
	subs  []int // of each connection, when every seat is offered
	bots  map[string]int
	all   []*testBot
	nc    *nats.Conn
	asker *claim.Asker
	body  []byte
	calls int
}

func newBenchFleet(b *testing.B, n int) *benchFleet {
	broker := natstest.StartWith(b, natstest.Options{Listen: true})
	connect := func() *nats.Conn { // by a socket, as in life
		nc, err := nats.Connect(broker.URL())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nc.Close)
		return nc
	}
	f := &benchFleet{b: b, bots: map[string]int{}, nc: connect(), body: make([]byte, 300), subs: make([]int, 10)}
	for range f.subs {
		f.conns = append(f.conns, connect())
	}
	for i := range n {
		nc := f.conns[i%len(f.conns)]
		t := startBot(b, nc, fmt.Sprintf("bot-%d", i), 1, nil)
		f.bots[t.id], f.all = i, append(f.all, t)
		if _, err := nc.QueueSubscribe("raw", "idle", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
			b.Fatal(err)
		}
		f.subs[i%len(f.subs)] += 5 // two offers, its own subject, the inbox for controls, raw
	}
	for i := range f.conns {
		f.quiet(i)
	}
	a, err := claim.New(f.nc, claim.AskerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	f.asker = a
	return f
}

// quiet waits until every seat of a connection is offered, and the server has
// nothing of it and of the asker left to do.
func (f *benchFleet) quiet(conn int) {
	nc := f.conns[conn]
	for deadline := time.Now().Add(time.Minute); nc.NumSubscriptions() != f.subs[conn]; <-time.After(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			f.b.Fatalf("connection %d has %d subscriptions, want %d", conn, nc.NumSubscriptions(), f.subs[conn])
		}
	}
	for _, nc := range []*nats.Conn{nc, f.nc} {
		if err := nc.Flush(); err != nil {
			f.b.Fatal(err)
		}
	}
	<-time.After(rest)
}

func (f *benchFleet) raw() time.Duration {
	f.quiet(f.calls % len(f.conns))
	begun := time.Now()
	if _, err := f.nc.RequestWithContext(f.b.Context(), "raw", f.body); err != nil {
		f.b.Fatal(err)
	}
	return time.Since(begun)
}

func (f *benchFleet) claim() time.Duration {
	f.calls++
	id := fmt.Sprint("c", f.calls)
	begun := time.Now()
	got, err := f.asker.Assign(f.b.Context(), call(id))
	if err != nil {
		f.b.Fatal(err)
	}
	took := time.Since(begun)
	i := f.bots[got.BotID]
	f.all[i].end(id)
	f.quiet(i % len(f.conns))
	return took
}
