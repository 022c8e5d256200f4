package admission

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dibs/call"
)

func TestValidate(t *testing.T) {
	ok := Platform{Cap: 10}
	one := func(o Org) []Org { o.ID = "acme"; return []Org{o} }
	tests := []struct {
		name      string
		platform  Platform
		orgs      []Org
		campaigns []Campaign
		want      []string // each part of the error; none: valid
	}{
		{"nothing", ok, nil, nil, nil},
		{
			"all that is good",
			Platform{Cap: 10, Full: Refuse, Withhold: map[call.Class]int{call.ClassRetry: 2}},
			one(Org{Floor: 3, Ceiling: new(4), Reserve: 3}),
			[]Campaign{{ID: "k", Org: "acme", Cap: new(0)}},
			nil,
		},
		{"the deadlock", ok, one(Org{Floor: 1, Ceiling: new(1), Reserve: 1}), nil, []string{"org:acme: reserve: reserve 1 leaves 0 lines for outbound at ceiling 1"}},
		{"reserve above the ceiling", ok, one(Org{Floor: 2, Ceiling: new(2), Reserve: 5}), nil, []string{"reserve 5 leaves 0 lines for outbound at ceiling 2"}},
		{"an org that is shut", ok, one(Org{Ceiling: new(0)}), nil, nil},
		{
			"reserves over the platform",
			Platform{Cap: 4},
			[]Org{{ID: "a", Floor: 2, Reserve: 2}, {ID: "b", Floor: 2, Reserve: 2}},
			nil,
			[]string{"platform: reserve: reserves of 4 leave 0 lines for outbound at platform cap 4"},
		},
		{"reserves that just fit", Platform{Cap: 5}, []Org{{ID: "a", Floor: 2, Reserve: 2}, {ID: "b", Floor: 2, Reserve: 2}}, nil, nil},
		{"only the effective reserve counts", Platform{Cap: 3}, []Org{{ID: "a", Floor: 2, Reserve: 9}}, nil, nil},
		{"floors may be oversubscribed", Platform{Cap: 4}, []Org{{ID: "a", Floor: 4}, {ID: "b", Floor: 4}}, nil, nil},
		{"floor above ceiling", ok, one(Org{Floor: 5, Ceiling: new(3)}), nil, []string{"floor: floor 5 is above ceiling 3"}},
		{
			"numbers below zero",
			Platform{Cap: 0},
			one(Org{Floor: -1, Ceiling: new(-1), Reserve: -2}),
			[]Campaign{{ID: "k", Cap: new(-1)}},
			[]string{"platform: cap: 0", "floor: -1", "ceiling: -1", "reserve: -2", "campaign:k: org: empty", "campaign:k: cap: -1"},
		},
		{"without ids", ok, []Org{{}}, []Campaign{{Org: "a"}}, []string{"org:: id: empty", "campaign:: id: empty"}},
		{
			"withholding",
			Platform{Cap: 3, Withhold: map[call.Class]int{call.ClassRetry: 1}},
			one(Org{Withhold: map[call.Class]int{call.ClassAPI: 4, "x": 2}}), nil,
			[]string{"platform: withhold: retry 1 in 1", `org:acme: withhold: "api" cannot be protected`, `"x" cannot be protected`},
		},
		{"policy", Platform{Cap: 3, Full: "maybe"}, nil, nil, []string{`platform: full: "maybe"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Validate(tt.platform, tt.orgs, tt.campaigns)
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatalf("got %v, want none", err)
				}
				return
			}
			if err == nil {
				t.Fatalf("got none, want %q", tt.want)
			}
			if got := len(strings.Split(err.Error(), "\n")); got != len(tt.want) {
				t.Errorf("%d complaints, want %d:\n%v", got, len(tt.want), err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if _, ok := errors.AsType[*Invalid](err); !ok {
				t.Errorf("%T holds no *Invalid", err)
			}
		})
	}
}

func TestLint(t *testing.T) {
	got := Lint(Platform{Cap: 5}, []Org{
		{ID: "a", Floor: 3, Ceiling: new(3), Reserve: 3},
		{ID: "b", Floor: 3, Reserve: 3},
		{ID: "c", Ceiling: new(0)},
	})
	want := []Warning{
		{FloorsOversubscribed, "platform", 6, 5, "floors add up to 6 at platform cap 5: below it they are shared one slot at a time"},
		{ReservesOverCap, "platform", 5, 4, "reserves add up to 5, at most 4 are kept at platform cap 5"},
		{ReserveCut, "org:a", 3, 2, "reserve 3 is cut to 2 by floor 3 and ceiling 3"},
		{OrgShut, "org:c", 0, 0, "ceiling 0: no call of this org is ever admitted, inbound neither"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := Lint(Platform{Cap: 5}, []Org{{ID: "a", Floor: 2, Ceiling: new(3), Reserve: 2}, {ID: "b", Floor: 3, Reserve: 2}}); got != nil {
		t.Errorf("got %+v, want no warning", got)
	}
}

// What Validate lets pass lets everybody dial: one call waits, nothing runs, it goes.
func TestValidSettingsCannotDeadlock(t *testing.T) {
	limits := []*int{nil, new(1), new(2), new(3)}
	tried := 0
	for capacity := range 4 {
		for _, ceiling := range limits {
			for floor := range 4 {
				for reserve := range 4 {
					p, o := Platform{Cap: capacity}, Org{ID: "a", Floor: floor, Ceiling: ceiling, Reserve: reserve}
					valid := Validate(p, []Org{o}, nil) == nil
					s := New(p, nil)
					s.SetOrg(o)
					if err := s.Enqueue(Call{ID: "x", Org: "a", Class: call.ClassAPI}); err != nil {
						t.Fatal(err)
					}
					went := len(s.Tick(0)) == 1
					if valid && !went {
						t.Errorf("%+v under cap %d is valid and cannot dial", o, capacity)
					}
					if capacity > 0 && !went {
						t.Errorf("%+v under cap %d cannot dial, valid or not", o, capacity)
					}
					tried++
				}
			}
		}
	}
	if tried != 4*4*4*4 {
		t.Fatalf("tried %d", tried)
	}
}

func TestEnqueueRefuses(t *testing.T) {
	s := New(Platform{Cap: 1}, nil)
	good := Call{ID: "a", Org: "o", Class: call.ClassAPI}
	if err := s.Enqueue(good); err != nil {
		t.Fatal(err)
	}
	if err := s.Enqueue(good); !errors.Is(err, ErrKnown) {
		t.Errorf("waiting already: got %v, want ErrKnown", err)
	}
	s.Tick(0)
	if err := s.Enqueue(good); !errors.Is(err, ErrKnown) {
		t.Errorf("in flight already: got %v, want ErrKnown", err)
	}
	for name, c := range map[string]Call{
		"no id": {Org: "o", Class: call.ClassAPI}, "no org": {ID: "b", Class: call.ClassAPI},
		"inbound": {ID: "b", Org: "o", Class: call.ClassInbound}, "no class": {ID: "b", Org: "o"},
		"empty need": {ID: "b", Org: "o", Class: call.ClassAPI, Needs: [][]string{{"x"}, {}}},
	} {
		if err := s.Enqueue(c); !errors.Is(err, ErrCall) {
			t.Errorf("%s: got %v, want ErrCall", name, err)
		}
	}
	if in, waiting := s.Count(); in != 1 || waiting != 0 {
		t.Errorf("%d in flight, %d waiting, want 1 and 0", in, waiting)
	}
}

// With the last call goes everything that was there for it.
func TestNothingIsLeft(t *testing.T) {
	l := NewLedger()
	l.SetLimit("stt:x", 3)
	s := New(Platform{Cap: 10}, l)
	s.SetOrg(Org{ID: "a", Floor: 1})
	s.SetCampaign(Campaign{ID: "k", Org: "a", Cap: new(1)})
	for i, c := range []Call{
		{Org: "a", Class: call.ClassCampaign, Campaign: "k", Needs: [][]string{{"stt:x"}}},
		{Org: "a", Class: call.ClassCampaign, Campaign: "k", Needs: [][]string{{"stt:x"}}},
		{Org: "never set", Class: call.ClassRetry, Campaign: "never set", NotAfter: 7},
		{Org: "a", Class: call.ClassAPI, Needs: [][]string{{"stt:x"}, {"tts:y"}}},
	} {
		c.ID = string(rune('0' + i))
		if err := s.Enqueue(c); err != nil {
			t.Fatal(err)
		}
	}
	s.Tick(0)
	s.Inbound(Call{ID: "in", Org: "never set either"})
	if err := s.Restore(Call{ID: "1", Org: "a", Class: call.ClassCampaign, Campaign: "k"}, []string{"stt:x"}); err != nil { // it waited
		t.Fatal(err)
	}
	for range 2 { // the same call again is the same call
		if err := s.Restore(Call{ID: "twice", Org: "a", Class: call.ClassAPI}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.Report().Orgs[0].InFlight, 4; got != want {
		t.Errorf("org a runs %d, want %d", got, want)
	}
	if got, want := l.Load("stt:x").Used, 3; got != want {
		t.Errorf("stt:x carries %d, want %d", got, want)
	}
	s.DeleteOrg("a")
	s.DeleteCampaign("k")
	for c := range s.InFlight() {
		s.End(c.ID)
	}
	if n := len(s.orgs) + len(s.list) + len(s.campaigns) + len(s.signatures) + len(s.waiting) + len(s.live); n != 0 {
		t.Errorf("left: orgs %v, campaigns %v, signatures %v, waiting %v, in flight %v", s.orgs, s.campaigns, s.signatures, s.waiting, s.live)
	}
	if got := l.Load("stt:x").Used; got != 0 {
		t.Errorf("stt:x carries %d, want 0", got)
	}
}

func TestWhyHasTheNumbers(t *testing.T) {
	l := NewLedger()
	l.SetLimit("stt:dg", 100)
	l.SetBase("stt:dg", 100)
	l.SetLimit("stt:sx", 20)
	l.SetBase("stt:sx", 20)
	s := New(Platform{Cap: 80}, l)
	s.SetOrg(Org{ID: "acme", Floor: 2, Ceiling: new(6), Reserve: 1})
	s.SetCampaign(Campaign{ID: "recall", Org: "acme", Cap: new(5)})
	for _, id := range []string{"1", "2", "3"} {
		if err := s.Restore(Call{ID: id, Org: "acme", Class: call.ClassCampaign, Campaign: "recall"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Enqueue(Call{ID: "w", Org: "acme", Class: call.ClassCampaign, Campaign: "recall", Needs: [][]string{{"stt:dg", "stt:sx"}}}); err != nil {
		t.Fatal(err)
	}
	s.Tick(0)
	got, _ := s.Why("w", 0)
	want := []Gate{
		{Scope: "provider:stt:dg", Reason: ProviderCapacity, InUse: 100, Limit: new(100), Providers: []Option{
			{Provider: "stt:dg", InUse: 100, Limit: new(100)}, {Provider: "stt:sx", InUse: 20, Limit: new(20)},
		}},
		{Scope: "org:acme", OK: true, InUse: 3, Limit: new(6), Owed: 1},
		{Scope: "campaign:recall", OK: true, InUse: 3, Limit: new(5)},
		{Scope: "platform", OK: true, InUse: 3, Limit: new(80), Owed: 1},
	}
	if diff := cmp.Diff(want, got.Gates); diff != "" {
		t.Errorf("gates: (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]No{{Scope: "provider:stt:dg", Reason: ProviderCapacity, InUse: 100, Limit: 100}}, got.Verdict.BlockedBy); diff != "" {
		t.Errorf("blocked by: (-want +got)\n%s", diff)
	}
	if got.Position != 0 || got.Beyond {
		t.Errorf("position %d, beyond %t, want none: room on the platform would not help", got.Position, got.Beyond)
	}

	l.SetBase("stt:sx", 19)
	if got, _ = s.Why("w", 0); got.Position != 1 || !got.Gates[0].Providers[1].Chosen || got.Verdict.Reason != TickLimit {
		t.Errorf("with room at the fallback: %+v", got)
	}
	if got := s.Tick(0); len(got) != 1 || !slices.Equal(got[0].Providers, []string{"stt:sx"}) {
		t.Errorf("got %+v, want the call on the fallback", got)
	}
}

func TestWhyStopsAtItsDepth(t *testing.T) {
	s := New(Platform{}, nil)
	for _, id := range []string{"1", "2", "3"} {
		if err := s.Enqueue(Call{ID: id, Org: "a", Class: call.ClassAPI}); err != nil {
			t.Fatal(err)
		}
	}
	if y, _ := s.Why("3", 2); y.Position != 0 || !y.Beyond {
		t.Errorf("depth 2: position %d, beyond %t, want 0 and true", y.Position, y.Beyond)
	}
	if y, _ := s.Why("3", 3); y.Position != 3 || y.Beyond || y.AheadBurst != 2 {
		t.Errorf("depth 3: %+v, want position 3", y)
	}
	if _, ok := s.Why("nobody", 0); ok {
		t.Error("a call that does not wait was explained")
	}
	if diff := cmp.Diff(map[string]map[call.Class]int{"": {call.ClassAPI: 2}}, s.Ready(2)); diff != "" {
		t.Errorf("Ready(2): (-want +got)\n%s", diff)
	}
}
