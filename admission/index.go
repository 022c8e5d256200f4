package admission

import (
	"encoding/binary"
	"math"
	"slices"
)

// waiting is one call in the queue. There may be hundreds of thousands, so all
// that many of them share stands in the sub-queue.
type waiting struct {
	id      string
	sub     *sub
	arrival uint64
	until   int64 // retries: the end of the window, the largest number when there is none
	at      int   // place in the sub-queue's heap
}

// before is the order inside a class; until is the same for all but retries.
func (w *waiting) before(v *waiting) bool {
	if w.until != v.until {
		return w.until < v.until
	}
	return w.arrival < v.arrival || w.arrival == v.arrival && w.id < v.id
}

// subKey is what all calls of a sub-queue of one org have in common.
type subKey struct {
	rank      rank
	region    string
	campaign  string
	signature *signature
}

// sub is a sub-queue: calls that every question treats alike, so that the first
// answers for all of them.
type sub struct {
	subKey
	org   *org
	crowd *crowd // nil: no campaign
	at    int    // place in org.subs
	heap[*waiting]
}

func (s *State) org(id string) *org {
	o := s.orgs[id]
	if o == nil {
		o = &org{Org: Org{ID: id}, at: len(s.list), index: map[subKey]*sub{}}
		o.every = s.protection(o.Org)
		s.orgs[id] = o
		s.list = append(s.list, o)
	}
	return o
}

// forgetOrg drops an org that was never set, or was deleted, with its last call.
func (s *State) forgetOrg(o *org) {
	if o.set || len(o.index) > 0 || o.inFlight() > 0 || s.orgs[o.ID] != o {
		return
	}
	delete(s.orgs, o.ID)
	last := len(s.list) - 1
	s.list[o.at] = s.list[last]
	s.list[o.at].at = o.at
	s.list[last] = nil
	s.list = s.list[:last]
}

func (s *State) campaign(id string) *crowd {
	c := s.campaigns[id]
	if c == nil {
		c = &crowd{Campaign: Campaign{ID: id}, live: map[*live]struct{}{}}
		s.campaigns[id] = c
	}
	return c
}

func (s *State) forgetCampaign(c *crowd) {
	if !c.set && c.subs == 0 && len(c.live) == 0 {
		delete(s.campaigns, c.ID)
	}
}

// crowdOf is whom a call is counted with besides its org. Campaign calls that name
// no campaign take turns with the org's campaigns as if they were one.
func (s *State) crowdOf(o *org, r rank, campaignID string) *crowd {
	switch {
	case campaignID != "":
		return s.campaign(campaignID)
	case r != campaign:
		return nil
	case o.loose == nil:
		o.loose = &crowd{live: map[*live]struct{}{}}
	}
	return o.loose
}

// sub is the sub-queue that c belongs to.
func (s *State) sub(o *org, r rank, c Call) *sub {
	key := subKey{rank: r, region: c.Region, campaign: c.Campaign, signature: s.signature(c.Needs)}
	q := o.index[key]
	if q == nil {
		q = &sub{subKey: key, org: o, crowd: s.crowdOf(o, r, c.Campaign), at: len(o.subs[r])}
		q.less = (*waiting).before
		q.moved = func(w *waiting, at int) { w.at = at }
		q.signature.subs++
		if q.crowd != nil {
			q.crowd.subs++
		}
		o.index[key] = q
		o.subs[r] = append(o.subs[r], q)
	}
	return q
}

func (s *State) dropSub(q *sub) {
	o := q.org
	delete(o.index, q.subKey)
	subs := o.subs[q.rank]
	last := len(subs) - 1
	subs[q.at] = subs[last]
	subs[q.at].at = q.at
	subs[last] = nil
	o.subs[q.rank] = subs[:last]
	if last == 0 {
		o.since[q.rank] = 0 // nobody waits any more, so nobody has waited
	}
	if q.crowd != nil {
		q.crowd.subs--
		s.forgetCampaign(q.crowd)
	}
	if q.signature.subs--; q.signature.subs == 0 {
		delete(s.signatures, q.signature.key)
	}
}

// signature finds or makes the one that stands for needs.
func (s *State) signature(needs [][]string) *signature {
	b := s.scratch[:0]
	for _, alternatives := range needs {
		b = binary.AppendUvarint(b, uint64(len(alternatives)))
		for _, p := range alternatives {
			b = binary.AppendUvarint(b, uint64(len(p)))
			b = append(b, p...)
		}
	}
	s.scratch = b
	g := s.signatures[string(b)]
	if g == nil {
		g = &signature{key: string(b)}
		for _, alternatives := range needs {
			g.needs = append(g.needs, slices.Clone(alternatives))
		}
		s.signatures[g.key] = g
	}
	return g
}

// inFlight is n(o).
func (o *org) inFlight() int {
	n := 0
	for _, set := range o.live {
		n += len(set)
	}
	return n
}

// owed is how many lines of the reserve no inbound call is using.
func (o *org) owed() int { return max(0, o.EffectiveReserve()-len(o.live[inbound])) }

// usable is how many of them an inbound call could really get.
func (o *org) usable() int { return o.under(o.owed(), o.inFlight()) }

func (o *org) under(owed, n int) int {
	if o.Ceiling == nil {
		return owed
	}
	return max(0, min(owed, *o.Ceiling-n))
}

// shortfall is how far outbound is below the part of the floor that is its own.
func (o *org) shortfall() int { return max(0, o.Floor-o.owed()-o.inFlight()) }

// owed is what the platform keeps for inbound: never the last slot.
func (s *State) owed() int {
	sum := 0
	for _, o := range s.list {
		sum += o.usable()
	}
	return s.keeps(sum)
}

func (s *State) keeps(usable int) int { return max(0, min(usable, s.platform.Cap-1)) }

// noWindow is the window of a call that has none: it ends last.
const noWindow = math.MaxInt64
