package call_test

import (
	"errors"
	"testing"
	"time"

	"dibs/call"
)

// TestRecordCheck: edits that would lose a call or ring twice are recognised.
func TestRecordCheck(t *testing.T) {
	placing := after(call.New(order(), t0), ev(call.EvAdmitted)...)
	dialing := after(placing, ev(call.EvIntent)...)
	live := after(dialing, ev(call.EvLive)...)
	ended := after(live, call.Event{Kind: call.EvEnd, Outcome: call.Completed})
	requeued := after(dialing, ev(call.EvRefused429)...)
	for _, c := range []struct {
		name, field string
		rec         call.Record
		edit        func(*call.Record)
	}{
		{"another version", "v", placing, func(r *call.Record) { r.V = 9 }},
		{"bad order", "order", placing, func(r *call.Record) { r.Order.To = "?" }},
		{"state of tomorrow", "state", placing, func(r *call.Record) { r.State = "parked" }},
		{"no time", "updated_at", placing, func(r *call.Record) { r.UpdatedAt = time.Time{} }},
		{"ended, put back to queued", "ended_at", ended, func(r *call.Record) { r.State = call.Queued }},
		{"the same, thoroughly", "attempts[0].intent_at", ended, func(r *call.Record) { r.State, r.EndedAt = call.Queued, time.Time{} }},
		{"dialing, put back to placing", "state", dialing, func(r *call.Record) { r.State = call.Placing }},
		{"dialing, put back to queued", "state", dialing, func(r *call.Record) { r.State = call.Queued }},
		{"live, put back to ringing", "state", live, func(r *call.Record) { r.State = call.Ringing }},
		{"dialing without an intent", "state", dialing, func(r *call.Record) { r.Attempts[0].IntentAt = time.Time{} }},
		{"live without an intent", "attempts[0].intent_at", live, func(r *call.Record) { r.Attempts[0].IntentAt = time.Time{} }},
		{"in flight without an attempt", "state", placing, func(r *call.Record) { r.Attempts = nil }},
		{"queued with an open attempt", "state", placing, func(r *call.Record) { r.State = call.Queued }},
		{"terminal with an open attempt", "state", live, func(r *call.Record) { r.State, r.EndedAt = call.State(call.Failed), t0 }},
		{"an attempt number again", "attempts[1].n", requeued, func(r *call.Record) { r.Attempts = append(r.Attempts, r.Attempts[0]) }},
		{"an attempt number of nobody", "attempts[0].n", placing, func(r *call.Record) { r.Attempts[0].N = 0 }},
		{"another call's attempt", "attempts[0].id", placing, func(r *call.Record) { r.Attempts[0].ID = "d-1" }},
		{"an attempt out of no time", "attempts[0].at", placing, func(r *call.Record) { r.Attempts[0].At = time.Time{} }},
		{"an older attempt still open", "attempts[0].closed_at", requeued, func(r *call.Record) {
			a := r.Attempts[0]
			a.N, a.ID = 2, "c-2"
			r.Attempts = append(r.Attempts, a)
			r.Attempts[0].ClosedAt = time.Time{}
		}},
		{"closed without a why", "attempts[0].why", requeued, func(r *call.Record) { r.Attempts[0].Why = "" }},
		{"closed for another why", "attempts[0].intent_at", requeued, func(r *call.Record) { r.Attempts[0].Why = call.WhyNoBot }},
		{"an end of tomorrow", "attempts[0].ended", ended, func(r *call.Record) { r.Attempts[0].Ended = "beamed" }},
		{"final without a wait", "final_attempt", placing, func(r *call.Record) { r.Final = true }},
		{"scheduled for never", "next_at", requeued, func(r *call.Record) { r.State, r.NextAt = call.Scheduled, time.Time{} }},
		{"next_at in the middle", "next_at", placing, func(r *call.Record) { r.NextAt = t0 }},
		{"owes a release", "owed", placing, func(r *call.Record) { r.Owed = []call.Effect{{Act: call.Release, Attempt: "c-1"}} }},
		{"owes to nobody", "owed", placing, func(r *call.Record) { r.Owed = []call.Effect{{Act: call.Hangup, Attempt: "c-7"}} }},
		{"changes backwards", "changes", placing, func(r *call.Record) { r.Changes = -1 }},
	} {
		r := c.rec
		r.Attempts = append([]call.Attempt{}, r.Attempts...)
		if err := r.Check(); err != nil {
			t.Fatalf("%s, before the edit: %v", c.name, err)
		}
		c.edit(&r)
		if fe, ok := errors.AsType[*call.FieldError](r.Check()); !ok || fe.Field != c.field {
			t.Errorf("%s: got %v, want an error of field %s", c.name, r.Check(), c.field)
		}
		if _, err := r.Encode(); !errors.Is(err, call.ErrInvalid) {
			t.Errorf("%s: encode: got %v, want ErrInvalid", c.name, err)
		}
	}
}

func TestNew(t *testing.T) {
	o := order()
	if r := call.New(o, t0); r.State != call.Queued || !r.NextAt.IsZero() {
		t.Errorf("at once: got %s, next at %s", r.State, r.NextAt)
	}
	o.NotBefore = sec(60)
	r := call.New(o, t0)
	if r.State != call.Scheduled || !r.NextAt.Equal(sec(60)) {
		t.Errorf("in a minute: got %s, next at %s", r.State, r.NextAt)
	}
	if early, _ := call.Apply(r, call.Event{Kind: call.EvDue}, sec(59)); early.State != call.Scheduled {
		t.Errorf("due a second early: got %s", early.State)
	}
	if due, _ := call.Apply(r, call.Event{Kind: call.EvDue}, sec(60)); due.State != call.Queued || !due.NextAt.IsZero() {
		t.Errorf("due: got %s, next at %s", due.State, due.NextAt)
	}
	o.NotBefore, o.TZ, o.Hours = time.Time{}, "Europe/London", call.Hours{"wed": {{Open: 14 * 60, Close: 15 * 60}}}
	if r := call.New(o, t0); r.State != call.Scheduled || !r.NextAt.Equal(sec(7200)) {
		t.Errorf("opens in two hours: got %s, next at %s", r.State, r.NextAt)
	}
	if r := call.New(o, sec(7200).In(time.FixedZone("x", 3600))); r.UpdatedAt.Location() != time.UTC {
		t.Error("times are not in UTC")
	}
}
