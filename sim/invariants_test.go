package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/call"
	"dibs/carrier"
	"dibs/cdr"
	"dibs/dispatch"
	"dibs/internal/natstest"
	"dibs/settings"
	"dibs/wire"
)

// stepsOf is how many steps a run takes: DIBS_STEPS, or enough for every day.
func stepsOf(t *testing.T) int {
	if s := os.Getenv("DIBS_STEPS"); s != "" {
		n, err := strconv.Atoi(s)
		check(t, err)
		return n
	}
	return 1000
}

// Whatever is put, ended, cancelled and set, and whoever is in office: what the
// office counts are the records, and nobody goes beyond a limit.
func TestCountsAreTheRecords(t *testing.T) {
	steps := stepsOf(t)
	const each = 500 // a world each: the broker's store grows
	for seed := range uint64(max(1, steps/each)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inBareWorld(t, func(w *world) { newHistory(w, seed).play(min(steps, each)) })
		})
	}
}

// history is one random run.
type history struct {
	*world
	rnd     *rand.Rand
	carrier *quiet
	in      *dispatch.Reception
	n       int
	nodes   int
	open    []string       // calls that were put and are not known to be over
	bound   map[string]int // scope → nobody may be over this; missing: no limit

	latest map[string]call.Record // as dispatchers and the reception told it, which is after it was stored
	lately []dispatch.Happening
}

var (
	someOrgs      = []string{"a", "b", "c"}
	someCampaigns = []string{"x", "y"}
	someScopes    = []string{"platform", "org:a", "org:b", "org:c", "campaign:x", "campaign:y"}
)

func newHistory(w *world, seed uint64) *history {
	h := &history{world: w, rnd: rand.New(rand.NewPCG(seed, 1)), bound: map[string]int{}, latest: map[string]call.Record{}}
	h.carrier = &quiet{w: w, on: map[string]carrier.Dial{}, events: make(chan carrier.Event, 1000)}
	w.run("quiet", h.carrier.run)
	h.enter()
	h.until("somebody is in office", h.office)
	h.carrier.closed = w.addMute(50).end
	door := &dispatch.Doorman{Desk: w.desk, Log: w.log(zerolog.WarnLevel)}
	h.in = w.reception(door.Admit)
	h.in.Carrier = h.carrier
	return h
}

// enter starts another dispatcher.
func (h *history) enter() {
	h.nodes++
	h.addNode(fmt.Sprintf("n%d", h.nodes), func(c *dispatch.Config) { c.Carrier = h.carrier })
}

// office reports whether somebody is in office.
func (h *history) office() bool { _, err := h.desk.Usage(h.t.Context(), "platform"); return err == nil }

func (h *history) play(steps int) {
	for i := range steps {
		what := h.doOne()
		h.compareCounts(fmt.Sprintf("step %d, %s", i, what))
		if i%100 == 99 {
			h.compareStore(i)
		}
	}
	for _, id := range h.open {
		_, err := h.desk.Cancel(h.t.Context(), id, "over")
		if err != nil && !errors.Is(err, api.ErrEnded) && !errors.Is(err, api.ErrNotFound) {
			check(h.t, err)
		}
	}
	for _, id := range h.open { // one whose dispatcher left in the middle of a dial is looked up after two minutes
		for s := 0; !h.ended(id)(); s++ {
			if s > 600 {
				h.t.Fatalf("%s is not over 10 min after it was cancelled\n%s", id, h.tail())
			}
			time.Sleep(time.Second)
		}
	}
	h.until("nobody is in flight", h.inFlight("platform", 0))
	h.compareCounts("the end")
	h.noSeat()
}

// doOne does one thing and says what.
func (h *history) doOne() string {
	switch p := h.rnd.IntN(100); {
	case p < 30 && len(h.open) < 40:
		h.n++
		id := fmt.Sprintf("c%d", h.n)
		h.put(id, func(o *call.Order) {
			o.Org, o.Class = one(h.rnd, someOrgs), one(h.rnd, []call.Class{call.ClassAPI, call.ClassWorkflow, call.ClassCampaign})
			o.To = fmt.Sprintf("+49151%08d", h.n)
			if o.Class == call.ClassCampaign || h.rnd.IntN(2) > 0 {
				o.Campaign = one(h.rnd, someCampaigns)
			}
		})
		h.open = append(h.open, id)
		return "put " + id
	case p < 40 && len(h.open) < 40:
		h.n++
		sid := fmt.Sprintf("IN%d", h.n)
		if do := h.in.Answer(h.t.Context(), carrier.Question{ID: sid, From: fmt.Sprintf("+49152%08d", h.n), To: ourNumber}); do.Media != nil {
			h.carrier.begin(sid, carrier.Dial{Attempt: h.in.Attempt(sid)})
		}
		h.open = append(h.open, h.in.InboundCall(sid))
		return "inbound " + h.in.InboundCall(sid)
	case p < 75:
		return h.happens()
	case p < 85 && len(h.open) > 0:
		id := one(h.rnd, h.open)
		_, err := h.desk.Cancel(h.t.Context(), id, "test")
		return fmt.Sprintf("cancel %s: %v", id, err)
	case p < 97:
		return h.set()
	case p < 98:
		time.Sleep(time.Second)
		return "a second"
	case p < 99:
		h.world.nodes[len(h.world.nodes)-1].stop()
		h.enter()
		h.until("somebody is in office", h.office)
		return "another office"
	}
	return "nothing"
}

// happens lets a call be answered, or end.
func (h *history) happens() string {
	var going []call.Record
	for _, r := range h.records() {
		if a := r.Current(); a != nil && (a.CarrierID != "" || r.Order.Inbound()) {
			going = append(going, r)
		}
	}
	if len(going) == 0 {
		return "nobody talks"
	}
	r := one(h.rnd, going)
	a := r.Current()
	ev := carrier.Event{ID: a.CarrierID, Attempt: a.ID, Status: carrier.InProgress}
	if h.rnd.IntN(3) > 0 {
		ev.Status = one(h.rnd, []carrier.Status{carrier.Completed, carrier.Busy, carrier.NoAnswer, carrier.Failed})
		h.carrier.over(a.CarrierID)
	}
	check(h.t, h.desk.CarrierEvent(h.t.Context(), ev))
	if h.rnd.IntN(10) == 0 { // again, as carriers do
		_ = h.desk.CarrierEvent(h.t.Context(), ev)
	}
	return fmt.Sprintf("%s %s", ev.Status, a.ID)
}

// set changes a limit, and waits until the office goes by it.
func (h *history) set() string {
	var err error
	var limit *int
	if h.rnd.IntN(4) > 0 {
		limit = new(h.rnd.IntN(8))
	}
	scope := one(h.rnd, someScopes)
	ctx := h.t.Context()
	switch id := scope[len(scope)-1:]; {
	case scope == "platform":
		limit = new(1 + h.rnd.IntN(20))
		_, err = h.settings.PutPlatform(ctx, api.Platform{Cap: *limit})
	case scope[0] == 'o' && h.rnd.IntN(6) == 0:
		limit = nil
		_, err = h.settings.DeleteOrg(ctx, id)
	case scope[0] == 'o':
		_, err = h.settings.PutOrg(ctx, api.Org{ID: id, Floor: h.rnd.IntN(5), Reserve: h.rnd.IntN(3), Ceiling: limit})
	case h.rnd.IntN(6) == 0:
		limit = nil
		_, err = h.settings.DeleteCampaign(ctx, id)
	default:
		_, err = h.settings.PutCampaign(ctx, api.Campaign{ID: id, Org: "a", Cap: limit})
	}
	what := fmt.Sprintf("%s limit %v", scope, limit)
	if limit != nil {
		what = fmt.Sprintf("%s limit %d", scope, *limit)
	}
	if _, bad := errors.AsType[*settings.Invalid](err); bad || errors.Is(err, settings.ErrNotFound) {
		return what + " refused"
	}
	check(h.t, err)
	before := 0 // in flight when the limit holds
	h.until("the office goes by "+what, func() bool {
		u, err := h.desk.Usage(ctx, scope)
		before = u.InFlight
		return err == nil && (u.Limit == nil) == (limit == nil) && (limit == nil || *u.Limit == *limit)
	})
	if delete(h.bound, scope); limit != nil {
		h.bound[scope] = max(*limit, before)
	}
	return what
}

// compareCounts asks the office until what it counts are the records, and never sees
// anybody over a limit meanwhile.
func (h *history) compareCounts(step string) {
	h.t.Helper()
	var diff string
	deadline := time.Now().Add(10 * time.Second)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		diff = ""
		want := map[string]int{}
		for _, r := range h.records() {
			if r.InFlight() {
				want["platform"]++
				want["org:"+r.Order.Org]++
				want["campaign:"+r.Order.Campaign]++
			}
		}
		for _, scope := range someScopes {
			u, err := h.desk.Usage(h.t.Context(), scope)
			check(h.t, err)
			if bound, ok := h.bound[scope]; ok {
				if u.InFlight > bound {
					h.t.Fatalf("%s: %s has %d in flight, at most %d may be\n%s", step, scope, u.InFlight, bound, h.tail())
				}
				h.bound[scope] = max(*u.Limit, u.InFlight)
			}
			if u.InFlight != want[scope] {
				diff += fmt.Sprintf("%s: the office counts %d, the records say %d\n", scope, u.InFlight, want[scope])
			}
		}
		if diff == "" {
			break
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s:\n%s%s", step, diff, h.tail())
		}
		time.Sleep(pause)
	}
	h.open = slices.DeleteFunc(h.open, func(id string) bool { r, ok := h.latest[id]; return ok && r.State.Terminal() })
}

// compareStore holds what was told of the records against the records, until they
// agree: everything goes on while one is read after the other.
func (h *history) compareStore(step int) {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		var stored, told []string
		_, err := h.world.records.Load(h.t.Context(), time.Now(), func(r call.Record, _ cdr.Rev) {
			if r.InFlight() {
				stored = append(stored, r.Order.CallID)
			}
		})
		check(h.t, err)
		for _, r := range h.records() {
			if r.InFlight() {
				told = append(told, r.Order.CallID)
			}
		}
		slices.Sort(stored)
		slices.Sort(told)
		if slices.Equal(slices.Compact(stored), told) {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("step %d: in flight are %v in the store, and %v as told", step, stored, told)
		}
	}
}

// noSeat fails the test when one is still held.
func (h *history) noSeat() {
	h.t.Helper()
	for end := time.Now().Add(5 * time.Second); !h.idleSeats(50)(); time.Sleep(10 * time.Millisecond) {
		if time.Now().Before(end) {
			continue
		}
		var held []string
		for _, b := range h.roster.Bots(time.Now()) {
			for i, s := range b.Beat.Seats {
				if s.State != wire.SeatIdle {
					r := h.latest[s.CallID]
					held = append(held, fmt.Sprintf("seat %d %s for %v: %+v", i, s.State, s.ForMS.Duration(), r))
				}
			}
		}
		h.t.Fatalf("seats are held:\n%s\n%s", strings.Join(held, "\n"), h.tail())
	}
}

// records are those of the calls that are not over, in order.
func (h *history) records() (rs []call.Record) {
	h.world.mu.Lock()
	told := h.told
	h.told = nil
	h.world.mu.Unlock()
	for _, t := range told {
		if r := t.Record; r != nil && r.Changes > h.latest[r.Order.CallID].Changes {
			h.latest[r.Order.CallID] = *r
		}
	}
	h.lately = append(h.lately, told...)
	h.lately = h.lately[max(0, len(h.lately)-60):]
	for _, r := range h.latest {
		if !r.State.Terminal() {
			rs = append(rs, r)
		}
	}
	slices.SortFunc(rs, func(a, b call.Record) int { return strings.Compare(a.Order.CallID, b.Order.CallID) })
	return rs
}

// tail is what happened last.
func (h *history) tail() string {
	h.records()
	h.world.mu.Lock()
	h.told = h.lately
	h.world.mu.Unlock()
	return h.story()
}

func one[T any](rnd *rand.Rand, from []T) T { return from[rnd.IntN(len(from))] }

// inBareWorld is a world without a dispatcher, in a bubble.
func inBareWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T) { f(emptyWorld(t, answers)) })
}
