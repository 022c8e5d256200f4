package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dibs/admission"
	"dibs/api"
	"dibs/wire"
)

// DefaultCap is the platform's when neither it nor the backend says another.
const DefaultCap = 1000

// Limits is everything that admission is told: the platform, and what was set of
// orgs and campaigns. It is a copy; changing it changes nothing.
type Limits struct {
	Cap       int // of a platform that says none
	Platform  api.Platform
	Orgs      map[string]api.Org
	Campaigns map[string]api.Campaign
}

// EffectiveCap is the cap that holds.
func (l Limits) EffectiveCap() int { return cmp.Or(l.Platform.Cap, l.Cap, DefaultCap) }

// Admission is the same in admission's words, by id.
func (l Limits) Admission() (admission.Platform, []admission.Org, []admission.Campaign) {
	p := admission.Platform{Cap: l.EffectiveCap(), Withhold: l.Platform.Withhold, Full: admission.OverflowPolicy(l.Platform.Full)}
	var orgs []admission.Org
	for _, id := range slices.Sorted(maps.Keys(l.Orgs)) {
		orgs = append(orgs, OrgOf(l.Orgs[id]))
	}
	var campaigns []admission.Campaign
	for _, id := range slices.Sorted(maps.Keys(l.Campaigns)) {
		c := admission.Campaign{ID: id, Org: l.Campaigns[id].Org, Cap: l.Campaigns[id].Cap, Paused: l.Campaigns[id].Paused}
		campaigns = append(campaigns, c)
	}
	return p, orgs, campaigns
}

// OrgOf is an envelope in admission's words.
func OrgOf(o api.Org) admission.Org {
	return admission.Org{ID: o.ID, Floor: o.Floor, Ceiling: o.Ceiling, Reserve: o.Reserve, Withhold: o.Withhold}
}

// Warnings is what is legal, or stored, and does not do what its owner may think:
// of one scope (platform, org:<id>, campaign:<id>), or all.
func (l Limits) Warnings(scope string) []api.Warning {
	out := []api.Warning{}
	p, orgs, campaigns := l.Admission()
	for _, w := range admission.Lint(p, orgs) {
		if scope == "" || w.Scope == scope {
			out = append(out, api.Warning(w))
		}
	}
	for _, c := range campaigns {
		if _, ok := l.Orgs[c.Org]; ok || scope != "" && scope != "campaign:"+c.ID {
			continue
		}
		out = append(out, api.Warning{Code: "org_without_envelope", Scope: "campaign:" + c.ID, Detail: fmt.Sprintf("org %s has no envelope: it has no floor and no ceiling", c.Org)})
	}
	return out
}

// check reports what [admission.Validate] says of l with the entry under key changed,
// where before was the last state: what was wrong before, elsewhere, stands in
// nobody's way.
func (l Limits) check(before Limits, key string) error {
	was := map[string]bool{}
	for _, e := range faults(before) {
		was[e.Scope+" "+e.Field] = true
	}
	scope := strings.Replace(key, ".", ":", 1)
	id := strings.TrimPrefix(key, keyOrg)
	more := OrgOf(l.Orgs[id]).EffectiveReserve() > OrgOf(before.Orgs[id]).EffectiveReserve()
	bad := &Invalid{}
	for _, e := range faults(l) {
		if e.Scope != scope && was[e.Scope+" "+e.Field] && !(e.Scope == keyPlatform && more) {
			continue
		}
		f := api.FieldProblem{Path: e.Field, Detail: e.Detail}
		switch {
		case e.Scope == scope || e.Scope == keyPlatform && more: // the sum of the reserves, and this one is the last straw
		case e.Scope != keyPlatform:
			f.Path, f.Detail = "", e.Scope+": "+e.Detail
		}
		if e.Field == "reserve" {
			bad.Deadlock = true
			if scope == keyPlatform {
				f.Path = "cap"
			}
		}
		bad.Fields = append(bad.Fields, f)
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

// faults is what admission refuses of l.
func faults(l Limits) (out []*admission.Invalid) {
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](admission.Validate(l.Admission()))
	if !ok {
		return nil
	}
	for _, err := range joined.Unwrap() {
		if e, ok := errors.AsType[*admission.Invalid](err); ok {
			out = append(out, e)
		}
	}
	return out
}

// fault collects what is wrong with one entry by itself.
type fault []api.FieldProblem

func (f *fault) say(path, format string, args ...any) {
	*f = append(*f, api.FieldProblem{Path: path, Detail: fmt.Sprintf(format, args...)})
}

func (f *fault) id(path, id string) {
	if wire.CheckToken(id) != nil {
		f.say(path, "want 1 to 128 letters, digits, _ or -")
	}
}

func (f *fault) calls(path string, n int) {
	if n < 0 || n > api.MaxCalls {
		f.say(path, "%d, want 0 to %d", n, api.MaxCalls)
	}
}

func (f fault) err() error {
	if len(f) == 0 {
		return nil
	}
	return &Invalid{Fields: f}
}

// CheckOrg, [CheckCampaign] and [CheckPlatform] report what is wrong with an entry by
// itself, as an [*Invalid]; whether it goes with the others is asked when it is put.
func CheckOrg(o api.Org) error {
	var f fault
	f.id("id", o.ID)
	f.calls("floor", o.Floor)
	f.calls("reserve", o.Reserve)
	if o.Ceiling != nil {
		f.calls("ceiling", *o.Ceiling)
	}
	for c, n := range o.Withhold {
		f.calls("withhold."+string(c), n)
	}
	return f.err()
}

// CheckCampaign is described at [CheckOrg].
func CheckCampaign(c api.Campaign) error {
	var f fault
	f.id("id", c.ID)
	f.id("org_id", c.Org)
	if c.Cap != nil {
		f.calls("cap", *c.Cap)
	}
	return f.err()
}

// CheckPlatform is described at [CheckOrg].
func CheckPlatform(p api.Platform) error {
	var f fault
	f.calls("cap", p.Cap)
	for c, n := range p.Withhold {
		f.calls("withhold."+string(c), n)
	}
	if p.Full != "" && p.Full != string(admission.Overflow) && p.Full != string(admission.Refuse) {
		f.say("full", "want overflow or refuse")
	}
	return f.err()
}
