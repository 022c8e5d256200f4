package warmup

import (
	"cmp"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the metrics.
const (
	metricDuration = "dibs_warmup_duration_seconds"
	metricFailures = "dibs_warmup_failures_total"
	metricStale    = "dibs_warmup_stale_flows_total"
	metricHits     = "dibs_warmup_greeting_cache_hits_total"
)

// stepTotal labels what is true of a warm-up as a whole.
const stepTotal = "total"

type metrics struct {
	duration *prometheus.HistogramVec
	failures *prometheus.CounterVec
	hits     prometheus.Counter
	stale    *prometheus.Desc
}

func newMetrics() *metrics {
	return &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    metricDuration,
			Help:    "How long the steps of warm-ups took, done or failed; step total is the whole.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 4, 8},
		}, []string{"step"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricFailures,
			Help: "Warm-ups that failed, by the step that failed first and its code.",
		}, []string{"step", "code"}),
		hits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: metricHits,
			Help: "Greetings that did not have to be spoken again.",
		}),
		stale: prometheus.NewDesc(metricStale, "Flows whose copy stood in for a source that did not answer.", nil, nil),
	}
}

// observe takes one warm-up. What was aborted took no time of its own.
func (m *metrics) observe(r Report, err error) {
	for _, s := range r.Steps {
		if s.Outcome == OutcomeDone || s.Outcome == OutcomeFailed {
			m.duration.WithLabelValues(s.Step).Observe(s.Took.Seconds())
		}
	}
	m.duration.WithLabelValues(stepTotal).Observe(r.Total.Seconds())
	if e, ok := errors.AsType[*Error](err); ok {
		m.failures.WithLabelValues(cmp.Or(e.Step, stepTotal), string(e.Code)).Inc()
	}
}

// collector is a Warmer as Prometheus sees it.
type collector struct{ w *Warmer }

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	m := c.w.metrics
	m.duration.Describe(ch)
	m.failures.Describe(ch)
	m.hits.Describe(ch)
	ch <- m.stale
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	m := c.w.metrics
	m.duration.Collect(ch)
	m.failures.Collect(ch)
	m.hits.Collect(ch)
	ch <- prometheus.MustNewConstMetric(m.stale, prometheus.CounterValue, float64(c.w.flows.stale.Load()))
}
