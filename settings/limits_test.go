package settings_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
	"dibs/call"
	"dibs/internal/natstest"
	"dibs/settings"
)

func org(id string, floor, ceiling, reserve int) api.Org {
	o := api.Org{ID: id, Floor: floor, Reserve: reserve}
	if ceiling >= 0 {
		o.Ceiling = &ceiling
	}
	return o
}

// What is put on one replica is known on the other, with the envelope before it.
func TestLimits(t *testing.T) {
	a, b := world(t)
	ctx := t.Context()
	old, err := a.PutOrg(ctx, org("acme", 2, 4, 1))
	if err != nil || old != nil {
		t.Fatalf("first put: %+v, %v", old, err)
	}
	if l, err := a.Limits(); err != nil || l.Orgs["acme"].Floor != 2 {
		t.Errorf("whoever put it sees %+v, %v", l, err)
	}
	told := b.Watch()
	defer b.Unwatch(told)
	soon(t, "the other sees it", func() bool { l, err := b.Limits(); return err == nil && l.Orgs["acme"].Floor == 2 })
	old, err = b.PutOrg(ctx, org("acme", 3, 4, 1))
	if err != nil || old == nil || old.Floor != 2 {
		t.Errorf("the one before: %+v, %v", old, err)
	}
	select {
	case <-told:
	default:
		t.Error("a watcher was not told of a change")
	}
	two := 2
	if _, err := a.PutCampaign(ctx, api.Campaign{ID: "recall", Org: "acme", Cap: &two, Paused: true}); err != nil {
		t.Error(err)
	}
	if _, err := a.PutPlatform(ctx, api.Platform{Cap: 50, Full: "refuse", Withhold: map[call.Class]int{call.ClassRetry: 3}}); err != nil {
		t.Error(err)
	}
	soon(t, "all of it is seen", func() bool { l, _ := b.Limits(); return l.Platform.Cap == 50 && len(l.Campaigns) == 1 })
	l, _ := b.Limits()
	p, orgs, campaigns := l.Admission()
	if p.Cap != 50 || p.Full != "refuse" || p.Withhold["retry"] != 3 || len(orgs) != 1 || orgs[0].Floor != 3 || *campaigns[0].Cap != 2 || *campaigns[0].Limit() != 0 {
		t.Errorf("admission is told %+v %+v %+v", p, orgs, campaigns)
	}
	// A campaign may go to another org, and its calls count for the one they came with.
	if old, err := b.PutCampaign(ctx, api.Campaign{ID: "recall", Org: "other"}); err != nil || old.Org != "acme" {
		t.Errorf("moved: %+v, %v", old, err)
	}
	if w := mustLimits(t, b).Warnings("campaign:recall"); len(w) != 1 || w[0].Code != "org_without_envelope" {
		t.Errorf("a campaign of an org without an envelope: %+v", w)
	}
	if old, err := a.DeleteOrg(ctx, "acme"); err != nil || old.Floor != 3 {
		t.Errorf("deleted: %+v, %v", old, err)
	}
	soon(t, "it is gone", func() bool { return len(mustLimits(t, b).Orgs) == 0 })
	for _, id := range []string{"acme", "nobody", "a.b", ""} {
		if _, err := b.DeleteOrg(ctx, id); !errors.Is(err, settings.ErrNotFound) {
			t.Errorf("delete %q: %v", id, err)
		}
	}
}

func mustLimits(t *testing.T, s *settings.Store) settings.Limits {
	t.Helper()
	l, err := s.Limits()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What is refused, and with which numbers.
func TestBadLimits(t *testing.T) {
	a, _ := world(t)
	ctx := t.Context()
	if _, err := a.PutPlatform(ctx, api.Platform{Cap: 100}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		put      func() error
		want     string // part of the error; "": it is stored
		deadlock bool
	}{
		{"a negative floor", func() error { _, err := a.PutOrg(ctx, org("a", -1, 4, 0)); return err }, "floor: -1, want 0 to 1000000", false},
		{"a huge ceiling", func() error { _, err := a.PutOrg(ctx, org("a", 0, 1<<40, 0)); return err }, "ceiling: 1099511627776, want", false},
		{"a floor over the ceiling", func() error { _, err := a.PutOrg(ctx, org("a", 5, 4, 0)); return err }, "floor 5 is above ceiling 4", false},
		{"a reserve that is the ceiling", func() error { _, err := a.PutOrg(ctx, org("a", 1, 1, 1)); return err }, "reserve 1 leaves 0 lines for outbound at ceiling 1", true},
		{"an id that is none", func() error { _, err := a.PutOrg(ctx, org("a.b", 0, 1, 0)); return err }, "id: want", false},
		{"withhold 1 in 1", func() error {
			o := org("a", 0, 1, 0)
			o.Withhold = map[call.Class]int{"retry": 1}
			_, err := a.PutOrg(ctx, o)
			return err
		}, "retry 1 in 1", false},
		{"a shut org", func() error { _, err := a.PutOrg(ctx, org("shut", 0, 0, 0)); return err }, "", false},
		{"half of the cap", func() error { _, err := a.PutOrg(ctx, org("b", 50, -1, 50)); return err }, "", false},
		{"and the other half", func() error { _, err := a.PutOrg(ctx, org("c", 50, -1, 50)); return err }, "reserve: reserves of 100 leave 0 lines for outbound at platform cap 100", true},
		{"a smaller platform", func() error { _, err := a.PutPlatform(ctx, api.Platform{Cap: 50}); return err }, "cap: reserves of 50 leave 0 lines for outbound at platform cap 50", true},
		{"a negative platform", func() error { _, err := a.PutPlatform(ctx, api.Platform{Cap: -1}); return err }, "cap: -1", false},
		{"floors over the cap are legal", func() error { _, err := a.PutOrg(ctx, org("d", 80, -1, 0)); return err }, "", false},
		{"a campaign of nobody", func() error { _, err := a.PutCampaign(ctx, api.Campaign{ID: "k"}); return err }, "org_id: want", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.put()
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if bad, ok := errors.AsType[*settings.Invalid](err); err != nil && (!ok || bad.Deadlock != tt.deadlock) {
				t.Errorf("%+v, deadlock want %v", bad, tt.deadlock)
			}
		})
	}
	var codes []string
	for _, w := range mustLimits(t, a).Warnings("") {
		codes = append(codes, w.Scope+" "+w.Code)
	}
	if d := cmp.Diff([]string{"platform floors_oversubscribed", "org:shut org_shut"}, codes); d != "" {
		t.Error(d)
	}
}

// A smaller cap at the start does not keep anybody from mending the reserves, step by step.
func TestMending(t *testing.T) {
	broker := natstest.Start(t)
	ctx := t.Context()
	open := func(cap int) *settings.Store {
		s, err := settings.Open(ctx, broker.JetStream(t), settings.Config{Cap: cap})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	big := open(100)
	for _, id := range []string{"a", "b", "c"} {
		if _, err := big.PutOrg(ctx, org(id, 10, -1, 10)); err != nil {
			t.Fatal(err)
		}
	}
	small := open(20)
	if _, err := small.PutOrg(ctx, org("a", 10, -1, 9)); err != nil {
		t.Errorf("a smaller reserve: %v", err)
	}
	if _, err := small.PutOrg(ctx, org("a", 10, -1, 10)); err == nil {
		t.Error("a larger reserve at a cap that is used up was stored")
	}
	if _, err := small.PutCampaign(ctx, api.Campaign{ID: "k", Org: "a"}); err != nil {
		t.Errorf("what has nothing to do with it: %v", err)
	}
	if w := mustLimits(t, small).Warnings("platform"); len(w) != 2 || w[0].Code != "floors_oversubscribed" || w[1].Code != "reserves_over_cap" {
		t.Errorf("warnings %+v", w)
	}
}

// Two that write at once: each is judged with the other's. Together they would leave
// nobody a line.
func TestWritersAtOnce(t *testing.T) {
	a, b := world(t)
	ctx := t.Context()
	if _, err := a.PutPlatform(ctx, api.Platform{Cap: 40}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored := 0
	for i := range 8 {
		s := []*settings.Store{a, b}[i%2]
		wg.Go(func() {
			_, err := s.PutOrg(ctx, org(fmt.Sprintf("o%d", i), 10, -1, 10))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				stored++
			} else if bad, ok := errors.AsType[*settings.Invalid](err); !ok || !bad.Deadlock {
				t.Errorf("refused for another reason: %v", err)
			}
		})
	}
	wg.Wait()
	if stored != 3 {
		t.Errorf("%d reserves of 10 fit into cap 40, want 3", stored)
	}
	if err := b.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(mustLimits(t, b).Orgs); n != 3 {
		t.Errorf("%d orgs stored, want 3", n)
	}
}

// What the file says of orgs goes in when the file has changed, all of it or nothing.
func TestSeedLimits(t *testing.T) {
	a, b := world(t)
	ctx := t.Context()
	file := settings.File{Orgs: []api.Org{org("x", 5, -1, 5), org("y", 5, -1, 5)}, Campaigns: []api.Campaign{{ID: "k", Org: "x"}}, Platform: &api.Platform{Cap: 20}}
	seed := func(want int) {
		t.Helper()
		if put, err := a.Seed(ctx, file); err != nil || put != want {
			t.Fatalf("put %d, %v, want %d", put, err, want)
		}
	}
	seed(4)
	seed(0)
	if _, err := b.PutOrg(ctx, org("x", 7, -1, 0)); err != nil {
		t.Fatal(err)
	}
	seed(0) // a change over the API stays until the file is edited
	if err := a.Refresh(ctx); err != nil || mustLimits(t, a).Orgs["x"].Floor != 7 {
		t.Errorf("x is %+v", mustLimits(t, a).Orgs["x"])
	}
	file.Orgs[1] = org("y", 30, -1, 30)
	if put, err := a.Seed(ctx, file); err == nil || put != 0 || !strings.Contains(err.Error(), "reserves of 30 leave 0 lines for outbound at platform cap 20") {
		t.Errorf("put %d, %v", put, err)
	}
	file.Platform = &api.Platform{Cap: 60} // together they are valid
	seed(2)
}
