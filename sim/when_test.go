package sim

import (
	"testing"
	"time"

	"dibs/call"
)

// daily are the same hours on every day, in minutes since midnight.
func daily(open, close call.Clock) call.Hours {
	h := call.Hours{}
	for d := range time.Saturday + 1 {
		h[call.DayOf(d)] = []call.Interval{{Open: open, Close: close}}
	}
	return h
}

// When a call may go: not before its moment, never after its window, inside the hours
// on the callee's clock.
func TestWhen(t *testing.T) {
	// A bubble begins on a Saturday, at midnight UTC: one in the morning in Berlin.
	bubble := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		bots  int
		order func(*call.Order)
		want  call.Outcome
		dials int
		at    time.Duration // of the dial, or of the end without one
	}{
		{
			name: "not before", bots: 1,
			order: func(o *call.Order) { o.NotBefore = bubble.Add(10 * time.Minute) },
			want:  call.Completed, dials: 1, at: 10 * time.Minute,
		},
		{
			name: "inside the hours", bots: 1,
			order: func(o *call.Order) { o.TZ, o.Hours = "Europe/Berlin", daily(80, 1200) },
			want:  call.Completed, dials: 1, at: 20 * time.Minute,
		},
		{
			name: "the window closes before the hours open", bots: 1,
			order: func(o *call.Order) {
				o.TZ, o.Hours, o.NotAfter = "Europe/Berlin", daily(540, 1200), bubble.Add(time.Hour)
			},
			want: call.Expired,
		},
		{
			name: "the window closes while it waits for a seat",
			order: func(o *call.Order) {
				o.Class, o.Campaign, o.NotAfter = call.ClassCampaign, "spring", bubble.Add(2*time.Minute)
			},
			want: call.Expired, at: 2 * time.Minute,
		},
		{
			name:  "the window closes while it waits for a bot",
			order: func(o *call.Order) { o.NotAfter = bubble.Add(30 * time.Second) },
			want:  call.Expired, at: 30 * time.Second,
		},
		{
			name: "it was closed when the order was put", bots: 1,
			order: func(o *call.Order) {
				o.NotBefore, o.NotAfter = bubble.Add(-2*time.Hour), bubble.Add(-time.Hour)
			},
			want: call.Expired,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, answers, func(w *world) {
				w.addBots(tt.bots)
				w.put("c1", tt.order)
				w.within(tt.at+10*time.Second, "it ends", w.ended("c1"))
				r := w.wantEnd("c1", tt.want, tt.dials)
				at := r.EndedAt
				if tt.dials > 0 {
					at = r.Last().IntentAt
				}
				if d := at.Sub(bubble); d < tt.at || d > tt.at+time.Second {
					w.t.Errorf("at %v, want %v", d, tt.at)
				}
				if tt.want == call.Expired && r.Reason != "window_closed" {
					w.t.Errorf("reason %q", r.Reason)
				}
				w.nothingLeft()
			})
		})
	}
}

// A window that closes in the middle of a slow warm-up ends the call undialled, and
// one that closes while the phone rings does not.
func TestWindowClosesMeanwhile(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1, slow(5*time.Second))
		w.put("c1", func(o *call.Order) { o.NotAfter = time.Now().Add(3 * time.Second) })
		w.until("it ends", w.ended("c1"))
		if r := w.wantEnd("c1", call.Expired, 0); !r.EndedAt.Before(r.Order.NotAfter.Add(time.Second)) {
			w.t.Errorf("ended %v after the window", r.EndedAt.Sub(r.Order.NotAfter))
		}
		w.put("c2", func(o *call.Order) { o.NotAfter = time.Now().Add(5*time.Second + 20*time.Millisecond) })
		w.until("it ends", w.ended("c2"))
		w.wantEnd("c2", call.Completed, 1)
		w.nothingLeft()
	})
}

// What was scheduled is remembered by nobody's memory: another dispatcher makes the
// call, on time, and once.
func TestScheduledSurvives(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		at := time.Now().Add(time.Minute)
		w.put("c1", func(o *call.Order) { o.NotBefore = at })
		w.until("it is scheduled", w.state("c1", call.Scheduled))
		w.nodes[0].stop()
		w.addNode("two")
		w.within(90*time.Second, "it ends", w.ended("c1"))
		if r := w.wantEnd("c1", call.Completed, 1); r.Last().IntentAt.Sub(at) > time.Second {
			w.t.Errorf("dialled %v late", r.Last().IntentAt.Sub(at))
		}
		w.nothingLeft()
	})
}
