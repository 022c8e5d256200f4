package dispatch

import (
	"context"
	"time"

	"dibs/call"
	"dibs/events"
)

// serve lets go whoever can. Calls that have found no bot wait for a seat, oldest
// first in the order of the classes; a direct call that was never tried is tried
// at once, because only a miss begins its wait; a campaign call goes when a seat
// is left over. The number of calls in flight bounds it all.
func (o *office) serve(ctx context.Context) {
	if len(o.urgent) > 0 {
		now := o.urgent
		o.urgent = nil
		for _, u := range now {
			if o.known[u.w.key.Call] == u.w {
				o.begin(ctx, u.w, u.ev, u.re)
			}
		}
	}
	for _, region := range o.waiting.regions() {
		room := o.room(region)
		for _, class := range call.Classes() {
			o.serveIf(ctx, partKey{region, class, true}, &room, false)
		}
		for _, class := range call.Classes() {
			o.serveIf(ctx, partKey{region, class, false}, &room, class.Direct())
		}
	}
}

// serveIf begins the calls of one part while there is room, or all of them.
func (o *office) serveIf(ctx context.Context, k partKey, room *int, all bool) {
	for len(o.inFlight) < o.d.cfg.Cap && (*room > 0 || all) {
		w := o.waiting.head(k, o.known)
		if w == nil {
			return
		}
		o.waiting.pop(k)
		if o.begin(ctx, w, nil, nil) {
			*room--
		}
	}
}

// room is how many idle seats of a region nobody of ours is asking for already.
func (o *office) room(region string) int {
	n := o.d.cfg.Roster.Counts(time.Now(), region, "").Idle
	for _, c := range o.inFlight {
		if c.region == region && c.seeking.Load() {
			n--
		}
	}
	return n
}

// begin gives a waiter to a caller of its own: with an event, or to be admitted
// when its person may be called now. It reports whether the call asks for a seat.
func (o *office) begin(ctx context.Context, w *waiter, ev *call.Event, re chan<- error) bool {
	c, err := o.callerOf(w)
	if err != nil {
		delete(o.known, w.key.Call)
		o.d.cfg.Log.Error().Err(err).Str("call", w.key.Call).Msg("an order that was read cannot be read again")
		return false
	}
	if ev == nil {
		now := o.d.clock.now()
		verdict, at := o.people.Dial(c.rec.Order.Person(), c.id, c.rec.Order.Class, now)
		if verdict != call.PersonOK {
			if at.IsZero() { // till the other call ends; every end looks again, this is the net
				at = now.Add(5 * time.Second)
			}
			o.later.push(at, w)
			o.d.cfg.Emit(Happening{Type: events.CallVerdict, Order: c.rec.Order, At: now, Detail: map[string]any{"reason": string(verdict), "next_at": at}})
			return false
		}
		o.d.cfg.At(StepGuards, c.id)
		o.d.cfg.At(StepSlot, c.id)
		o.d.cfg.At(StepPerson, c.id)
		c.seeking.Store(true)
	}
	delete(o.known, w.key.Call)
	c.first, c.re = ev, re
	o.start(ctx, c)
	return ev == nil
}

// callerOf makes the caller of a call that waits.
func (o *office) callerOf(w *waiter) (*caller, error) {
	if w.rec != nil {
		c := newCaller(o, w.rec.rec, w.rec.rev)
		c.item, c.seq = w.item, w.seq
		return c, nil
	}
	order, err := call.DecodeOrder(w.order)
	if err != nil {
		return nil, err
	}
	if order.QueuedAt.IsZero() {
		order.QueuedAt = w.item.Enqueued
	}
	c := newCaller(o, call.New(order, o.d.clock.now()), 0)
	c.item, c.seq = w.item, w.seq
	return c, nil
}
