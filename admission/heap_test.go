package admission

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A heap with removals in the middle, and a cursor over it, read in order; every
// item knows its place at any time.
func TestHeap(t *testing.T) {
	type item struct{ key, id, at int }
	rapid.Check(t, func(t *rapid.T) {
		h := heap[*item]{
			less:  func(a, b *item) bool { return a.key < b.key || a.key == b.key && a.id < b.id },
			moved: func(i *item, at int) { i.at = at },
		}
		var want []*item
		for id := range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(want) > 0 && rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				i := rapid.IntRange(0, len(want)-1).Draw(t, "which")
				if got := h.remove(want[i].at); got != want[i] || got.at != -1 {
					t.Fatalf("removed %v, want %v at -1", got, want[i])
				}
				want = slices.Delete(want, i, i+1)
			} else {
				k := &item{key: rapid.IntRange(0, 20).Draw(t, "key"), id: id}
				h.push(k)
				want = append(want, k)
			}
			for i, k := range h.items {
				if k.at != i {
					t.Fatalf("item at %d believes it is at %d", i, k.at)
				}
			}
			if len(h.items) != len(want) {
				t.Fatalf("%d items, want %d", len(h.items), len(want))
			}
		}
		slices.SortFunc(want, func(a, b *item) int { return slices.Compare([]int{a.key, a.id}, []int{b.key, b.id}) })
		c := newCursor(&h)
		for i, k := range want {
			if got, ok := c.head(); !ok || got != k {
				t.Fatalf("cursor: %v at %d, want %v", got, i, k)
			}
			c.next()
		}
		if _, ok := c.head(); ok {
			t.Fatal("cursor: more than there is")
		}
		for i, k := range want {
			if got, ok := h.pop(); !ok || got != k {
				t.Fatalf("pop: %v at %d, want %v", got, i, k)
			}
		}
		if _, ok := h.pop(); ok {
			t.Fatal("pop: more than there is")
		}
	})
}
