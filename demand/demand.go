package demand

import (
	"errors"
	"fmt"
	"strings"
)

// Policy says what a campaign's backlog counts for.
type Policy string

// The policies.
const (
	Headroom    Policy = "headroom" // calls that admission would let go if only bots were unlimited
	ActivePlus4 Policy = "active+4" // the backlog, but at most what is in flight and four more
	Raw         Policy = "raw"      // the backlog
)

// Policies are all policies, the default first.
func Policies() []Policy { return []Policy{Headroom, ActivePlus4, Raw} }

// Config is how demand becomes bots. The zero value is the default.
type Config struct {
	Policy  Policy `json:"policy,omitempty"`  // empty: headroom
	PerBot  Ratio  `json:"per_bot,omitzero"`  // calls that one bot is to carry, above 0; 0: 0.7
	Floor   int    `json:"floor,omitempty"`   // bots, at least 1 (an HPA at 0 is off); 0: 3
	Ceiling int    `json:"ceiling,omitempty"` // bots, at least Floor; 0: 50
}

// WithDefaults is c with the defaults filled in. The error names the field.
func (c Config) WithDefaults() (Config, error) {
	if c.Policy == "" {
		c.Policy = Headroom
	}
	if c.PerBot.IsZero() {
		c.PerBot = tenths(7)
	}
	if c.Floor == 0 {
		c.Floor = 3
	}
	if c.Ceiling == 0 {
		c.Ceiling = 50
	}
	switch {
	case c.Policy != Headroom && c.Policy != ActivePlus4 && c.Policy != Raw:
		return c, fmt.Errorf("demand: policy: %q, want one of %v", c.Policy, Policies())
	case c.Floor < 1 || c.Floor > most:
		return c, fmt.Errorf("demand: floor: %d, want 1 to %d", c.Floor, most)
	case c.Ceiling < c.Floor || c.Ceiling > most:
		return c, fmt.Errorf("demand: ceiling: %d, want %d (the floor) to %d", c.Ceiling, c.Floor, most)
	}
	return c, nil
}

// most is the largest count that is believed.
const most = 1_000_000

// ErrUnknown: a term that is needed is not known just now. Whoever scales must
// then leave everything as it is.
var ErrUnknown = errors.New("unknown")

// Input is what is counted in one region. A nil count is not known.
type Input struct {
	InFlight *int `json:"in_flight"` // calls from admission to end, inbound, placing, warming and stuck included
	Direct   *int `json:"direct"`    // direct calls (all but campaign) that wait for a bot
	Ready    *int `json:"ready"`     // campaign calls that admission would let go if only bots were unlimited; policy headroom
	Queued   *int `json:"queued"`    // campaign calls that wait, whatever for; the other policies (headroom only tells it)
}

// Term is one summand of the demand.
type Term struct {
	Name   string `json:"term"`   // in_flight, direct, campaign
	Seen   int    `json:"seen"`   // calls there are
	Counts int    `json:"counts"` // calls that count
}

// Clamp is one limit that changed a number.
type Clamp struct {
	Name string `json:"clamp"` // headroom, active+4: in calls; floor, ceiling: in bots
	From int    `json:"from"`
	To   int    `json:"to"`
}

// Wanted is the answer and all that led to it.
type Wanted struct {
	Bots   int     `json:"wanted"`
	Demand int     `json:"demand"` // calls: the sum of what the terms count
	Terms  []Term  `json:"terms"`
	Clamps []Clamp `json:"clamps"`

	Policy    Policy `json:"policy"`
	PerBot    Ratio  `json:"per_bot"`
	Floor     int    `json:"floor"`
	Ceiling   int    `json:"ceiling"`
	Unclamped int    `json:"unclamped"` // bots if every call that was seen counted and nothing were clamped

	Sentence string `json:"sentence"` // all of it, for people
}

// Compute says how many bots are wanted. The error names the field of c that is
// wrong, or the term of in that is: [ErrUnknown], or a number that cannot be one.
func Compute(c Config, in Input) (Wanted, error) {
	c, err := c.WithDefaults()
	if err != nil {
		return Wanted{}, err
	}
	inFlight, err1 := count("in_flight", in.InFlight)
	direct, err2 := count("direct", in.Direct)
	if err := errors.Join(err1, err2); err != nil {
		return Wanted{}, err
	}
	w := Wanted{Policy: c.Policy, PerBot: c.PerBot, Floor: c.Floor, Ceiling: c.Ceiling}
	campaign, err := w.campaign(in, inFlight)
	if err != nil {
		return Wanted{}, err
	}
	w.Terms = []Term{{"in_flight", inFlight, inFlight}, {"direct", direct, direct}, campaign}
	seen := 0
	for _, t := range w.Terms {
		w.Demand += t.Counts
		seen += t.Seen
	}
	w.Unclamped = c.PerBot.ceil(seen)
	w.Bots = w.clamp("floor", c.PerBot.ceil(w.Demand), max(c.PerBot.ceil(w.Demand), c.Floor))
	w.Bots = w.clamp("ceiling", w.Bots, min(w.Bots, c.Ceiling))
	w.Sentence = w.sentence()
	return w, nil
}

// campaign is the campaign term by the policy.
func (w *Wanted) campaign(in Input, inFlight int) (Term, error) {
	t := Term{Name: "campaign"}
	var err error
	if w.Policy == Headroom {
		if t.Counts, err = count("ready", in.Ready); err != nil {
			return t, err
		}
		// How many wait in all is only told, but what is told must be true.
		if t.Seen = t.Counts; in.Queued != nil {
			if t.Seen, err = count("queued", in.Queued); err != nil {
				return t, err
			}
			t.Seen = max(t.Seen, t.Counts)
		}
	} else {
		if t.Seen, err = count("queued", in.Queued); err != nil {
			return t, err
		}
		if t.Counts = t.Seen; w.Policy == ActivePlus4 {
			t.Counts = min(t.Seen, inFlight+4)
		}
	}
	w.clamp(string(w.Policy), t.Seen, t.Counts)
	return t, nil
}

// clamp notes a limit that changed something, and is the number after it.
func (w *Wanted) clamp(name string, from, to int) int {
	if from != to {
		w.Clamps = append(w.Clamps, Clamp{Name: name, From: from, To: to})
	}
	return to
}

func (w *Wanted) sentence() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wanted %d bots = ceil(%d / %s per bot), between floor %d and ceiling %d: %d in flight, %d direct calls waiting for a bot",
		w.Bots, w.Demand, w.PerBot, w.Floor, w.Ceiling, w.Terms[0].Counts, w.Terms[1].Counts)
	t := w.Terms[2]
	fmt.Fprintf(&b, ", %d of the campaigns", t.Counts)
	if t.Seen != t.Counts {
		fmt.Fprintf(&b, " (%d wait, policy %s)", t.Seen, w.Policy)
	}
	if w.Unclamped != w.Bots {
		fmt.Fprintf(&b, "; unclamped it would be %d", w.Unclamped)
	}
	return b.String()
}

func count(term string, n *int) (int, error) {
	switch {
	case n == nil:
		return 0, fmt.Errorf("demand: %s: %w", term, ErrUnknown)
	case *n < 0 || *n > most:
		return 0, fmt.Errorf("demand: %s: %d, want 0 to %d", term, *n, most)
	}
	return *n, nil
}
