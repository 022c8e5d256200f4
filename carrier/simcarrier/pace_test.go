package simcarrier_test

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"dibs/carrier/simcarrier"
)

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStreams has a hundred calls at once, each with a stream both ways, for
// three seconds a round, and reports how far frames stray from their 20 ms (as the
// bots see them), and what one stream costs of a core, the bots' side included.
func BenchmarkStreams(b *testing.B) {
	const streams, length = 100, 3 * time.Second
	var mu sync.Mutex
	var strays []time.Duration
	frame := make([]byte, 160)
	begun := map[string]time.Time{}
	n := map[string]int{}
	peer := newBot(b, func(c *websocket.Conn, m message) bool {
		if m.Event != "media" {
			return true
		}
		mu.Lock()
		if n[m.SID] == 0 {
			begun[m.SID] = m.At
		}
		strays = append(strays, m.At.Sub(begun[m.SID])-time.Duration(n[m.SID])*20*time.Millisecond)
		n[m.SID]++
		mu.Unlock()
		return sendAudio(c, m.SID, frame)
	})
	s := start(b, simcarrier.Config{Insecure: true, Profile: simcarrier.Profile{Talk: simcarrier.Range{Min: length}}})
	used := cpu()
	for b.Loop() {
		for range streams {
			create(b, s, "Twiml", peer.twiml(""))
		}
		tick := time.NewTicker(100 * time.Millisecond)
		for s.Stats().Live > 0 {
			<-tick.C
		}
		tick.Stop()
	}
	used = cpu() - used
	st := s.Stats()
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(strays)
	if len(strays) == 0 {
		b.Fatal("no frames")
	}
	at := func(p float64) float64 { return float64(strays[int(p*float64(len(strays)-1))].Microseconds()) / 1000 }
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
	b.ReportMetric(float64(st.Missed), "missed")
	b.ReportMetric(float64(st.Frames)/float64(st.Streams)/length.Seconds(), "frames/s/stream")
	b.ReportMetric(100*used.Seconds()/(float64(st.Streams)*length.Seconds()), "%core/stream")
}
