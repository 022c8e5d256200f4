package admission

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dibs/call"
)

// floorFairness is I10.
func (w *witness) floorFairness(org string, able map[string]*naiveOrg) {
	for id := range w.passed {
		if a := able[id]; a == nil || w.n.shortfall(a) == 0 {
			delete(w.passed, id)
		}
	}
	for id, a := range able {
		if id == org || w.n.shortfall(a) == 0 {
			continue
		}
		if w.passed[id] == nil {
			w.passed[id] = map[string]int{}
		}
		if w.passed[id][org]++; w.passed[id][org] > 2 {
			w.failf("I10", "%s is below its floor and was passed over by %s %d times", id, org, w.passed[id][org])
		}
	}
	delete(w.passed, org)
}

// classFairness is I9 and I11, on one admission of a queued call.
func (w *witness) classFairness(c Call, d Decision) {
	n, o := w.n, w.n.org(c.Org)
	if w.watched[c.Org] == nil {
		w.watched[c.Org] = map[call.Class]int{}
	}
	if w.watchedIn[c.Org] == nil {
		w.watchedIn[c.Org] = map[call.Class]int{}
	}
	watched, watchedIn := w.watched[c.Org], w.watchedIn[c.Org]
	ahead := false // of a higher class that could go
	lower := false
	higherProtected := 0
	for _, class := range queued {
		could := len(n.each(c.Org, class, false)) > 0
		e := n.every(o, class)
		switch {
		case class == c.Class:
			lower = true
			watched[class] = 0
		case !lower:
			ahead = ahead || could
			if !could {
				watched[class] = 0
			}
		case !could:
			watched[class] = 0
		case e > 0:
			watchedIn[class]++
			if watched[class]++; watched[class] > e-1+higherProtected {
				w.failf("I11", "%s of %s was passed over %d times by higher classes, protected 1 in %d", class, c.Org, watched[class], e)
			}
		}
		if e > 0 {
			higherProtected++
		}
	}
	if ahead != (d.WithheldFor != "") || ahead && d.WithheldFor != c.Class {
		w.failf("I9", "%s went ahead of a higher class: %t, withheld for %q", c.ID, ahead, d.WithheldFor)
	}
	if e := n.every(o, c.Class); ahead && (e == 0 || watchedIn[c.Class] < e-1) {
		w.failf("I9", "%s of %s went ahead after watching %d, protected 1 in %d", c.Class, c.Org, watchedIn[c.Class], e)
	}
	watchedIn[c.Class] = 0
}

// I7: the same history twice is the same, and the floor admissions of one tick of
// k are those of k ticks of one.
func TestTicksOfOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := drawHistory(t)
		k := rapid.IntRange(1, 12).Draw(t, "k")
		var states [3]*world
		for i := range states {
			w := newWorld()
			for _, o := range history {
				switch o.kind {
				case opTick:
					w.s.Tick(o.n)
				case opInbound:
					w.s.Inbound(o.call)
				default:
					w.tellState(t, o)
				}
			}
			states[i] = w
		}
		at, again := states[0].s.Tick(k), states[1].s.Tick(k)
		if diff := cmp.Diff(at, again); diff != "" {
			t.Fatalf("the same history twice:\n%s", diff)
		}
		var single []Decision
		for range k {
			single = append(single, states[2].s.Tick(1)...)
		}
		floor := func(ds []Decision) []string {
			return ids(slices.DeleteFunc(slices.Clone(ds), func(d Decision) bool { return d.Basis != ByFloor }))
		}
		if diff := cmp.Diff(floor(at), floor(single)); diff != "" {
			t.Fatalf("floor admissions of a tick of %d and of %d ticks of one:\n%s", k, k, diff)
		}
		// Who goes first by burst may differ, and so who gets which of two alternatives of
		// a provider, and how many go in all; but neither leaves anybody who could go.
		for i, ds := range [][]Decision{at, again, single} {
			if more := states[i].s.Tick(0); len(ds) < k && len(more) > 0 {
				t.Fatalf("%d of %d went, and %v could have: %v", len(ds), k, ids(more), []string{"one tick", "one tick", "ticks of one"}[i])
			}
		}
	})
}
