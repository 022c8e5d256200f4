package call_test

import (
	"slices"
	"testing"
	"time"

	"dibs/call"
)

// acts are the names of effects, in order.
func acts(effects []call.Effect) []call.Act {
	got := []call.Act{}
	for _, e := range effects {
		got = append(got, e.Act)
	}
	return got
}

func TestTransitions(t *testing.T) {
	inbound := func(o *call.Order) { o.Class = call.ClassInbound }
	berlin := func(o *call.Order) { // Wednesday 13:00 in Berlin
		o.To, o.Hours = "+4915112345689", call.Hours{"wed": {{Open: 9 * 60, Close: 14 * 60}}, "thu": {{Open: 9 * 60, Close: 14 * 60}}}
	}
	ringing := ev(call.EvAdmitted, call.EvIntent, call.EvRinging)
	e := func(k call.Kind, carrierID string) call.Event {
		return call.Event{Kind: k, Attempt: "c-1", CarrierID: carrierID}
	}
	late := func(k call.Kind, o call.Outcome) call.Event {
		return call.Event{Kind: k, Attempt: "c-1", CarrierID: "CA1", Outcome: o}
	}
	bot := call.Event{Kind: call.EvBot, Bot: "b1"}
	notPlaced := []call.Event{{Kind: call.EvAdmitted}, {Kind: call.EvIntent}, {Kind: call.EvOwnerGone}}

	for _, c := range []struct {
		name    string
		order   func(*call.Order)
		before  []call.Event // a second apart
		ev      call.Event
		wait    time.Duration // before ev
		state   call.State
		effects []call.Act
		ignored bool
	}{
		// Of the carrier's answers only what is certain lets the call be dialled again.
		{name: "429 gives the bot back", before: slices.Concat(ev(call.EvAdmitted), []call.Event{bot}, ev(call.EvIntent)), ev: call.Event{Kind: call.EvRefused429}, state: call.Queued, effects: []call.Act{call.Release, call.CancelBot, call.Requeue}},
		{name: "4xx is final", before: ev(call.EvAdmitted, call.EvIntent), ev: call.Event{Kind: call.EvRefused}, state: call.State(call.Failed), effects: []call.Act{call.Release, call.CancelBot, call.AskRetry}},
		{name: "taken back", before: ev(call.EvAdmitted, call.EvIntent), ev: call.Event{Kind: call.EvTakenBack}, state: call.Queued, effects: []call.Act{call.Release, call.Requeue}},
		{name: "429 after the carrier had it", before: slices.Concat(ev(call.EvAdmitted, call.EvIntent), []call.Event{e(call.EvPlaced, "CA1")}), ev: call.Event{Kind: call.EvRefused429}, state: call.Ringing, ignored: true},
		{name: "taken back after the carrier had it", before: slices.Concat(ev(call.EvAdmitted, call.EvIntent), []call.Event{e(call.EvPlaced, "CA1")}), ev: call.Event{Kind: call.EvTakenBack}, state: call.Ringing, ignored: true},
		{name: "429 of another attempt", before: ev(call.EvAdmitted, call.EvNoBot, call.EvAdmitted, call.EvIntent), ev: call.Event{Kind: call.EvRefused429, Attempt: "c-1"}, state: call.Dialing, ignored: true},

		// not_placed needs its three parts.
		{name: "not placed, all three", before: notPlaced, ev: call.Event{Kind: call.EvNotPlaced}, wait: 2 * time.Minute, state: call.Queued, effects: []call.Act{call.Release, call.Requeue}},
		{name: "not placed, too early", before: notPlaced, ev: call.Event{Kind: call.EvNotPlaced}, wait: 118 * time.Second, state: call.Dialing, ignored: true},
		{name: "not placed, owner still there", before: notPlaced[:2], ev: call.Event{Kind: call.EvNotPlaced}, wait: 10 * time.Minute, state: call.Dialing, ignored: true},
		{name: "not placed, it rings", before: ringing, ev: call.Event{Kind: call.EvNotPlaced, OwnerGone: true}, wait: 10 * time.Minute, state: call.Ringing, ignored: true},

		// An admission that was decided on an older record.
		{name: "admitted as the next attempt", before: ev(call.EvAdmitted, call.EvNoBot), ev: call.Event{Kind: call.EvAdmitted, Attempt: "c-2"}, state: call.Placing},
		{name: "admitted as an attempt that has been", before: ev(call.EvAdmitted, call.EvNoBot), ev: call.Event{Kind: call.EvAdmitted, Attempt: "c-1"}, state: call.Queued, ignored: true},

		// The owner leaves.
		{name: "owner gone before the intent", before: slices.Concat(ev(call.EvAdmitted), []call.Event{bot}), ev: call.Event{Kind: call.EvOwnerGone}, state: call.Queued, effects: []call.Act{call.Release, call.CancelBot, call.Requeue}},
		{name: "owner gone after the intent", before: ev(call.EvAdmitted, call.EvIntent), ev: call.Event{Kind: call.EvOwnerGone}, state: call.Dialing},
		{name: "another's owner gone", before: []call.Event{{Kind: call.EvAdmitted, Owner: "d2"}}, ev: call.Event{Kind: call.EvOwnerGone, Owner: "d1"}, state: call.Placing, ignored: true},
		{name: "owner gone, live", before: append(slices.Clone(ringing), call.Event{Kind: call.EvLive}), ev: call.Event{Kind: call.EvOwnerGone}, state: call.Live, ignored: true},
		{name: "placing for 30 s", before: ev(call.EvAdmitted), ev: call.Event{Kind: call.EvDeadline}, wait: 30 * time.Second, state: call.Queued, effects: []call.Act{call.Release, call.Requeue}},
		{name: "placing for less", before: ev(call.EvAdmitted), ev: call.Event{Kind: call.EvDeadline}, wait: 20 * time.Second, state: call.Placing, ignored: true},
		{name: "dialing has no such deadline", before: ev(call.EvAdmitted, call.EvIntent), ev: call.Event{Kind: call.EvDeadline}, wait: time.Hour, state: call.Dialing, ignored: true},

		// Hours and window are asked again at the intent.
		{name: "intent inside the hours", order: berlin, before: ev(call.EvAdmitted), ev: call.Event{Kind: call.EvIntent}, wait: 59 * time.Minute, state: call.Dialing},
		{name: "intent after the hours", order: berlin, before: ev(call.EvAdmitted), ev: call.Event{Kind: call.EvIntent}, wait: time.Hour, state: call.Scheduled, effects: []call.Act{call.Release, call.Requeue}},
		{name: "intent after the window", order: func(o *call.Order) { o.NotAfter = sec(10) }, before: ev(call.EvAdmitted), ev: call.Event{Kind: call.EvIntent}, wait: 10 * time.Second, state: call.State(call.Expired), effects: []call.Act{call.Release}},
		{name: "intent twice", before: ev(call.EvAdmitted, call.EvIntent), ev: call.Event{Kind: call.EvIntent}, state: call.Dialing, ignored: true},

		// Cancel works in every state.
		{name: "cancel while a bot is found", before: slices.Concat(ev(call.EvAdmitted), []call.Event{bot}), ev: call.Event{Kind: call.EvCancel}, state: call.State(call.Cancelled), effects: []call.Act{call.Release, call.CancelBot}},
		{name: "cancel, carrier silent", before: ev(call.EvAdmitted, call.EvIntent), ev: call.Event{Kind: call.EvCancel}, state: call.Dialing},
		{name: "cancel, then 429", before: ev(call.EvAdmitted, call.EvIntent, call.EvCancel), ev: call.Event{Kind: call.EvRefused429}, state: call.State(call.Cancelled), effects: []call.Act{call.Release, call.CancelBot}},
		{name: "cancel, then not placed", before: append(slices.Clone(notPlaced), call.Event{Kind: call.EvCancel}), ev: call.Event{Kind: call.EvNotPlaced}, wait: 2 * time.Minute, state: call.State(call.Cancelled), effects: []call.Act{call.Release, call.CancelBot}},
		{name: "cancel, then the carrier has it", before: ev(call.EvAdmitted, call.EvIntent, call.EvCancel), ev: e(call.EvPlaced, "CA1"), state: call.Ringing, effects: []call.Act{call.Hangup}},
		{name: "cancel, then unknown", before: ev(call.EvAdmitted, call.EvIntent, call.EvCancel), ev: call.Event{Kind: call.EvUnknown}, state: call.State(call.Unknown), effects: []call.Act{call.Release, call.CancelBot}},
		{name: "cancel, and it was answered all the same", before: append(slices.Clone(ringing), call.Event{Kind: call.EvCancel}), ev: call.Event{Kind: call.EvEnd, Outcome: call.Completed}, state: call.State(call.Completed), effects: []call.Act{call.Release, call.CancelBot}},
		{name: "cancel twice", before: append(slices.Clone(ringing), call.Event{Kind: call.EvCancel}), ev: call.Event{Kind: call.EvCancel}, state: call.Ringing, ignored: true},

		// Bots die and come late.
		{name: "bot lost before the dial is a miss", before: slices.Concat(ev(call.EvAdmitted), []call.Event{bot}), ev: call.Event{Kind: call.EvWorkerLost}, state: call.Queued, effects: []call.Act{call.Release, call.CancelBot, call.Requeue}},
		{name: "bot lost while it rings", before: ringing, ev: call.Event{Kind: call.EvWorkerLost}, state: call.Ringing, effects: []call.Act{call.Hangup}},
		{name: "bot lost while it rings, then the end", before: append(slices.Clone(ringing), call.Event{Kind: call.EvWorkerLost}), ev: call.Event{Kind: call.EvEnd, Outcome: call.Cancelled}, state: call.State(call.Interrupted), effects: []call.Act{call.Release, call.CancelBot}},
		{name: "another bot takes over a live call", before: slices.Concat(ev(call.EvAdmitted), []call.Event{bot}, ev(call.EvIntent, call.EvLive)), ev: call.Event{Kind: call.EvBot, Bot: "b2"}, state: call.Live},
		{name: "a bot for an attempt that is over", before: ev(call.EvAdmitted, call.EvNoBot), ev: call.Event{Kind: call.EvBot, Bot: "b9", Attempt: "c-1"}, state: call.Queued, effects: []call.Act{call.CancelBot}},
		{name: "the same bot again", before: slices.Concat(ev(call.EvAdmitted), []call.Event{bot}), ev: bot, state: call.Placing, ignored: true},

		// Words that come late.
		{name: "a dial we thought was not made rings", before: append(slices.Clone(notPlaced), call.Event{Kind: call.EvTakenBack}), ev: late(call.EvRinging, ""), state: call.State(call.Unknown), effects: []call.Act{call.Release, call.Hangup}},
		{name: "the same, and it is over", before: append(slices.Clone(notPlaced), call.Event{Kind: call.EvTakenBack}), ev: late(call.EvEnd, call.NoAnswer), state: call.State(call.NoAnswer), effects: []call.Act{call.Release, call.AskRetry}},
		{name: "the same, and the next attempt has a bot", before: slices.Concat(notPlaced, ev(call.EvTakenBack, call.EvAdmitted), []call.Event{bot}), ev: late(call.EvLive, ""), state: call.State(call.Unknown), effects: []call.Act{call.Release, call.CancelBot, call.Hangup}},
		{name: "the same, and the next dial is out", before: append(slices.Clone(notPlaced), ev(call.EvTakenBack, call.EvAdmitted, call.EvIntent)...), ev: late(call.EvLive, ""), state: call.Dialing, effects: []call.Act{call.Hangup}},
		{name: "the same, and the next dial was refused: no third", before: slices.Concat(notPlaced, ev(call.EvTakenBack, call.EvAdmitted, call.EvIntent), []call.Event{late(call.EvLive, "")}), ev: call.Event{Kind: call.EvRefused429, Attempt: "c-2"}, state: call.State(call.Unknown), effects: []call.Act{call.Release, call.CancelBot}},
		{name: "an unknown call is up: nobody is left with it", before: ev(call.EvAdmitted, call.EvIntent, call.EvUnknown), ev: late(call.EvLive, ""), state: call.State(call.Unknown), effects: []call.Act{call.Hangup}},
		{name: "an interrupted call ends: nothing to hang up", before: slices.Concat(ringing, ev(call.EvLive, call.EvWorkerLost)), ev: call.Event{Kind: call.EvEnd, Attempt: "c-1", Outcome: call.Completed}, state: call.State(call.Interrupted)},
		{name: "the carrier knows an attempt without intent", before: ev(call.EvAdmitted), ev: late(call.EvRinging, ""), state: call.Ringing},
		{name: "a word about a call nobody knows", before: ringing, ev: call.Event{Kind: call.EvLive, CarrierID: "CA9"}, state: call.Ringing, ignored: true},
		{name: "an end that no carrier can report", before: ringing, ev: call.Event{Kind: call.EvEnd, Outcome: call.Expired}, state: call.Ringing, ignored: true},
		{name: "a kind that nobody knows", before: ringing, ev: call.Event{Kind: "renamed"}, state: call.Ringing, ignored: true},
		{name: "unknown while it rings, before the hour", before: ringing, ev: call.Event{Kind: call.EvUnknown}, wait: 50 * time.Minute, state: call.Ringing, ignored: true},
		{name: "unknown after the hour", before: append(slices.Clone(ringing), e(call.EvLive, "")), ev: call.Event{Kind: call.EvUnknown}, wait: time.Hour, state: call.State(call.Unknown), effects: []call.Act{call.Release}},

		// Inbound.
		{name: "inbound: nobody idle", order: inbound, before: ev(call.EvAdmitted), ev: call.Event{Kind: call.EvNoBot}, state: call.State(call.BotUnavailable), effects: []call.Act{call.Release, call.AskCallback}},
		{name: "inbound: no room", order: inbound, ev: call.Event{Kind: call.EvRejected}, state: call.State(call.Rejected), effects: []call.Act{call.Release, call.AskCallback}},
		{name: "inbound: a bot answers", order: inbound, before: ev(call.EvAdmitted), ev: bot, state: call.Ringing},
		{name: "inbound: no intent", order: inbound, before: ev(call.EvAdmitted), ev: call.Event{Kind: call.EvIntent}, state: call.Placing, ignored: true},
		{name: "inbound: its caller gives up", order: inbound, before: slices.Concat(ev(call.EvAdmitted), []call.Event{bot}), ev: call.Event{Kind: call.EvEnd, Outcome: call.NoAnswer}, state: call.State(call.NoAnswer), effects: []call.Act{call.Release, call.CancelBot}},
		{name: "inbound: the dispatcher leaves", order: inbound, before: ev(call.EvAdmitted), ev: call.Event{Kind: call.EvOwnerGone}, state: call.Placing, ignored: true},
		{name: "inbound: stopped while a bot is found", order: inbound, before: []call.Event{{Kind: call.EvAdmitted, CarrierID: "CA1"}}, ev: call.Event{Kind: call.EvCancel}, state: call.State(call.Cancelled), effects: []call.Act{call.Hangup, call.Release}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := order()
			if c.order != nil {
				c.order(&o)
			}
			before := after(call.New(o, t0.Add(-time.Duration(len(c.before))*time.Second)), c.before...)
			if before.Changes != len(c.before) {
				t.Fatalf("of %d events before only %d did something", len(c.before), before.Changes)
			}
			rec, effects := call.Apply(before, c.ev, t0.Add(max(c.wait, time.Second)))
			if err := rec.Check(); err != nil {
				t.Fatal(err)
			}
			if rec.State != c.state {
				t.Errorf("got state %s, want %s", rec.State, c.state)
			}
			if got := acts(effects); !slices.Equal(got, append([]call.Act{}, c.effects...)) {
				t.Errorf("got effects %v, want %v", got, c.effects)
			}
			if ignored := rec.Changes == before.Changes; ignored != c.ignored {
				t.Errorf("ignored: %v, want %v", ignored, c.ignored)
			}
		})
	}
}

// TestNoSecondDial: a record that somebody put back into the queue by hand is not
// dialled again, even by a dispatcher that does not check it.
func TestNoSecondDial(t *testing.T) {
	rec := after(call.New(order(), t0), append(ev(call.EvAdmitted, call.EvIntent), call.Event{Kind: call.EvEnd, Outcome: call.NoAnswer})...)
	rec.State, rec.EndedAt = call.Queued, time.Time{}
	if next, _ := call.Apply(rec, call.Event{Kind: call.EvAdmitted}, sec(60)); next.State != call.Queued {
		t.Errorf("got %s", next.State)
	}
}

// TestBotWaitIsOver: a bot was found; the next miss begins a new wait.
func TestBotWaitIsOver(t *testing.T) {
	rec := after(call.New(order(), t0), ev(call.EvAdmitted, call.EvNoBot, call.EvAdmitted, call.EvIntent, call.EvRefused429, call.EvAdmitted)...)
	rec, _ = call.Apply(rec, call.Event{Kind: call.EvNoBot}, sec(200))
	if rec.Final || !rec.BotWaitSince.Equal(sec(200)) {
		t.Errorf("got final %v, waiting since %v", rec.Final, rec.BotWaitSince.Sub(t0))
	}
}

// TestPending: what was decided is in the record until it is settled.
func TestPending(t *testing.T) {
	rec := after(call.New(order(), t0), ev(call.EvAdmitted, call.EvIntent, call.EvLive, call.EvCancel)...)
	hangup := call.Effect{Act: call.Hangup, Attempt: "c-1"}
	if got := call.Pending(rec); !slices.Equal(got, []call.Effect{hangup}) {
		t.Fatalf("after a cancel: got %v, want a hangup", got)
	}
	settled := call.Settle(rec, t0, hangup)
	if got := call.Pending(settled); len(got) != 0 {
		t.Errorf("settled: got %v", got)
	}
	if len(call.Pending(rec)) != 1 {
		t.Error("settling changed the record it was given")
	}
	if again := call.Settle(settled, t0, hangup); again.Changes != settled.Changes {
		t.Error("settled twice: there was something to store")
	}
	ended := after(rec, call.Event{Kind: call.EvEnd, Outcome: call.Completed})
	if got := call.Pending(ended); len(got) != 0 {
		t.Errorf("ended by itself: got %v, want nothing", got)
	}
	busy := after(call.New(order(), t0), append(ev(call.EvAdmitted, call.EvIntent), call.Event{Kind: call.EvEnd, Outcome: call.Busy})...)
	want := []call.Effect{{Act: call.CancelBot, Attempt: "c-1"}, {Act: call.AskRetry, Attempt: "c-1"}}
	if got := call.Pending(busy); !slices.Equal(got, want) {
		t.Errorf("busy: got %v, want %v", got, want)
	}
}

// TestManyAttempts: a record stays small and its numbers go on.
func TestManyAttempts(t *testing.T) {
	rec := call.New(order(), t0)
	for range 500 {
		rec = after(rec, call.Event{Kind: call.EvAdmitted}, call.Event{Kind: call.EvBot, Bot: "b"}, call.Event{Kind: call.EvIntent}, call.Event{Kind: call.EvRefused429})
	}
	if err := rec.Check(); err != nil {
		t.Fatal(err)
	}
	if a := rec.Last(); a.N != 500 || a.ID != "c-500" || rec.NextAttemptID() != "c-501" {
		t.Errorf("got attempt %d, %s, next %s", a.N, a.ID, rec.NextAttemptID())
	}
	if len(rec.Owed) > call.MaxOwed || len(rec.Attempts) > call.MaxAttempts+call.MaxOwed {
		t.Errorf("got %d owed, %d attempts", len(rec.Owed), len(rec.Attempts))
	}
	if _, err := rec.Encode(); err != nil {
		t.Error(err)
	}
	if rec.Last().Bot == "" || rec.Reached() {
		t.Error("refused dials count as having reached the person")
	}
}
