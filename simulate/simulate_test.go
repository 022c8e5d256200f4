package simulate

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dibs/admission"
	"dibs/call"
	"dibs/demand"
)

var update = flag.Bool("update", false, "write the golden reports")

func run(t *testing.T, data []byte) *Report {
	t.Helper()
	s, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every scenario that ships gives the report that stands beside it, and twice the same.
func TestGolden(t *testing.T) {
	want := []string{"2026-08-25", "deadlock", "newcomer", "quiet-night"}
	if diff := cmp.Diff(want, Names()); diff != "" {
		t.Errorf("scenarios (-want +got)\n%s", diff)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			data, err := Shipped(name)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, data)
			if diff := cmp.Diff(got, run(t, data)); diff != "" {
				t.Errorf("the second run differs\n%s", diff)
			}
			file := filepath.Join("testdata", name+".json")
			if *update {
				text, err := json.MarshalIndent(got, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want *Report
			if err := json.Unmarshal(golden, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What the scenarios are there to show, said again in words: an -update must not
// take it away.
func TestWhatTheyShow(t *testing.T) {
	results := func(name string) map[demand.Policy]Result {
		data, err := Shipped(name)
		if err != nil {
			t.Fatal(err)
		}
		byPolicy := map[demand.Policy]Result{}
		for _, r := range run(t, data).Results {
			byPolicy[r.Policy] = r
		}
		return byPolicy
	}
	org := func(r Result, id string) OrgResult {
		return r.Orgs[slices.IndexFunc(r.Orgs, func(o OrgResult) bool { return o.Org == id })]
	}
	day := results("2026-08-25")
	for policy, want := range map[demand.Policy][2]int{demand.Raw: {109, 50}, demand.ActivePlus4: {14, 20}, demand.Headroom: {5, 8}} {
		if r := day[policy]; r.PeakDemand != want[0] || r.PeakBots != want[1] || r.Used != 5 || r.Done != 109 {
			t.Errorf("25 August, %s: %+v, want demand %d, %d bots, 5 used, 109 calls done", policy, r, want[0], want[1])
		}
	}
	if day[demand.Headroom].Idle >= day[demand.ActivePlus4].Idle || day[demand.ActivePlus4].Idle >= day[demand.Raw].Idle {
		t.Errorf("25 August: idle minutes %d, %d, %d, want the default to waste least",
			day[demand.Headroom].Idle, day[demand.ActivePlus4].Idle, day[demand.Raw].Idle)
	}
	for policy, r := range results("deadlock") {
		if o := org(r, "walled"); o.Done != o.Placed {
			t.Errorf("deadlock, %s: %+v, want all done", policy, o)
		}
	}
	for policy, r := range results("newcomer") {
		if o := org(r, "newcomer"); o.Done != 12 || o.P95 > 30 {
			t.Errorf("newcomer, %s: %+v, want 12 done after at most half a minute", policy, o)
		}
		if o := org(r, "giant-a"); o.P50 < 600 {
			t.Errorf("newcomer, %s: %+v: this is no giant", policy, o)
		}
	}
	for policy, r := range results("quiet-night") {
		if r.Done != r.Placed || r.Idle > 30*240/4 {
			t.Errorf("quiet night, %s: %+v, want every call done and far fewer than 30 bots idle", policy, r)
		}
	}
}

// One call after another, with the arithmetic done by hand.
func TestByHand(t *testing.T) {
	const head = `"for_s": 600, "scale": {"floor": 1, "ceiling": 2}, "platform": {"cap": 9}, "orgs": [{"id": "a"}, {"id": "kept", "floor": 6, "reserve": 6}], "providers": {"stt:x": 1}, "policies": ["headroom"], "arrivals": [`
	one := func(class, more string) string { return `{"org": "a", "class": "` + class + `", ` + more + `}` }
	tests := map[string]struct {
		arrivals string
		want     Result
		org      OrgResult
	}{
		"one call": { // 600 s less 60 of one bot; at 15 s 2 are wanted (1/0.7), and the second is idle from 50 to 45+180 s
			one("api", `"count": 1, "talk_s": 60`),
			Result{PeakDemand: 1, PeakBots: 2, Used: 1, Idle: 12, Done: 1},
			OrgResult{Done: 1},
		},
		"the second waits for a bot": { // ready at 15+35 s
			one("api", `"count": 2, "talk_s": 120`),
			Result{PeakDemand: 2, PeakBots: 2, Used: 2, Done: 2},
			OrgResult{Done: 2, P95: 50, Longest: 50},
		},
		"nobody keeps a caller waiting": {
			one("inbound", `"count": 2, "talk_s": 60`),
			Result{PeakDemand: 1, PeakBots: 2, Used: 1, Done: 1, Refused: map[string]int{"no_idle_bot": 1}},
			OrgResult{Done: 1, Refused: 1},
		},
		"a direct call waits 90 s and not longer": { // two bots until 300 s, a third call at 60 s
			one("api", `"count": 2, "talk_s": 300`) + "," + one("api", `"count": 1, "at_s": 60, "talk_s": 60`),
			Result{PeakDemand: 3, PeakBots: 2, Used: 2, Done: 2, Refused: map[string]int{"bot_unavailable": 1}},
			OrgResult{Done: 2, Refused: 1, P95: 50, Longest: 50},
		},
		"nor has what waits for a provider": {
			one("api", `"count": 2, "talk_s": 120, "needs": [["stt:x"]]`),
			Result{PeakDemand: 1, PeakBots: 2, Used: 1, Done: 2},
			OrgResult{Done: 2, P95: 120, Longest: 120},
		},
		"a campaign's call waits longer": {
			one("api", `"count": 2, "talk_s": 300`) + "," + one("campaign", `"count": 1, "at_s": 60, "talk_s": 60`),
			Result{PeakDemand: 3, PeakBots: 2, Used: 2, Done: 3},
			OrgResult{Done: 3, P50: 50, P95: 240, Longest: 240},
		},
		"bursts": { // the second meets one bot again, and a look in the same moment: 0 40 50, 0 35 40
			one("campaign", `"count": 6, "burst": 3, "every_s": 300, "talk_s": 40`),
			Result{PeakDemand: 3, PeakBots: 2, Used: 2, Done: 6},
			OrgResult{Done: 6, P50: 35, P95: 50, Longest: 50},
		},
		"the end comes first": {
			one("campaign", `"at_s": 580, "count": 2, "talk_s": 60`),
			Result{PeakDemand: 2, PeakBots: 2, Used: 1, InFlight: 1, Waiting: 1},
			OrgResult{P95: 20, Longest: 20},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := run(t, []byte("{"+head+tt.arrivals+"]}")).Results[0]
			tt.want.Policy, tt.want.Placed = demand.Headroom, got.Placed
			tt.org.Org, tt.org.Placed = "a", got.Placed
			tt.want.Orgs = []OrgResult{tt.org}
			if tt.want.Refused == nil {
				tt.want.Refused = map[string]int{}
			}
			if tt.want.Idle == 0 {
				tt.want.Idle = got.Idle
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Whatever the settings: every call is counted once, no more talk than the platform
// lets, and nothing stands still for ever.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := func(name string, least int) *int {
			return rapid.Ptr(rapid.IntRange(least, 5), true).Draw(t, name)
		}
		// Time enough for 72 calls of half a minute, one after another from 630 s on.
		s := &Scenario{For: 3000, Platform: admission.Platform{Cap: rapid.IntRange(1, 12).Draw(t, "cap")}}
		s.Scale.Floor = rapid.IntRange(1, 4).Draw(t, "floor")
		s.Scale.Ceiling = rapid.IntRange(s.Scale.Floor, 12).Draw(t, "ceiling")
		s.Bots.Start = rapid.IntRange(1, 15).Draw(t, "start")
		for _, id := range []string{"a", "b", "c"} {
			o := admission.Org{ID: id, Ceiling: limit("org ceiling", 1)}
			o.Floor = rapid.IntRange(0, 3).Draw(t, "org floor")
			if o.Ceiling != nil {
				o.Floor = min(o.Floor, *o.Ceiling)
			}
			o.Reserve = rapid.IntRange(0, 2).Draw(t, "reserve")
			s.Orgs = append(s.Orgs, o)
		}
		s.Campaigns = []admission.Campaign{{ID: "k", Org: "a", Cap: limit("campaign cap", 1)}}
		for range rapid.IntRange(1, 6).Draw(t, "arrivals") {
			s.Arrivals = append(s.Arrivals, Arrivals{
				Org: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "org"), Class: rapid.SampledFrom(call.Classes()).Draw(t, "class"),
				Campaign: rapid.SampledFrom([]string{"", "k"}).Draw(t, "campaign"), At: rapid.IntRange(0, 300).Draw(t, "at"),
				Count: rapid.IntRange(1, 12).Draw(t, "count"), Burst: rapid.IntRange(0, 4).Draw(t, "burst"),
				Every: rapid.IntRange(0, 30).Draw(t, "every"), Talk: rapid.IntRange(1, 15).Draw(t, "talk"), Spread: rapid.IntRange(0, 15).Draw(t, "spread"),
			})
		}
		r, err := Run(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range r.Results {
			refused := 0
			for _, n := range got.Refused {
				refused += n
			}
			if got.Placed != got.Done+refused {
				t.Errorf("%s: %+v, want every call done or refused", got.Policy, got)
			}
			placed := 0
			for _, o := range got.Orgs {
				placed += o.Placed
			}
			if placed != got.Placed {
				t.Errorf("%s: the orgs placed %d calls of %d", got.Policy, placed, got.Placed)
			}
			if most := max(s.Bots.Start, s.Scale.Ceiling); got.Used > s.Platform.Cap || got.PeakBots > most {
				t.Errorf("%s: %+v with cap %d and at most %d bots", got.Policy, got, s.Platform.Cap, most)
			}
		}
	})
}

// A call that is stopped by what is kept for inbound has not missed a bot, though
// none is idle; and it is no demand. The call that runs longest ends at 400 s.
func TestKeptLines(t *testing.T) {
	got := run(t, []byte(`{"for_s": 600, "scale": {"floor": 2, "ceiling": 5, "per_bot": 1}, "platform": {"cap": 3}, "policies": ["headroom"],
		"orgs": [{"id": "a"}, {"id": "kept", "floor": 1, "reserve": 1}],
		"arrivals": [{"org": "a", "class": "api", "count": 2, "talk_s": 400}, {"org": "a", "class": "api", "count": 1, "at_s": 60, "talk_s": 60}]}`)).Results[0]
	want := Result{
		Policy: demand.Headroom, PeakDemand: 2, PeakBots: 2, Used: 2, Idle: got.Idle, Placed: 3, Done: 3, Refused: map[string]int{},
		Orgs: []OrgResult{{Org: "a", Placed: 3, Done: 3, P95: 340, Longest: 340}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFleet(t *testing.T) {
	f := fleet{idle: 2}
	a, b := &talk{}, &talk{}
	f.take(a)
	started := f.scale(4)
	if len(started) != 2 || f.pods() != 4 {
		t.Fatalf("%d start, %d pods", len(started), f.pods())
	}
	if f.scale(3); f.idle != 1 || len(f.starting) != 1 {
		t.Fatalf("%+v, want one that starts to go first", f)
	}
	started = append(started[:1], f.scale(4)...)
	f.ready(started[0])
	f.take(b)
	f.scale(2) // the one that starts goes, and the idle one
	if f.idle != 0 || len(f.starting) != 0 || len(f.busy) != 2 || f.leaving != 0 {
		t.Fatalf("%+v, want only those on calls", f)
	}
	f.ready(started[1])
	if f.idle != 0 {
		t.Errorf("%+v: a pod that is gone became idle", f)
	}
	f.scale(1)
	if f.pods() != 1 || f.leaving != 1 || !b.leaving || a.leaving {
		t.Errorf("%+v, want the one that began last to leave", f)
	}
	f.release(b)
	f.release(a)
	if f.idle != 1 || f.leaving != 0 || len(f.busy) != 0 {
		t.Errorf("%+v, want one idle bot", f)
	}
}

func TestParseNamesTheField(t *testing.T) {
	const good = `{"for_s": 60, "platform": {"cap": 5}, "orgs": [{"id": "a", "floor": 2}], "providers": {"stt:x": 1}, "campaigns": [{"id": "k", "org": "a"}], "arrivals": [{"org": "a", "class": "api", "count": 1, "talk_s": 1}]}`
	if _, err := Parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string][2]string{
		"for_s: 0, want 1 to 86400":                      {`"for_s": 60, `, ``},
		"for_s: string, want int":                        {`"for_s": 60`, `"for_s": "60"`},
		`unknown field "talks"`:                          {`"talk_s"`, `"talks"`},
		"more after the scenario's end":                  {`"talk_s": 1}]}`, `"talk_s": 1}]} {}`},
		"platform: cap: 0, want at least 1":              {`"cap": 5`, `"cap": 0`},
		"org:a: floor: -1, want 0 or more":               {`"floor": 2`, `"floor": -1`},
		"org:a: reserve: -1, want 0 or more":             {`"floor": 2`, `"reserve": -1`},
		`arrivals[0].org: "b" is not in orgs`:            {`"org": "a", "class"`, `"org": "b", "class"`},
		`arrivals[0].class: "fax", want one of`:          {`"api"`, `"fax"`},
		`arrivals[0].campaign: "z" is not in campaigns`:  {`"count": 1`, `"count": 1, "campaign": "z"`},
		`arrivals[0].needs: "stt:y" is not in providers`: {`"count": 1`, `"count": 1, "needs": [["stt:x", "stt:y"]]`},
		"arrivals[0].needs: [1] names no provider":       {`"count": 1`, `"count": 1, "needs": [["stt:x"], []]`},
		"arrivals[0].count: 0, want 1 to 100000":         {`"count": 1`, `"count": 0`},
		"arrivals[0].talk_s: 0, want 1 to 14400":         {`"talk_s": 1`, `"talk_s": 0`},
		"arrivals: calls: 100001":                        {`"talk_s": 1}`, `"talk_s": 1}, {"org": "a", "class": "api", "count": 100000, "talk_s": 1}`},
		"arrivals: 0, want 1 to 1000":                    {`{"org": "a", "class": "api", "count": 1, "talk_s": 1}`, ``},
		"providers.stt:x: -1":                            {`"stt:x": 1`, `"stt:x": -1`},
		`policies[1]: "tsar", want one of`:               {`"for_s"`, `"policies": ["raw", "tsar"], "for_s"`},
		"scale.per_bot: demand: \"0.7777\"":              {`"for_s"`, `"scale": {"per_bot": 0.7777}, "for_s"`},
		"scale: demand: ceiling: 2, want 3 (the floor)":  {`"for_s"`, `"scale": {"ceiling": 2}, "for_s"`},
		"scale.ceiling: 10001, want 3 to 10000":          {`"for_s"`, `"scale": {"ceiling": 10001}, "for_s"`},
		"scale.every_s: -1, want 1 to 300":               {`"for_s"`, `"scale": {"every_s": -1}, "for_s"`},
		"bots.start: -3, want 1 to 10000":                {`"for_s"`, `"bots": {"start": -3}, "for_s"`},
		"bots.ready_after_s: 4000, want 0 to 3600":       {`"for_s"`, `"bots": {"ready_after_s": 4000}, "for_s"`},
		"bytes, want at most 1048576":                    {`"for_s"`, strings.Repeat(" ", maxScenario) + `"for_s"`},
		"simulate: unexpected EOF":                       {good, `{"for_s": 60`},
		"simulate: invalid character 'o' in":             {good, `for_s: 60`},
	} {
		t.Run(want, func(t *testing.T) {
			if !strings.Contains(good, change[0]) {
				t.Fatalf("%q is not in the good one", change[0])
			}
			s, err := Parse([]byte(strings.Replace(good, change[0], change[1], 1)))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %+v, error %v, want %q", s, err, want)
			}
		})
	}
}

func TestShippedNamesThem(t *testing.T) {
	for _, name := range []string{"", "nothing", "../shipped", strings.Repeat("x", 100)} {
		if _, err := Shipped(name); err == nil || !strings.Contains(err.Error(), "2026-08-25, deadlock, newcomer, quiet-night") {
			t.Errorf("%q: %v, want the names there are", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		data, err := Shipped(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if (s == nil) != (err != nil) {
			t.Errorf("got %v and %v", s, err)
		}
		if err != nil {
			return
		}
		// With its defaults filled in it is still a scenario, and the same one.
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if diff := cmp.Diff(s, again); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func BenchmarkDay(b *testing.B) {
	data, err := Shipped("2026-08-25")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Parse(data)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Run(s); err != nil {
			b.Fatal(err)
		}
	}
}
