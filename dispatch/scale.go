package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dibs/call"
	"dibs/demand"
	"dibs/wire"
)

// The dispatcher's numbers are spread each second, so that every replica shows the
// same; older than [ScaleStale] they are unknown, which is never 0.
const (
	scaleEvery = time.Second
	ScaleStale = 15 * time.Second
)

// mostReady is how many calls that could go are counted for the scaler; more change
// nothing at any ceiling that a region has.
const mostReady = 1000

// Numbers are what the office tells everybody once a second.
type Numbers struct {
	V       int                      `json:"v"`
	Term    uint64                   `json:"term"`
	Regions map[string]RegionNumbers `json:"regions"`
	Reasons map[string]int64         `json:"verdicts"` // reason → changes to it, in this term
}

// RegionNumbers is one region, all from the same set of calls.
type RegionNumbers struct {
	Input    demand.Input       `json:"input"`
	InFlight map[call.Class]int `json:"in_flight"`
	Waiting  map[call.Class]int `json:"waiting"`
}

// numbers counts. Who is in flight is admission's set; who would go is its order,
// with as many bots as anybody wants.
func (o *office) numbers() Numbers {
	n := Numbers{V: wire.Version, Term: o.term, Regions: map[string]RegionNumbers{}, Reasons: map[string]int64{}}
	report := o.adm.Report()
	// Only bots are thought to be without limit: more calls than the platform has
	// slots for will not go, and bots for them would wait in vain.
	var ready map[string]map[call.Class]int
	if p := report.Platform; p.Cap-p.InFlight-p.Owed > 0 {
		o.look()
		o.room.unlimited = true
		ready = o.adm.Ready(min(mostReady, p.Cap-p.InFlight-p.Owed))
		o.room.unlimited = false
	}
	for _, r := range report.Regions {
		if r.Region == "" {
			continue
		}
		in := RegionNumbers{InFlight: r.InFlight, Waiting: r.Waiting}
		var inFlight, direct, campaign, queued int
		for _, k := range r.InFlight {
			inFlight += k
		}
		for class, k := range ready[r.Region] {
			if class.Direct() {
				direct += k
			} else {
				campaign += k
			}
		}
		queued = r.Waiting[call.ClassCampaign]
		in.Input = demand.Input{InFlight: &inFlight, Direct: &direct, Ready: &campaign, Queued: &queued}
		n.Regions[r.Region] = in
	}
	maps.Copy(n.Reasons, o.verdicts.changes)
	return n
}

// spread tells the numbers to every replica.
func (o *office) spread() {
	if _, _, ours := o.d.cfg.Leader.Leading(); !ours {
		return
	}
	data, err := json.Marshal(o.numbers())
	if err != nil || len(data) > wire.MaxMessage {
		o.d.cfg.Log.Error().Err(err).Int("bytes", len(data)).Msg("numbers not spread")
		return
	}
	_ = o.d.cfg.NC.Publish(wire.Scale(), data) // lost: the next one comes in a second
}

// Scale is what one replica knows of the office's numbers. Safe for concurrent use.
type Scale struct {
	cfg demand.Config

	mu sync.Mutex
	n  Numbers
	at time.Time
}

// NewScale checks how demand becomes bots.
func NewScale(cfg demand.Config) (*Scale, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("dispatch: scale: %w", err)
	}
	return &Scale{cfg: cfg}, nil
}

// Run hears the numbers until ctx ends.
func (s *Scale) Run(ctx context.Context, nc *nats.Conn, log zerolog.Logger) error {
	sub, err := nc.Subscribe(wire.Scale(), func(m *nats.Msg) {
		var n Numbers
		if len(m.Data) > wire.MaxMessage || json.Unmarshal(m.Data, &n) != nil || n.V > wire.Version {
			log.Warn().Msg("numbers cannot be read")
			return
		}
		s.Hear(n, time.Now())
	})
	if err != nil {
		return fmt.Errorf("dispatch: scale: %w", err)
	}
	<-ctx.Done()
	return sub.Unsubscribe()
}

// Hear takes numbers; those of an earlier term are dropped while later ones are fresh.
func (s *Scale) Hear(n Numbers, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Term < s.n.Term && now.Sub(s.at) <= ScaleStale {
		return
	}
	s.n, s.at = n, now
}

// Wanted is how many bots a region wants, and how old the numbers are. A region in
// which nobody is or waits wants its floor; numbers that are missing or stale are
// [demand.ErrUnknown].
func (s *Scale) Wanted(region string, now time.Time) (demand.Wanted, time.Duration, error) {
	s.mu.Lock()
	n, at := s.n, s.at
	s.mu.Unlock()
	age := now.Sub(at)
	if at.IsZero() || age > ScaleStale {
		return demand.Wanted{}, age, fmt.Errorf("dispatch: scale: no numbers from the dispatcher: %w", demand.ErrUnknown)
	}
	in := n.Regions[region].Input
	if in.InFlight == nil {
		zero := 0
		in = demand.Input{InFlight: &zero, Direct: &zero, Ready: &zero, Queued: &zero}
	}
	w, err := demand.Compute(s.cfg, in)
	return w, age, err
}

// Collector shows the numbers; stale ones are not shown, so that whoever scales sees
// that they are missing.
func (s *Scale) Collector(regions func() []string) prometheus.Collector {
	return scaleCollector{s, regions}
}

type scaleCollector struct {
	s       *Scale
	regions func() []string // that are shown although nobody is or waits in them
}

var (
	unitsDesc    = prometheus.NewDesc("dibs_demand_units", "Calls that bots must serve, by term.", []string{"region", "term"}, nil)
	wantedDesc   = prometheus.NewDesc("dibs_wanted_bots", "Bots that follow from the demand.", []string{"region"}, nil)
	inFlightDesc = prometheus.NewDesc("dibs_calls_in_flight", "Calls from their admission to their end.", []string{"region", "class"}, nil)
	waitingDesc  = prometheus.NewDesc("dibs_calls_waiting", "Calls that wait and are due.", []string{"region", "class"}, nil)
	verdictsDesc = prometheus.NewDesc("dibs_verdict_changes_total", "Changes of why calls wait, by reason, in the present office.", []string{"code"}, nil)
	heardDesc    = prometheus.NewDesc("dibs_dispatch_heard_timestamp_seconds", "When the office's numbers were last heard.", nil, nil)
)

func (scaleCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{unitsDesc, wantedDesc, inFlightDesc, waitingDesc, verdictsDesc, heardDesc} {
		ch <- d
	}
}

func (c scaleCollector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	c.s.mu.Lock()
	n, at := c.s.n, c.s.at
	c.s.mu.Unlock()
	if at.IsZero() || now.Sub(at) > ScaleStale {
		return
	}
	ch <- prometheus.MustNewConstMetric(heardDesc, prometheus.GaugeValue, float64(at.UnixMilli())/1000)
	all := map[string]bool{}
	for r := range n.Regions {
		all[r] = true
	}
	for _, r := range c.regions() {
		all[r] = true
	}
	for region := range all {
		w, _, err := c.s.Wanted(region, now)
		if err != nil {
			continue
		}
		for _, t := range w.Terms {
			ch <- prometheus.MustNewConstMetric(unitsDesc, prometheus.GaugeValue, float64(t.Counts), region, t.Name)
		}
		ch <- prometheus.MustNewConstMetric(wantedDesc, prometheus.GaugeValue, float64(w.Bots), region)
		for _, class := range call.Classes() {
			ch <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(n.Regions[region].InFlight[class]), region, string(class))
			ch <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(n.Regions[region].Waiting[class]), region, string(class))
		}
	}
	for reason, k := range n.Reasons {
		ch <- prometheus.MustNewConstMetric(verdictsDesc, prometheus.CounterValue, float64(k), reason)
	}
}
