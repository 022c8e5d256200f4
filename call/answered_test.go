package call_test

import (
	"testing"
	"time"

	"dibs/call"
)

// A machine's call that was completed ends as voicemail, whichever word says that it
// was one; no other end does, and the first word about who answered stays.
func TestAnsweredBy(t *testing.T) {
	dialled := ev(call.EvAdmitted, call.EvIntent, call.EvPlaced, call.EvRinging)
	live := func(who string) call.Event { return call.Event{Kind: call.EvLive, Attempt: "c-1", Answered: who} }
	end := func(o call.Outcome, who string) call.Event {
		return call.Event{Kind: call.EvEnd, Attempt: "c-1", Outcome: o, Answered: who}
	}
	for _, tt := range []struct {
		name string
		evs  []call.Event
		want call.Outcome
		who  string
	}{
		{"nobody asked", []call.Event{live(""), end(call.Completed, "")}, call.Completed, ""},
		{"a person", []call.Event{live(""), live("human"), end(call.Completed, "human")}, call.Completed, "human"},
		{"told beside the call", []call.Event{live(""), live("machine_start"), end(call.Completed, "")}, call.Voicemail, "machine_start"},
		{"told before the answer", []call.Event{live("machine_start"), live(""), end(call.Completed, "")}, call.Voicemail, "machine_start"},
		{"told at the end", []call.Event{live(""), end(call.Completed, "machine_end_beep")}, call.Voicemail, "machine_end_beep"},
		{"told after the end", []call.Event{live(""), end(call.Completed, ""), live("machine_start")}, call.Completed, ""},
		{"two words", []call.Event{live("human"), end(call.Completed, "machine_start")}, call.Completed, "human"},
		{"a fax", []call.Event{live("fax"), end(call.Completed, "")}, call.Completed, "fax"},
		{"a machine, and the line broke", []call.Event{live("machine_start"), end(call.Failed, "")}, call.Failed, "machine_start"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := after(after(call.New(order(), t0), dialled...), tt.evs...)
			if r.Outcome() != tt.want || r.Last().AnsweredBy != tt.who {
				t.Errorf("got %s by %q, want %s by %q", r.State, r.Last().AnsweredBy, tt.want, tt.who)
			}
		})
	}
	r := after(call.New(order(), t0), append(dialled, live("human"))...)
	if again := after(r, live("human"), live("machine_start")); again.Changes != r.Changes {
		t.Error("the same once more: there was something to store")
	}
	found := call.Evidence{Lookup: call.LookupFound, CarrierID: "CA1", Status: "completed", Answered: "machine_start"}
	if got, ok := call.Reconcile(r, found, r.UpdatedAt.Add(time.Minute)); !ok || got.Answered != "machine_start" {
		t.Errorf("a look-up: got %+v, %t", got, ok)
	}
}
