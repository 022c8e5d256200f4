package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"dibs/api"
	"dibs/bot"
	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/dispatch"
	"dibs/warmup"
)

// slowVoice takes its time over every greeting.
type slowVoice struct {
	warmup.Voice
	takes time.Duration
	only  string // this greeting only; empty: all
}

func (v slowVoice) Speak(ctx context.Context, text, voice, locale string) ([]int16, int, error) {
	if v.only == "" || v.only == text {
		select {
		case <-time.After(v.takes):
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	return v.Voice.Speak(ctx, text, voice, locale)
}

// slow lets a bot take so long over its greetings.
func slow(takes time.Duration) func(*bot.Config) {
	return func(c *bot.Config) { c.Warmup.Voice = slowVoice{Voice: c.Warmup.Voice, takes: takes} }
}

// A call is cancelled in whatever state it is: it ends so, the seat is idle and the
// message is gone within a second, and no phone rings on.
func TestCancel(t *testing.T) {
	rings := answers
	rings.Ring = simcarrier.Range{Min: 20 * time.Second, Max: 20 * time.Second}
	for _, tt := range []struct {
		name    string
		profile simcarrier.Profile
		bots    int
		change  func(*bot.Config)
		order   func(*call.Order)
		faults  simcarrier.Faults
		reach   func(w *world) func() bool // where it is cancelled
		after   time.Duration              // and how soon it must have ended; 0: 2 s
		dials   int
		want    call.Outcome
	}{
		{
			name: "on the line, never tried", profile: answers,
			order: func(o *call.Order) { o.Class, o.Campaign = call.ClassCampaign, "spring" },
			reach: func(w *world) func() bool { return w.state("c1", call.Queued) },
			want:  call.Cancelled,
		},
		{
			name: "scheduled", profile: answers, bots: 1,
			order: func(o *call.Order) { o.NotBefore = time.Now().Add(time.Hour) },
			reach: func(w *world) func() bool { return w.state("c1", call.Scheduled) },
			want:  call.Cancelled,
		},
		{
			name: "waiting for a bot", profile: answers,
			reach: func(w *world) func() bool {
				return func() bool { return !w.get("c1").BotWaitSince.IsZero() }
			},
			want: call.Cancelled,
		},
		{
			name: "placing, in a slow warm-up", profile: answers, bots: 1, change: slow(5 * time.Second),
			reach: func(w *world) func() bool { return w.state("c1", call.Placing) },
			want:  call.Cancelled,
		},
		{
			name: "dialing, the reply to the create lost", profile: rings, bots: 1,
			faults: simcarrier.Faults{Create: simcarrier.LoseReply, DropCallbacks: []string{"all"}, LookupDown: true},
			reach:  func(w *world) func() bool { return w.state("c1", call.Dialing) },
			after:  call.LookEvery + 2*time.Second, // only when the look-up finds it is there something to hang up
			dials:  1, want: call.Cancelled,
		},
		{
			name: "ringing", profile: rings, bots: 1,
			reach: func(w *world) func() bool { return w.state("c1", call.Ringing) },
			dials: 1, want: call.Cancelled,
		},
		{
			name: "live", profile: talks(time.Minute), bots: 1,
			reach: func(w *world) func() bool { return w.state("c1", call.Live) },
			dials: 1, want: call.Completed, // a conversation took place
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, tt.profile, func(w *world) {
				check(w.t, w.carrier.SetFaults(tt.faults))
				change := tt.change
				if change == nil {
					change = func(*bot.Config) {}
				}
				w.addBots(tt.bots, change)
				order := tt.order
				if order == nil {
					order = func(*call.Order) {}
				}
				w.put("c1", order)
				w.until("the call is where it is to be cancelled", tt.reach(w))
				time.Sleep(300 * time.Millisecond) // whatever is still on its way
				_, err := w.desk.Cancel(w.t.Context(), "c1", "changed_mind")
				check(w.t, err)
				check(w.t, w.carrier.SetFaults(simcarrier.Faults{}))
				w.within(max(tt.after, 2*time.Second), "the call ends", w.ended("c1"))
				w.within(time.Second, "the seat is idle", w.idleSeats(tt.bots))
				w.within(time.Second, "the message is gone", w.emptyLine)
				r := w.wantEnd("c1", tt.want, tt.dials)
				if tt.want == call.Cancelled && r.Reason != "changed_mind" {
					w.t.Errorf("reason %q", r.Reason)
				}
				w.nothingLeft()
				if _, err := w.desk.Cancel(w.t.Context(), "c1", ""); !errors.Is(err, api.ErrEnded) {
					w.t.Errorf("cancelled again: %v, want that it has ended", err)
				}
			})
		})
	}
}

// Nobody waits for a call that does not exist, on an empty line or a full one.
func TestCancelNobody(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.until("somebody is in office", w.inOffice)
		begun := time.Now()
		if _, err := w.desk.Cancel(w.t.Context(), "nobody", ""); !errors.Is(err, api.ErrNotFound) {
			w.t.Errorf("cancel of nobody: %v, want not found", err)
		}
		if took := time.Since(begun); took > time.Second {
			w.t.Errorf("known after %v", took)
		}
	})
}

// A cancel that comes between the put and the reading of the line is not lost, and
// one that is asked for while nobody is in office waits for somebody.
func TestCancelBetween(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		n := w.nodes[0]
		hold, held := make(chan struct{}), make(chan struct{}, 10)
		n.onStep(func(s dispatch.Step, id string) {
			if s == dispatch.StepBot && id == "c1" {
				held <- struct{}{}
				<-hold
			}
		})
		w.put("c1")
		<-held
		done := make(chan error, 1)
		go func() {
			_, err := w.desk.Cancel(w.t.Context(), "c1", "late")
			done <- err
		}()
		time.Sleep(time.Second)
		close(hold)
		check(w.t, <-done)
		w.until("the call ends", w.ended("c1"))
		r := w.get("c1")
		if len(w.carrier.CallsTo(r.Order.To)) > 1 {
			w.t.Errorf("dialled twice\n%s", w.story())
		}
		w.nothingLeft()
	})
}
