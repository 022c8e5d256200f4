package sim

import (
	"testing"
	"time"

	"dibs/call"
	"dibs/carrier/simcarrier"
)

// Whatever the carrier does to requests, replies and status events: at most one
// phone rings, and the call ends as what it was.
func TestCarrierFaults(t *testing.T) {
	all := []string{"all"}
	for _, tt := range []struct {
		name   string
		faults simcarrier.Faults
		want   call.Outcome
		reason string
		dials  int
		within time.Duration
	}{
		{name: "events twice", faults: simcarrier.Faults{DuplicateCallbacks: true}, want: call.Completed, dials: 1, within: 3 * time.Second},
		{name: "events in the wrong order", faults: simcarrier.Faults{ReorderCallbacks: true}, want: call.Completed, dials: 1, within: time.Minute},
		{name: "no events: looked up", faults: simcarrier.Faults{DropCallbacks: all}, want: call.Completed, dials: 1, within: call.LiveSilence + 15*time.Second},
		{name: "the end is not told: looked up", faults: simcarrier.Faults{DropCallbacks: []string{"completed"}}, want: call.Completed, dials: 1, within: call.LiveSilence + 15*time.Second},
		{name: "the reply lost, told by an event", faults: simcarrier.Faults{Create: simcarrier.LoseReply, LookupDown: true}, want: call.Completed, dials: 1, within: 3 * time.Second},
		{name: "the reply lost, no events: looked up", faults: simcarrier.Faults{Create: simcarrier.LoseReply, DropCallbacks: all}, want: call.Completed, dials: 1, within: call.LiveSilence + 15*time.Second},
		{name: "half of the reply", faults: simcarrier.Faults{Create: simcarrier.TruncateReply}, want: call.Completed, dials: 1, within: 3 * time.Second},
		{name: "500, and it rings", faults: simcarrier.Faults{Create: simcarrier.ServerErrorMade}, want: call.Completed, dials: 1, within: 3 * time.Second},
		{
			// Our office lives: that the carrier knows of nothing proves nothing yet.
			name: "500, and it does not ring", faults: simcarrier.Faults{Create: simcarrier.ServerError, Times: 1},
			want: call.Unknown, reason: "no_evidence", within: call.UnknownFrom + 15*time.Second,
		},
		{name: "the request lost", faults: simcarrier.Faults{Create: simcarrier.LoseRequest, Times: 1}, want: call.Unknown, reason: "no_evidence", within: call.UnknownFrom + 15*time.Second},
		{name: "nothing works after the dial", faults: simcarrier.Faults{Create: simcarrier.LoseReply, DropCallbacks: all, LookupDown: true}, want: call.Unknown, reason: "no_evidence", dials: 1, within: call.UnknownFrom + 15*time.Second},
		{name: "too many requests", faults: simcarrier.Faults{Create: simcarrier.TooMany, Times: 3}, want: call.Completed, dials: 1, within: time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, answers, func(w *world) {
				check(w.t, w.carrier.SetFaults(tt.faults))
				w.addBots(1)
				w.put("c1")
				w.within(tt.within, "it ends", w.ended("c1"))
				if r := w.wantEnd("c1", tt.want, tt.dials); r.Reason != tt.reason {
					w.t.Errorf("reason %q, want %q", r.Reason, tt.reason)
				}
				w.nothingLeft()
			})
		})
	}
}

// A carrier that nobody can connect to was certainly not asked: the call waits and
// is dialled when the carrier is back, without wearing the bots out meanwhile.
func TestCarrierAway(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		mend := w.net.refuse(w.api.addr)
		w.put("c1")
		time.Sleep(time.Minute)
		// One every five seconds, and now and then one that meets the seat before it is offered again.
		if n := len(w.get("c1").Attempts); n < 5 || n > 24 {
			w.t.Errorf("%d attempts in a minute, want one every five seconds", n)
		}
		mend()
		w.within(10*time.Second, "it ends", w.ended("c1"))
		w.wantEnd("c1", call.Completed, 1)
		w.nothingLeft()
	})
}

// A number that the carrier refuses for good ends the call.
func TestCarrierRefuses(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		w.put("c1", func(o *call.Order) { o.To = simcarrier.BadNumber })
		w.until("it ends", w.ended("c1"))
		if r := w.wantEnd("c1", call.Failed, 0); r.Reason != "carrier_refused" {
			w.t.Errorf("reason %q", r.Reason)
		}
		w.nothingLeft()
	})
}

// Busy, no answer, failed: the seat is idle as soon as the carrier says so, and not
// when its media would have been due.
func TestSeatFreedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		profile simcarrier.Profile
		want    call.Outcome
	}{
		{simcarrier.Profile{Busy: 1}, call.Busy},
		{simcarrier.Profile{NoAnswer: 1, GivesUp: 3 * time.Second}, call.NoAnswer},
		{simcarrier.Profile{Fail: 1}, call.Failed},
	} {
		t.Run(string(tt.want), func(t *testing.T) {
			inWorld(t, tt.profile, func(w *world) {
				w.addBots(1)
				w.put("c1")
				w.until("it ends", w.ended("c1"))
				w.wantEnd("c1", tt.want, 1)
				w.within(300*time.Millisecond, "the seat is idle", w.idleSeats(1))
				w.nothingLeft()
			})
		})
	}
}
