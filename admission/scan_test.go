package admission

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The index answers as the scan does: same calls, same order, same bases, same
// verdicts, same position.
func TestAgainstScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for i, o := range drawHistory(t) {
			switch o.kind {
			case opTick:
				want, got := w.n.tick(o.n, false), w.s.Tick(o.n)
				if !same(want, got) {
					t.Fatalf("op %d: Tick(%d): (-scan +index)\n%s", i, o.n, cmp.Diff(want, got, sameDecision))
				}
			case opInbound:
				want, got := w.n.inbound(o.call), w.s.Inbound(o.call)
				if !same([]Decision{want}, []Decision{got}) {
					t.Fatalf("op %d: Inbound: (-scan +index)\n%s", i, cmp.Diff(want, got, sameDecision))
				}
				continue
			default:
				w.tell(t, o)
				continue
			}
			if want, got := w.n.verdicts(), slices.Collect(w.s.Verdicts()); !same(want, got) {
				t.Fatalf("op %d: verdicts: (-scan +index)\n%s", i, cmp.Diff(want, got, sameDecision))
			}
			order := w.n.order()
			if got := w.s.Order(0); !same(order, got) {
				t.Fatalf("op %d: order if the platform had room: (-scan +index)\n%s", i, cmp.Diff(order, got, sameDecision))
			}
			w.positions(t, order)
		}
	})
}

var sameDecision = cmp.Options{asInFile[0], asInFile[2]}

// same is equality by sameDecision, a hundred times as fast.
func same(a, b []Decision) bool {
	return slices.EqualFunc(a, b, func(a, b Decision) bool {
		return a.Call == b.Call && a.Org == b.Org && a.Class == b.Class && a.Region == b.Region && a.Campaign == b.Campaign &&
			a.Admitted == b.Admitted && a.Basis == b.Basis && a.WithheldFor == b.WithheldFor &&
			slices.Equal(a.Providers, b.Providers) && slices.Equal(a.Overflow, b.Overflow) &&
			a.Reason == b.Reason && a.Scope == b.Scope && sameNos(a.BlockedBy, b.BlockedBy)
	})
}

func sameNos(a, b []No) bool {
	return slices.EqualFunc(a, b, func(a, b No) bool { return a.Scope == b.Scope && a.Reason == b.Reason })
}

// positions compares what Why says of every waiting call with the order.
func (w *world) positions(t *rapid.T, order []Decision) {
	for _, c := range w.n.waiting {
		want := slices.IndexFunc(order, func(d Decision) bool { return d.Call == c.ID }) + 1
		floor := 0
		for _, d := range order[:max(0, want-1)] {
			if d.Basis == ByFloor {
				floor++
			}
		}
		y, ok := w.s.Why(c.ID, 0)
		if !ok {
			t.Fatalf("Why(%s): does not wait", c.ID)
		}
		if y.Position != want || y.Beyond {
			t.Fatalf("Why(%s): position %d, beyond %t, want %d", c.ID, y.Position, y.Beyond, want)
		}
		if want > 0 && (y.AheadFloor != floor || y.AheadBurst != want-1-floor) {
			t.Fatalf("Why(%s): ahead %d by floor and %d by burst, want %d and %d", c.ID, y.AheadFloor, y.AheadBurst, floor, want-1-floor)
		}
		var nos []No
		for _, g := range y.Gates {
			if !g.OK {
				nos = append(nos, No{Scope: g.Scope, Reason: g.Reason, InUse: g.InUse, Limit: *g.Limit, Owed: g.Owed})
			}
		}
		if len(nos) == 0 {
			nos = []No{{Scope: "platform", Reason: TickLimit}}
		}
		if !slices.Equal(y.Verdict.BlockedBy, nos) {
			t.Fatalf("Why(%s): gates and verdict differ: (-verdict +gates)\n%s", c.ID, cmp.Diff(y.Verdict.BlockedBy, nos))
		}
	}
}
