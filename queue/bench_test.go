package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/internal/natstest"
)

func benchLine(b *testing.B) (*Line, jetstream.JetStream) {
	broker := natstest.StartWith(b, natstest.Options{Listen: true})
	js := broker.JetStream(b)
	return openLine(b, js, Config{Timeout: 30 * time.Second}), js
}

// One put at a time through the library, against the same publish on the same
// stream without it, in turn.
func BenchmarkPut(b *testing.B) {
	l, js := benchLine(b)
	order := bytes.Repeat([]byte("x"), 400)
	var ours, raw []time.Duration
	i := 0
	for b.Loop() {
		i++
		start := time.Now()
		if _, err := l.Put(b.Context(), Key{"eu-west", "api", "acme", fmt.Sprintf("a%d", i)}, order); err != nil {
			b.Fatal(err)
		}
		mid := time.Now()
		if _, err := js.Publish(b.Context(), fmt.Sprintf("dibs.v1.line.eu-west.api.acme.b%d", i), order); err != nil {
			b.Fatal(err)
		}
		ours, raw = append(ours, mid.Sub(start)), append(raw, time.Since(mid))
	}
	b.ReportMetric(float64(median(ours))/float64(median(raw)), "×raw")
	b.ReportMetric(float64(median(ours).Microseconds()), "µs/put-p50")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

const crowd = 100_000

// fill puts n orders of about 400 bytes in line, many at a time.
func fill(b *testing.B, js jetstream.JetStream, n int) {
	for i := range n {
		k := Key{"eu-west", "campaign", fmt.Sprintf("org%d", i%200), fmt.Sprintf("call_01J8XYZ%08d", i)}
		subj, _ := k.Subject()
		if _, err := js.PublishAsync(subj, fmt.Appendf(nil, `{"v":1,"call_id":%q,"metadata":{"x":%q}}`, k.Call, bytes.Repeat([]byte("m"), 340))); err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		b.Fatal("the line is not full after a minute")
	}
}

// Taking office with 100,000 calls in line, to the last one handed over.
func BenchmarkTakeOffice(b *testing.B) {
	l, js := benchLine(b)
	fill(b, js, crowd)
	var items []*Item
	var perItem float64
	for b.Loop() {
		b.StopTimer()
		items = nil
		before := heap()
		b.StartTimer()
		o, err := l.TakeOffice(b.Context(), "bench")
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		if err := o.Run(ctx, func(batch []*Item, behind uint64) {
			items = append(items, batch...)
			if behind == 0 {
				stop()
			}
		}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if len(items) != crowd {
			b.Fatalf("read %d, want %d", len(items), crowd)
		}
		for _, it := range items {
			it.Order = nil
		}
		perItem = float64(heap()-before) / crowd
		b.StartTimer()
	}
	runtime.KeepAlive(items)
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/office")
	b.ReportMetric(perItem, "B/item-and-server")
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Cancelling one of 100,000.
func BenchmarkCancel(b *testing.B) {
	l, js := benchLine(b)
	fill(b, js, crowd)
	i := 0
	for b.Loop() {
		k := Key{"eu-west", "campaign", fmt.Sprintf("org%d", i%200), fmt.Sprintf("call_01J8XYZ%08d", i)}
		if _, err := l.Cancel(b.Context(), k); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// Finding one of 100,000 by its id alone, and finding that one is not there.
func BenchmarkFind(b *testing.B) {
	l, js := benchLine(b)
	fill(b, js, crowd)
	for _, id := range []string{fmt.Sprintf("call_01J8XYZ%08d", crowd-7), "nobody"} {
		b.Run(id, func(b *testing.B) {
			for b.Loop() {
				if _, err := l.Find(b.Context(), id); err != nil && !errors.Is(err, ErrNotFound) {
					b.Fatal(err)
				}
			}
		})
	}
}
