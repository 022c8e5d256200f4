package dispatch

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"dibs/call"
)

// outcomes counts how calls ended, where they were followed: in the process that is
// in office, each once. The sum over replicas is the truth.
type outcomes struct {
	ended *prometheus.CounterVec

	mu   sync.Mutex
	seen map[string]bool // regions whose outcomes all stand at 0 or more
}

func newOutcomes() *outcomes {
	return &outcomes{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dibs_call_outcomes_total",
			Help: "Calls that have ended, by outcome; calls that would not wait for a bot are left out of bot_unavailable.",
		}, []string{"region", "outcome"}),
		seen: map[string]bool{},
	}
}

// know lets every outcome of a region stand at 0 at least: an increase from nothing is
// not seen by whoever watches.
func (c *outcomes) know(region string) {
	c.mu.Lock()
	first := !c.seen[region]
	c.seen[region] = true
	c.mu.Unlock()
	if first {
		for _, o := range call.Outcomes() {
			c.ended.WithLabelValues(region, string(o)).Add(0)
		}
	}
}

func (c *outcomes) note(r call.Record) {
	region := r.Order.Region
	c.know(region)
	if r.Order.NoWait && r.Outcome() == call.BotUnavailable {
		return // it asked for that
	}
	c.ended.WithLabelValues(region, string(r.Outcome())).Inc()
}

// Collector shows how the calls ended that this process followed.
func (d *Dispatcher) Collector() prometheus.Collector { return d.outcomes.ended }
