package dispatch

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"dibs/call"
)

// line is who waits and is due: one heap by age for every region and class, in
// two parts: those that have found no bot already, and those never tried. Only
// heads are looked at.
type line struct {
	parts map[partKey]*ageHeap
}

type partKey struct {
	region string
	class  call.Class
	tried  bool
}

func newLine() line { return line{parts: map[partKey]*ageHeap{}} }

func (l *line) push(w *waiter) {
	k := partKey{w.key.Region, w.class, w.rec != nil}
	h := l.parts[k]
	if h == nil {
		h = &ageHeap{}
		l.parts[k] = h
	}
	heap.Push(h, w)
}

// head is the oldest of a part for which known still says that it waits there.
func (l *line) head(k partKey, known map[string]*waiter) *waiter {
	h := l.parts[k]
	for h != nil && h.Len() > 0 {
		w := (*h)[0]
		if known[w.key.Call] == w {
			return w
		}
		heap.Pop(h)
	}
	return nil
}

func (l *line) pop(k partKey) { heap.Pop(l.parts[k]) }

// regions are those in which somebody waits, in order.
func (l *line) regions() []string {
	seen := map[string]bool{}
	for k, h := range l.parts {
		if h.Len() > 0 {
			seen[k.region] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

type ageHeap []*waiter

func (h ageHeap) Len() int           { return len(h) }
func (h ageHeap) Less(i, j int) bool { return h[i].seq < h[j].seq }
func (h ageHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ageHeap) Push(x any)        { *h = append(*h, x.(*waiter)) }
func (h *ageHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return w
}

// moments are who is looked at again, and when.
type moments struct{ ms momentHeap }

type moment struct {
	at time.Time
	w  *waiter
}

func (m *moments) push(at time.Time, w *waiter) { heap.Push(&m.ms, moment{at, w}) }
func (m *moments) pop() *waiter                 { return heap.Pop(&m.ms).(moment).w }
func (m *moments) next() (time.Time, bool) {
	if len(m.ms) == 0 {
		return time.Time{}, false
	}
	return m.ms[0].at, true
}

type momentHeap []moment

func (h momentHeap) Len() int           { return len(h) }
func (h momentHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h momentHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *momentHeap) Push(x any)        { *h = append(*h, x.(moment)) }
func (h *momentHeap) Pop() any {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = moment{}
	*h = old[:len(old)-1]
	return m
}
