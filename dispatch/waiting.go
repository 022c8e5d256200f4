package dispatch

import (
	"container/heap"
	"context"
	"time"

	"dibs/call"
	"dibs/cdr"
	"dibs/queue"
)

// waiter is one call that waits. Its order is kept as it came and read when its
// turn comes: there may be 100,000 of them.
type waiter struct {
	key      queue.Key
	seq      uint64      // age; 0: only the record is known yet
	item     *queue.Item // nil: given back with a delay, or only the record is known
	order    []byte
	class    call.Class
	campaign string
	patient  bool       // a callback: it is tried when a seat is idle, and was promised for half an hour
	needs    [][]string // of vendors, as admission takes them
	asked    [][]string // what it was queued with: its needs, and a seat if it waits for one

	opens time.Time // never tried: not offered before
	until time.Time // never tried: too late from then on; zero: never

	rec *tried // nil: never tried

	told   call.PersonVerdict // the last that was told
	probes bool               // it is let ask for a bot although no seat seems to be idle
}

func (w *waiter) waitsForBot() bool { return w.rec != nil && !w.rec.rec.BotWaitSince.IsZero() }

// urgent is a waiter for which something is due that needs no seat.
type urgent struct {
	w  *waiter
	ev *call.Event // applied instead of an admission
	re chan<- error
}

type tried struct {
	rec call.Record
	rev cdr.Rev
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

// requeueDelay is when the line hands a call over again: at its moment, or within
// five seconds when it waits for a bot. The wait itself is the office's: a seat
// that becomes idle is asked at once, whether or not the message is back.
func requeueDelay(w *waiter, c clock) time.Duration {
	if next := w.rec.rec.NextAt; next.After(c.now()) {
		return c.until(next)
	}
	return c.real(5 * time.Second)
}

// unblock looks again at whoever waited for a call of the person to end.
func (o *office) unblock(who call.Person) {
	for _, w := range o.blocked[who] {
		if o.known[w.key.Call] == w {
			o.place(w)
		}
	}
	delete(o.blocked, who)
}

// park sets a message aside that nobody can read.
func (o *office) park(ctx context.Context, it *queue.Item, why error) {
	p, err := it.Park(ctx, why.Error())
	if err != nil {
		o.d.cfg.Log.Warn().Err(err).Str("subject", it.Subject()).Msg("not parked; the next term tries again")
		return
	}
	o.d.cfg.Log.Error().Err(why).Str("subject", it.Subject()).Uint64("parked", p.ID).Msg("a message cannot be read: parked")
	o.d.cfg.Emit(Happening{Type: orderParked, At: o.d.clock.now(), Detail: map[string]any{"parked": p.ID, "subject": it.Subject(), "why": why.Error()}})
}

type delivery struct {
	items  []*queue.Item
	behind uint64
}
