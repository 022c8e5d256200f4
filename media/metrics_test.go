package media

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"dibs/internal/audio"
)

func TestMetrics(t *testing.T) {
	s, url := serve(t, Config{})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Collector())
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) != 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	open(t, s, Call{ID: "waiting"})
	path, _ := open(t, s, Call{ID: "live", Greeting: audio.Silence(1000)})
	over, ended := open(t, s, Call{ID: "over"})
	c := dial(t, url+over)
	c.start()
	c.media(2, audio.Silence(160))
	c.media(2, audio.Silence(160))
	c.say(`{"event":"stop"}`)
	wait(t, ended, "report")
	c = dial(t, url+path)
	c.start()
	for c.hear().Event != "mark" {
	}
	var want strings.Builder
	want.WriteString(`
# HELP dibs_media_ended_total Calls whose media ended, by reason.
# TYPE dibs_media_ended_total counter
`)
	for _, r := range []string{
		"hung_up", "malformed", "max_call", "peer_closed", "stopped", "talk_error",
		"timeout_idle", "timeout_start", "too_large", "withdrawn", "write_timeout",
	} {
		n := "0"
		if r == "stopped" {
			n = "1"
		}
		want.WriteString(`dibs_media_ended_total{reason="` + r + `"} ` + n + "\n")
	}
	want.WriteString(`
# HELP dibs_media_frames_dropped_total Frames from carriers that were not read in time.
# TYPE dibs_media_frames_dropped_total counter
dibs_media_frames_dropped_total 0
# HELP dibs_media_frames_total Frames of sound from carriers (in) and to them (out).
# TYPE dibs_media_frames_total counter
dibs_media_frames_total{direction="in"} 2
dibs_media_frames_total{direction="out"} 7
# HELP dibs_media_out_of_order_total Messages from carriers whose sequence number did not go up.
# TYPE dibs_media_out_of_order_total counter
dibs_media_out_of_order_total 1
# HELP dibs_media_streams Media streams that carriers have open.
# TYPE dibs_media_streams gauge
dibs_media_streams 1
# HELP dibs_media_waiting Calls whose carrier has not connected yet.
# TYPE dibs_media_waiting gauge
dibs_media_waiting 1
`)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want.String()), metricEnded, metricDropped, metricFrames,
		metricOutOfOrder, metricStreams, metricWaiting); err != nil {
		t.Error(err)
	}
	if got := s.Stats().FirstAudio; got.Count != 1 || got.Buckets[firstAudioBounds[len(firstAudioBounds)-1]] != 1 {
		t.Errorf("first audio %+v, want one", got)
	}
}

func TestFirstAudioHistogram(t *testing.T) {
	s, err := New(Config{Bot: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{time.Millisecond, 40 * time.Millisecond, 41 * time.Millisecond, time.Minute} {
		s.totals.heard(d)
	}
	h := s.Stats().FirstAudio
	if h.Count != 4 || h.Sum != time.Minute+82*time.Millisecond {
		t.Errorf("count %d, sum %v", h.Count, h.Sum)
	}
	for bound, want := range map[float64]uint64{.001: 1, .02: 1, .04: 2, .08: 3, 10: 3} {
		if got := h.Buckets[bound]; got != want {
			t.Errorf("%d not over %g s, want %d", got, bound, want)
		}
	}
}
