package admission

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dibs/call"
)

// witness holds I1 to I14 against what the state does. It never asks the scan who
// is next, only whether a call is admissible, and does to the scan what the state did.
type witness struct {
	*world
	t *rapid.T

	excess    int                           // I2: N + Owed over the cap
	passed    map[string]map[string]int     // I10: org below its floor → org that went instead → times
	watched   map[string]map[call.Class]int // I11: org → class → higher calls that went while it could, without a break
	watchedIn map[string]map[call.Class]int // I9: the same, breaks allowed
	where     int                           // op number
}

func (w *witness) reset() {
	w.passed = map[string]map[string]int{}
	w.watched = map[string]map[call.Class]int{}
}

func (w *witness) failf(inv, format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("op %d: "+inv+": "+format, append([]any{w.where}, args...)...)
}

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &witness{world: newWorld(), t: t, watchedIn: map[string]map[call.Class]int{}}
		w.reset()
		for i, o := range drawHistory(t) {
			w.where = i
			switch o.kind {
			case opTick:
				w.tick(o.n)
			case opInbound:
				w.inbound(o.call)
			default:
				o = w.tell(t, o)
				w.forget(o)
			}
			w.steady(o)
		}
	})
}

// forget drops what settings make meaningless.
func (w *witness) forget(o op) {
	switch {
	case o.changes():
		keep := w.passed
		w.reset()
		if o.kind != opDeleteOrg { // a new org of an old name is in no pass
			w.passed = keep
		}
	case o.kind == opRemove && o.call.ID != "":
		if !w.waits(o.call.Org, o.call.Class) { // the next of this class begins at nothing, as since does
			delete(w.watchedIn[o.call.Org], o.call.Class)
			delete(w.watched[o.call.Org], o.call.Class)
		}
	}
}

func (w *witness) waits(org string, class call.Class) bool {
	return slices.ContainsFunc(w.n.waiting, func(c Call) bool { return c.Org == org && c.Class == class })
}

// able are the orgs with an admissible call.
func (w *witness) able() map[string]*naiveOrg {
	able := map[string]*naiveOrg{}
	for _, c := range w.n.waiting {
		if able[c.Org] == nil && w.n.admissible(c, false) {
			able[c.Org] = w.n.org(c.Org)
		}
	}
	return able
}

func (w *witness) tick(limit int) {
	n := w.n
	progress := len(n.live) == 0 && n.platform.Cap >= 1 && slices.ContainsFunc(n.waiting, w.couldAlone)
	ds := w.s.Tick(limit)
	if progress && len(ds) == 0 {
		w.failf("I8", "nothing is in flight, a call could go and none went: %+v", n.waiting)
	}
	if limit > 0 && len(ds) > limit {
		w.failf("limit", "%d admissions, limit %d", len(ds), limit)
	}
	for _, d := range ds {
		i := slices.IndexFunc(n.waiting, func(c Call) bool { return c.ID == d.Call })
		if i < 0 || !d.Admitted {
			w.failf("tick", "admitted %+v, which does not wait", d)
		}
		c := n.waiting[i]
		w.admission(c, d)
		n.waiting = slices.Delete(n.waiting, i, i+1)
		n.hold(c, d.Providers)
		n.sweep()
		w.limits(c, d)
	}
	if limit == 0 {
		for _, c := range n.waiting {
			if n.admissible(c, false) {
				w.failf("I6", "%s is admissible after an unlimited tick", c.ID)
			}
		}
	}
	w.verdicts()
}

// couldAlone says that providers, campaign and ceiling allow c on an empty platform.
func (w *witness) couldAlone(c Call) bool {
	nos, _, _ := w.n.decide(c, true)
	nos = slices.DeleteFunc(nos, func(no No) bool { return no.Reason == InboundReserve })
	return len(nos) == 0
}

// admission is judged before it happens.
func (w *witness) admission(c Call, d Decision) {
	n, o := w.n, w.n.org(c.Org)
	nos, providers, _ := n.decide(c, false)
	if len(nos) > 0 {
		w.failf("I1", "%s was admitted, in spite of %+v", c.ID, nos)
	}
	if !slices.Equal(providers, d.Providers) {
		w.failf("providers", "%s: got %v, want %v", c.ID, d.Providers, providers)
	}
	able := w.able()
	below := n.shortfall(o) > 0
	switch {
	case below != (d.Basis == ByFloor):
		w.failf("basis", "%s went by %s with shortfall %d", c.ID, d.Basis, n.shortfall(o))
	case d.Basis == ByFloor:
		w.floorFairness(c.Org, able)
	case d.Basis == ByBurst:
		for id, a := range able {
			if n.shortfall(a) > 0 {
				w.failf("I5", "%s of %s went in burst, %s is below its floor and has an admissible call", c.ID, c.Org, id)
			}
			if n.running(id, "") == 0 && n.running(c.Org, "") > 0 {
				w.failf("I12", "%s of %s went in burst, %s runs nothing and has an admissible call", c.ID, c.Org, id)
			}
		}
	}
	w.classFairness(c, d)
}

// limits is I1 after the fact.
func (w *witness) limits(c Call, d Decision) {
	n, o := w.n, w.n.org(c.Org)
	if k := n.running("", ""); k > n.platform.Cap {
		w.failf("I1", "%d in flight, cap %d", k, n.platform.Cap)
	}
	if k := n.running(c.Org, ""); o.Ceiling != nil && k > *o.Ceiling {
		w.failf("I1", "org %s runs %d, ceiling %d", c.Org, k, *o.Ceiling)
	}
	if k, ok := n.campaigns[c.Campaign]; ok && k.Limit() != nil && n.crowd(c) > *k.Limit() {
		w.failf("I1", "campaign %s runs %d, cap %d", c.Campaign, n.crowd(c), *k.Limit())
	}
	for _, p := range d.Providers {
		if l := w.ledger.Load(p); d.Basis != ByOverflow && l.Used > l.Limit {
			w.failf("I1", "provider %s carries %d, limit %d", p, l.Used, l.Limit)
		}
	}
}

func (w *witness) inbound(c Call) {
	n := w.n
	c.Class = call.ClassInbound
	o := n.org(c.Org)
	usable, owed := n.usable(o), n.owed(o)
	legal := w.legal() && w.excess == 0
	nos, providers, overflow := n.decide(c, false)
	d := w.s.Inbound(c)
	if d.Admitted != (len(nos) == 0) {
		w.failf("inbound", "%+v, the gates say %+v", d, nos)
	}
	if usable > 0 {
		for _, no := range d.BlockedBy {
			if no.Reason == PlatformReserve || no.Reason == ProviderCapacity && n.platform.Full != Refuse || no.Reason == PlatformFull && legal {
				w.failf("I3", "%s has %d lines kept for it and was refused: %+v", c.ID, usable, d)
			}
		}
	}
	if !d.Admitted {
		w.n.sweep()
		return
	}
	if !slices.Equal(overflow, d.Overflow) || (d.Basis == ByOverflow) != (overflow != nil) {
		w.failf("inbound", "overflow %v, basis %s, want %v", d.Overflow, d.Basis, overflow)
	}
	n.hold(c, providers)
	w.limits(c, d)
	if now := n.owed(o); owed > 0 && now != owed-1 {
		w.failf("I4", "owed was %d and is %d after one inbound call", owed, now)
	}
	if again := w.s.Inbound(c); !same([]Decision{again}, []Decision{d}) {
		w.failf("inbound", "asked again: %+v, first %+v", again, d)
	}
}

// legal: the reserves fit below the cap.
func (w *witness) legal() bool {
	sum := 0
	for _, o := range w.n.orgs {
		sum += o.EffectiveReserve()
	}
	return sum <= w.n.platform.Cap-1
}

// verdicts is I13.
func (w *witness) verdicts() {
	got := map[string]Decision{}
	for d := range w.s.Verdicts() {
		got[d.Call] = d
		if one, ok := w.s.Verdict(d.Call); !ok || !same([]Decision{one}, []Decision{d}) {
			w.failf("I13", "Verdict(%s) = %+v, Verdicts %+v", d.Call, one, d)
		}
	}
	if len(got) != len(w.n.waiting) {
		w.failf("I13", "%d verdicts for %d calls", len(got), len(w.n.waiting))
	}
	grouped := 0
	for g := range w.s.Groups() {
		grouped += g.Calls
		if d := got[g.First]; d.Reason != g.Verdict.Reason {
			w.failf("I13", "group of %s: %s, its first call %s", g.First, g.Verdict.Reason, d.Reason)
		}
	}
	if grouped != len(got) {
		w.failf("I13", "%d calls in groups, %d verdicts", grouped, len(got))
	}
	for _, c := range w.n.waiting {
		d := got[c.ID]
		nos, _, _ := w.n.decide(c, false)
		want := verdict(Decision{}, nos)
		if d.Reason == "" || d.Scope == "" || d.Org != c.Org || d.Class != c.Class || d.Admitted {
			w.failf("I13", "%s: %+v", c.ID, d)
		}
		if !sameNos(want.BlockedBy, d.BlockedBy) || d.Reason != want.Reason || d.Scope != want.Scope {
			w.failf("I13", "%s: got %+v, want %+v", c.ID, d, want)
		}
	}
}

// steady is what holds after every op: I2, I4 and I14.
func (w *witness) steady(o op) {
	n, r := w.n, w.s.Report()
	excess := max(0, r.Platform.InFlight+r.Platform.Owed-r.Platform.Cap)
	if !o.changes() && w.legal() && excess > w.excess {
		w.failf("I2", "%d in flight and %d owed, cap %d, over it by %d before", r.Platform.InFlight, r.Platform.Owed, r.Platform.Cap, w.excess)
	}
	w.excess = excess

	var ids []string
	byClass, byOrg, byCampaign, byRegion := map[call.Class]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for l := range w.s.InFlight() {
		ids = append(ids, l.ID)
		byClass[l.Class]++
		byOrg[l.Org]++
		byCampaign[l.Campaign]++
		byRegion[l.Region]++
	}
	slices.Sort(ids)
	if want := liveIDs(n); !slices.Equal(want, ids) {
		w.failf("I14", "in flight %v, want %v", ids, want)
	}
	if r.Platform.InFlight != len(ids) || r.Platform.Owed != n.totalOwed() || r.Platform.Waiting != len(n.waiting) {
		w.failf("I14", "platform %+v, want %d in flight, %d owed, %d waiting", r.Platform, len(ids), n.totalOwed(), len(n.waiting))
	}
	known := slices.Sorted(maps.Keys(n.orgs))
	for i, or := range r.Orgs {
		k := n.org(or.ID)
		inbound := n.running(or.ID, call.ClassInbound)
		switch {
		case i >= len(known) || known[i] != or.ID:
			w.failf("I14", "org %s, want %v", or.ID, known)
		case or.Owed != max(0, or.EffectiveReserve-inbound) || or.Owed > or.Reserve || or.Owed != n.owed(k):
			w.failf("I4", "org %s: owed %d of reserve %d (effective %d) with %d inbound", or.ID, or.Owed, or.Reserve, or.EffectiveReserve, inbound)
		case or.InFlight != byOrg[or.ID] || or.Shortfall != n.shortfall(k):
			w.failf("I14", "org %+v, want %d in flight, shortfall %d", or, byOrg[or.ID], n.shortfall(k))
		}
		for class, count := range or.ByClass {
			if count != n.running(or.ID, class) {
				w.failf("I14", "org %s runs %d of %s, want %d", or.ID, count, class, n.running(or.ID, class))
			}
		}
	}
	for _, k := range r.Campaigns {
		if k.InFlight != byCampaign[k.ID] {
			w.failf("I14", "campaign %s runs %d, want %d", k.ID, k.InFlight, byCampaign[k.ID])
		}
	}
	for _, g := range r.Regions {
		sum := 0
		for _, count := range g.InFlight {
			sum += count
		}
		if sum != byRegion[g.Region] {
			w.failf("I14", "region %q runs %d, want %d", g.Region, sum, byRegion[g.Region])
		}
	}
	for p, l := range n.providers {
		if got := w.ledger.Load(p); got != l {
			w.failf("I14", "provider %s: %+v, want %+v", p, got, l)
		}
	}
}
