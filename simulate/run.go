package simulate

import (
	"container/heap"
	"strconv"
	"time"

	"dibs/admission"
	"dibs/call"
	"dibs/demand"
)

// BotWait is how long an outbound call waits for a bot, from its first miss.
const BotWait = 90 * time.Second

// mostReady is how deep the line is counted at most at each look.
const mostReady = 10_000

// Run simulates s under each of its policies. The error names the field.
func Run(s *Scenario) (*Report, error) {
	warnings, err := s.check()
	if err != nil {
		return nil, err
	}
	r := &Report{About: s.About, Warnings: warnings}
	for _, p := range s.Policies {
		w, err := newWorld(s, p)
		if err != nil {
			return nil, err
		}
		r.Results = append(r.Results, w.run())
	}
	return r, nil
}

// world is one run: one goroutine, one queue of moments.
type world struct {
	s     *Scenario
	scale demand.Config
	state *admission.State
	hpa   *demand.HPA
	fleet fleet

	now     time.Duration
	events  events
	seq     int
	waiting map[string]*talk // call id → call that waits
	direct  int              // of these, those that are not a campaign's
	talks   []*talk          // every call that came
	ended   tally
}

// talk is one call.
type talk struct {
	admission.Call
	arrived time.Duration
	begun   time.Duration
	missed  *time.Duration // found no bot first
	lasts   time.Duration
	fate    fate
	leaving bool // its bot goes when it ends
}

type fate int

const (
	waits fate = iota
	talking
	done
	refused
)

func newWorld(s *Scenario, p demand.Policy) (*world, error) {
	c, err := s.scale(p)
	if err != nil {
		return nil, err
	}
	w := &world{s: s, scale: c, waiting: map[string]*talk{}, ended: tally{refused: map[string]int{}}}
	if w.hpa, err = demand.NewHPA(demand.HPAConfig{Min: c.Floor, Max: c.Ceiling, PerBot: c.PerBot}); err != nil {
		return nil, err
	}
	ledger := admission.NewLedger()
	for provider, limit := range s.Providers {
		ledger.SetLimit(provider, limit)
	}
	w.state = admission.New(s.Platform, ledger)
	for _, o := range s.Orgs {
		w.state.SetOrg(o)
	}
	for _, k := range s.Campaigns {
		w.state.SetCampaign(k)
	}
	w.fleet.idle = s.Bots.Start
	for i := range s.Arrivals {
		w.at(seconds(s.Arrivals[i].At), func() { w.arrive(&s.Arrivals[i], 0) })
	}
	w.at(seconds(s.Scale.Every), w.look)
	return w, nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// run goes from moment to moment. All that happens in one moment happens before
// anybody is served.
func (w *world) run() Result {
	end := seconds(w.s.For)
	for w.events.Len() > 0 && w.events[0].at <= end {
		w.pass(w.events[0].at)
		for w.events.Len() > 0 && w.events[0].at == w.now {
			heap.Pop(&w.events).(event).do()
		}
		w.serve()
		w.ended.bots = max(w.ended.bots, w.fleet.pods())
	}
	w.pass(end)
	return w.result()
}

// pass lets time go by.
func (w *world) pass(to time.Duration) {
	w.ended.idle += time.Duration(w.fleet.idle) * (to - w.now)
	w.now = to
}

// arrive is the burst that begins with call i of a.
func (w *world) arrive(a *Arrivals, i int) {
	for n := i; n < min(i+a.Burst, a.Count); n++ {
		id := strconv.Itoa(len(w.talks))
		t := &talk{Call: admission.Call{ID: id, Org: a.Org, Class: a.Class, Campaign: a.Campaign, Needs: a.Needs}, arrived: w.now, lasts: a.talk(n)}
		w.talks = append(w.talks, t)
		if t.Class == call.ClassInbound {
			w.inbound(t)
			continue
		}
		if err := w.state.Enqueue(t.Call); err != nil {
			w.refuse(t, err.Error()) // check lets no such call through
			continue
		}
		w.waiting[id] = t
		if t.Class.Direct() {
			w.direct++
		}
	}
	if next := i + a.Burst; next < a.Count {
		w.at(w.now+seconds(a.Every), func() { w.arrive(a, next) })
	}
}

// inbound is decided at once: nobody keeps a caller waiting.
func (w *world) inbound(t *talk) {
	if d := w.state.Inbound(t.Call); !d.Admitted {
		w.refuse(t, string(d.Reason))
	} else if w.fleet.idle == 0 {
		w.state.End(t.ID)
		w.refuse(t, "no_idle_bot")
	} else {
		w.begin(t)
	}
}

// serve gives idle bots to whom admission lets go, and ends the wait of those who
// would go and have found no bot for too long.
func (w *world) serve() {
	if w.fleet.idle > 0 {
		for _, d := range w.state.Tick(w.fleet.idle) {
			t := w.waiting[d.Call]
			w.leave(t)
			w.begin(t)
		}
	}
	inFlight, _ := w.state.Count()
	room := w.s.Platform.Cap - inFlight
	if w.fleet.idle > 0 || w.direct == 0 || room <= 0 {
		return
	}
	for _, d := range w.state.Order(room) {
		t := w.waiting[d.Call]
		// The order lifts what is kept for inbound; only whom nothing stops has missed.
		switch v, _ := w.state.Verdict(t.ID); {
		case !t.Class.Direct() || v.Reason != admission.TickLimit:
		case t.missed == nil:
			t.missed = new(w.now)
			w.at(w.now+BotWait, func() {}) // to be served, or to miss for the last time
		case w.now >= *t.missed+BotWait:
			w.state.Remove(t.ID)
			w.leave(t)
			w.refuse(t, "bot_unavailable")
		}
	}
}

// leave takes t out of those who wait.
func (w *world) leave(t *talk) {
	delete(w.waiting, t.ID)
	if t.Class.Direct() {
		w.direct--
	}
}

func (w *world) begin(t *talk) {
	t.fate, t.begun = talking, w.now
	w.fleet.take(t)
	w.ended.used = max(w.ended.used, len(w.fleet.busy)+w.fleet.leaving)
	w.at(w.now+t.lasts, func() {
		t.fate = done
		w.state.End(t.ID)
		w.fleet.release(t)
	})
}

func (w *world) refuse(t *talk, reason string) {
	t.fate, t.begun = refused, w.now
	w.ended.refused[reason]++
}

// look is the autoscaler's.
func (w *world) look() {
	units, err := w.demand()
	if err != nil { // counts that demand does not believe: the autoscaler holds
		units = nil
	} else {
		w.ended.demand = max(w.ended.demand, *units)
	}
	for _, p := range w.fleet.scale(w.hpa.Sync(time.Unix(0, 0).Add(w.now), w.fleet.pods(), units)) {
		w.at(w.now+seconds(*w.s.Bots.ReadyAfter), func() { w.fleet.ready(p) })
	}
	w.at(w.now+seconds(w.s.Scale.Every), w.look)
}

// demand is what the metric would say now.
func (w *world) demand() (*int, error) {
	inFlight, waiting := w.state.Count()
	direct, campaign := 0, 0
	// Admission's order lifts the platform's cap and reserves; no number of bots would.
	if room := min(w.s.Platform.Cap-inFlight-w.state.Report().Platform.Owed, mostReady); room > 0 {
		for _, byClass := range w.state.Ready(room) {
			for class, n := range byClass {
				if class.Direct() {
					direct += n
				} else {
					campaign += n
				}
			}
		}
	}
	got, err := demand.Compute(w.scale, demand.Input{InFlight: &inFlight, Direct: &direct, Ready: &campaign, Queued: new(waiting - w.direct)})
	return &got.Demand, err
}

// at lets do happen at a moment.
func (w *world) at(at time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{at, w.seq, do})
}

// event is something that happens; those of one moment in the order in which they
// were arranged.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
