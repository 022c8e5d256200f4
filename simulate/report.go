package simulate

import (
	"cmp"
	"slices"
	"time"

	"dibs/demand"
)

// Report is a scenario under each of its policies.
type Report struct {
	About    string   `json:"about,omitempty"`
	Warnings []string `json:"warnings,omitempty"` // settings that the API would refuse
	Results  []Result `json:"results"`
}

// Result is a scenario under one policy.
type Result struct {
	Policy     demand.Policy `json:"policy"`
	PeakDemand int           `json:"peak_demand"`      // calls, as the autoscaler saw it
	PeakBots   int           `json:"peak_bots"`        // that were wanted at once
	Used       int           `json:"used"`             // bots that were on a call at once, at most
	Idle       int           `json:"idle_bot_minutes"` // of bots that were ready and had no call

	Placed   int            `json:"placed"` // calls that came
	Done     int            `json:"done"`
	InFlight int            `json:"in_flight"` // still, at the end
	Waiting  int            `json:"waiting"`   // still, at the end
	Refused  map[string]int `json:"refused"`   // reason → calls: no_idle_bot, bot_unavailable, or why admission said no
	Orgs     []OrgResult    `json:"orgs"`      // those that called, by id
}

// OrgResult is one customer. The waits are from a call's arrival to its bot, in
// seconds; a call that still waits counts with what it has waited, a refused one
// not at all.
type OrgResult struct {
	Org     string `json:"org"`
	Placed  int    `json:"placed"`
	Done    int    `json:"done"`
	Refused int    `json:"refused"`
	P50     int    `json:"wait_p50_s"`
	P95     int    `json:"wait_p95_s"`
	Longest int    `json:"wait_longest_s"`
}

// tally is what is added up on the way.
type tally struct {
	demand, bots, used int
	idle               time.Duration
	refused            map[string]int
}

func (w *world) result() Result {
	r := Result{
		Policy: w.scale.Policy, PeakDemand: w.ended.demand, PeakBots: w.ended.bots, Used: w.ended.used,
		Idle: int(w.ended.idle.Round(time.Minute) / time.Minute), Placed: len(w.talks), Refused: w.ended.refused,
	}
	byOrg := map[string]*OrgResult{}
	waited := map[string][]time.Duration{} // org → wait of each call
	for _, t := range w.talks {
		o := byOrg[t.Org]
		if o == nil {
			o = &OrgResult{Org: t.Org}
			byOrg[t.Org] = o
		}
		o.Placed++
		until := t.begun
		switch t.fate {
		case waits:
			r.Waiting++
			until = w.now
		case talking:
			r.InFlight++
		case done:
			r.Done++
			o.Done++
		case refused:
			o.Refused++
			continue
		}
		waited[t.Org] = append(waited[t.Org], until-t.arrived)
	}
	for id, o := range byOrg {
		slices.Sort(waited[id])
		o.P50, o.P95, o.Longest = rank(waited[id], 50), rank(waited[id], 95), rank(waited[id], 100)
		r.Orgs = append(r.Orgs, *o)
	}
	slices.SortFunc(r.Orgs, func(a, b OrgResult) int { return cmp.Compare(a.Org, b.Org) })
	return r
}

// rank is the smallest value that percent of all do not exceed, in seconds.
func rank(sorted []time.Duration, percent int) int {
	if len(sorted) == 0 {
		return 0
	}
	return int(sorted[(len(sorted)*percent+99)/100-1] / time.Second)
}
