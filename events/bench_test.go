package events

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"dibs/internal/natstest"
)

var sample = json.RawMessage(`{"state":"ringing","was":"dialing","attempt":"call_01J8XYZ-1","to":"+49151•••78","carrier_id":"CA0123456789abcdef0123456789abcdef"}`)

// What a call path pays for telling.
func BenchmarkEmit(b *testing.B) {
	l := openLog(b, natstest.StartWith(b, natstest.Options{Listen: true}).JetStream(b), Config{Buffer: maxBuffer})
	stop := run(b, l)
	start := time.Now()
	i := 0
	for b.Loop() {
		i++
		l.Emit(Event{Type: CallRinging, Subject: fmt.Sprintf("call_%d", i/15), Data: sample})
	}
	spent := time.Since(start)
	for l.Stats().Waiting > 0 { // the rest is stored meanwhile
		<-time.After(10 * time.Millisecond)
	}
	stop()
	s := l.Stats()
	b.ReportMetric(float64(s.Published)/time.Since(start).Seconds(), "stored/s")
	b.ReportMetric(100*float64(s.Dropped)/float64(s.Emitted), "%dropped")
	b.ReportMetric(float64(spent.Nanoseconds())/float64(i), "ns/emit")
}

// Reading one call's timeline out of 300,000 events, with the moment when it began
// and without.
func BenchmarkTimeline(b *testing.B) {
	l := openLog(b, natstest.StartWith(b, natstest.Options{Listen: true}).JetStream(b), Config{Timeout: time.Minute})
	const calls, each = 20_000, 15
	var began time.Time
	for i := range calls * each {
		if i == (calls-100)*each {
			<-l.js.PublishAsyncComplete()
			began = time.Now()
		}
		e := l.complete(Event{Type: CallRinging, Subject: fmt.Sprintf("call_%d", i/each), Data: sample})
		if _, err := l.js.PublishMsgAsync(e.message()); err != nil {
			b.Fatal(err)
		}
	}
	<-l.js.PublishAsyncComplete()
	for name, from := range map[string]time.Time{"from=its begin": began, "from=ever": {}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				got, err := l.Timeline(b.Context(), fmt.Sprintf("call_%d", calls-50), from, 0)
				if err != nil || len(got) != each {
					b.Fatalf("%d events, %v", len(got), err)
				}
			}
		})
	}
}
