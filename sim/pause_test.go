package sim

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/dispatch"
)

// steps are the points between which a dispatcher can be stopped.
var steps = []struct {
	step dispatch.Step
	name string
}{
	{dispatch.StepReceived, "received"},
	{dispatch.StepGuards, "guards"},
	{dispatch.StepSlot, "slot"},
	{dispatch.StepPerson, "person"},
	{dispatch.StepPlacing, "placing"},
	{dispatch.StepBot, "bot"},
	{dispatch.StepIntent, "intent"},
	{dispatch.StepAccepted, "accepted"},
	{dispatch.StepCarrierID, "carrier id"},
	{dispatch.StepAcked, "acked"},
}

// Two dispatchers. The one in office is paused, or cut off from NATS, after a step,
// for so long that the other has taken over, found out, or is just about to dial
// again; then it wakes and goes on where it was. The phone rings once.
func TestNeverTwoDials(t *testing.T) {
	networks := []struct {
		name   string
		faults simcarrier.Faults
	}{
		{"", simcarrier.Faults{}},
		{", no events", simcarrier.Faults{DropCallbacks: []string{"all"}}},
	}
	for _, paused := range []bool{true, false} {
		what := "cut off"
		if paused {
			what = "paused"
		}
		for _, net := range networks {
			for _, s := range steps {
				for _, d := range []time.Duration{40 * time.Second, 120 * time.Second, 140 * time.Second} {
					if d != 120*time.Second && (testing.Short() || !paused || net.name != "") {
						continue
					}
					t.Run(fmt.Sprintf("%s after %s for %v%s", what, s.name, d, net.name), func(t *testing.T) {
						inWorld(t, talks(2*time.Second), func(w *world) {
							check(w.t, w.carrier.SetFaults(net.faults))
							w.neverTwoDials(s.step, d, paused)
						})
					})
				}
			}
		}
	}
}

func (w *world) neverTwoDials(step dispatch.Step, d time.Duration, paused bool) {
	one := w.nodes[0]
	w.until("the first is in office", w.inOffice)
	w.addNode("two")
	w.addBots(2)
	var once sync.Once
	thawed := make(chan struct{})
	one.onStep(func(s dispatch.Step, id string) {
		if s != step || id != "c1" {
			return
		}
		once.Do(func() {
			one.link.Freeze()
			wake := func() { time.Sleep(d); one.link.Thaw(); close(thawed) }
			if paused {
				wake()
			} else {
				go wake()
			}
		})
	})
	w.put("c1")
	<-thawed
	w.within(10*time.Minute, "it ends", w.ended("c1"))
	time.Sleep(20 * time.Second) // whatever else might follow
	w.wantEnd("c1", call.Completed, 1)
	w.nothingLeft()
}

// The record that a dispatcher sent in its last moment arrives when the next one has
// read all records and is about to write the same one. The call is neither lost nor
// dialled twice.
func TestWrittenInTheLastMoment(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		one := w.nodes[0]
		w.until("the first is in office", w.inOffice)
		two := w.addNode("two")
		w.addBots(2)
		one.onStep(func(s dispatch.Step, _ string) {
			if s == dispatch.StepPerson {
				one.link.Freeze() // what it writes now is on its way
			}
		})
		var once sync.Once
		two.onStep(func(s dispatch.Step, _ string) {
			if s == dispatch.StepPerson {
				once.Do(func() { one.link.Thaw(); time.Sleep(500 * time.Millisecond) })
			}
		})
		w.put("c1")
		w.within(30*time.Second, "it ends", w.ended("c1"))
		if r := w.wantEnd("c1", call.Completed, 1); len(r.Attempts) != 2 {
			w.t.Errorf("%d attempts, want that of the first dispatcher and one more\n%s", len(r.Attempts), w.story())
		}
		w.nothingLeft()
	})
}

// A dial goes out within five seconds of its intent and while the office is ours, or
// not at all; either rule is enough by itself.
func TestNotSentLate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pause  time.Duration
		cutOff bool // from NATS meanwhile, and for a while after
		sent   bool
	}{
		{"in time", 4 * time.Second, false, true},
		{"the intent is too old", 6 * time.Second, false, false},
		{"the office is over", 3 * time.Second, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, answers, func(w *world) {
				one := w.nodes[0]
				w.addBots(1)
				var once sync.Once
				one.onStep(func(s dispatch.Step, _ string) {
					if s == dispatch.StepIntent {
						once.Do(func() {
							if tt.cutOff {
								one.link.Freeze()
								time.AfterFunc(tt.pause+2*time.Second, one.link.Thaw)
							}
							time.Sleep(tt.pause)
						})
					}
				})
				w.put("c1")
				w.within(5*time.Minute, "it ends", w.ended("c1"))
				r := w.wantEnd("c1", call.Completed, 1)
				if sent := len(r.Attempts) == 1; sent != tt.sent {
					w.t.Errorf("%d attempts, want the first one sent: %v\n%s", len(r.Attempts), tt.sent, w.story())
				}
				w.nothingLeft()
			})
		})
	}
}
