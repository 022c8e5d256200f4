package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dibs/call"
)

// The rules that the vectors leave open, each in the smallest case that tells
// right from wrong. Chance would find most of them too, but not on every run.

// queueUp lets n calls of an org wait, named <org>.<class letter><number>.
func queueUp(t *testing.T, s *State, org string, class call.Class, n int) {
	t.Helper()
	for range n {
		c := Call{ID: fmt.Sprintf("%s.%c%d", org, class[0], s.arrived+1), Org: org, Class: class}
		if err := s.Enqueue(c); err != nil {
			t.Fatal(err)
		}
	}
}

// word is the admissions as one word of their orgs' or classes' first letters.
func word(ds []Decision, of func(Decision) string) string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteByte(of(d)[0])
	}
	return b.String()
}

func org1(d Decision) string   { return d.Org }
func class1(d Decision) string { return string(d.Class) }

func TestEffectiveReserve(t *testing.T) {
	for _, tt := range []struct {
		floor, reserve int
		ceiling        *int
		want           int
	}{
		{3, 2, nil, 2},
		{1, 2, nil, 1},
		{0, 2, nil, 0},
		{3, 3, new(3), 2},
		{1, 1, new(1), 0},
		{5, 9, new(4), 3},
		{2, 2, new(0), 0},
		{-1, 2, nil, 0},
		{2, -1, nil, 0},
	} {
		o := Org{Floor: tt.floor, Ceiling: tt.ceiling, Reserve: tt.reserve}
		if got := o.EffectiveReserve(); got != tt.want {
			t.Errorf("floor %d, ceiling %s, reserve %d: got %d, want %d", tt.floor, number(tt.ceiling), tt.reserve, got, tt.want)
		}
	}
}

// With one slot per tick the large customer must not be first every time.
func TestFloorPassSurvivesTheTick(t *testing.T) {
	s := New(Platform{Cap: 100}, nil)
	s.SetOrg(Org{ID: "A", Floor: 5})
	s.SetOrg(Org{ID: "B", Floor: 2})
	s.SetOrg(Org{ID: "C", Floor: 1})
	for _, id := range []string{"A", "B", "C"} {
		queueUp(t, s, id, call.ClassAPI, 5)
	}
	var ds []Decision
	for range 8 {
		ds = append(ds, s.Tick(1)...)
	}
	if got, want := word(ds, org1), "ABCABAAA"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, d := range ds {
		if d.Basis != ByFloor {
			t.Errorf("%s went by %s, want floor", d.Call, d.Basis)
		}
	}
}

// 60, 20 and 10 of 90, at any size of the tick: a class that was passed over by a
// lower one has not been passed over.
func TestWithholdingShares(t *testing.T) {
	for _, limit := range []int{1, 7, 90} {
		s := New(Platform{Cap: 100, Withhold: map[call.Class]int{call.ClassRetry: 4, call.ClassCampaign: 8}}, nil)
		for _, class := range []call.Class{call.ClassAPI, call.ClassRetry, call.ClassCampaign} {
			queueUp(t, s, "A", class, 90)
		}
		var ds []Decision
		for len(ds) < 90 {
			ds = append(ds, s.Tick(min(limit, 90-len(ds)))...)
		}
		if got, want := word(ds, class1), strings.Repeat("aaaraaarc", 10); got != want {
			t.Errorf("ticks of %d:\ngot  %s\nwant %s", limit, got, want)
		}
	}
}

// What a class has watched goes with the last of its calls that waited.
func TestWatchingEndsWithTheLastCall(t *testing.T) {
	s := New(Platform{Cap: 100, Withhold: map[call.Class]int{call.ClassRetry: 4}}, nil)
	queueUp(t, s, "A", call.ClassAPI, 10)
	queueUp(t, s, "A", call.ClassRetry, 1)
	if got := word(s.Tick(3), class1); got != "aaa" {
		t.Fatalf("got %s, want aaa", got)
	}
	s.Remove("A.r11")
	queueUp(t, s, "A", call.ClassRetry, 1)
	if got := word(s.Tick(4), class1); got != "aaar" {
		t.Errorf("got %s, want aaar: the new retry has watched nobody yet", got)
	}
}

// Among orgs that run the same, the one that was served longest ago is next, and
// an inbound call is a service.
func TestLeastRecentlyServed(t *testing.T) {
	s := New(Platform{Cap: 100}, nil)
	queueUp(t, s, "A", call.ClassAPI, 2)
	queueUp(t, s, "B", call.ClassAPI, 2)
	if err := s.Restore(Call{ID: "B.running", Org: "B", Class: call.ClassAPI}, nil); err != nil {
		t.Fatal(err)
	}
	if d := s.Inbound(Call{ID: "A.in", Org: "A"}); !d.Admitted {
		t.Fatalf("%+v", d)
	}
	if got := word(s.Tick(1), org1); got != "B" { // both run one
		t.Errorf("got %s, want B: A was served just now", got)
	}
	s.End("A.in")
	s.End("B.running") // A runs nothing, B one
	if got := word(s.Tick(2), org1); got != "AB" {
		t.Errorf("got %s, want AB", got)
	}
}

// A reserve that a lowered ceiling has cut off keeps no slot from others.
func TestUsableUnderALoweredCeiling(t *testing.T) {
	s := New(Platform{Cap: 8}, nil)
	s.SetOrg(Org{ID: "A", Floor: 4, Reserve: 3})
	for i := range 4 {
		if err := s.Restore(Call{ID: fmt.Sprint(i), Org: "A", Class: call.ClassAPI}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.SetOrg(Org{ID: "A", Floor: 4, Reserve: 3, Ceiling: new(5)})
	queueUp(t, s, "B", call.ClassAPI, 5)
	if got := word(s.Tick(0), org1); got != "BBB" {
		t.Errorf("got %s, want BBB: one line of the three is left for A's inbound", got)
	}
	if r := s.Report(); r.Platform.Owed != 1 || r.Orgs[0].Owed != 3 {
		t.Errorf("the platform owes %d and A %d, want 1 and 3", r.Platform.Owed, r.Orgs[0].Owed)
	}
}

func TestInboundBases(t *testing.T) {
	l := NewLedger()
	l.SetLimit("stt:x", 0)
	l.SetLimit("stt:y", 0)
	s := New(Platform{Cap: 10}, l)
	s.SetOrg(Org{ID: "A", Floor: 3, Reserve: 1})
	full := [][]string{{"stt:x", "stt:y"}}
	var got []Basis
	for i := range 4 {
		d := s.Inbound(Call{ID: fmt.Sprint(i), Org: "A"})
		got = append(got, d.Basis)
	}
	d := s.Inbound(Call{ID: "full", Org: "A", Needs: full})
	got = append(got, d.Basis)
	if want := []Basis{ByReserve, ByFloor, ByFloor, ByBurst, ByOverflow}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !slices.Equal(d.Overflow, []string{"stt:x"}) || !slices.Equal(d.Providers, []string{"stt:x"}) || l.Load("stt:x").Used != 1 {
		t.Errorf("overflow %v on %v, which carries %d", d.Overflow, d.Providers, l.Load("stt:x").Used)
	}
	s.SetPlatform(Platform{Cap: 10, Full: Refuse})
	if d := s.Inbound(Call{ID: "refused", Org: "A", Needs: full}); d.Admitted || d.Scope != "provider:stt:x" || s.Holds("refused") {
		t.Errorf("without overflow: %+v", d)
	}
	// An overflow is named even where a line was kept: a provider's limit is only
	// ever exceeded by a decision that says so.
	s.SetPlatform(Platform{Cap: 10})
	s.SetOrg(Org{ID: "B", Floor: 1, Reserve: 1})
	if d := s.Inbound(Call{ID: "both", Org: "B", Needs: full}); d.Basis != ByOverflow {
		t.Errorf("a kept line and a full provider: %s, want overflow", d.Basis)
	}
}

// A campaign that moves counts what it runs, wherever it began; an org that is
// deleted keeps its calls and loses its promises.
func TestSettingsUnderRunningCalls(t *testing.T) {
	s := New(Platform{Cap: 10}, nil)
	s.SetOrg(Org{ID: "A", Floor: 3, Ceiling: new(3), Reserve: 1})
	s.SetCampaign(Campaign{ID: "k", Org: "A", Cap: new(2)})
	enqueue := func(id, org string) {
		t.Helper()
		if err := s.Enqueue(Call{ID: id, Org: org, Class: call.ClassCampaign, Campaign: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"1", "2", "3"} {
		enqueue(id, "A")
	}
	s.Tick(0)
	s.SetCampaign(Campaign{ID: "k", Org: "B", Cap: new(2)})
	enqueue("4", "B")
	if got := s.Tick(0); got != nil {
		t.Errorf("%v went, the campaign runs its cap in its old org", ids(got))
	}
	s.DeleteOrg("A")
	s.End("1")
	if got := ids(s.Tick(0)); !slices.Equal(got, []string{"4"}) { // B runs nothing
		t.Errorf("got %v, want 4", got)
	}
	if r := s.Report(); r.Platform.InFlight != 2 || r.Platform.Owed != 0 || r.Orgs[0].InFlight != 1 || r.Orgs[0].Ceiling != nil {
		t.Errorf("after A was deleted: %+v", r)
	}
	s.SetPlatform(Platform{Cap: 1})
	if got := s.Tick(0); got != nil {
		t.Errorf("%v went under a cap that is below what runs", ids(got))
	}
	if v, _ := s.Verdict("3"); v.Reason != CampaignCap || v.BlockedBy[1] != (No{Scope: "platform", Reason: PlatformFull, InUse: 2, Limit: 1}) {
		t.Errorf("%+v", v)
	}
}
