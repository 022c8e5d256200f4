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
				if diff := cmp.Diff(want, got, sameDecision); diff != "" {
					t.Fatalf("op %d: Tick(%d): (-scan +index)\n%s", i, o.n, diff)
				}
			case opInbound:
				want, got := w.n.inbound(o.call), w.s.Inbound(o.call)
				if diff := cmp.Diff(want, got, sameDecision); diff != "" {
					t.Fatalf("op %d: Inbound: (-scan +index)\n%s", i, diff)
				}
				continue
			default:
				w.tell(t, o)
				continue
			}
			if diff := cmp.Diff(w.n.verdicts(), slices.Collect(w.s.Verdicts()), sameDecision); diff != "" {
				t.Fatalf("op %d: verdicts: (-scan +index)\n%s", i, diff)
			}
			order := w.n.order()
			if diff := cmp.Diff(order, w.s.Order(0), sameDecision); diff != "" {
				t.Fatalf("op %d: order if the platform had room: (-scan +index)\n%s", i, diff)
			}
			w.positions(t, order)
		}
	})
}

var sameDecision = cmp.Options{asInFile[0], asInFile[2]}

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
		if diff := cmp.Diff(y.Verdict.BlockedBy, nos); diff != "" {
			t.Fatalf("Why(%s): gates and verdict differ: (-verdict +gates)\n%s", c.ID, diff)
		}
	}
}
