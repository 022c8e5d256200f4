package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"dibs/admission"
	"dibs/call"
	"dibs/demand"
)

// Scenario is what is simulated: who calls when, and the settings. In JSON, with
// no field that is not here.
type Scenario struct {
	About    string          `json:"about,omitempty"`    // one sentence, for people
	For      int             `json:"for_s"`              // how long it runs, 1 to a day
	Policies []demand.Policy `json:"policies,omitempty"` // compared with each other; empty: all

	Bots      Bots                 `json:"bots"`
	Scale     Scale                `json:"scale"`
	Platform  admission.Platform   `json:"platform"`
	Providers map[string]int       `json:"providers,omitempty"` // provider → most calls at once; what is absent cannot be needed
	Orgs      []admission.Org      `json:"orgs"`
	Campaigns []admission.Campaign `json:"campaigns,omitempty"`
	Arrivals  []Arrivals           `json:"arrivals"`
}

// Bots are the pods.
type Bots struct {
	Start      int  `json:"start,omitempty"`         // ready at the start; 0: the floor
	ReadyAfter *int `json:"ready_after_s,omitempty"` // from being wanted to being idle, 0 to an hour; absent: 35
}

// Scale is how demand becomes bots, and how often the autoscaler looks.
type Scale struct {
	PerBot  json.Number `json:"per_bot,omitempty"` // calls that one bot is to carry; absent: 0.7
	Floor   int         `json:"floor,omitempty"`   // bots; 0: 3
	Ceiling int         `json:"ceiling,omitempty"` // bots; 0: 50
	Every   int         `json:"every_s,omitempty"` // between two looks, 1 to 300; 0: 15
}

// Arrivals are calls of one kind: Burst of them at At, the next Burst Every
// seconds later, until there were Count.
type Arrivals struct {
	Org      string     `json:"org"`
	Class    call.Class `json:"class"`
	Campaign string     `json:"campaign,omitempty"`
	Needs    [][]string `json:"needs,omitempty"` // as in [admission.Call]
	At       int        `json:"at_s,omitempty"`
	Count    int        `json:"count"`             // at least 1
	Burst    int        `json:"burst,omitempty"`   // 0: 1, and with every_s 0 all at once
	Every    int        `json:"every_s,omitempty"` // seconds

	// Talk is how long a bot is held; with Spread the calls last Talk to
	// Talk+Spread seconds, evenly and always in the same order.
	Talk   int `json:"talk_s"` // 1 to 4 hours
	Spread int `json:"talk_spread_s,omitempty"`
}

// The most that is simulated: one more policy of this size is still seconds.
const (
	MaxFor      = 24 * 60 * 60 // seconds
	MaxCalls    = 100_000
	MaxBots     = 10_000
	maxTalk     = 4 * 60 * 60
	maxList     = 1000 // orgs, campaigns, arrivals
	maxScenario = 1 << 20
)

// Parse reads a scenario from JSON and checks it. The error names the field.
func Parse(data []byte) (*Scenario, error) {
	if len(data) > maxScenario {
		return nil, fmt.Errorf("simulate: %d bytes, want at most %d", len(data), maxScenario)
	}
	s := &Scenario{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return nil, fmt.Errorf("simulate: %s: %s, want %s", wrong.Field, wrong.Value, wrong.Type)
		}
		return nil, fmt.Errorf("simulate: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("simulate: more after the scenario's end")
	}
	if _, err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// check fills in the defaults. The errors name the field; the warnings are of
// settings that the API would refuse and that the arithmetic bears.
func (s *Scenario) check() (warnings []string, err error) {
	var errs []error
	// in complains of a number that is out of its range.
	in := func(field string, n, least, most int) bool {
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("simulate: %s: %d, want %d to %d", field, n, least, most))
		}
		return n >= least && n <= most
	}
	in("for_s", s.For, 1, MaxFor)
	if len(s.Policies) == 0 {
		s.Policies = demand.Policies()
	}
	for i, p := range s.Policies {
		if !slices.Contains(demand.Policies(), p) {
			errs = append(errs, fmt.Errorf("simulate: policies[%d]: %q, want one of %v", i, p, demand.Policies()))
		}
	}
	s.Scale.Every = cmp.Or(s.Scale.Every, 15)
	in("scale.every_s", s.Scale.Every, 1, 300)
	if c, err := s.scale(demand.Headroom); err != nil {
		errs = append(errs, err)
	} else if s.Scale.Floor, s.Scale.Ceiling = c.Floor, c.Ceiling; in("scale.ceiling", c.Ceiling, c.Floor, MaxBots) {
		s.Bots.Start = cmp.Or(s.Bots.Start, c.Floor)
	}
	in("bots.start", s.Bots.Start, 1, MaxBots)
	if s.Bots.ReadyAfter == nil {
		s.Bots.ReadyAfter = new(35)
	}
	in("bots.ready_after_s", *s.Bots.ReadyAfter, 0, 3600)
	for p, limit := range s.Providers {
		in("providers."+p, limit, 0, 1_000_000)
	}
	in("orgs", len(s.Orgs), 1, maxList)
	in("campaigns", len(s.Campaigns), 0, maxList)
	warnings, settings := s.settings()
	errs = append(errs, settings...)
	if in("arrivals", len(s.Arrivals), 1, maxList) {
		calls := 0
		for i := range s.Arrivals {
			name := fmt.Sprintf("arrivals[%d].", i)
			a := &s.Arrivals[i]
			if in(name+"count", a.Count, 1, MaxCalls) {
				calls += a.Count
			}
			in(name+"at_s", a.At, 0, MaxFor)
			in(name+"every_s", a.Every, 0, MaxFor)
			in(name+"burst", a.Burst, 0, MaxCalls)
			in(name+"talk_s", a.Talk, 1, maxTalk)
			in(name+"talk_spread_s", a.Spread, 0, maxTalk)
			errs = append(errs, s.names(name, a)...)
			if a.Burst == 0 {
				if a.Burst = 1; a.Every == 0 {
					a.Burst = a.Count
				}
			}
		}
		in("arrivals: calls", calls, 1, MaxCalls)
	}
	return warnings, errors.Join(errs...)
}

// settings asks admission. A reserve that leaves no line is the one thing that is
// simulated all the same: that it does not keep everybody waiting is the point.
func (s *Scenario) settings() (warnings []string, errs []error) {
	err := admission.Validate(s.Platform, s.Orgs, s.Campaigns)
	if err == nil {
		return nil, nil
	}
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		wrong, ok := errors.AsType[*admission.Invalid](e)
		if ok && wrong.Field == "reserve" && s.reservesAreCounts() {
			warnings = append(warnings, fmt.Sprintf("%s: %s: %s", wrong.Scope, wrong.Field, wrong.Detail))
			continue
		}
		errs = append(errs, fmt.Errorf("simulate: %w", e))
	}
	return warnings, errs
}

func (s *Scenario) reservesAreCounts() bool {
	return !slices.ContainsFunc(s.Orgs, func(o admission.Org) bool { return o.Reserve < 0 })
}

// names complains of what a.Org and the like name and the scenario does not have.
func (s *Scenario) names(field string, a *Arrivals) (errs []error) {
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("simulate: %s%s: %s", field, name, fmt.Sprintf(format, args...)))
	}
	if !slices.ContainsFunc(s.Orgs, func(o admission.Org) bool { return o.ID == a.Org }) {
		bad("org", "%q is not in orgs", a.Org)
	}
	if !a.Class.Known() {
		bad("class", "%q, want one of %v", a.Class, call.Classes())
	}
	if a.Campaign != "" && !slices.ContainsFunc(s.Campaigns, func(c admission.Campaign) bool { return c.ID == a.Campaign }) {
		bad("campaign", "%q is not in campaigns", a.Campaign)
	}
	for i, alternatives := range a.Needs {
		if len(alternatives) == 0 {
			bad("needs", "[%d] names no provider", i)
		}
		for _, p := range alternatives {
			if _, ok := s.Providers[p]; !ok {
				bad("needs", "%q is not in providers", p)
			}
		}
	}
	return errs
}

// scale is the demand's configuration under a policy.
func (s *Scenario) scale(p demand.Policy) (demand.Config, error) {
	c := demand.Config{Policy: p, Floor: s.Scale.Floor, Ceiling: s.Scale.Ceiling}
	if s.Scale.PerBot != "" {
		r, err := demand.ParseRatio(s.Scale.PerBot.String())
		if err != nil {
			return c, fmt.Errorf("simulate: scale.per_bot: %w", err)
		}
		c.PerBot = r
	}
	c, err := c.WithDefaults()
	if err != nil {
		return c, fmt.Errorf("simulate: scale: %w", err)
	}
	return c, nil
}

// talk is how long the i-th call of a lasts.
func (a *Arrivals) talk(i int) time.Duration {
	const step = 7919 // a prime: the lengths come mixed, and each as often as any other
	return time.Duration(a.Talk+i*step%(a.Spread+1)) * time.Second
}
