package call_test

import (
	"slices"
	"testing"
	"time"

	"dibs/call"
)

func TestMaySend(t *testing.T) {
	dialing := after(call.New(order(), t0), ev(call.EvAdmitted, call.EvIntent)...)
	intent := dialing.Current().IntentAt
	for _, c := range []struct {
		name string
		rec  call.Record
		at   time.Duration // after the intent
		want bool
	}{
		{"at once", dialing, 0, true},
		{"5 s on", dialing, 5 * time.Second, true},
		{"later", dialing, 5*time.Second + 1, false},
		{"the clock was set back", dialing, -1, false},
		{"no intent", after(call.New(order(), t0), ev(call.EvAdmitted)...), 0, false},
		{"queued", call.New(order(), t0), 0, false},
		{"cancelled meanwhile", after(dialing, ev(call.EvCancel)...), time.Second, false},
		{"bot lost meanwhile", after(dialing, ev(call.EvWorkerLost)...), time.Second, false},
		{"the office has ended", after(dialing, ev(call.EvOwnerGone)...), time.Second, false},
		{"the carrier has it", after(dialing, call.Event{Kind: call.EvPlaced, CarrierID: "CA1", Attempt: "c-1"}), time.Second, false},
	} {
		if got := call.MaySend(c.rec, intent.Add(c.at)); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestReconcile(t *testing.T) {
	placing := after(call.New(order(), t0), ev(call.EvAdmitted)...)
	dialing := after(placing, ev(call.EvIntent)...)
	ringing := after(dialing, call.Event{Kind: call.EvPlaced, CarrierID: "CA1", Attempt: "c-1"})
	live := after(ringing, ev(call.EvLive)...)
	short := func(r call.Record) call.Record { r.Order.MaxCallMS = 60_000; return r }
	found := func(id, status string) call.Evidence {
		return call.Evidence{Lookup: call.LookupFound, CarrierID: id, Status: status}
	}
	none, down, gone := call.Evidence{Lookup: call.LookupNone}, call.Evidence{Lookup: call.LookupDown}, call.Evidence{OwnerGone: true}
	noneGone := call.Evidence{Lookup: call.LookupNone, OwnerGone: true}
	// Its first attempt was refused with an id that a look-up by number finds again.
	second := after(dialing, ev(call.EvRefused429, call.EvAdmitted, call.EvIntent)...)
	second.Attempts = slices.Clone(second.Attempts)
	second.Attempts[0].CarrierID = "CA0"

	for _, c := range []struct {
		name  string
		rec   call.Record
		e     call.Evidence
		after time.Duration // since the intent or, placing, the admission
		want  call.Kind     // "" wait
	}{
		{"placing, owner there", placing, none, 29 * time.Second, ""},
		{"placing, 30 s", placing, call.Evidence{}, 30 * time.Second, call.EvDeadline},
		{"placing, owner gone", placing, gone, 0, call.EvOwnerGone},

		{"what the carrier knows is believed at once", dialing, found("CA1", "queued"), 0, call.EvPlaced},
		{"rings", dialing, found("CA1", "ringing"), 0, call.EvRinging},
		{"answered", dialing, found("CA1", "in_progress"), 0, call.EvLive},
		{"ended", dialing, found("CA1", "no_answer"), 0, call.EvEnd},
		{"a word of tomorrow", dialing, found("CA1", "screening"), 0, call.EvPlaced},
		{"found without an id says nothing", dialing, found("", "ringing"), 299 * time.Second, ""},
		{"found without an id, for 300 s", dialing, found("", "ringing"), 300 * time.Second, call.EvUnknown},
		{"found another attempt's call", second, found("CA0", "ringing"), 0, ""},

		{"none, too early", dialing, noneGone, 119 * time.Second, call.EvOwnerGone},
		{"none, owner there", dialing, none, 299 * time.Second, ""},
		{"none, 120 s, owner gone", dialing, noneGone, 120 * time.Second, call.EvNotPlaced},
		{"none, owner gone as noted", after(dialing, ev(call.EvOwnerGone)...), none, 120 * time.Second, call.EvNotPlaced},
		{"none, owner gone, much later", dialing, noneGone, time.Hour, call.EvNotPlaced},
		{"none, owner there, 300 s", dialing, none, 300 * time.Second, call.EvUnknown},
		{"owner gone, nothing else known", dialing, gone, 10 * time.Second, call.EvOwnerGone},
		{"the same, noted", after(dialing, ev(call.EvOwnerGone)...), gone, 10 * time.Second, ""},
		{"down, not yet", dialing, down, 299 * time.Second, ""},
		{"down, 300 s", dialing, down, 300 * time.Second, call.EvUnknown},
		{"down, 300 s, and a bot talks", dialing, call.Evidence{Lookup: call.LookupDown, Talking: true}, 300 * time.Second, ""},
		{"nobody has asked", dialing, call.Evidence{}, time.Hour, ""},

		{"no news", ringing, found("CA1", "ringing"), time.Minute, ""},
		{"no news but its id", after(dialing, ev(call.EvRinging)...), found("CA1", "ringing"), time.Minute, call.EvRinging},
		{"news", ringing, found("CA1", "in_progress"), time.Minute, call.EvLive},
		{"ringing, none", ringing, noneGone, 10 * time.Minute, ""},
		{"ringing, down, the hour", ringing, down, time.Hour, call.EvUnknown},
		{"live, going backwards", live, found("CA1", "ringing"), time.Minute, ""},
		{"live, ended", live, found("CA1", "completed"), time.Minute, call.EvEnd},
		{"live, still", live, found("CA1", "in_progress"), 2 * time.Hour, ""},
		{"live, down", live, down, 59 * time.Minute, ""},
		{"live, down, the hour", live, down, time.Hour, call.EvUnknown},
		{"live, down, and a bot talks", live, call.Evidence{Lookup: call.LookupDown, Talking: true}, 2 * time.Hour, ""},
		{"live, its cap of a minute and five more", short(live), down, 6 * time.Minute, call.EvUnknown},
		{"live, its cap of a minute", short(live), down, 5 * time.Minute, ""},

		{"queued", call.New(order(), t0), noneGone, time.Hour, ""},
		{"ended", after(live, call.Event{Kind: call.EvEnd, Outcome: call.Completed}), noneGone, time.Hour, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := t0
			if a := c.rec.Current(); a != nil {
				if base = a.At; !a.IntentAt.IsZero() {
					base = a.IntentAt
				}
			}
			now := base.Add(c.after)
			got, ok := call.Reconcile(c.rec, c.e, now)
			if ok != (c.want != "") || ok && got.Kind != c.want {
				t.Fatalf("got %+v, %v, want %q", got, ok, c.want)
			}
			if !ok {
				return
			}
			if next, _ := call.Apply(c.rec, got, now); next.Changes == c.rec.Changes {
				t.Errorf("the machine ignores %+v", got)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	o := order()
	placing := after(call.New(o, t0), ev(call.EvAdmitted)...) // at 1 s
	dialing := after(placing, ev(call.EvIntent)...)           // at 2 s
	ringing := after(dialing, ev(call.EvRinging)...)          // at 3 s
	live := after(ringing, ev(call.EvLive)...)                // at 4 s
	window := func(r call.Record, s float64) call.Record { r.Order.NotAfter = sec(s); return r }
	scheduled := call.New(o, t0)
	scheduled.State, scheduled.NextAt = call.Scheduled, sec(50)
	for _, c := range []struct {
		name string
		rec  call.Record
		now  float64
		at   float64
		do   call.Todo // "" none
	}{
		{"scheduled", scheduled, 0, 50, call.DoDue},
		{"scheduled, opens when the window has closed", window(scheduled, 50), 0, 0, call.DoWindowClose},
		{"queued", call.New(o, t0), 0, 0, ""},
		{"queued with a window", window(call.New(o, t0), 60), 0, 60, call.DoWindowClose},
		{"after a miss", after(placing, ev(call.EvNoBot)...), 3, 92, call.DoAdmit},
		{"after a miss, with a window", window(after(placing, ev(call.EvNoBot)...), 60), 3, 60, call.DoWindowClose},
		{"after a miss, 90 s on", after(placing, ev(call.EvNoBot)...), 92, 0, ""},
		{"after a 429", after(dialing, call.Event{Kind: call.EvRefused429, RetryAfter: 7000}), 3, 10, call.DoDue},
		{"placing", placing, 1, 31, call.DoDeadline},
		{"placing, the window closes", window(placing, 20), 1, 20, call.DoWindowClose},
		{"dialing", dialing, 2, 122, call.DoLookUp},
		{"dialing, owner gone", after(dialing, ev(call.EvOwnerGone)...), 3, 2, call.DoLookUp},
		{"ringing", window(ringing, 10), 3, 23, call.DoLookUp},
		{"live", live, 4, 64, call.DoLookUp},
		{"live, to be hung up", after(live, ev(call.EvCancel)...), 5, 15, call.DoLookUp},
		{"ended", after(live, call.Event{Kind: call.EvEnd, Outcome: call.Completed}), 9, 0, ""},
	} {
		d, ok := call.Deadline(c.rec, sec(c.now))
		if ok != (c.do != "") || ok && (d.Do != c.do || !d.At.Equal(sec(c.at))) {
			t.Errorf("%s: got %s at %v (%v), want %q at %v", c.name, d.Do, d.At.Sub(t0), ok, c.do, c.at)
		}
	}
}

func TestStatusEvent(t *testing.T) {
	for _, s := range []string{"queued", "initiated", "ringing", "in_progress", "completed", "busy", "no_answer", "canceled", "failed"} {
		e, ok := call.StatusEvent(s)
		next, _ := call.Apply(after(call.New(order(), t0), ev(call.EvAdmitted, call.EvIntent)...), e, sec(5))
		if !ok || next.State == call.Dialing {
			t.Errorf("%s: got %+v, %v, and the machine makes %s of it", s, e, ok, next.State)
		}
	}
	if e, ok := call.StatusEvent("absent"); ok {
		t.Errorf("absent: got %+v", e)
	}
}
