package crash

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"dibs/carrier/simcarrier"
	"dibs/carrier/twilio"
	"dibs/cdr"
	"dibs/claim"
	"dibs/dispatch"
	"dibs/internal/leader"
	"dibs/pool"
	"dibs/queue"
)

// BenchmarkWaiting is what a dispatcher keeps of 100,000 calls that wait, and how long
// it takes until it knows them all. NATS is another process, the dispatcher this one.
func BenchmarkWaiting(b *testing.B) {
	const queued = 100_000
	w := newWorld(b, 0, simcarrier.Profile{})
	fill(b, w, queued)
	var read time.Duration
	var each float64
	for b.Loop() {
		before := heap()
		begun := time.Now()
		stop := w.dispatcher(b)
		desk := &dispatch.Desk{NC: w.nc, Line: w.line, Records: w.records}
		w.until("all calls are known", func() bool {
			ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
			defer cancel()
			_, err := desk.Why(ctx, "call_01J8XYZ00099999")
			return err == nil
		})
		read = time.Since(begun)
		each = float64(heap()-before) / queued
		stop()
	}
	b.ReportMetric(read.Seconds(), "read_s")
	b.ReportMetric(each, "B/call")
}

// dispatcher runs one in this process.
func (w *world) dispatcher(b *testing.B) (stop func()) {
	js, err := jetstream.New(w.nc)
	check(b, err)
	tw, err := twilio.New(twilio.Config{AccountSID: simcarrier.AccountSID, AuthToken: simcarrier.AuthToken, BaseURL: w.sim, PublicURL: w.sim, Insecure: true})
	check(b, err)
	asker, err := claim.New(w.nc, claim.AskerConfig{})
	check(b, err)
	line, err := queue.Open(b.Context(), js, queue.Config{})
	check(b, err)
	records, err := cdr.Open(b.Context(), js, cdr.Config{})
	check(b, err)
	lead, err := leader.New(js, leader.Config{Key: "dispatch", ID: "bench"})
	check(b, err)
	d, err := dispatch.New(dispatch.Config{
		NC: w.nc, Leader: lead, Line: line, Records: records, Roster: pool.NewRoster(), Asker: asker, Carrier: tw, ID: "bench", PublicURL: w.sim, Log: zerolog.Nop(),
	})
	check(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return func() {
		cancel()
		<-done
		_ = asker.Close()
	}
}

// heap is what is alive.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
