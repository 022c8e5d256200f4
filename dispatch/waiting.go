package dispatch

import (
	"container/heap"
	"time"
)

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
