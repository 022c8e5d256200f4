package media

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the metrics.
const (
	metricStreams    = "dibs_media_streams"
	metricWaiting    = "dibs_media_waiting"
	metricFirstAudio = "dibs_first_audio_seconds"
	metricEnded      = "dibs_media_ended_total"
	metricFrames     = "dibs_media_frames_total"
	metricDropped    = "dibs_media_frames_dropped_total"
	metricOutOfOrder = "dibs_media_out_of_order_total"
)

// firstAudioBounds are the upper bounds of the histogram, in seconds. The bar is
// 40 ms; the tail is for bots without a greeting.
var firstAudioBounds = [...]float64{.001, .0025, .005, .01, .02, .04, .08, .16, .32, .64, 1.25, 2.5, 5, 10}

// Stats is what has happened since the server was made, and what is now.
type Stats struct {
	Waiting int   // tokens that nobody has used yet
	Streams int64 // carriers connected

	Ended      map[Reason]uint64 // every reason is there
	FramesIn   uint64            // media messages from carriers, of whatever size
	FramesOut  uint64            // sound sent, in frames of 20 ms
	Dropped    uint64            // of FramesIn, those that no Talk read in time
	OutOfOrder uint64            // messages whose sequence number did not go up
	FirstAudio Histogram         // from start to the first sound written
}

// Histogram counts durations.
type Histogram struct {
	Count   uint64
	Sum     time.Duration
	Buckets map[float64]uint64 // upper bound in seconds → how many were not over it
}

// totals is what Stats is made from.
type totals struct {
	streams    atomic.Int64
	framesIn   atomic.Uint64
	framesOut  atomic.Uint64
	dropped    atomic.Uint64
	outOfOrder atomic.Uint64

	mu      sync.Mutex
	reasons map[Reason]uint64
	sum     time.Duration
	count   uint64
	buckets [len(firstAudioBounds)]uint64 // not over the bound, cumulative
}

func (t *totals) ended(r Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reasons == nil {
		t.reasons = map[Reason]uint64{}
	}
	t.reasons[r]++
}

func (t *totals) heard(after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	t.sum += after
	for i, bound := range firstAudioBounds {
		if after.Seconds() <= bound {
			t.buckets[i]++
		}
	}
}

// Stats is a snapshot.
func (s *Server) Stats() Stats {
	t := &s.totals
	out := Stats{
		Streams:    t.streams.Load(),
		FramesIn:   t.framesIn.Load(),
		FramesOut:  t.framesOut.Load(),
		Dropped:    t.dropped.Load(),
		OutOfOrder: t.outOfOrder.Load(),
		Ended:      make(map[Reason]uint64, len(reasons)),
	}
	s.mu.Lock()
	for _, c := range s.calls {
		if c.stream == nil {
			out.Waiting++
		}
	}
	s.mu.Unlock()

	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range reasons {
		out.Ended[r] = 0
	}
	maps.Copy(out.Ended, t.reasons)
	out.FirstAudio = Histogram{Count: t.count, Sum: t.sum, Buckets: make(map[float64]uint64, len(firstAudioBounds))}
	for i, bound := range firstAudioBounds {
		out.FirstAudio.Buckets[bound] = t.buckets[i]
	}
	return out
}

// Collector is the server's metrics.
func (s *Server) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &collector{
		stats:      s.Stats,
		streams:    desc(metricStreams, "Media streams that carriers have open."),
		waiting:    desc(metricWaiting, "Calls whose carrier has not connected yet."),
		firstAudio: desc(metricFirstAudio, "Time until a caller was sent the first sound.", "from"),
		ended:      desc(metricEnded, "Calls whose media ended, by reason.", "reason"),
		frames:     desc(metricFrames, "Frames of sound from carriers (in) and to them (out).", "direction"),
		dropped:    desc(metricDropped, "Frames from carriers that were not read in time."),
		outOfOrder: desc(metricOutOfOrder, "Messages from carriers whose sequence number did not go up."),
	}
}

type collector struct {
	stats func() Stats

	streams, waiting, firstAudio, ended, frames, dropped, outOfOrder *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.streams, c.waiting, c.firstAudio, c.ended, c.frames, c.dropped, c.outOfOrder} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(c.streams, float64(s.Streams))
	gauge(c.waiting, float64(s.Waiting))
	ch <- prometheus.MustNewConstHistogram(c.firstAudio, s.FirstAudio.Count, s.FirstAudio.Sum.Seconds(), s.FirstAudio.Buckets, "media")
	for r, n := range s.Ended {
		counter(c.ended, n, string(r))
	}
	counter(c.frames, s.FramesIn, "in")
	counter(c.frames, s.FramesOut, "out")
	counter(c.dropped, s.Dropped)
	counter(c.outOfOrder, s.OutOfOrder)
}
