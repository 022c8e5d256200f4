package dispatch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"dibs/admission"
	"dibs/call"
	"dibs/events"
)

// tickOf is how many calls are let go between two looks at the seats.
const tickOf = 64

// serve lets go whoever can: what is urgent first, then whom admission lets go. A
// direct call that was never tried needs no idle seat, because only a real miss
// begins its wait for a bot; one that waits for a bot, and every campaign call, does.
func (o *office) serve(ctx context.Context) {
	if len(o.urgent) > 0 {
		now := o.urgent
		o.urgent = nil
		for _, u := range now {
			if o.known[u.w.key.Call] == u.w {
				o.begin(ctx, u.w, u.ev, u.re, nil)
			}
		}
	}
	for {
		o.look()
		ds := o.adm.Tick(tickOf)
		for i := range ds {
			if w := o.known[ds[i].Call]; w != nil {
				o.begin(ctx, w, nil, nil, &ds[i])
			} else {
				o.adm.End(ds[i].Call) // it left the line in the meantime
			}
		}
		if len(ds) < tickOf {
			return
		}
	}
}

// tellVerdicts tells of every sub-queue whose calls wait for something else than a
// second ago: one event, about its first call, because the verdict is everybody's.
func (o *office) tellVerdicts() {
	now := o.d.clock.now()
	o.look()
	for _, g := range o.verdicts.note(o.adm.Groups(), now) {
		w := o.known[g.First]
		if w == nil {
			continue
		}
		reason, scope, no := reasonOf(g.Verdict)
		order := call.Order{CallID: g.First, Org: w.key.Org, Region: w.key.Region}
		o.d.cfg.Emit(Happening{Type: events.CallVerdict, Order: order, At: now, Detail: map[string]any{
			"reason": reason, "scope": scope, "in_use": no.InUse, "limit": no.Limit, "calls": g.Calls, "class": w.class, "campaign": w.campaign,
		}})
	}
}

// enqueue lets a waiter compete, with what it needs just now.
func (o *office) enqueue(w *waiter) {
	id := w.key.Call
	c := admission.Call{ID: id, Org: w.key.Org, Class: w.class, Region: w.key.Region, Campaign: w.campaign, Needs: w.needs, Arrival: w.seq}
	if w.class == call.ClassRetry && !w.until.IsZero() {
		c.NotAfter = w.until.UnixMilli()
	}
	waits := w.waitsForBot() && !w.probes && !call.BotWaitOver(w.rec.rec, o.d.clock.now())
	if waits || !w.class.Direct() || w.patient {
		c.Needs = append(slices.Clip(c.Needs), []string{seatIn(w.key.Region)})
	}
	w.asked = c.Needs
	o.regions[w.key.Region] = true
	o.d.outcomes.know(w.key.Region)
	o.adm.Remove(id)
	if err := o.adm.Enqueue(c); err != nil && !errors.Is(err, admission.ErrKnown) {
		o.d.cfg.Log.Error().Err(err).Str("call", id).Msg("not queued for admission")
	}
}

// probe lets the oldest call of each region that waits for a bot ask for one although
// no seat seems to be idle: not every bot beats, and beats can be lost.
func (o *office) probe() {
	now := o.d.clock.now()
	oldest := map[string]*waiter{}
	for _, w := range o.known {
		if !w.waitsForBot() || w.rec.rec.NextAt.After(now) {
			continue
		}
		if was := oldest[w.key.Region]; was == nil || w.seq < was.seq {
			oldest[w.key.Region] = w
		}
	}
	for _, w := range oldest {
		if o.adm.Waits(w.key.Call) {
			w.probes = true
			o.enqueue(w)
			w.probes = false
		}
	}
}

// needsOf are an order's needs as admission takes them, by kind.
func needsOf(o call.Order) (needs [][]string) {
	for _, kind := range sortedKeys(o.Needs) {
		var names []string
		for _, p := range o.Needs[kind] {
			names = append(names, kind+":"+p)
		}
		needs = append(needs, names)
	}
	return needs
}

// chosen is what admission chose for each kind.
func chosen(providers []string) map[string]string {
	out := map[string]string{}
	for _, p := range providers {
		if kind, name, ok := strings.Cut(p, ":"); ok && kind+":" != botsPrefix {
			out[kind] = name
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// begin gives a waiter to a caller of its own: with an event, or admitted, when its
// person may be called now.
func (o *office) begin(ctx context.Context, w *waiter, ev *call.Event, re chan<- error, d *admission.Decision) {
	id := w.key.Call
	o.adm.Remove(id)
	c, err := o.callerOf(w)
	if err != nil {
		delete(o.known, id)
		o.adm.End(id)
		o.d.cfg.Log.Error().Err(err).Str("call", id).Msg("an order that was read cannot be read again")
		return
	}
	if ev == nil {
		now := o.d.clock.now()
		verdict, at := o.people.Dial(c.rec.Order.Person(), c.id, c.rec.Order.Class, now)
		if verdict != call.PersonOK {
			o.adm.End(id)
			if at.IsZero() { // till the other call ends; this is the net
				at = now.Add(5 * time.Second)
				if who := c.rec.Order.Person(); !slices.Contains(o.blocked[who], w) {
					o.blocked[who] = append(o.blocked[who], w)
				}
			}
			o.later.push(at, w)
			if w.told != verdict {
				w.told = verdict
				o.d.cfg.Emit(Happening{Type: events.CallVerdict, Order: c.rec.Order, At: now, Detail: map[string]any{"reason": string(verdict), "next_at": at}})
			}
			return
		}
		o.d.cfg.At(StepGuards, id)
		o.d.cfg.At(StepSlot, id)
		o.d.cfg.At(StepPerson, id)
		c.seeking.Store(true)
		c.providers, c.ups = chosen(d.Providers), o.room.ups(w.key.Region)
	}
	delete(o.known, id)
	c.first, c.re = ev, re
	o.start(ctx, c)
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
