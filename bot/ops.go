package bot

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dibs/wire"
)

// Media is the handler for the carrier: nothing but /m/<bot>/<token>. The server
// around it has the time-outs that a public socket needs.
func (b *Bot) Media() *http.Server { return b.media.HTTP(b.media) }

// Ready says whether the bot is alive, connected and not deaf, and why not.
func (b *Bot) Ready() (bool, string) {
	if !b.nc.IsConnected() {
		return false, "not connected to NATS" // known before the next probe fails
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deaf == "", b.deaf
}

// Ops is the handler for operators: /livez, /readyz and /metrics. It is not for
// the public.
func (b *Bot) Ops() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(b.media.Collector(), b.warmer.Collector(), seatCollector{b})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ok, why := b.Ready(); !ok {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return mux
}

// seatCollector shows the seats by state, from the table itself: nothing is
// counted a second time.
type seatCollector struct{ b *Bot }

var (
	seatsDesc = prometheus.NewDesc("dibs_bot_seats", "Seats of this bot by state.", []string{"bot", "state"}, nil)
	stuckDesc = prometheus.NewDesc("dibs_bot_seats_stuck", "Seats past the deadline of their state.", []string{"bot"}, nil)
	callsDesc = prometheus.NewDesc("dibs_bot_seats_taken_total", "Times a seat was taken since the start.", []string{"bot"}, nil)
)

func (seatCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- seatsDesc
	ch <- stuckDesc
	ch <- callsDesc
}

func (c seatCollector) Collect(ch chan<- prometheus.Metric) {
	beat := c.b.beat()
	states := map[wire.SeatState]int{
		wire.SeatIdle: 0, wire.SeatClaimed: 0, wire.SeatWarming: 0, wire.SeatAssigned: 0, wire.SeatLive: 0, wire.SeatWrapup: 0,
	}
	stuck := 0
	for _, s := range beat.Seats {
		states[s.State]++
		if s.Stuck {
			stuck++
		}
	}
	for s, n := range states {
		ch <- prometheus.MustNewConstMetric(seatsDesc, prometheus.GaugeValue, float64(n), c.b.id, string(s))
	}
	ch <- prometheus.MustNewConstMetric(stuckDesc, prometheus.GaugeValue, float64(stuck), c.b.id)
	ch <- prometheus.MustNewConstMetric(callsDesc, prometheus.CounterValue, float64(beat.Calls), c.b.id)
}
