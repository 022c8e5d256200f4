package admission

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dibs/call"
)

// A run without -rapid.checks draws a thousand histories for every property.
func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

type kind int

const (
	opEnqueue kind = iota
	opInbound
	opTick
	opEnd    // some call in flight
	opRemove // some call that waits
	opSetOrg
	opDeleteOrg
	opSetCampaign
	opDeleteCampaign
	opSetPlatform
	opSetLimit
	opRestore
)

// op is one thing that happens. It stands for itself, so a history can be told to
// several states.
type op struct {
	kind     kind
	call     Call
	n        int // tick: limit; end, remove: which
	org      Org
	campaign Campaign
	platform Platform
	provider string
	limit    int
}

// changes reports whether the op changes settings, or puts calls in flight unasked.
func (o op) changes() bool { return o.kind >= opSetOrg }

// Small worlds: everything is short of everything, most of the time.
var (
	orgIDs      = []string{"A", "B", "C", "D"}
	campaignIDs = []string{"k", "l", "m"}
	providerIDs = []string{"stt:x", "stt:y", "tts:z"}
)

func drawLimit(t *rapid.T, most int, label string) *int {
	n := rapid.IntRange(-1, most).Draw(t, label)
	if n < 0 {
		return nil
	}
	return &n
}

func drawWithhold(t *rapid.T) map[call.Class]int {
	switch rapid.IntRange(0, 3).Draw(t, "withhold") {
	case 0:
		return nil
	case 1:
		return map[call.Class]int{}
	default:
		w := map[call.Class]int{}
		for _, c := range []call.Class{call.ClassRetry, call.ClassWorkflow, call.ClassCampaign} {
			if e := rapid.IntRange(1, 5).Draw(t, "every"); e > 1 {
				w[c] = e
			}
		}
		return w
	}
}

func drawPlatform(t *rapid.T) Platform {
	return Platform{
		Cap:      rapid.SampledFrom([]int{0, 1, 2, 3, 5, 8, 8, 12, 100}).Draw(t, "cap"),
		Withhold: drawWithhold(t),
		Full:     rapid.SampledFrom([]OverflowPolicy{"", Overflow, Refuse}).Draw(t, "full"),
	}
}

func drawOrg(t *rapid.T, id string) Org {
	o := Org{ID: id, Floor: rapid.IntRange(0, 4).Draw(t, "floor"), Reserve: rapid.IntRange(0, 3).Draw(t, "reserve")}
	if rapid.Bool().Draw(t, "has ceiling") {
		o.Ceiling = new(rapid.IntRange(0, 6).Draw(t, "ceiling"))
	}
	if rapid.IntRange(0, 3).Draw(t, "own withhold") == 0 {
		o.Withhold = drawWithhold(t)
	}
	return o
}

func drawCall(t *rapid.T, id string) Call {
	c := Call{ID: id, Org: rapid.SampledFrom(orgIDs).Draw(t, "org"), Class: rapid.SampledFrom(queued).Draw(t, "class")}
	c.Region = rapid.SampledFrom([]string{"", "eu"}).Draw(t, "region")
	switch rapid.IntRange(0, 4).Draw(t, "needs") {
	case 0, 1:
	case 2:
		c.Needs = [][]string{{"stt:x"}}
	case 3:
		c.Needs = [][]string{{"stt:x", "stt:y"}, {"tts:z"}}
	case 4:
		c.Needs = [][]string{{"stt:y", "stt:x"}}
	}
	if c.Class == call.ClassCampaign || rapid.IntRange(0, 5).Draw(t, "campaign retry") == 0 {
		c.Campaign = rapid.SampledFrom([]string{"", "k", "l", "m"}).Draw(t, "campaign")
	}
	if c.Class == call.ClassRetry {
		c.NotAfter = rapid.Int64Range(0, 5).Draw(t, "not after")
	}
	return c
}

// drawHistory is up to about a hundred ops, starting from settings.
func drawHistory(t *rapid.T) []op {
	ops := []op{{kind: opSetPlatform, platform: drawPlatform(t)}}
	for _, id := range orgIDs[:3] {
		ops = append(ops, op{kind: opSetOrg, org: drawOrg(t, id)})
	}
	for _, id := range campaignIDs[:2] {
		ops = append(ops, op{kind: opSetCampaign, campaign: Campaign{ID: id, Org: "A", Cap: drawLimit(t, 3, "cap"), Paused: rapid.IntRange(0, 5).Draw(t, "paused") == 0}})
	}
	for _, id := range providerIDs {
		ops = append(ops, op{kind: opSetLimit, provider: id, limit: rapid.SampledFrom([]int{Uncounted, 0, 1, 2, 5}).Draw(t, "limit")})
	}
	kinds := []kind{
		opEnqueue, opEnqueue, opEnqueue, opTick, opTick, opTick, opTick, opEnd, opEnd, opEnd, opInbound, opInbound,
		opRemove, opSetOrg, opDeleteOrg, opSetCampaign, opDeleteCampaign, opSetPlatform, opSetLimit, opRestore,
	}
	id := 0
	for range rapid.IntRange(5, 30).Draw(t, "ops") {
		o := op{kind: rapid.SampledFrom(kinds).Draw(t, "op")}
		switch o.kind {
		case opEnqueue:
			for range rapid.IntRange(1, 5).Draw(t, "calls") {
				id++
				ops = append(ops, op{kind: opEnqueue, call: drawCall(t, fmt.Sprintf("c%03d", id))})
			}
			continue
		case opInbound, opRestore:
			id++
			o.call = drawCall(t, fmt.Sprintf("i%03d", id))
			if o.kind == opInbound {
				o.call.Class, o.call.Campaign, o.call.NotAfter = call.ClassInbound, "", 0
			}
		case opTick:
			o.n = rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(t, "limit")
		case opEnd, opRemove:
			o.n = rapid.IntRange(0, 1<<16).Draw(t, "which")
		case opSetOrg:
			o.org = drawOrg(t, rapid.SampledFrom(orgIDs).Draw(t, "org"))
		case opDeleteOrg:
			o.org.ID = rapid.SampledFrom(orgIDs).Draw(t, "org")
		case opSetCampaign:
			o.campaign = Campaign{ID: rapid.SampledFrom(campaignIDs).Draw(t, "campaign"), Org: rapid.SampledFrom(orgIDs).Draw(t, "org"), Cap: drawLimit(t, 3, "cap"), Paused: rapid.IntRange(0, 5).Draw(t, "paused") == 0}
		case opDeleteCampaign:
			o.campaign.ID = rapid.SampledFrom(campaignIDs).Draw(t, "campaign")
		case opSetPlatform:
			o.platform = drawPlatform(t)
		case opSetLimit:
			o.provider = rapid.SampledFrom(providerIDs).Draw(t, "provider")
			o.limit = rapid.SampledFrom([]int{Uncounted, 0, 1, 2, 5}).Draw(t, "limit")
		}
		ops = append(ops, o)
	}
	return ops
}

// world is the state under test and the scan that is told the same.
type world struct {
	s      *State
	ledger *Ledger
	n      *naive
}

func newWorld() *world {
	l := NewLedger()
	return &world{s: New(Platform{}, l), ledger: l, n: newNaive(Platform{})}
}

// tell makes op happen in both, ticks and inbound calls aside. It returns op with
// the call filled in that an end or a removal meant.
func (w *world) tell(t rapid.TB, o op) op {
	t.Helper()
	o = w.tellState(t, o)
	if !w.n.tell(o) {
		t.Fatalf("%s of %s: the scan does not know it", []string{opEnd: "end", opRemove: "removal"}[o.kind], o.call.ID)
	}
	return o
}

// pickID is one of some ids.
func pickID(ids []string, n int) (string, bool) {
	if len(ids) == 0 {
		return "", false
	}
	slices.Sort(ids)
	return ids[n%len(ids)], true
}

func (w *world) tellState(t rapid.TB, o op) op {
	t.Helper()
	s := w.s
	switch o.kind {
	case opEnqueue:
		if err := s.Enqueue(o.call); err != nil {
			t.Fatalf("Enqueue(%+v): %v", o.call, err)
		}
	case opRestore:
		if err := s.Restore(o.call, o.restored()); err != nil {
			t.Fatalf("Restore(%+v): %v", o.call, err)
		}
	case opEnd:
		if id, ok := pickID(slices.Collect(maps.Keys(s.live)), o.n); ok {
			o.call = s.live[id].Call
			if !s.End(id) || s.End(id) {
				t.Fatalf("End(%s) twice: want true, then false", id)
			}
		}
	case opRemove:
		if id, ok := pickID(slices.Collect(maps.Keys(s.waiting)), o.n); ok {
			o.call = s.waiting[id].call()
			if !s.Remove(id) || s.Remove(id) {
				t.Fatalf("Remove(%s) twice: want true, then false", id)
			}
		}
	case opSetOrg:
		s.SetOrg(o.org)
	case opDeleteOrg:
		s.DeleteOrg(o.org.ID)
	case opSetCampaign:
		s.SetCampaign(o.campaign)
	case opDeleteCampaign:
		s.DeleteCampaign(o.campaign.ID)
	case opSetPlatform:
		s.SetPlatform(o.platform)
	case opSetLimit:
		w.ledger.SetLimit(o.provider, o.limit)
	}
	return o
}

// restored is what a restored call holds.
func (o op) restored() []string {
	if len(o.call.Needs) == 0 {
		return nil
	}
	return o.call.Needs[0][:1]
}

// tell is false for an end or a removal of a call that is not there.
func (n *naive) tell(o op) bool {
	n.seen = nil
	defer func() { n.seen = nil }()
	switch o.kind {
	case opEnqueue:
		n.enqueue(o.call)
	case opRestore:
		n.hold(o.call, o.restored())
	case opEnd:
		return o.call.ID == "" || n.end(o.call.ID)
	case opRemove:
		return o.call.ID == "" || n.remove(o.call.ID)
	case opSetOrg:
		k := n.org(o.org.ID)
		k.Org, k.set = o.org, true
	case opDeleteOrg:
		k := n.org(o.org.ID)
		k.Org, k.set = Org{ID: o.org.ID}, false
		n.sweep()
	case opSetCampaign:
		n.campaigns[o.campaign.ID] = o.campaign
	case opDeleteCampaign:
		delete(n.campaigns, o.campaign.ID)
	case opSetPlatform:
		n.platform = o.platform
	case opSetLimit:
		l := n.providers[o.provider]
		l.Limit = o.limit
		n.providers[o.provider] = l
	}
	return true
}

// ids are the calls of decisions.
func ids(ds []Decision) []string {
	out := make([]string, 0, len(ds))
	for _, d := range ds {
		out = append(out, d.Call)
	}
	return out
}

func liveIDs(n *naive) []string {
	var out []string
	for _, c := range n.live {
		out = append(out, c.ID)
	}
	slices.Sort(out)
	return out
}
