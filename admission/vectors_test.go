package admission

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dibs/call"
)

// The schema of the file stands in the file.
type vector struct {
	Name  string `json:"name"`
	Given struct {
		Cap       int                `json:"platform_cap"`
		Withhold  map[call.Class]int `json:"withhold"`
		Overflow  bool               `json:"inbound_overflow"`
		Providers map[string]struct {
			Limit *int `json:"limit"`
			Used  int  `json:"used"`
		} `json:"providers"`
		Campaigns map[string]struct {
			Org      string `json:"org"`
			Cap      *int   `json:"cap"`
			InFlight int    `json:"in_flight"`
		} `json:"campaigns"`
		Orgs []struct {
			Org
			InFlight map[call.Class]int `json:"in_flight"`
		} `json:"orgs"`
	} `json:"given"`
	Steps []vectorStep `json:"steps"`
	Final struct {
		Platform map[string]int            `json:"platform"`
		Orgs     map[string]map[string]int `json:"orgs"`
	} `json:"final"`
	Order []string `json:"order_if_the_platform_had_room"`
}

type vectorStep struct {
	Do     string          `json:"do"`
	Calls  json.RawMessage `json:"calls"`
	Call   Call            `json:"call"`
	Limit  int             `json:"limit"`
	Expect json.RawMessage `json:"expect"`
}

// tickExpectation is what a tick is to do.
type tickExpectation struct {
	Admitted []Decision `json:"admitted"`
	Refused  []Decision `json:"refused"`
}

// engine is what a vector is run against: the state, and the scan beside it.
type engine interface {
	enqueue(Call)
	inbound(Call) Decision
	end(id string) bool
	tick(limit int) []Decision
	verdicts() []Decision
	order() []Decision
	final() (platform map[string]int, orgs map[string]map[string]int)
}

// indexed is the state as an engine.
type indexed struct {
	*State
	t testing.TB
}

func (e indexed) enqueue(c Call) {
	if err := e.Enqueue(c); err != nil {
		e.t.Fatalf("Enqueue(%s): %v", c.ID, err)
	}
}
func (e indexed) inbound(c Call) Decision   { return e.Inbound(c) }
func (e indexed) end(id string) bool        { return e.End(id) }
func (e indexed) tick(limit int) []Decision { return e.Tick(limit) }
func (e indexed) verdicts() []Decision      { return slices.Collect(e.Verdicts()) }
func (e indexed) order() []Decision         { return e.Order(0) }

func (e indexed) final() (map[string]int, map[string]map[string]int) {
	r := e.Report()
	orgs := map[string]map[string]int{}
	for _, o := range r.Orgs {
		orgs[o.ID] = map[string]int{"in_flight": o.InFlight, "owed": o.Owed, "shortfall": o.Shortfall}
	}
	return map[string]int{"in_flight": r.Platform.InFlight, "owed": r.Platform.Owed, "cap": r.Platform.Cap, "free_pool": r.Platform.FreePool}, orgs
}

// scan is the naive reference as an engine.
type scan struct{ *naive }

func (e scan) tick(limit int) []Decision { return e.naive.tick(limit, false) }

func (e scan) final() (map[string]int, map[string]map[string]int) {
	orgs, free := map[string]map[string]int{}, e.platform.Cap
	for id, o := range e.orgs {
		orgs[id] = map[string]int{"in_flight": e.running(id, ""), "owed": e.owed(o), "shortfall": e.shortfall(o)}
		free -= o.Floor
	}
	return map[string]int{"in_flight": e.running("", ""), "owed": e.totalOwed(), "cap": e.platform.Cap, "free_pool": max(0, free)}, orgs
}

func vectorDir() string {
	if dir := os.Getenv("DIBS_VECTORS"); dir != "" {
		return dir
	}
	return filepath.Join("..", "testdata")
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(vectorDir(), "admission.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []vector `json:"vectors"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	return file.Vectors
}

// platform is the platform of the vector.
func (v vector) platform() Platform {
	p := Platform{Cap: v.Given.Cap, Withhold: v.Given.Withhold, Full: Refuse}
	if v.Given.Overflow {
		p.Full = Overflow
	}
	if p.Withhold == nil {
		p.Withhold = map[call.Class]int{}
	}
	return p
}

// running is the calls that run when the vector begins. The file does not say
// which of them are a campaign's: those that no step ends.
func (v vector) running(t *testing.T) []Call {
	ended := map[string]bool{}
	for _, s := range v.Steps {
		if s.Do == "end" {
			var ids []string
			if err := json.Unmarshal(s.Calls, &ids); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				ended[id] = true
			}
		}
	}
	var cs []Call
	for _, o := range v.Given.Orgs {
		for _, class := range classes {
			for i := range o.InFlight[class] {
				cs = append(cs, Call{ID: fmt.Sprintf("%s.%s.%d", o.ID, class, i), Org: o.ID, Class: class})
			}
		}
	}
	for id, k := range v.Given.Campaigns {
		left := k.InFlight
		for i := range cs {
			if left > 0 && cs[i].Org == k.Org && cs[i].Class == call.ClassCampaign && cs[i].Campaign == "" && !ended[cs[i].ID] {
				cs[i].Campaign, left = id, left-1
			}
		}
		if left > 0 {
			t.Fatalf("campaign %s has %d calls in flight that its org has not", id, left)
		}
	}
	return cs
}

func (v vector) indexed(t *testing.T) engine {
	ledger := NewLedger()
	for id, p := range v.Given.Providers {
		if ledger.SetBase(id, p.Used); p.Limit != nil {
			ledger.SetLimit(id, *p.Limit)
		}
	}
	s := New(v.platform(), ledger)
	for _, o := range v.Given.Orgs {
		s.SetOrg(o.Org)
	}
	for id, k := range v.Given.Campaigns {
		s.SetCampaign(Campaign{ID: id, Org: k.Org, Cap: k.Cap})
	}
	for _, c := range v.running(t) {
		if err := s.Restore(c, nil); err != nil {
			t.Fatal(err)
		}
	}
	return indexed{s, t}
}

func (v vector) scan(t *testing.T) engine {
	n := newNaive(v.platform())
	for id, p := range v.Given.Providers {
		l := Load{Used: p.Used, Limit: Uncounted}
		if p.Limit != nil {
			l.Limit = *p.Limit
		}
		n.providers[id] = l
	}
	for _, o := range v.Given.Orgs {
		k := n.org(o.ID)
		k.Org, k.set = o.Org, true
	}
	for id, k := range v.Given.Campaigns {
		n.campaigns[id] = Campaign{ID: id, Org: k.Org, Cap: k.Cap}
	}
	for _, c := range v.running(t) {
		n.hold(c, nil)
	}
	return scan{n}
}

// asInFile compares decisions by what the file says of them.
var asInFile = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(Decision{}, "Region", "Campaign"),
	cmpopts.IgnoreFields(No{}, "InUse", "Limit", "Owed"),
}

func (v vector) run(t *testing.T, e engine) {
	for i, step := range v.Steps {
		at := fmt.Sprintf("step %d (%s)", i, step.Do)
		decode := func(raw json.RawMessage, into any) {
			if err := json.Unmarshal(raw, into); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
		}
		switch step.Do {
		case "enqueue":
			var cs []Call
			decode(step.Calls, &cs)
			for _, c := range cs {
				e.enqueue(c)
			}
		case "end":
			var ids []string
			decode(step.Calls, &ids)
			for _, id := range ids {
				if !e.end(id) {
					t.Fatalf("%s: %s was not in flight", at, id)
				}
			}
		case "inbound":
			var want Decision
			decode(step.Expect, &want)
			if diff := cmp.Diff(want, e.inbound(step.Call), asInFile); diff != "" {
				t.Fatalf("%s: (-want +got)\n%s", at, diff)
			}
		case "tick":
			var want tickExpectation
			decode(step.Expect, &want)
			got := tickExpectation{Admitted: e.tick(step.Limit)}
			got.Refused = e.verdicts()
			if diff := cmp.Diff(want, got, asInFile); diff != "" {
				t.Fatalf("%s: (-want +got)\n%s", at, diff)
			}
		default:
			t.Fatalf("%s: a step this test does not know", at)
		}
	}
	platform, orgs := e.final()
	if diff := cmp.Diff(v.Final.Platform, platform); diff != "" {
		t.Errorf("final platform: (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(v.Final.Orgs, orgs); diff != "" {
		t.Errorf("final orgs: (-want +got)\n%s", diff)
	}
	if v.Order != nil {
		var got []string
		for _, d := range e.order() {
			got = append(got, d.Call)
		}
		if diff := cmp.Diff(v.Order, got); diff != "" {
			t.Errorf("order if the platform had room: (-want +got)\n%s", diff)
		}
	}
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) { v.run(t, v.indexed(t)) })
	}
}

// The reference has to be right before anything is compared with it.
func TestVectorsScan(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) { v.run(t, v.scan(t)) })
	}
}
