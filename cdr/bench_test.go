package cdr

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
	"dibs/internal/natstest"
)

func benchStore(b *testing.B) *Store {
	js := natstest.StartWith(b, natstest.Options{Listen: true}).JetStream(b)
	s, err := Open(b.Context(), js, Config{Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

const crowd = 100_000

func crowdIDs(prefix string) []string {
	ids := make([]string, crowd)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s_01J8XYZ%08d", prefix, i)
	}
	return ids
}

// One update at a time beside 100,000 other records, against the plain update of a
// key-value client, in turn.
func BenchmarkUpdate(b *testing.B) {
	s := benchStore(b)
	bulk(b, s, crowdIDs("other"))
	kv, err := s.bucket.js.CreateKeyValue(b.Context(), jetstream.KeyValueConfig{Bucket: "raw", Storage: jetstream.FileStorage})
	if err != nil {
		b.Fatal(err)
	}
	r := fresh("c1")
	rev := create(b, s, r)
	raw, err := kv.Create(b.Context(), "c1", []byte("x"))
	if err != nil {
		b.Fatal(err)
	}
	var ours, plain []time.Duration
	for b.Loop() {
		r.Changes++
		value := []byte(mustJSON(b, r))
		start := time.Now()
		rev = update(b, s, r, rev)
		mid := time.Now()
		if raw, err = kv.Update(b.Context(), "c1", value, raw); err != nil {
			b.Fatal(err)
		}
		ours, plain = append(ours, mid.Sub(start)), append(plain, time.Since(mid))
	}
	b.ReportMetric(float64(median(ours))/float64(median(plain)), "×plain")
	b.ReportMetric(float64(median(ours).Microseconds()), "µs/update-p50")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// Reading 100,000 open records, alone and beside 200,000 done ones.
func BenchmarkLoad(b *testing.B) {
	for _, done := range []int{0, 2 * crowd} {
		b.Run(fmt.Sprintf("done=%d", done), func(b *testing.B) {
			s := benchStore(b)
			bulk(b, s, crowdIDs("open"))
			value := mustJSON(b, ended(fresh("CALL")))
			for i := range done {
				id := fmt.Sprintf("done%d", i)
				if _, err := s.bucket.js.PublishAsync(s.bucket.subject(keyDone+id), []byte(strings.Replace(value, "CALL", id, 1))); err != nil {
					b.Fatal(err)
				}
			}
			<-s.bucket.js.PublishAsyncComplete()
			for b.Loop() {
				l, err := s.Load(b.Context(), time.Time{}, func(call.Record, Rev) {})
				if err != nil || l.Open != crowd {
					b.Fatalf("%+v, %v", l, err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/load")
		})
	}
}
