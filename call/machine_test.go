package call_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dibs/call"
)

// history is a call and what the machine has ever said about it.
type history struct {
	rec     call.Record
	now     time.Time
	effects []call.Effect
	owed    []call.Effect
	intents map[string]time.Time // attempt id → its intent
	ids     []string             // attempt ids in the order in which they were made
	end     *call.Record         // as it was when it ended
}

// apply is one event with everything that must hold of any.
func (h *history) apply(t *rapid.T, ev call.Event) []call.Effect {
	before, _ := json.Marshal(h.rec)
	r, effects := call.Apply(h.rec, ev, h.now)
	if after, _ := json.Marshal(h.rec); string(before) != string(after) {
		t.Fatalf("%s: the record that was given has changed", ev.Kind)
	}
	h.check(t, r, ev, effects)
	h.rec = r
	h.effects = append(h.effects, effects...)
	return effects
}

func (h *history) check(t *rapid.T, r call.Record, ev call.Event, effects []call.Effect) {
	if err := r.Check(); err != nil {
		t.Fatalf("%s in %s: %v", ev.Kind, h.rec.State, err)
	}
	data, err := r.Encode()
	if err != nil {
		t.Fatalf("%s: encode: %v", ev.Kind, err)
	}
	if back, err := call.DecodeRecord(data); err != nil {
		t.Fatalf("%s: decode: %v", ev.Kind, err)
	} else if !reflect.DeepEqual(r, back) {
		t.Fatalf("%s: another record after JSON: %s", ev.Kind, cmp.Diff(r, back))
	}
	switch changed := !reflect.DeepEqual(h.rec, r); {
	case changed && r.Changes != h.rec.Changes+1:
		t.Fatalf("%s: changed, and changes went from %d to %d", ev.Kind, h.rec.Changes, r.Changes)
	case !changed && len(effects) > 0:
		t.Fatalf("%s: nothing changed, and effects %v", ev.Kind, effects)
	}
	did := func(a call.Act) bool {
		return slices.ContainsFunc(effects, func(e call.Effect) bool { return e.Act == a })
	}
	if r.State.Rank() < h.rec.State.Rank() && !did(call.Requeue) {
		if h.rec.State != call.Scheduled && h.rec.State != call.Queued {
			t.Fatalf("%s: went back from %s to %s", ev.Kind, h.rec.State, r.State)
		}
	}
	if h.rec.InFlight() && !r.InFlight() && !did(call.Release) {
		t.Fatalf("%s: from %s to %s without a release", ev.Kind, h.rec.State, r.State)
	}
	if d, ok := call.Deadline(r, h.now); r.InFlight() && (!ok || d.Do == "" || d.At.IsZero()) {
		t.Fatalf("%s: no deadline in %s", ev.Kind, r.State)
	}
	for _, a := range r.Attempts {
		was, known := h.intents[a.ID]
		if known && !was.IsZero() && !was.Equal(a.IntentAt) {
			t.Fatalf("%s: a second intent of %s", ev.Kind, a.ID)
		}
		if !known {
			h.ids = append(h.ids, a.ID)
		}
		h.intents[a.ID] = a.IntentAt
	}
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].ID != h.ids[len(h.ids)-1] {
		t.Fatalf("%s: attempt %s is back", ev.Kind, r.Attempts[n-1].ID)
	}
	if h.end != nil {
		if r.State != h.end.State || !r.EndedAt.Equal(h.end.EndedAt) || r.Reason != h.end.Reason || len(r.Attempts) != len(h.end.Attempts) {
			t.Fatalf("%s: %s was final and is %s", ev.Kind, h.end.State, r.State)
		}
	} else if r.State.Terminal() {
		h.end = &r
	}
	for _, e := range effects {
		if e.Act != call.Release && e.Act != call.Requeue {
			h.owed = append(h.owed, e)
		}
	}
	// What is owed is what was decided; only the hang-up of an ended leg may go.
	for _, e := range r.Owed {
		if !slices.Contains(h.owed, e) {
			t.Fatalf("%s: owes %v, which was not decided", ev.Kind, e)
		}
	}
	for _, e := range h.owed {
		if e.Act != call.Hangup && !slices.Contains(r.Owed, e) {
			t.Fatalf("%s: owes %v, and not %v any more", ev.Kind, r.Owed, e)
		}
	}
}

// finish checks what must hold of a whole life.
func (h *history) finish(t *rapid.T) {
	releases, hangups, asked := map[string]int{}, map[string]int{}, map[call.Act]int{}
	for _, e := range h.effects {
		switch e.Act {
		case call.Release:
			releases[e.Attempt]++
		case call.Hangup:
			hangups[e.Attempt]++
		case call.AskRetry, call.AskCallback:
			asked[e.Act]++
		}
	}
	for _, id := range h.ids {
		want := 1
		if a := h.rec.Current(); a != nil && a.ID == id {
			want = 0
		}
		if releases[id] != want {
			t.Fatalf("attempt %s was released %d times, want %d", id, releases[id], want)
		}
		if hangups[id] > 1 {
			t.Fatalf("attempt %s was hung up %d times", id, hangups[id])
		}
	}
	if releases[""] > 1 || asked[call.AskRetry] > 1 || asked[call.AskCallback] > 1 {
		t.Fatalf("released holding nothing %d times, asked %v", releases[""], asked)
	}
}

var everyKind = []call.Kind{
	call.EvDue, call.EvAdmitted, call.EvRejected, call.EvNoBot, call.EvBot, call.EvIntent, call.EvRefused429,
	call.EvRefused, call.EvTakenBack, call.EvWindowClosed, call.EvCancel, call.EvWorkerLost, call.EvOwnerGone,
	call.EvDeadline, call.EvPlaced, call.EvRinging, call.EvLive, call.EvEnd, call.EvUnknown, call.EvNotPlaced,
}

// TestAnything throws every event at every state, in any order, at any time, about
// any attempt.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := order()
		if rapid.Bool().Draw(t, "inbound") {
			o.Class = call.ClassInbound
		}
		if rapid.Bool().Draw(t, "window") {
			o.NotAfter = sec(400)
		}
		if rapid.Bool().Draw(t, "retry unknown") {
			o.Retry = &call.RetryPolicy{On: []call.Outcome{call.Unknown, call.Interrupted}}
		}
		h := history{rec: call.New(o, t0), now: t0, intents: map[string]time.Time{}}
		// Half of the events are the next of a usual life, so that deep states are reached.
		usual := map[call.State][]call.Kind{
			call.Scheduled: {call.EvDue}, call.Queued: {call.EvAdmitted}, call.Placing: {call.EvBot, call.EvIntent},
			call.Dialing: {call.EvPlaced, call.EvNotPlaced, call.EvRefused429}, call.Ringing: {call.EvLive, call.EvWorkerLost}, call.Live: {call.EvEnd, call.EvWorkerLost},
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			h.now = h.now.Add(rapid.SampledFrom([]time.Duration{0, 1, 4, 31, 89, 121, 3601}).Draw(t, "s") * time.Second)
			kinds := everyKind
			if k := usual[h.rec.State]; k != nil && rapid.Bool().Draw(t, "usual") {
				kinds = k
			}
			ev := call.Event{
				Kind:      rapid.SampledFrom(kinds).Draw(t, "kind"),
				CarrierID: rapid.SampledFrom([]string{"", "", "CA1", "CA2"}).Draw(t, "carrier id"),
				Bot:       rapid.SampledFrom([]string{"", "b1", "b2"}).Draw(t, "bot"),
				Outcome:   rapid.SampledFrom(append(call.Outcomes(), call.FailedTemporary, "")).Draw(t, "outcome"),
				OwnerGone: rapid.Bool().Draw(t, "owner gone"),
			}
			if ev.Kind != call.EvAdmitted {
				ids := append([]string{"", "c-99"}, h.ids...)
				ev.Attempt = rapid.SampledFrom(ids).Draw(t, "attempt")
				if n := len(h.ids); n > 0 && rapid.Bool().Draw(t, "current") {
					ev.Attempt = h.ids[n-1]
				}
			}
			h.apply(t, ev)
		}
		h.finish(t)
	})
}

// TestStatusOrder: the carrier's words in any order and any number have one end.
func TestStatusOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out := rapid.SampledFrom([]call.Outcome{call.Completed, call.NoAnswer, call.Busy, call.Failed, call.Voicemail, call.Cancelled}).Draw(t, "outcome")
		words := []call.Event{
			{Kind: call.EvPlaced, CarrierID: "CA1"},
			{Kind: call.EvRinging},
			{Kind: call.EvLive, CarrierID: "CA1"},
			{Kind: call.EvEnd, CarrierID: "CA1", Outcome: out},
		}
		for range rapid.IntRange(0, 6).Draw(t, "repeats") {
			words = append(words, rapid.SampledFrom(words).Draw(t, "again"))
		}
		words = rapid.Permutation(words).Draw(t, "order")
		h := history{rec: call.New(order(), t0), now: t0, intents: map[string]time.Time{}}
		h.apply(t, call.Event{Kind: call.EvAdmitted})
		h.apply(t, call.Event{Kind: call.EvIntent})
		for _, w := range words {
			h.now = h.now.Add(time.Second)
			w.Attempt = "c-1"
			h.apply(t, w)
		}
		h.finish(t)
		if h.rec.Outcome() != out {
			t.Fatalf("got %s, want %s", h.rec.State, out)
		}
	})
}

// TestBotWait: 90 s from the first miss, then exactly one more attempt.
func TestBotWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history{rec: call.New(order(), t0), now: t0, intents: map[string]time.Time{}}
		var misses []time.Duration // since the first
		for !h.rec.State.Terminal() {
			h.now = h.now.Add(time.Duration(rapid.IntRange(2_000, 40_000).Draw(t, "ms waited")) * time.Millisecond)
			if over := call.BotWaitOver(h.rec, h.now); len(misses) > 0 && over != (h.now.Sub(t0)-misses[0] >= call.BotWait) {
				t.Fatalf("bot-wait over: %v after %s", over, h.now.Sub(t0)-misses[0])
			}
			h.apply(t, call.Event{Kind: call.EvAdmitted})
			h.now = h.now.Add(time.Duration(rapid.IntRange(0, 9_000).Draw(t, "ms claimed")) * time.Millisecond)
			h.apply(t, call.Event{Kind: call.EvNoBot})
			misses = append(misses, h.now.Sub(t0))
			if len(misses) > 1000 {
				t.Fatal("it never ends")
			}
		}
		h.finish(t)
		late := 0
		for _, m := range misses {
			if m-misses[0] >= call.BotWait {
				late++
			}
		}
		if h.rec.Outcome() != call.BotUnavailable || late != 2 {
			t.Fatalf("got %s, %d misses at or past 90 s; want bot_unavailable and 2: the one that uses the budget up, and the final one", h.rec.State, late)
		}
	})
}
