package call_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/call"
)

// world is one call in a small system: a store with revisions, a line that gives the
// message again until it is acknowledged, a carrier, and dispatchers that can be
// killed or paused between any two steps. It moves a second at a time.
type world struct {
	t                 *testing.T
	now               time.Time
	rec               *call.Record // nil: never stored
	rev               int
	acked             bool
	callbacks, lookup bool // what of the network works
	legs              []leg
	final             time.Time
}

// leg is a call at the carrier: rings after 1 s, is answered after 10, ends after 30.
type leg struct {
	attempt, id string
	at          time.Time
}

func (l leg) status(now time.Time) string {
	switch s := now.Sub(l.at); {
	case s >= 30*time.Second:
		return "completed"
	case s >= 10*time.Second:
		return "in_progress"
	case s >= time.Second:
		return "ringing"
	}
	return "initiated"
}

// put is the store's compare-and-set.
func (w *world) put(r call.Record, rev int) (int, bool) {
	if rev != w.rev {
		return 0, false
	}
	data, err := r.Encode() // what is read back is what JSON keeps, and it must be sound
	if err != nil {
		w.t.Fatalf("at %s: %v", w.now.Sub(t0), err)
	}
	if r, err = call.DecodeRecord(data); err != nil {
		w.t.Fatalf("at %s: %v", w.now.Sub(t0), err)
	}
	w.rec = &r
	w.rev++
	if r.State.Terminal() && w.final.IsZero() {
		w.final = w.now
	}
	return w.rev, true
}

// webhooks applies the carrier's status events, as any replica would.
func (w *world) webhooks() {
	for _, l := range w.legs {
		if s := l.status(w.now); w.callbacks && w.rec != nil && s != l.status(w.now.Add(-time.Second)) {
			ev, _ := call.StatusEvent(s)
			ev.Attempt, ev.CarrierID = l.attempt, l.id
			if r, _ := call.Apply(*w.rec, ev, w.now); r.Changes != w.rec.Changes {
				w.put(r, w.rev)
			}
		}
	}
}

// dispatcher is one owner of the call, with its own idea of the record.
type dispatcher struct {
	w      *world
	name   string
	rec    call.Record
	rev    int
	looked time.Time
	broken bool // of its writes one failed: it does nothing more about this call
}

// steps are those of the crash table, 1 to 10.
const steps = 10

// step does one of them.
func (d *dispatcher) step(n int) {
	if d.broken {
		return
	}
	switch n {
	case 1:
		if d.rev = d.w.rev; d.w.rec == nil {
			d.rec = call.New(order(), d.w.now)
		} else {
			d.rec = *d.w.rec
		}
	case 5:
		d.apply(call.Event{Kind: call.EvAdmitted, Owner: d.name, Attempt: d.rec.NextAttemptID()})
	case 6:
		d.apply(call.Event{Kind: call.EvBot, Bot: "bot-1"})
	case 7:
		d.apply(call.Event{Kind: call.EvIntent})
	case 8:
		if !call.MaySend(d.rec, d.w.now) {
			d.apply(call.Event{Kind: call.EvTakenBack})
			d.broken = true
			return
		}
		a := d.rec.Current().ID
		d.w.legs = append(d.w.legs, leg{a, fmt.Sprintf("CA%d", len(d.w.legs)), d.w.now})
	case 9:
		l := d.w.legs[len(d.w.legs)-1]
		d.apply(call.Event{Kind: call.EvPlaced, Attempt: l.attempt, CarrierID: l.id})
	case 10:
		d.w.acked = true
	}
}

func (d *dispatcher) apply(ev call.Event) {
	r, _ := call.Apply(d.rec, ev, d.w.now)
	if r.Changes == d.rec.Changes {
		return
	}
	rev, ok := d.w.put(r, d.rev)
	if !ok {
		d.broken = true
		return
	}
	d.rec, d.rev = r, rev
}

// serve is a second of the dispatcher in office.
func (d *dispatcher) serve() {
	d.broken = false
	d.step(1)
	if d.rec.State.Terminal() {
		d.w.acked = true
		return
	}
	if d.rec.State == call.Queued && !d.w.acked {
		for n := 2; n <= steps; n++ {
			d.step(n)
		}
		return
	}
	e := call.Evidence{OwnerGone: d.rec.InFlight() && d.rec.Current().Owner != d.name}
	due, ok := call.Deadline(d.rec, d.w.now)
	if ok && due.Do == call.DoLookUp && !d.w.now.Before(due.At) && d.w.now.Sub(d.looked) >= call.LookEvery {
		d.looked = d.w.now
		e = d.lookUp(e)
	}
	if ev, ok := call.Reconcile(d.rec, e, d.w.now); ok {
		d.apply(ev)
	}
}

func (d *dispatcher) lookUp(e call.Evidence) call.Evidence {
	if !d.w.lookup {
		e.Lookup = call.LookupDown
		return e
	}
	e.Lookup = call.LookupNone
	for _, l := range d.w.legs {
		if l.attempt == d.rec.Current().ID {
			e.Lookup, e.CarrierID, e.Status = call.LookupFound, l.id, l.status(d.w.now)
		}
	}
	return e
}

// run lets the first dispatcher do its steps at second 10 up to step stop, where it is
// paused (0: killed). Its office ends two seconds later, and another takes it.
func (w *world) run(stop int, pause time.Duration) {
	first, second := &dispatcher{w: w, name: "d1"}, &dispatcher{w: w, name: "d2"}
	for s := 0; s <= 4000; s++ {
		w.now = t0.Add(time.Duration(s) * time.Second)
		w.webhooks()
		switch {
		case s == 10:
			for n := 1; n <= stop; n++ {
				first.step(n)
			}
		case pause > 0 && w.now.Equal(t0.Add(10*time.Second+pause)):
			for n := stop + 1; n <= steps; n++ {
				first.step(n)
			}
		}
		if s >= 12 {
			second.serve()
		}
		if w.rec != nil && w.rec.State.Terminal() && w.acked && w.now.After(t0.Add(11*time.Second+pause)) {
			break
		}
	}
	if w.rec == nil || !w.rec.State.Terminal() {
		w.t.Fatalf("the call is lost: %+v", w.rec)
	}
	if !w.acked {
		w.t.Error("the message is still on the line")
	}
}

// TestCrash is the table of crash points: at most one dial, and the outcome it says.
func TestCrash(t *testing.T) {
	var table struct {
		Rows []struct {
			Network string
			Killed  string `json:"killed_after"`
			Dials   int
			Outcome call.Outcome
			FinalAt float64 `json:"final_at_s"`
		}
	}
	vectorFile(t, "call-crash.json", &table)
	if len(table.Rows) == 0 {
		t.Fatal("no rows")
	}
	for _, row := range table.Rows {
		t.Run(row.Network+"/"+row.Killed, func(t *testing.T) {
			var step int
			if _, err := fmt.Sscanf(row.Killed, "%d", &step); err != nil {
				t.Fatal(err)
			}
			w := world{t: t, callbacks: !strings.Contains(row.Network, "callbacks lost"), lookup: !strings.Contains(row.Network, "look-up down")}
			w.run(step, 0)
			if got := w.rec.Outcome(); got != row.Outcome || len(w.legs) != row.Dials {
				t.Errorf("got %s after %d dials, want %s after %d", got, len(w.legs), row.Outcome, row.Dials)
			}
			// A minute late is late; early is only good when the end is known.
			at := w.final.Sub(t0).Seconds()
			if at > row.FinalAt+60 || row.Outcome == call.Unknown && at < row.FinalAt-60 {
				t.Errorf("ended after %.0f s, want about %.0f s", at, row.FinalAt)
			}
		})
	}
}

// TestPause: a dispatcher that is paused between any two steps, for as long as you
// like, and then goes on with what it knew.
func TestPause(t *testing.T) {
	var pauses []int // every second where something is about to happen, else a sample
	for p := 1; p <= 320; p++ {
		if p <= 12 || p >= 118 && p <= 134 || p >= 297 && p <= 303 || p%40 == 0 {
			pauses = append(pauses, p)
		}
	}
	for net := range 4 {
		for stop := 1; stop < steps; stop++ {
			for _, pause := range pauses {
				w := world{t: t, callbacks: net&1 == 0, lookup: net&2 == 0}
				w.run(stop, time.Duration(pause)*time.Second)
				if len(w.legs) > 1 {
					t.Fatalf("network %d, paused %d s after step %d: dialled %d times", net, pause, stop, len(w.legs))
				}
				if a := w.rec.Current(); a != nil {
					t.Fatalf("network %d, paused %d s after step %d: attempt %s still holds its slot", net, pause, stop, a.ID)
				}
			}
		}
	}
}
