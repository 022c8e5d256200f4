package call

import (
	"testing"
	"time"
)

// A callback was promised: it waits for a bot as long as it lives, and not only
// as long as a call that nobody has promised.
func TestCallbackIsPatient(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	in := New(Order{V: Version, CallID: "in_1", Org: "acme", Class: ClassInbound, Region: "eu", From: "+4915112345678", To: "+493012345678", QueuedAt: now}, now)
	in, _ = Apply(in, Event{Kind: EvAdmitted, CarrierID: "CA1"}, now)
	in, effects := Apply(in, Event{Kind: EvNoBot, Reason: "no_idle_bot"}, now)
	if in.Outcome() != BotUnavailable || effects[len(effects)-1].Act != AskCallback {
		t.Fatalf("an inbound call without a bot: %s, %v", in.State, effects)
	}
	o, ok := Callback(in)
	if !ok || o.Class != ClassAPI || o.To != "+4915112345678" || o.From != "+493012345678" {
		t.Fatalf("callback %+v", o)
	}
	r := New(o, now)
	miss := func(at time.Time) {
		t.Helper()
		r, _ = Apply(r, Event{Kind: EvAdmitted}, at)
		r, _ = Apply(r, Event{Kind: EvNoBot}, at)
	}
	miss(now.Add(time.Second))
	miss(now.Add(20 * time.Minute))
	if r.State != Queued || r.Final {
		t.Fatalf("after 20 min without a bot: %s, final %v, want it to wait", r.State, r.Final)
	}
	if d, ok := Deadline(r, now.Add(20*time.Minute)); !ok || d.Do != DoWindowClose || !d.At.Equal(o.NotAfter) {
		t.Errorf("next: %+v, want the end of its life", d)
	}
}

// A bot is lost and a sentence is said: the call is interrupted when the carrier
// says that it is over, nobody hangs up into the sentence, and the caller is
// called back.
func TestSentenceIsHeardOut(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	r := New(Order{V: Version, CallID: "in_1", Org: "acme", Class: ClassInbound, Region: "eu", From: "+4915112345678", To: "+493012345678"}, now)
	for _, ev := range []Event{{Kind: EvAdmitted, CarrierID: "CA1"}, {Kind: EvBot, Bot: "b1"}, {Kind: EvLive}} {
		r, _ = Apply(r, ev, now)
	}
	r, effects := Apply(r, Event{Kind: EvWorkerLost, Saying: true}, now.Add(time.Minute))
	if r.State != Live || len(effects) != 0 || r.Check() != nil {
		t.Fatalf("%s, %v, %v: want it live and not hung up", r.State, effects, r.Check())
	}
	if again, _ := Apply(r, Event{Kind: EvWorkerLost, Saying: true}, now.Add(time.Minute)); again.Changes != r.Changes {
		t.Error("said twice, changed twice")
	}
	ended, effects := Apply(r, Event{Kind: EvEnd, Outcome: Completed}, now.Add(65*time.Second))
	if ended.Outcome() != Interrupted || len(effects) != 2 || effects[0].Act != Release || effects[1].Act != AskCallback {
		t.Errorf("ended %s with %v", ended.State, effects)
	}
	late, effects := Apply(r, Event{Kind: EvWorkerLost, Reason: "bot_lost"}, now.Add(2*time.Minute)) // nobody said that it ended
	if late.Outcome() != Interrupted || effects[0].Act != Hangup {
		t.Errorf("given up: %s, %v, want it hung up", late.State, effects)
	}
}
