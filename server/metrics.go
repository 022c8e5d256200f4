package server

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// stats are the server's counters: numbers by route, status and code, all of which
// are ours, so that no request can make them grow.
type stats struct {
	requests *prometheus.CounterVec
	problems *prometheus.CounterVec
	duration *prometheus.HistogramVec
	webhooks *prometheus.CounterVec
}

func newStats() *stats {
	return &stats{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dibs_http_requests_total",
			Help: "Requests by route and status.",
		}, []string{"route", "status"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dibs_http_problems_total",
			Help: "Problems answered, by code.",
		}, []string{"code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dibs_http_request_duration_seconds",
			Help:    "From a request's head to the end of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dibs_carrier_webhooks_total",
			Help: "Carriers' status webhooks by what became of them.",
		}, []string{"carrier", "result"}),
	}
}

// Describe implements [prometheus.Collector].
func (s *stats) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{s.requests, s.problems, s.duration, s.webhooks} {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (s *stats) Collect(ch chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{s.requests, s.problems, s.duration, s.webhooks} {
		c.Collect(ch)
	}
}

// request counts one.
func (s *stats) request(v *visit, status int, took time.Duration) {
	route := cmp.Or(v.route, "none")
	s.requests.WithLabelValues(route, strconv.Itoa(cmp.Or(status, http.StatusOK))).Inc()
	s.duration.WithLabelValues(route).Observe(took.Seconds())
	if v.code != "" {
		s.problems.WithLabelValues(v.code).Inc()
	}
}
