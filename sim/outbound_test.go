package sim

import (
	"encoding/json"
	"fmt"
	"testing"

	"dibs/call"
)

// One call, from the put to its end, heard by the callee.
func TestOneCall(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		to := w.put("c1", func(o *call.Order) { o.Metadata = json.RawMessage(`{"dibs_tag":"4711"}`) })
		w.until("the call ends", w.ended("c1"))
		w.wantEnd("c1", call.Completed, 1)
		if got := w.carrier.CallsTo(to)[0].Heard.Tag; got != "4711" {
			w.t.Errorf("heard %q, want 4711", got)
		}
		w.nothingLeft()
	})
}

// Twenty calls on six bots: the rest waits on the line and is dialled as seats
// free; none is lost, none is dialled twice.
func TestBurstWaits(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(6)
		for i := range 20 {
			w.put(fmt.Sprintf("c%d", i), func(o *call.Order) { o.Metadata = fmt.Appendf(nil, `{"dibs_tag":"%04d"}`, i) })
		}
		for i := range 20 {
			w.until("every call ends", w.ended(fmt.Sprintf("c%d", i)))
		}
		for i := range 20 {
			r := w.wantEnd(fmt.Sprintf("c%d", i), call.Completed, 1)
			if got, want := w.carrier.CallsTo(r.Order.To)[0].Heard.Tag, fmt.Sprintf("%04d", i); got != want {
				w.t.Errorf("c%d heard %q, want %q", i, got, want)
			}
		}
		w.nothingLeft()
	})
}
