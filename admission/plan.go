package admission

import "slices"

// plan is one run over the order of outbound calls. It only reads the state: what
// it changes on the way stands in the plan, so the same code answers "who goes
// now" ([State.Tick] then carries it out) and "who would go if the platform had
// room" ([State.Order]).
type plan struct {
	s      *State
	lifted bool // the platform's cap does not count
	limit  int  // most admissions; 0: no limit

	n      int // calls in flight
	usable int // sum over the orgs
	pass   uint64
	picks  int

	views []view
	left  map[string]int             // provider → room
	more  map[*crowd]int             // admissions of this plan
	ahead map[*sub]*cursor[*waiting] // sub-queues that something was taken from
	emit  func(*pick) (goOn bool)    // told of every admission
}

// view is an org as the plan sees it.
type view struct {
	o         *org
	n         int
	owed      int
	shortfall int
	since     [ranks]int
	last      uint64
	pass      uint64
	touched   bool
}

// pick is one admission.
type pick struct {
	w         *waiting
	basis     Basis
	providers []string
	withheld  bool // went ahead of a higher class
}

func (s *State) plan(limit int, lifted bool, emit func(*pick) bool) *plan {
	p := &plan{
		s: s, lifted: lifted, limit: limit, emit: emit,
		n: len(s.live), pass: s.pass,
	}
	s.asked++
	if !p.room() {
		return p
	}
	p.left, p.more, p.ahead = map[string]int{}, map[*crowd]int{}, map[*sub]*cursor[*waiting]{}
	for _, o := range s.list {
		n, owed := o.inFlight(), o.owed()
		p.usable += o.under(owed, n)
		if len(o.index) > 0 {
			p.views = append(p.views, view{
				o: o, n: n, owed: owed, shortfall: max(0, o.Floor-owed-n),
				since: o.since, last: o.last, pass: o.pass,
			})
		}
	}
	if p.floors() {
		p.bursts()
	}
	return p
}

// room asks the platform and the limit.
func (p *plan) room() bool {
	return (p.limit == 0 || p.picks < p.limit) && (p.lifted || p.n+p.s.keeps(p.usable) < p.s.platform.Cap)
}

// floors is the floor phase; false: nothing more can go.
func (p *plan) floors() bool {
	less := func(a, b *view) bool {
		if a.shortfall != b.shortfall {
			return a.shortfall > b.shortfall
		}
		return a.before(b)
	}
	unserved, served := heap[*view]{less: less}, heap[*view]{less: less}
	for i := range p.views {
		v := &p.views[i]
		switch {
		case v.shortfall == 0:
		case v.pass == p.pass:
			served.items = append(served.items, v)
		default:
			unserved.items = append(unserved.items, v)
		}
	}
	unserved.init()
	served.init()

	for p.room() {
		v, q, due := p.first(&unserved)
		if v == nil {
			// Everybody who can be served has been: the pass is over. An empty floor
			// phase ends no pass, so the next tick goes on where this one stopped.
			if v, q, due = p.first(&served); v == nil {
				return true
			}
			p.pass++
			unserved, served = served, unserved
		}
		if !p.admit(v, q, ByFloor, due) {
			return false
		}
		v.pass = p.pass
		if v.shortfall > 0 {
			served.push(v)
		}
	}
	return false
}

// bursts is the burst phase: passes over all orgs, those running fewest first.
func (p *plan) bursts() {
	pass, next := heap[*view]{less: (*view).before}, heap[*view]{less: (*view).before}
	for i := range p.views {
		next.items = append(next.items, &p.views[i])
	}
	for len(next.items) > 0 {
		pass.items, next.items = next.items, pass.items[:0]
		pass.init()
		for p.room() {
			v, q, due := p.first(&pass)
			if v == nil {
				break
			}
			if !p.admit(v, q, ByBurst, due) {
				return
			}
			next.items = append(next.items, v)
		}
		if !p.room() {
			return
		}
	}
}

// before: fewer running, least recently served, id.
func (v *view) before(u *view) bool {
	switch {
	case v.n != u.n:
		return v.n < u.n
	case v.last != u.last:
		return v.last < u.last
	}
	return v.o.ID < u.o.ID
}

// first takes the first org with an admissible call from h. Those before it are
// dropped: inside a plan room only shrinks, so nothing becomes admissible.
func (p *plan) first(h *heap[*view]) (*view, *sub, bool) {
	for {
		v, ok := h.pop()
		if !ok {
			return nil, nil, false
		}
		if q, due := p.next(v); q != nil {
			return v, q, due
		}
	}
}

// next is the sub-queue whose head is the org's next call, and whether it goes
// ahead of a higher class because it is due.
func (p *plan) next(v *view) (q *sub, withheld bool) {
	if !p.envelope(v) {
		return nil, false
	}
	for r := retry; r < ranks; r++ {
		if e := v.o.every[r]; e > 0 && v.since[r] >= e-1 {
			if q = p.best(v.o, r); q != nil {
				break
			}
		}
	}
	for r := api; r < ranks; r++ {
		if q != nil && q.rank == r {
			return q, false
		}
		if b := p.best(v.o, r); b != nil {
			if q == nil {
				return b, false
			}
			return q, true
		}
	}
	return q, false
}

// envelope asks the org's own question for outbound.
func (p *plan) envelope(v *view) bool { return v.o.Ceiling == nil || v.n+v.owed < *v.o.Ceiling }

// best is the sub-queue with the first admissible call of a class.
func (p *plan) best(o *org, r rank) *sub {
	var best *sub
	for _, q := range o.subs[r] {
		if p.open(q) && (best == nil || p.before(q, best)) {
			best = q
		}
	}
	return best
}

func (p *plan) before(q, u *sub) bool {
	if q.rank == campaign {
		if a, b := p.running(q.crowd), p.running(u.crowd); a != b {
			return a < b
		}
	}
	return p.head(q).before(p.head(u))
}

// open says whether q has an admissible call, its org's envelope aside.
func (p *plan) open(q *sub) bool {
	return p.head(q) != nil && (q.crowd == nil || !q.crowd.full(p.more[q.crowd])) && p.hasRoom(q.signature)
}

func (p *plan) running(c *crowd) int { return len(c.live) + p.more[c] }

func (p *plan) head(q *sub) *waiting {
	if c := p.ahead[q]; c != nil {
		w, _ := c.head()
		return w
	}
	return q.items[0]
}

func (p *plan) hasRoom(g *signature) bool {
	if g.asked != p.s.asked {
		_, g.room = p.choose(g.needs, false)
		g.asked = p.s.asked
	}
	return g.room
}

// choose is the first alternative with room for every need.
func (p *plan) choose(needs [][]string, list bool) (chosen []string, ok bool) {
	if list {
		chosen = make([]string, 0, len(needs))
	}
need:
	for _, alternatives := range needs {
		for _, provider := range alternatives {
			if p.roomAt(provider) > 0 {
				if list {
					chosen = append(chosen, provider)
				}
				continue need
			}
		}
		return nil, false
	}
	return chosen, true
}

func (p *plan) roomAt(provider string) int {
	n, ok := p.left[provider]
	if !ok {
		n = p.s.vendors.Load(provider).Room()
		p.left[provider] = n
	}
	return n
}

// admit lets the head of q go; false: the plan is over.
func (p *plan) admit(v *view, q *sub, basis Basis, withheld bool) bool {
	// Counted before anything is taken: these were passed over while they could have gone.
	for r := q.rank + 1; r < ranks; r++ {
		if v.o.every[r] > 0 && p.best(v.o, r) != nil {
			v.since[r]++
		}
	}
	v.since[q.rank] = 0

	k := pick{w: p.head(q), basis: basis, withheld: withheld}
	c := p.ahead[q]
	if c == nil {
		c = newCursor(&q.heap)
		p.ahead[q] = c
	}
	c.next()
	if len(q.signature.needs) > 0 {
		k.providers, _ = p.choose(q.signature.needs, true)
		for i, provider := range k.providers {
			if !slices.Contains(k.providers[:i], provider) {
				p.left[provider]--
			}
		}
		p.s.asked++ // what was remembered of rooms is old now
	}
	if q.crowd != nil {
		p.more[q.crowd]++
	}
	p.usable -= v.o.under(v.owed, v.n)
	v.n++
	p.usable += v.o.under(v.owed, v.n)
	p.n++
	p.picks++
	v.shortfall = max(0, v.o.Floor-v.owed-v.n)
	v.last = p.s.served + uint64(p.picks)
	v.touched = true
	return p.emit(&k)
}
