package admission

import (
	"cmp"
	"slices"

	"dibs/call"
)

// naive is the model written down as it reads, without an index: every question
// scans every call. It is the oracle of the equivalence tests and the reference
// that the benchmark stands beside.
type naive struct {
	platform  Platform
	providers map[string]Load
	campaigns map[string]Campaign // those that were set
	orgs      map[string]*naiveOrg
	waiting   []Call
	live      []naiveLive
	floorPass map[string]bool
	admitted  int
	arrived   uint64

	seen *seen // what the last scan counted, nil after any change
}

// seen is one scan over all calls. It is made anew after every change, so it is
// only there to let a step take seconds and not minutes.
type seen struct {
	running map[who]int
	crowd   map[who]int
	waiting map[who][]Call
	owed    int
}

type who struct {
	org   string
	class call.Class
	name  string // campaign
}

func (n *naive) look() *seen {
	if n.seen != nil {
		return n.seen
	}
	n.seen = &seen{running: map[who]int{}, crowd: map[who]int{}, waiting: map[who][]Call{}}
	for _, c := range n.live {
		for _, w := range []who{{}, {org: c.Org}, {class: c.Class}, {org: c.Org, class: c.Class}} {
			n.seen.running[w]++
		}
		n.seen.crowd[crowdOf(c.Call)]++
	}
	for _, c := range n.waiting {
		w := who{org: c.Org, class: c.Class}
		n.seen.waiting[w] = append(n.seen.waiting[w], c)
	}
	for _, o := range n.orgs {
		n.seen.owed += n.usable(o)
	}
	return n.seen
}

// crowdOf is what a call is counted with: its campaign, or the campaign calls of
// its org that have none.
func crowdOf(c Call) who {
	if c.Campaign != "" {
		return who{name: c.Campaign}
	}
	return who{org: c.Org, class: c.Class}
}

type naiveOrg struct {
	Org
	set   bool
	last  int
	since map[call.Class]int
}

type naiveLive struct {
	Call
	providers []string
}

func newNaive(p Platform) *naive {
	return &naive{
		platform: p, providers: map[string]Load{}, campaigns: map[string]Campaign{},
		orgs: map[string]*naiveOrg{}, floorPass: map[string]bool{},
	}
}

func (n *naive) org(id string) *naiveOrg {
	if n.orgs[id] == nil {
		n.orgs[id] = &naiveOrg{Org: Org{ID: id}, since: map[call.Class]int{}}
	}
	return n.orgs[id]
}

// sweep forgets the history of orgs that nothing belongs to, and the waiting of
// classes in which nobody waits.
func (n *naive) sweep() {
	n.seen = nil
	used := map[string]bool{}
	for _, c := range n.waiting {
		used[c.Org] = true
	}
	for _, c := range n.live {
		used[c.Org] = true
	}
	for id, o := range n.orgs {
		if !o.set && !used[id] {
			delete(n.orgs, id)
			delete(n.floorPass, id)
		}
	}
	n.seen = nil
	for id, o := range n.orgs {
		for class := range o.since {
			if len(n.look().waiting[who{org: id, class: class}]) == 0 {
				o.since[class] = 0
			}
		}
	}
}

func (n *naive) enqueue(c Call) {
	if c.Arrival == 0 {
		c.Arrival = n.arrived + 1
	}
	n.arrived = max(n.arrived, c.Arrival)
	n.org(c.Org)
	n.seen = nil
	n.waiting = append(n.waiting, c)
	slices.SortStableFunc(n.waiting, func(a, b Call) int { return cmp.Compare(a.Arrival, b.Arrival) })
}

func (n *naive) remove(id string) bool {
	before := len(n.waiting)
	n.waiting = slices.DeleteFunc(n.waiting, func(c Call) bool { return c.ID == id })
	n.sweep()
	return len(n.waiting) < before
}

func (n *naive) hold(c Call, providers []string) {
	n.org(c.Org)
	n.seen = nil
	n.live = append(n.live, naiveLive{Call: c, providers: providers})
	for _, p := range slices.Compact(slices.Sorted(slices.Values(providers))) {
		n.use(p, +1)
	}
}

func (n *naive) use(provider string, d int) {
	l, ok := n.providers[provider]
	if !ok {
		l.Limit = Uncounted
	}
	l.Used += d
	n.providers[provider] = l
}

func (n *naive) end(id string) bool {
	i := slices.IndexFunc(n.live, func(c naiveLive) bool { return c.ID == id })
	if i < 0 {
		return false
	}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(n.live[i].providers))) {
		n.use(p, -1)
	}
	n.live = slices.Delete(n.live, i, i+1)
	n.sweep()
	return true
}

// running counts calls in flight; empty arguments match all.
func (n *naive) running(org string, class call.Class) int {
	return n.look().running[who{org: org, class: class}]
}

// crowd is how many calls run of what c is counted with.
func (n *naive) crowd(c Call) int { return n.look().crowd[crowdOf(c)] }

func (n *naive) owed(o *naiveOrg) int {
	r := min(o.Reserve, o.Floor)
	if o.Ceiling != nil {
		r = min(r, *o.Ceiling-1)
	}
	return max(0, r-n.running(o.ID, call.ClassInbound))
}

func (n *naive) usable(o *naiveOrg) int {
	if o.Ceiling == nil {
		return n.owed(o)
	}
	return max(0, min(n.owed(o), *o.Ceiling-n.running(o.ID, "")))
}

func (n *naive) totalOwed() int { return max(0, min(n.look().owed, n.platform.Cap-1)) }

func (n *naive) shortfall(o *naiveOrg) int {
	return max(0, o.Floor-n.owed(o)-n.running(o.ID, ""))
}

// decide puts the four questions.
func (n *naive) decide(c Call, lifted bool) (nos []No, providers, overflow []string) {
	o := n.org(c.Org)
	in := c.Class == call.ClassInbound
	for _, alternatives := range c.Needs {
		i := slices.IndexFunc(alternatives, func(p string) bool {
			l, counted := n.providers[p]
			return !counted || l.Limit == Uncounted || l.Used < l.Limit
		})
		switch {
		case i >= 0:
			providers = append(providers, alternatives[i])
		case in && n.platform.Full != Refuse:
			providers = append(providers, alternatives[0])
			overflow = append(overflow, alternatives[0])
		default:
			nos = append(nos, No{Scope: "provider:" + alternatives[0], Reason: ProviderCapacity})
		}
	}
	running := n.running(o.ID, "")
	if o.Ceiling != nil && running >= *o.Ceiling {
		nos = append(nos, No{Scope: "org:" + o.ID, Reason: OrgCeiling})
	} else if o.Ceiling != nil && !in && running+n.owed(o) >= *o.Ceiling {
		nos = append(nos, No{Scope: "org:" + o.ID, Reason: InboundReserve})
	}
	switch k := n.campaigns[c.Campaign]; {
	case k.Paused:
		nos = append(nos, No{Scope: "campaign:" + c.Campaign, Reason: CampaignPaused})
	case k.Cap != nil && n.crowd(c) >= *k.Cap:
		nos = append(nos, No{Scope: "campaign:" + c.Campaign, Reason: CampaignCap})
	}
	switch total := n.running("", ""); {
	case lifted:
	case total >= n.platform.Cap:
		nos = append(nos, No{Scope: "platform", Reason: PlatformFull})
	case total+n.totalOwed() >= n.platform.Cap && !(in && n.usable(o) > 0):
		nos = append(nos, No{Scope: "platform", Reason: PlatformReserve})
	}
	return nos, providers, overflow
}

func (n *naive) admissible(c Call, lifted bool) bool {
	nos, _, _ := n.decide(c, lifted)
	return len(nos) == 0
}

// each yields the waiting calls of an org and class that are admissible.
func (n *naive) each(org string, class call.Class, lifted bool) []Call {
	var cs []Call
	for _, c := range n.look().waiting[who{org: org, class: class}] {
		if n.admissible(c, lifted) {
			cs = append(cs, c)
		}
	}
	return cs
}
