package admission

import (
	"errors"
	"fmt"

	"dibs/call"
)

// Call is what admission has to know of a call.
type Call struct {
	ID       string     `json:"id"`
	Org      string     `json:"org"`
	Class    call.Class `json:"class"`
	Region   string     `json:"region,omitempty"`    // a label, for the counts of one region; it decides nothing
	Campaign string     `json:"campaign,omitempty"`  // empty: none
	Needs    [][]string `json:"needs,omitempty"`     // for each resource the providers that would do, the preferred one first
	NotAfter int64      `json:"not_after,omitempty"` // retries: the end of the window, in any unit, smaller goes first; 0: none, goes last
	Arrival  uint64     `json:"arrival,omitempty"`   // its number in the line, lower goes first; 0: after all that came before
}

// Why a call was not taken into the queue. Nothing has changed then.
var (
	ErrCall  = errors.New("admission: not a call that can be queued")
	ErrKnown = errors.New("admission: the call is waiting or in flight already")
)

// State is one environment: its settings, the calls that wait and the calls that
// are in flight. It belongs to one goroutine.
type State struct {
	platform Platform
	vendors  Providers

	orgs       map[string]*org
	list       []*org // the same orgs, for walking
	campaigns  map[string]*crowd
	signatures map[string]*signature

	waiting map[string]*waiting // call id → call that waits
	live    map[string]*live    // call id → call in flight: THE set

	pass    uint64 // number of the current floor pass
	served  uint64 // number of the last admission
	arrived uint64 // highest arrival number so far
	asked   uint64 // age of the answers remembered in signatures
	scratch []byte
}

// org is an envelope with everything that belongs to it.
type org struct {
	Org
	set   bool // by SetOrg; an org that was not set lives as long as its calls
	every [ranks]int
	at    int // place in State.list

	live  [ranks]map[*live]struct{} // its part of the set
	subs  [ranks][]*sub             // what waits
	index map[subKey]*sub
	loose *crowd // its campaign calls that name no campaign

	since [ranks]int // admissions of higher classes that a protected class had to watch
	last  uint64     // number of its last admission
	pass  uint64     // the floor pass in which it was last served
}

// crowd is the calls of one campaign.
type crowd struct {
	Campaign
	set  bool
	live map[*live]struct{} // its part of the set
	subs int                // sub-queues that name it
}

// signature is one way of needing providers, shared by all calls that need the same.
type signature struct {
	key   string
	needs [][]string
	subs  int

	asked uint64 // the answer below is as old as this
	room  bool
}

// live is a call in flight.
type live struct {
	Live
	rank  rank
	org   *org
	crowd *crowd // nil: counts for no campaign
}

// New makes the state of a platform on which nothing runs or waits. Providers nil
// means that none is counted.
func New(p Platform, v Providers) *State {
	if v == nil {
		v = uncounted{}
	}
	s := &State{
		vendors: v,
		orgs:    map[string]*org{}, campaigns: map[string]*crowd{}, signatures: map[string]*signature{},
		waiting: map[string]*waiting{}, live: map[string]*live{},
		pass: 1,
	}
	s.SetPlatform(p)
	return s
}

// SetPlatform changes what holds for all orgs. It does not validate.
func (s *State) SetPlatform(p Platform) {
	if p.Withhold == nil {
		p.Withhold = DefaultWithhold()
	}
	s.platform = p
	for _, o := range s.list {
		o.every = s.protection(o.Org)
	}
}

func (s *State) protection(o Org) (every [ranks]int) {
	w := o.Withhold
	if w == nil {
		w = s.platform.Withhold
	}
	for r := retry; r < ranks; r++ {
		every[r] = w[classes[r]]
	}
	return every
}

// SetOrg adds or changes an org. It does not validate: see [Validate].
func (s *State) SetOrg(o Org) {
	k := s.org(o.ID)
	k.Org, k.set, k.every = o, true, s.protection(o)
}

// DeleteOrg takes the envelope away. Its calls stay, waiting and in flight, and
// count as those of an org that was never set.
func (s *State) DeleteOrg(id string) {
	if o := s.orgs[id]; o != nil {
		o.Org, o.set = Org{ID: id}, false
		o.every = s.protection(o.Org)
		s.forgetOrg(o)
	}
}

// SetCampaign adds or changes a campaign.
func (s *State) SetCampaign(c Campaign) {
	k := s.campaign(c.ID)
	k.Campaign, k.set = c, true
}

// DeleteCampaign takes the campaign's cap away.
func (s *State) DeleteCampaign(id string) {
	if c := s.campaigns[id]; c != nil {
		c.Campaign, c.set = Campaign{ID: id}, false
		s.forgetCampaign(c)
	}
}

// Enqueue lets a call wait; the next [State.Tick] judges it. The error is
// [ErrKnown] or wraps [ErrCall].
func (s *State) Enqueue(c Call) error {
	r, ok := rankOf(c.Class)
	switch {
	case c.ID == "" || c.Org == "":
		return fmt.Errorf("%w: id or org is empty", ErrCall)
	case !ok || r == inbound:
		return fmt.Errorf("%w: class %q", ErrCall, c.Class)
	case s.waiting[c.ID] != nil || s.live[c.ID] != nil:
		return ErrKnown
	}
	for _, alternatives := range c.Needs {
		if len(alternatives) == 0 {
			return fmt.Errorf("%w: a need without a provider", ErrCall)
		}
	}
	if c.Arrival == 0 {
		c.Arrival = s.arrived + 1
	}
	s.arrived = max(s.arrived, c.Arrival)

	w := &waiting{id: c.ID, arrival: c.Arrival, until: noWindow}
	if r == retry && c.NotAfter != 0 {
		w.until = c.NotAfter
	}
	w.sub = s.sub(s.org(c.Org), r, c)
	w.sub.push(w)
	s.waiting[w.id] = w
	return nil
}

// Remove takes a waiting call out of the queue and reports whether it was there.
func (s *State) Remove(id string) bool {
	w := s.waiting[id]
	if w == nil {
		return false
	}
	s.unqueue(w)
	s.forgetOrg(w.sub.org)
	return true
}

// unqueue takes w out of its sub-queue, and away with that when it was the last.
func (s *State) unqueue(w *waiting) {
	delete(s.waiting, w.id)
	w.sub.remove(w.at)
	if len(w.sub.items) == 0 {
		s.dropSub(w.sub)
	}
}

// Live is a call in flight and what it holds.
type Live struct {
	Call
	Basis     Basis    // empty: restored
	Providers []string // one for each need
	Overflow  []string // those of them that were full when it came
	Admitted  uint64   // number of its admission; 0: restored
}

// Restore counts a call that was in flight before this state was made. No question
// is asked: it is there. The same call again changes nothing, and one that waits
// does not wait any more. The error wraps [ErrCall].
func (s *State) Restore(c Call, providers []string) error {
	r, ok := rankOf(c.Class)
	if c.ID == "" || c.Org == "" || !ok {
		return fmt.Errorf("%w: id %q, org %q, class %q", ErrCall, c.ID, c.Org, c.Class)
	}
	s.Remove(c.ID)
	s.hold(Live{Call: c, Providers: providers}, r)
	return nil
}

// End is the terminal state of a call, whatever it was: it is not in flight any
// more. It reports whether it was; ending a call twice is ending it once.
func (s *State) End(id string) bool {
	l := s.live[id]
	if l == nil {
		return false
	}
	s.free(l)
	return true
}

// hold puts a call into the set and free takes it out. Nothing else does, and
// every count is the length of a part of the set.
func (s *State) hold(l Live, r rank) {
	if s.live[l.ID] != nil {
		return
	}
	k := &live{Live: l, rank: r, org: s.org(l.Org)}
	k.crowd = s.crowdOf(k.org, r, l.Campaign)
	s.live[l.ID] = k
	if k.org.live[r] == nil {
		k.org.live[r] = map[*live]struct{}{}
	}
	k.org.live[r][k] = struct{}{}
	if k.crowd != nil {
		k.crowd.live[k] = struct{}{}
	}
	for _, p := range l.Providers {
		s.vendors.Take(p, l.ID)
	}
}

func (s *State) free(k *live) {
	delete(s.live, k.ID)
	delete(k.org.live[k.rank], k)
	if k.crowd != nil {
		delete(k.crowd.live, k)
		s.forgetCampaign(k.crowd)
	}
	for _, p := range k.Providers {
		s.vendors.Free(p, k.ID)
	}
	s.forgetOrg(k.org)
}
