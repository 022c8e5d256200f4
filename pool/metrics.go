package pool

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dibs/wire"
)

// Collector shows the fleet as the roster believes it; nothing is counted a second
// time. Bots by id are only in the bots' own metrics.
func (r *Roster) Collector() prometheus.Collector { return rosterCollector{r} }

type rosterCollector struct{ r *Roster }

var (
	seatsDesc  = prometheus.NewDesc("dibs_seats", "Seats of bots heard within 30 s, by what they can do.", []string{"region", "pool", "state"}, nil)
	botsDesc   = prometheus.NewDesc("dibs_bots", "Bots heard within 30 s.", []string{"region", "pool"}, nil)
	oldestDesc = prometheus.NewDesc("dibs_seat_state_oldest_seconds", "Age of the seat that is longest in this state.", []string{"region", "state"}, nil)
)

func (rosterCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- seatsDesc
	ch <- botsDesc
	ch <- oldestDesc
}

func (c rosterCollector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	type lane struct{ region, pool string }
	type state struct {
		region string
		state  wire.SeatState
	}
	lanes := map[lane]bool{}
	oldest := map[state]wire.Millis{}
	for _, b := range c.r.Bots(now) {
		if b.Heard > NotCapacity {
			continue
		}
		lanes[lane{b.Beat.Region, b.Beat.Pool}] = true
		for _, s := range b.Beat.Seats {
			if !s.State.Known() { // a newer bot's word: it must not make a label
				continue
			}
			k := state{b.Beat.Region, s.State}
			oldest[k] = max(oldest[k], s.ForMS)
		}
	}
	for l := range lanes {
		n := c.r.Counts(now, l.region, l.pool)
		ch <- prometheus.MustNewConstMetric(botsDesc, prometheus.GaugeValue, float64(n.Bots), l.region, l.pool)
		for s, v := range map[string]int{"idle": n.Idle, "claimed": n.Claimed, "live": n.Live, "draining": n.Draining, "broken": n.Broken, "stuck": n.Stuck} {
			ch <- prometheus.MustNewConstMetric(seatsDesc, prometheus.GaugeValue, float64(v), l.region, l.pool, s)
		}
	}
	for k, ms := range oldest {
		ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, ms.Duration().Seconds(), k.region, string(k.state))
	}
}
