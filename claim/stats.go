package claim

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats are an asker's counters; a Prometheus collector. It holds numbers only:
// no call, bot or person.
type Stats struct {
	claims   *prometheus.CounterVec
	asks     *prometheus.CounterVec
	attempts prometheus.Histogram
	duration *prometheus.HistogramVec

	mu    sync.Mutex
	plain map[string]int64 // ask answers, for Snapshot
}

func newStats() *Stats {
	return &Stats{
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dibs_claims_total",
			Help: "Claims by how they ended: assigned, a refusal code, or cancelled.",
		}, []string{"status"}),
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dibs_claim_asks_total",
			Help: "Asks by what was answered.",
		}, []string{"answer"}),
		attempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "dibs_claim_attempts",
			Help: "Asks a claim.", Buckets: []float64{1, 2, 3, 4, 5, 10},
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dibs_claim_duration_seconds",
			Help:    "From the first ask to the end of the claim.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"status"}),
		plain: map[string]int64{},
	}
}

// Stats is the asker's collector.
func (a *Asker) Stats() *Stats { return a.stats }

// Describe implements [prometheus.Collector].
func (s *Stats) Describe(ch chan<- *prometheus.Desc) {
	s.claims.Describe(ch)
	s.asks.Describe(ch)
	s.attempts.Describe(ch)
	s.duration.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (s *Stats) Collect(ch chan<- prometheus.Metric) {
	s.claims.Collect(ch)
	s.asks.Collect(ch)
	s.attempts.Collect(ch)
	s.duration.Collect(ch)
}

// Asks is how often each answer came since the start.
func (s *Stats) Asks() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int64, len(s.plain))
	maps.Copy(out, s.plain)
	return out
}

// Answers a version does not know share one label, so that a foreign bot cannot
// make metrics grow without bound.
func label(answer string) string {
	switch answer {
	case NoResponders, Silence, Lost, Cancelled, "accepted", "ready", "busy", "draining", "cordoned", "breaker_open", "rejected", "failed":
		return answer
	}
	return "unknown"
}

func (s *Stats) asked(answer string) {
	answer = label(answer)
	s.asks.WithLabelValues(answer).Inc()
	s.mu.Lock()
	s.plain[answer]++
	s.mu.Unlock()
}

func (s *Stats) claimed(c *asking, err error) {
	status := "assigned"
	if r, ok := errors.AsType[*Refused](err); ok {
		status = r.Code
		if r.CallsFault {
			status = "rejected"
		}
	} else if err != nil {
		status = Cancelled
	}
	s.claims.WithLabelValues(status).Inc()
	s.attempts.Observe(float64(len(c.attempts)))
	s.duration.WithLabelValues(status).Observe(time.Since(c.begun).Seconds())
}
