package inbound

import (
	"fmt"
	"testing"
	"time"

	"dibs/api"
	"dibs/backend"
	"dibs/call"
	"dibs/carrier/simcarrier"
)

func (w *world) place(to string, edit ...func(*api.PlaceCall)) string {
	w.t.Helper()
	p := api.PlaceCall{To: to, Org: "acme"}
	for _, f := range edit {
		f(&p)
	}
	c, _, err := w.api.PlaceCall(w.t.Context(), p, "")
	check(w.t, err)
	return c.ID
}

// However a dial ends without a conversation, its seat is free at once.
func TestSeatIsFreeAtOnce(t *testing.T) {
	w := newWorld(t, 1)
	w.addBot()
	w.until("a bot is there", w.idle(1))
	for i, tt := range []struct {
		name    string
		profile simcarrier.Profile
		cancel  bool
		want    call.Outcome
	}{
		{"busy", simcarrier.Profile{Busy: 1, Ring: simcarrier.Range{Min: 50 * time.Millisecond}}, false, call.Busy},
		{"no answer", simcarrier.Profile{NoAnswer: 1, GivesUp: 100 * time.Millisecond}, false, call.NoAnswer},
		{"failed", simcarrier.Profile{Fail: 1}, false, call.Failed},
		{"cancelled while it rings", simcarrier.Profile{NoAnswer: 1}, true, call.Cancelled},
		{"callbacks twice and out of order", simcarrier.Profile{Busy: 1, Ring: simcarrier.Range{Min: 50 * time.Millisecond}}, false, call.Busy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to := fmt.Sprintf("+4915112300%03d", i)
			check(t, w.carrier.SetNumber(to, tt.profile))
			if i == 4 {
				check(t, w.carrier.SetFaults(simcarrier.Faults{DuplicateCallbacks: true, ReorderCallbacks: true}))
				defer func() { check(t, w.carrier.SetFaults(simcarrier.Faults{})) }()
			}
			id := w.place(to)
			if tt.cancel {
				w.find("it rings", func(c api.Call) bool { return c.ID == id && c.State == call.Ringing })
				_, err := w.api.CancelCall(t.Context(), id, "test")
				check(t, err)
			}
			w.outcome(id, tt.want)
			ended := w.carrier.CallsTo(to)[0].Ended
			w.until("the seat is idle", w.idle(1))
			t.Logf("idle %v after the carrier's end", time.Since(ended).Round(time.Millisecond))
			if n := len(w.carrier.CallsTo(to)); n != 1 {
				t.Errorf("dialled %d times", n)
			}
		})
	}
}

// A carrier that tells nothing at all: a look-up and the bot bring the end.
func TestNoCallbacksAtAll(t *testing.T) {
	w := newWorld(t, 1)
	w.addBot()
	w.until("a bot is there", w.idle(1))
	check(t, w.carrier.SetFaults(simcarrier.Faults{DropCallbacks: []string{"all"}}))
	check(t, w.carrier.SetNumber(caller, simcarrier.Profile{Talk: simcarrier.Range{Min: 500 * time.Millisecond}}))
	id := w.place(caller)
	w.outcome(id, call.Completed)
	w.until("the seat is idle", w.idle(1))
}

// 429: the call waits as long as the carrier said, no try of it is used up, its seat
// is free meanwhile, and the phone rings once.
func TestTooFast(t *testing.T) {
	w := newWorld(t, 1)
	w.addBot()
	w.until("a bot is there", w.idle(1))
	check(t, w.carrier.SetNumber(caller, simcarrier.Profile{Talk: simcarrier.Range{Min: 200 * time.Millisecond}}))
	check(t, w.carrier.SetFaults(simcarrier.Faults{Create: simcarrier.TooMany, Times: 2}))
	id := w.place(caller)
	w.find("it waits for the carrier", func(c api.Call) bool { return c.ID == id && c.WaitingFor == api.ForCarrier })
	w.until("the seat is free meanwhile", w.idle(1))
	c := w.outcome(id, call.Completed)
	if len(c.Attempts) != 3 || c.Attempts[0].Why != call.WhyRefused || c.Try != 1 || len(w.carrier.CallsTo(caller)) != 1 {
		t.Errorf("try %d, attempts %+v, dialled %d times", c.Try, c.Attempts, len(w.carrier.CallsTo(caller)))
	}
}

// The pace of a number is kept, and no seat is held for a turn to come.
func TestPace(t *testing.T) {
	w := newWorld(t, 1, func(c *backend.Config) { c.CPS = 2 })
	for range 5 {
		w.addBot()
	}
	w.until("the bots are there", w.idle(5))
	var ids []string
	for i := range 5 {
		to := fmt.Sprintf("+49151124000%02d", i)
		check(t, w.carrier.SetNumber(to, simcarrier.Profile{Talk: simcarrier.Range{Min: 100 * time.Millisecond}}))
		ids = append(ids, w.place(to))
	}
	for _, id := range ids {
		w.outcome(id, call.Completed)
	}
	calls := w.carrier.Calls()
	if took := calls[len(calls)-1].Created.Sub(calls[0].Created); took < 1200*time.Millisecond {
		t.Errorf("five dials within %v, at two a second and two saved", took)
	}
	w.until("the seats are idle", w.idle(5))
}

// The longest call: the carrier ends an outbound one, the bot an inbound one, and the
// carrier is told to hang up.
func TestLongestCall(t *testing.T) {
	w := newWorld(t, 1)
	w.line(func(n *api.Number) { n.MaxCallMS = 2000 })
	w.addBot()
	w.until("a bot is there", w.idle(1))
	id := w.place(caller, func(p *api.PlaceCall) { p.MaxCallMS = 2000 })
	w.outcome(id, call.Completed)
	out := w.carrier.CallsTo(caller)[0]
	w.until("the seat is idle", w.idle(1))
	sid := w.callIn(caller, time.Hour)
	w.until("it is ended", func() bool { return !w.sim(sid).Ended.IsZero() })
	in := w.sim(sid)
	for name, c := range map[string]simcarrier.Call{"outbound": out, "inbound": in} {
		if l := c.Ended.Sub(c.Answered); l < time.Second || l > 15*time.Second || c.EndedBy == "callee" {
			t.Errorf("%s: ended by %s after %v", name, c.EndedBy, l)
		}
	}
	w.until("the seat is idle", w.idle(1))
}

// A call that was cancelled while it waited for a bot is not dialled when one comes.
func TestCancelledWhileItWaits(t *testing.T) {
	w := newWorld(t, 1)
	id := w.place(caller)
	w.find("it waits for a bot", func(c api.Call) bool { return c.ID == id && c.WaitingFor == api.ForBot })
	_, err := w.api.CancelCall(t.Context(), id, "test")
	check(t, err)
	w.outcome(id, call.Cancelled)
	w.addBot()
	w.until("the bot stays idle", w.idle(1))
	other := w.place("+4915100000002") // whoever comes next is dialled, and nobody else was
	w.find("the next one is dialled", func(c api.Call) bool { return c.ID == other && c.State == call.Live })
	if n := len(w.carrier.CallsTo(caller)); n != 0 {
		t.Errorf("dialled %d times", n)
	}
}
