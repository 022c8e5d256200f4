package call_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"dibs/call"
)

var ada = call.Person{Org: "acme", Number: "+15550100"}

func TestPeople(t *testing.T) {
	var book call.People
	dial := func(want call.PersonVerdict, id string, class call.Class, s float64) {
		t.Helper()
		if got, _ := book.Dial(ada, id, class, sec(s)); got != want {
			t.Errorf("%s at %v s: got %s, want %s", id, s, got, want)
		}
	}
	rec := func(id string, evs ...call.Kind) call.Record {
		o := order()
		o.CallID = id
		return after(call.New(o, t0), ev(evs...)...)
	}
	dial(call.PersonOK, "a", call.ClassCampaign, 0)
	dial(call.PersonOK, "a", call.ClassCampaign, 1) // re-entry
	dial(call.PersonBusy, "b", call.ClassAPI, 1)
	other := call.Person{Org: "globex", Number: ada.Number}
	if got, _ := book.Dial(other, "z", call.ClassAPI, t0); got != call.PersonOK {
		t.Errorf("another org's call: got %s", got)
	}
	// Given back undialled: no gap.
	book.Note(rec("a", call.EvAdmitted, call.EvIntent, call.EvRefused429))
	dial(call.PersonOK, "b", call.ClassCampaign, 2)
	// Another call's record does not free this one's person.
	book.Note(rec("a", call.EvAdmitted, call.EvIntent, call.EvRefused429, call.EvCancel))
	dial(call.PersonBusy, "c", call.ClassAPI, 3)
	// A dial that ended as unknown may have rung: gap.
	ended := rec("b", call.EvAdmitted, call.EvIntent, call.EvUnknown)
	book.Note(ended)
	dial(call.PersonLeft, "c", call.ClassRetry, 4)
	dial(call.PersonLeft, "c", call.ClassWorkflow, 4)
	if _, at := book.May(ada, "c", call.ClassRetry, sec(4)); !at.Equal(ended.EndedAt.Add(call.PersonGap)) {
		t.Errorf("the gap ends at %s", at)
	}
	dial(call.PersonOK, "d", call.ClassAPI, 5)

	// A record read late does not shorten the gap.
	earlier := ended
	earlier.Order.CallID, earlier.EndedAt = "earlier", ended.EndedAt.Add(-time.Hour)
	book.Note(earlier)
	book.Note(rec("d", call.EvCancel))
	if _, at := book.May(ada, "c", call.ClassRetry, sec(6)); !at.Equal(ended.EndedAt.Add(call.PersonGap)) {
		t.Errorf("an older record moved the end of the gap to %s", at)
	}

	// Nobody is kept for ever.
	book.Tidy(sec(3600))
	dial(call.PersonOK, "e", call.ClassCampaign, 3600)
}

func TestPeopleCallbacks(t *testing.T) {
	var book call.People
	if id, made := book.CallBack(ada, "x-cb", t0); id != "x-cb" || !made {
		t.Errorf("got %q, %v", id, made)
	}
	if id, made := book.CallBack(ada, "x-cb", sec(1)); id != "x-cb" || !made {
		t.Errorf("the same again: got %q, %v", id, made)
	}
	if id, made := book.CallBack(ada, "y-cb", sec(2)); id != "x-cb" || made {
		t.Errorf("another: got %q, %v", id, made)
	}
	if id := book.Inbound(ada, "in", sec(3)); id != "x-cb" {
		t.Errorf("got through: cancels %q", id)
	}
	if id := book.Inbound(ada, "in2", sec(4)); id != "" {
		t.Errorf("got through again: cancels %q", id)
	}
	if got, _ := book.May(ada, "c", call.ClassAPI, sec(5)); got != call.PersonBusy {
		t.Errorf("on two inbound calls: got %s", got)
	}
	// A promise is found again on the line, and kept by a requeue, not by an end.
	book = call.People{}
	o := order()
	o.CallID, o.CallbackOf, o.Class = "p-cb", "p", call.ClassAPI
	book.NoteOrder(o)
	r := after(call.New(o, t0), ev(call.EvAdmitted, call.EvNoBot)...)
	book.Note(r)
	if id, made := book.CallBack(ada, "q-cb", sec(60)); id != "p-cb" || made {
		t.Errorf("promised before: got %q, %v", id, made)
	}
	o.CallID, o.CallbackOf = "other", ""
	book.Note(after(call.New(o, t0), ev(call.EvCancel)...))
	if id, made := book.CallBack(ada, "q-cb", sec(60)); id != "p-cb" || made {
		t.Errorf("another call's end: got %q, %v", id, made)
	}
	book.Note(after(r, ev(call.EvCancel)...))
	if id, made := book.CallBack(ada, "q-cb", sec(61)); id != "q-cb" || !made {
		t.Errorf("the promise was taken back: got %q, %v", id, made)
	}
	// A withheld number is nobody.
	nobody := call.Person{Org: "acme"}
	if id, made := book.CallBack(nobody, "n-cb", t0); id != "" || made {
		t.Errorf("withheld: got %q, %v", id, made)
	}
	book.Inbound(nobody, "n", t0)
	if got, _ := book.Dial(nobody, "m", call.ClassAPI, t0); got != call.PersonOK {
		t.Errorf("withheld: got %s", got)
	}
}

// TestPeopleRebuilt: a book made from the records, in any order, answers like the
// one that was kept.
func TestPeopleRebuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kept call.People
		recs := map[string]call.Record{}
		now := t0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "s")) * time.Second)
			id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "call")
			r, known := recs[id]
			if !known {
				o := order()
				o.CallID, o.Class = id, rapid.SampledFrom(call.Classes()[1:]).Draw(t, "class")
				r = call.New(o, now)
			}
			k := rapid.SampledFrom(everyKind).Draw(t, "event")
			if k == call.EvAdmitted {
				if v, _ := kept.Dial(ada, id, r.Order.Class, now); v != call.PersonOK {
					continue
				}
			}
			r, _ = call.Apply(r, call.Event{Kind: k, Outcome: call.Busy, OwnerGone: true}, now)
			recs[id] = r
			kept.Note(r)
		}
		var rebuilt call.People
		busy := 0
		for _, id := range rapid.Permutation([]string{"a", "b", "c", "d"}).Draw(t, "order") {
			if r, ok := recs[id]; ok {
				rebuilt.Note(r)
				if r.InFlight() {
					busy++
				}
			}
		}
		if busy > 1 {
			t.Fatalf("%d calls with one person", busy)
		}
		for _, class := range call.Classes()[1:] {
			for _, id := range []string{"a", "new"} {
				v1, at1 := kept.May(ada, id, class, now)
				v2, at2 := rebuilt.May(ada, id, class, now)
				if v1 != v2 || v1 == call.PersonLeft && !at1.Equal(at2) {
					t.Fatalf("%s %s: kept says %s at %s, rebuilt %s at %s", class, id, v1, at1, v2, at2)
				}
			}
		}
	})
}
