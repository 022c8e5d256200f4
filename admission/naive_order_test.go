package admission

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"dibs/call"
)

var queued = []call.Class{call.ClassAPI, call.ClassRetry, call.ClassWorkflow, call.ClassCampaign}

func (n *naive) every(o *naiveOrg, class call.Class) int {
	w := o.Withhold
	if w == nil {
		w = n.platform.Withhold
	}
	if w == nil {
		w = DefaultWithhold()
	}
	if class == call.ClassAPI {
		return 0
	}
	return w[class]
}

// next is the next call of an org, "" when it has no admissible one.
func (n *naive) next(o *naiveOrg, lifted bool) (next Call, withheld bool) {
	first := func(class call.Class) (Call, bool) {
		cs := n.each(o.ID, class, lifted)
		if len(cs) == 0 {
			return Call{}, false
		}
		key := func(c Call) (int64, int) {
			switch {
			case class == call.ClassRetry && c.NotAfter != 0:
				return c.NotAfter, 0
			case class == call.ClassRetry:
				return math.MaxInt64, 0
			case class == call.ClassCampaign:
				return 0, n.crowd(c)
			}
			return 0, 0
		}
		return slices.MinFunc(cs, func(a, b Call) int {
			at, ak := key(a)
			bt, bk := key(b)
			return cmp.Or(cmp.Compare(at, bt), cmp.Compare(ak, bk), cmp.Compare(a.Arrival, b.Arrival))
		}), true
	}
	var plain Call
	for _, class := range queued {
		if c, ok := first(class); ok {
			plain = c
			break
		}
	}
	for _, class := range queued {
		if e := n.every(o, class); e > 0 && o.since[class] >= e-1 {
			if c, ok := first(class); ok {
				return c, c.Class != plain.Class
			}
		}
	}
	return plain, false
}

// admit lets one waiting call of an org go.
func (n *naive) admit(c Call, basis Basis, withheld, lifted bool) Decision {
	o := n.org(c.Org)
	seen := false
	for _, class := range queued {
		if seen && n.every(o, class) > 0 && len(n.each(o.ID, class, lifted)) > 0 {
			o.since[class]++
		}
		seen = seen || class == c.Class
	}
	o.since[c.Class] = 0
	_, providers, _ := n.decide(c, lifted)
	n.waiting = slices.DeleteFunc(n.waiting, func(w Call) bool { return w.ID == c.ID })
	n.hold(c, providers)
	n.sweep()
	n.admitted++
	o.last = n.admitted
	d := Decision{Call: c.ID, Org: c.Org, Class: c.Class, Region: c.Region, Campaign: c.Campaign, Admitted: true, Basis: basis, Providers: providers}
	if withheld {
		d.WithheldFor = c.Class
	}
	return d
}

func (n *naive) before(a, b *naiveOrg) int {
	return cmp.Or(
		cmp.Compare(n.running(a.ID, ""), n.running(b.ID, "")),
		cmp.Compare(a.last, b.last), cmp.Compare(a.ID, b.ID))
}

// step is the next admission of a tick; inBurst holds the rest of the burst pass.
func (n *naive) step(inBurst *[]*naiveOrg, lifted bool) (Decision, bool) {
	var able []*naiveOrg
	for _, id := range slices.Sorted(maps.Keys(n.orgs)) {
		if c, _ := n.next(n.orgs[id], lifted); c.ID != "" {
			able = append(able, n.orgs[id])
		}
	}
	var below, unserved []*naiveOrg
	for _, o := range able {
		if n.shortfall(o) > 0 {
			below = append(below, o)
			if !n.floorPass[o.ID] {
				unserved = append(unserved, o)
			}
		}
	}
	if len(below) > 0 {
		if len(unserved) == 0 {
			unserved, n.floorPass = below, map[string]bool{}
		}
		o := slices.MinFunc(unserved, func(a, b *naiveOrg) int {
			return cmp.Or(cmp.Compare(n.shortfall(b), n.shortfall(a)), n.before(a, b))
		})
		n.floorPass[o.ID] = true
		c, withheld := n.next(o, lifted)
		return n.admit(c, ByFloor, withheld, lifted), true
	}
	for {
		if len(*inBurst) == 0 {
			if len(able) == 0 {
				return Decision{}, false
			}
			*inBurst = slices.SortedFunc(slices.Values(able), n.before)
		}
		o := (*inBurst)[0]
		*inBurst = (*inBurst)[1:]
		if c, withheld := n.next(o, lifted); c.ID != "" {
			return n.admit(c, ByBurst, withheld, lifted), true
		}
	}
}

func (n *naive) tick(limit int, lifted bool) (ds []Decision) {
	var inBurst []*naiveOrg
	for limit == 0 || len(ds) < limit {
		d, ok := n.step(&inBurst, lifted)
		if !ok {
			break
		}
		ds = append(ds, d)
	}
	return ds
}

func (n *naive) clone() *naive {
	m := *n
	m.seen = nil
	m.providers, m.floorPass = maps.Clone(n.providers), maps.Clone(n.floorPass)
	m.waiting, m.live = slices.Clone(n.waiting), slices.Clone(n.live)
	m.orgs = map[string]*naiveOrg{}
	for id, o := range n.orgs {
		c := *o
		c.since = maps.Clone(o.since)
		m.orgs[id] = &c
	}
	return &m
}

func (n *naive) order() []Decision { return n.clone().tick(0, true) }

func (n *naive) inbound(c Call) Decision {
	c.Class = call.ClassInbound
	d := Decision{Call: c.ID, Org: c.Org, Class: c.Class, Region: c.Region, Campaign: c.Campaign}
	nos, providers, overflow := n.decide(c, false)
	if len(nos) > 0 {
		n.sweep()
		return verdict(d, nos)
	}
	o := n.org(c.Org)
	d.Admitted, d.Providers, d.Overflow, d.Basis = true, providers, overflow, ByBurst
	switch {
	case overflow != nil:
		d.Basis = ByOverflow
	case n.usable(o) > 0:
		d.Basis = ByReserve
	case n.shortfall(o) > 0:
		d.Basis = ByFloor
	}
	n.hold(c, providers)
	n.admitted++
	o.last = n.admitted
	return d
}

func verdict(d Decision, nos []No) Decision {
	if len(nos) == 0 {
		nos = []No{{Scope: "platform", Reason: TickLimit}}
	}
	d.Reason, d.Scope, d.BlockedBy = nos[0].Reason, nos[0].Scope, nos
	return d
}

func (n *naive) verdicts() (ds []Decision) {
	for _, c := range n.waiting {
		nos, _, _ := n.decide(c, false)
		ds = append(ds, verdict(Decision{Call: c.ID, Org: c.Org, Class: c.Class, Region: c.Region, Campaign: c.Campaign}, nos))
	}
	return ds
}
