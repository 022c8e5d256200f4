package sim

import (
	"encoding/json"
	"fmt"
	"testing"

	"dibs/call"
)

// One call, from the put to its end, heard by the callee.
func TestOneCall(t *testing.T) {
	w := newWorld(t, answers)
	w.addBot(1)
	w.until("a bot is there", w.idleBots(1))
	o := order("c1", "+4915112345678")
	o.Metadata = json.RawMessage(`{"dibs_tag":"4711"}`)
	check(t, w.desk.Put(t.Context(), o))
	w.until("the call ends", w.ended("c1"))
	r, err := w.desk.Get(t.Context(), "c1")
	check(t, err)
	if r.State != call.State(call.Completed) {
		t.Errorf("state %s (%s)\n%s", r.State, r.Reason, w.story())
	}
	calls := w.carrier.Calls()
	if len(calls) != 1 || calls[0].Heard.Tag != "4711" {
		t.Errorf("carrier: %+v", calls)
	}
	w.until("the seat is idle", w.idleBots(1))
	t.Log(w.story())
}

// Twenty calls on six bots: the rest waits on the line and is dialled as seats
// free; none is lost, none is dialled twice.
func TestBurstWaits(t *testing.T) {
	w := newWorld(t, answers)
	for range 6 {
		w.addBot(1)
	}
	w.until("the bots are there", w.idleBots(6))
	for i := range 20 {
		o := order(fmt.Sprintf("c%d", i), fmt.Sprintf("+49151123456%02d", i))
		o.Metadata = fmt.Appendf(nil, `{"dibs_tag":"%04d"}`, i)
		check(t, w.desk.Put(t.Context(), o))
	}
	for i := range 20 {
		w.until("every call ends", w.ended(fmt.Sprintf("c%d", i)))
	}
	for i := range 20 {
		r, err := w.desk.Get(t.Context(), fmt.Sprintf("c%d", i))
		check(t, err)
		if r.State != call.State(call.Completed) {
			t.Errorf("c%d: %s (%s)", i, r.State, r.Reason)
		}
		calls := w.carrier.CallsTo(r.Order.To)
		if len(calls) != 1 || calls[0].Heard.Tag != fmt.Sprintf("%04d", i) {
			t.Errorf("c%d: dialled %d times, heard %+v", i, len(calls), calls)
		}
	}
	w.until("the seats are idle", w.idleBots(6))
	if t.Failed() {
		t.Log(w.story())
	}
}
