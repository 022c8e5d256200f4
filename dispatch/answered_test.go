package dispatch

import (
	"testing"

	"dibs/call"
	"dibs/carrier"
)

// Who answered is passed on with what it is news of.
func TestWhoAnswered(t *testing.T) {
	for _, tt := range []struct {
		status   carrier.Status
		answered string
		want     call.Event
	}{
		{carrier.InProgress, "", call.Event{Kind: call.EvLive}},
		{carrier.InProgress, "human", call.Event{Kind: call.EvLive, Answered: "human"}},
		{carrier.InProgress, "machine_start", call.Event{Kind: call.EvLive, Answered: "machine_start"}},
		{carrier.Completed, "human", call.Event{Kind: call.EvEnd, Outcome: call.Completed, Answered: "human"}},
		{carrier.Completed, "machine_end_beep", call.Event{Kind: call.EvEnd, Outcome: call.Completed, Answered: "machine_end_beep"}},
		{carrier.Ringing, "machine_start", call.Event{Kind: call.EvRinging}},
	} {
		ask := deskAsk{question: askEvent, req: deskRequest{Event: &carrier.Event{ID: "CA1", Attempt: "call_1-2", Status: tt.status, Answered: tt.answered}}}
		id, got, err := ask.event()
		if err != nil || id != "call_1" || got.Attempt != "call_1-2" || got.CarrierID != "CA1" {
			t.Fatalf("%s %s: %q, %+v, %v", tt.status, tt.answered, id, got, err)
		}
		if got.Kind != tt.want.Kind || got.Outcome != tt.want.Outcome || got.Answered != tt.want.Answered {
			t.Errorf("%s, %s: %+v, want %+v", tt.status, tt.answered, got, tt.want)
		}
	}
	for _, attempt := range []string{"", "x", "-1", "a b-1", "call_1-2-"} {
		if id, ok := callOf(attempt); ok && attempt != "call_1-2-" {
			t.Errorf("%q is of call %q", attempt, id)
		}
	}
}

// Which ends need no other bot.
func TestInOrder(t *testing.T) {
	for why, want := range map[string]bool{
		"stopped": true, "hung_up": true, "max_call": true, "released": true, "released: no_answer": true, "withdrawn": true,
		"peer_closed": false, "write_timeout": false, "timeout_idle": false, "timeout_start": false, "malformed": false, "too_large": false,
		"talk_error": false, "media_never_came": false, "": false, "rel": false,
	} {
		if got := inOrder(why); got != want {
			t.Errorf("%q: %v, want %v", why, got, want)
		}
	}
}
