package sim

import (
	"errors"
	"testing"
	"time"

	"dibs/api"
	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/events"
)

const somebody = "+4915112345678"

// Two calls to one person: the second waits while the first goes on. One that
// somebody has just asked for goes as soon as it is over, one of a campaign leaves
// the person alone for a while.
func TestOnePerson(t *testing.T) {
	for _, tt := range []struct {
		name   string
		second func(*call.Order)
		after  time.Duration // the end of the first
	}{
		{"api", func(*call.Order) {}, 0},
		{"campaign", func(o *call.Order) { o.Class, o.Campaign = call.ClassCampaign, "spring" }, call.PersonGap},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, talks(12*time.Second), func(w *world) {
				w.addBots(2)
				w.put("c1", func(o *call.Order) { o.To = somebody })
				w.until("the first is answered", w.state("c1", call.Live))
				w.put("c2", func(o *call.Order) { o.To = somebody; tt.second(o) })
				w.put("c3", func(o *call.Order) { o.To, o.Org = somebody, "other" }) // another org knows nothing of it
				w.within(2*time.Second, "the other org's call is answered", w.state("c3", call.Live))
				if s := w.get("c2").State; s != call.Queued {
					w.t.Fatalf("c2 is %s beside c1", s)
				}
				w.until("the first ends", w.ended("c1"))
				w.within(tt.after+time.Second, "the second goes", func() bool { return w.get("c2").Last() != nil })
				if d := w.get("c2").Last().At.Sub(w.get("c1").EndedAt); d < tt.after || d > tt.after+200*time.Millisecond {
					w.t.Errorf("c2 was admitted %v after the end of c1, want %v", d, tt.after)
				}
				w.until("all end", func() bool { return w.ended("c2")() && w.ended("c3")() })
				told := map[any]int{}
				for _, h := range w.heard("c2") {
					if h.Type == events.CallVerdict {
						told[h.Detail["reason"]]++
					}
				}
				if told["person_busy"] != 1 || tt.after > 0 && told["person_gap"] != 1 {
					w.t.Errorf("told why c2 waits: %v, want each reason once", told)
				}
				w.wantEnd("c1", call.Completed, 3)
				w.nothingLeft()
			})
		})
	}
}

// The same order put again when its call is over is taken off the line, and the
// person is free for others.
func TestPutAgain(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		w.put("c1")
		w.until("the call ends", w.ended("c1"))
		again := order("c1", numberOf("c1"))
		again.RequestHash = "0123" // as the API sends it, which looks first
		if err := w.desk.Put(w.t.Context(), again); !errors.Is(err, api.ErrDuplicate) {
			w.t.Errorf("put again with a request's hash: %v, want that it is a duplicate", err)
		}
		w.put("c1")
		w.within(2*time.Second, "it is off the line again", w.emptyLine)
		w.put("c2", func(o *call.Order) { o.To = numberOf("c1") })
		w.within(5*time.Second, "the person is called", w.ended("c2"))
		w.wantEnd("c1", call.Completed, 2)
		w.nothingLeft()
	})
}

// A busy callee is tried again by the policy of the order: exactly one call follows
// each, until the attempts are used.
func TestRetry(t *testing.T) {
	busy := simcarrier.Profile{Busy: 1, Ring: simcarrier.Range{Min: time.Second, Max: time.Second}}
	inWorld(t, busy, func(w *world) {
		w.addBots(1)
		w.put("c1", func(o *call.Order) {
			o.Retry = &call.RetryPolicy{MaxAttempts: 2, BackoffMS: []call.Millis{60_000}, MinGapMS: 60_000}
		})
		w.until("the first ends", w.ended("c1"))
		first := w.wantEnd("c1", call.Busy, 1)
		w.within(time.Second, "the next is in line", w.state("c1-r2", call.Scheduled, call.Queued))
		w.within(call.PersonGap+2*time.Minute, "the second ends", w.ended("c1-r2"))
		second := w.get("c1-r2")
		if second.Order.Class != call.ClassRetry || second.Order.RetryOf != "c1" || second.Order.Root != "c1" {
			w.t.Errorf("the second is %+v", second.Order)
		}
		if d := second.Attempts[0].At.Sub(first.EndedAt); d < call.PersonGap || d > call.PersonGap+10*time.Second {
			w.t.Errorf("tried again %v after the first, want the person's gap", d)
		}
		time.Sleep(call.PersonGap + time.Minute)
		w.wantEnd("c1-r2", call.Busy, 2)
		w.nothingLeft()
	})
}
