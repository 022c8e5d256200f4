package admission

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// Verdict is why a waiting call has not gone, judged against the state as it is;
// false for a call that does not wait. All calls of a sub-queue share one verdict.
func (s *State) Verdict(id string) (Decision, bool) {
	w := s.waiting[id]
	if w == nil {
		return Decision{}, false
	}
	return w.decision().refuse(s.judge(w.sub, s.owed())), true
}

func (s *State) judge(q *sub, owed int) []No {
	return s.ask(q.org, q.rank, q.crowd, q.signature.needs, owed).blockedBy()
}

// Verdicts is the verdict of every call that waits, by arrival. Each sub-queue is
// judged once; the price is the sorting (tens of milliseconds for 100,000 calls),
// so a summary should read [State.Groups].
func (s *State) Verdicts() iter.Seq[Decision] {
	// Sorting reads the key from the slice itself: the calls lie all over the heap.
	type keyed struct {
		arrival uint64
		w       *waiting
	}
	return func(yield func(Decision) bool) {
		all := make([]keyed, 0, len(s.waiting))
		for _, w := range s.waiting {
			all = append(all, keyed{w.arrival, w})
		}
		slices.SortFunc(all, func(a, b keyed) int {
			if c := cmp.Compare(a.arrival, b.arrival); c != 0 {
				return c
			}
			return cmp.Compare(a.w.id, b.w.id)
		})
		owed, judged := s.owed(), map[*sub][]No{}
		for _, k := range all {
			nos, ok := judged[k.w.sub]
			if !ok {
				nos = s.judge(k.w.sub, owed)
				judged[k.w.sub] = nos
			}
			if !yield(k.w.decision().refuse(nos)) {
				return
			}
		}
	}
}

// Group is all calls of one sub-queue: they wait for the same thing.
type Group struct {
	Verdict Decision   // without Call
	Needs   [][]string // not to be changed
	Calls   int
	First   string // the call that goes first
}

// Groups is the queue without its calls: by org, then class, then the first call.
func (s *State) Groups() iter.Seq[Group] {
	return func(yield func(Group) bool) {
		owed := s.owed()
		for _, o := range s.sorted() {
			for _, subs := range o.subs {
				for _, q := range slices.SortedFunc(slices.Values(subs), func(a, b *sub) int {
					return order(a.items[0], b.items[0])
				}) {
					first := q.items[0]
					d := first.decision().refuse(s.judge(q, owed))
					d.Call = ""
					if !yield(Group{Verdict: d, Needs: q.signature.needs, Calls: len(q.items), First: first.id}) {
						return
					}
				}
			}
		}
	}
}

func order(a, b *waiting) int {
	if a.before(b) {
		return -1
	}
	return +1
}

func (s *State) sorted() []*org {
	return slices.SortedFunc(slices.Values(s.list), func(a, b *org) int { return cmp.Compare(a.ID, b.ID) })
}

// Why is everything there is to say about one waiting call: every gate as it is
// now, and its place in the order.
type Why struct {
	Verdict Decision `json:"verdict"`
	Gates   []Gate   `json:"gates"` // providers, org, campaign, platform

	Floor     int  `json:"floor"`   // of its org
	Ceiling   *int `json:"ceiling"` // of its org
	Shortfall int  `json:"shortfall"`

	// Position is its rank, from 1, in the order if the platform had room. 0: it has
	// none, because something stops it that such room would not cure, or it is
	// beyond the depth that was looked at (Beyond).
	Position   int  `json:"position"`
	AheadFloor int  `json:"ahead_floor"` // of those ahead, go because their org is below its floor
	AheadBurst int  `json:"ahead_burst"`
	Beyond     bool `json:"beyond,omitempty"`
}

// Why explains a waiting call; false when it does not wait. The order is followed
// for at most depth calls (0: to its end, some µs for each call ahead).
func (s *State) Why(id string, depth int) (Why, bool) {
	w := s.waiting[id]
	if w == nil {
		return Why{}, false
	}
	q := w.sub
	a := s.ask(q.org, q.rank, q.crowd, q.signature.needs, s.owed())
	y := Why{
		Verdict: w.decision().refuse(a.blockedBy()), Gates: a.gates,
		Floor: q.org.Floor, Ceiling: q.org.Ceiling, Shortfall: q.org.shortfall(),
	}
	ahead := map[Basis]int{}
	p := s.plan(depth, true, func(k *pick) bool {
		if k.w == w {
			y.Position = ahead[ByFloor] + ahead[ByBurst] + 1
			return false
		}
		ahead[k.basis]++
		return true
	})
	if y.Position > 0 {
		y.AheadFloor, y.AheadBurst = ahead[ByFloor], ahead[ByBurst]
	}
	y.Beyond = y.Position == 0 && p.picks == depth && depth > 0
	return y, true
}

// InFlight is the set: every call from its admission to its end, by admission,
// the restored ones first.
func (s *State) InFlight() iter.Seq[Live] {
	return func(yield func(Live) bool) {
		for _, k := range slices.SortedFunc(maps.Values(s.live), func(a, b *live) int {
			return cmp.Or(cmp.Compare(a.Admitted, b.Admitted), cmp.Compare(a.ID, b.ID))
		}) {
			if !yield(k.Live) {
				return
			}
		}
	}
}

// Holds reports whether the call is in flight.
func (s *State) Holds(id string) bool { return s.live[id] != nil }

// Waits reports whether the call waits.
func (s *State) Waits(id string) bool { return s.waiting[id] != nil }

// Count is how many calls are in flight and how many wait.
func (s *State) Count() (inFlight, waiting int) { return len(s.live), len(s.waiting) }
