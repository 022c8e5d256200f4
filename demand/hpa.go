package demand

import (
	"fmt"
	"slices"
	"time"
)

// HPAConfig is a HorizontalPodAutoscaler with one external metric of type
// AverageValue. The zero value is the one that Dibs ships.
type HPAConfig struct {
	Min, Max  int    // pods; 0: 3 and 50
	PerBot    Ratio  // the target, in the metric's unit per pod; 0: 0.7
	Tolerance *Ratio // a ratio this close to 1 changes nothing; nil: 0.1
	Up        Rules  // no policies: the larger of double and 10 more, per 15 s, at once
	Down      Rules  // no policies: the smaller of a quarter and 5 fewer, per minute, after 180 s
}

// Rules limit one direction.
type Rules struct {
	Policies []Rule
	Select   Select        // empty: Max
	Window   time.Duration // stabilization: the most careful recommendation of this long ago decides
}

// Rule is one policy: in any Period at most Value pods, or Value percent of what
// there was when it began.
type Rule struct {
	Percent bool
	Value   int
	Period  time.Duration
}

// Select says which policy counts when there are several.
type Select string

// The selections; Max is the larger change, also downwards.
const (
	Max      Select = "Max"
	Min      Select = "Min"
	Disabled Select = "Disabled"
)

func (c HPAConfig) withDefaults() (HPAConfig, error) {
	if c.Min == 0 {
		c.Min = 3
	}
	if c.Max == 0 {
		c.Max = 50
	}
	if c.PerBot.IsZero() {
		c.PerBot = tenths(7)
	}
	if c.Tolerance == nil {
		c.Tolerance = new(tenths(1))
	}
	if c.Up.Policies == nil {
		c.Up = Rules{Select: Max, Policies: []Rule{{Percent: true, Value: 100, Period: 15 * time.Second}, {Value: 10, Period: 15 * time.Second}}}
	}
	if c.Down.Policies == nil {
		c.Down = Rules{Select: Min, Window: 180 * time.Second, Policies: []Rule{{Percent: true, Value: 25, Period: time.Minute}, {Value: 5, Period: time.Minute}}}
	}
	if c.Min < 1 || c.Min > most {
		return c, fmt.Errorf("demand: hpa: Min: %d, want 1 to %d", c.Min, most)
	}
	if c.Tolerance.num >= c.Tolerance.denominator() {
		return c, fmt.Errorf("demand: hpa: Tolerance: %v, want less than 1", c.Tolerance)
	}
	if c.Max < c.Min || c.Max > most {
		return c, fmt.Errorf("demand: hpa: Max: %d, want %d (Min) to %d", c.Max, c.Min, most)
	}
	for i, r := range []Rules{c.Up, c.Down} {
		name := []string{"Up", "Down"}[i]
		switch r.Select {
		case "", Max, Min, Disabled:
		default:
			return c, fmt.Errorf("demand: hpa: %s.Select: %q, want Max, Min or Disabled", name, r.Select)
		}
		if r.Window < 0 || r.Window > time.Hour {
			return c, fmt.Errorf("demand: hpa: %s.Window: %v, want 0 to 1h", name, r.Window)
		}
		for i, p := range r.Policies {
			if p.Value < 1 || p.Value > most || p.Period < time.Second || p.Period > maxPeriod {
				return c, fmt.Errorf("demand: hpa: %s.Policies[%d]: %d per %v, want at least 1, per 1s to 30m", name, i, p.Value, p.Period)
			}
		}
	}
	return c, nil
}

// maxPeriod is the longest that Kubernetes allows.
const maxPeriod = 30 * time.Minute

// HPA is the autoscaler between two looks. It keeps its past in memory only, as
// the real one does.
type HPA struct {
	cfg     HPAConfig
	advised []moment // recommendations, before stabilization
	ups     []moment // pods added
	downs   []moment // pods removed
}

type moment struct {
	at time.Time
	n  int
}

// NewHPA makes one that has seen nothing. The error names the field.
func NewHPA(c HPAConfig) (*HPA, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &HPA{cfg: c}, nil
}

// Sync is one look, every 15 s in a real cluster: how many pods there should be
// from now on, when there are pods and the metric says value (nil: it cannot be
// read). It believes that this is then so. now must not go backwards.
func (h *HPA) Sync(now time.Time, pods int, value *int) int {
	if h.advised == nil {
		h.advised = []moment{{now, pods}}
	}
	want := pods
	switch {
	case pods == 0: // switched off by hand
		return 0
	case pods > h.cfg.Max:
		want = h.cfg.Max
	case pods < h.cfg.Min:
		want = h.cfg.Min
	case value != nil:
		want = h.limit(now, pods, h.stabilize(now, pods, h.recommend(pods, max(0, min(*value, most)))))
	}
	h.ups, h.downs = recent(now, h.ups), recent(now, h.downs)
	if want > pods {
		h.ups = append(h.ups, moment{now, want - pods})
	} else if want < pods {
		h.downs = append(h.downs, moment{now, pods - want})
	}
	return want
}

// recommend is the formula: ceil(value/target), or nothing within the tolerance.
func (h *HPA) recommend(pods, value int) int {
	// value/(target·pods) against 1±tolerance, with both sides multiplied out.
	target, tolerance := h.cfg.PerBot, *h.cfg.Tolerance
	have := int64(value) * target.denominator() * tolerance.denominator()
	full := target.num * int64(pods)
	if have >= full*(tolerance.denominator()-tolerance.num) && have <= full*(tolerance.denominator()+tolerance.num) {
		return pods
	}
	return target.ceil(value)
}

// stabilize takes the highest recommendation of the window on the way down, and
// the lowest on the way up.
func (h *HPA) stabilize(now time.Time, pods, advice int) int {
	up, down := advice, advice
	keep := h.advised[:0]
	for _, a := range h.advised {
		inUp, inDown := within(now, a.at, h.cfg.Up.Window), within(now, a.at, h.cfg.Down.Window)
		if inUp {
			up = min(up, a.n)
		}
		if inDown {
			down = max(down, a.n)
		}
		if inUp || inDown {
			keep = append(keep, a)
		}
	}
	h.advised = append(keep, moment{now, advice})
	return min(max(pods, up), down)
}

func within(now, at time.Time, d time.Duration) bool { return at.After(now.Add(-d)) }

// limit applies the policies and the bounds.
func (h *HPA) limit(now time.Time, pods, want int) int {
	switch {
	case want > pods:
		return min(want, h.cfg.Max, max(pods, h.bound(now, pods, h.cfg.Up, +1)))
	case want < pods:
		return max(want, h.cfg.Min, min(pods, h.bound(now, pods, h.cfg.Down, -1)))
	}
	return want
}

// bound is as far as the policies of one direction let it go.
func (h *HPA) bound(now time.Time, pods int, r Rules, direction int) int {
	if r.Select == Disabled {
		return pods
	}
	var bound int
	for i, p := range r.Policies {
		start := pods - sum(now, h.ups, p.Period) + sum(now, h.downs, p.Period)
		to := start + direction*p.Value
		if p.Percent {
			// Upwards the bound is rounded up, downwards it is cut off: a quarter of 5
			// lets two go.
			if to = start * (100 + direction*p.Value); direction > 0 {
				to += 99
			}
			to /= 100
		}
		further := (to-bound)*direction > 0
		if i == 0 || further == (r.Select != Min) {
			bound = to
		}
	}
	return bound
}

// recent drops what no policy looks back to.
func recent(now time.Time, events []moment) []moment {
	return slices.DeleteFunc(events, func(e moment) bool { return !within(now, e.at, maxPeriod) })
}

func sum(now time.Time, events []moment, period time.Duration) int {
	n := 0
	for _, e := range events {
		if within(now, e.at, period) {
			n += e.n
		}
	}
	return n
}
