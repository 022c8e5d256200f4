package dispatch

import (
	"time"

	"dibs/call"
	"dibs/events"
)

// Types of events that only the dispatcher tells of; the others are package events'.
const (
	callChanged         = "call.changed"          // its record moved within a state
	callCancelRequested = "call.cancel_requested" // and it ends when the carrier says so
	callClaimRefused    = "call.claim_refused"    // no bot: which kind of nobody, with counts and asks
	callDialFailed      = "call.dial_failed"      // what the carrier's error means
	callEffectGivenUp   = "call.effect_given_up"  // after tries enough
	orderParked         = "operator.order_parked"
	recordBroken        = "operator.record_broken"
)

// emit tells of something about this call that is no change of its record.
func (c *caller) emit(typ string, detail map[string]any) {
	r := c.rec
	c.o.d.cfg.Emit(Happening{Type: typ, Order: r.Order, At: c.now(), Record: &r, Detail: detail})
}

// tell tells of a change, by the state it led to.
func (c *caller) tell(before call.Record, ev call.Event) {
	r := c.rec
	detail := map[string]any{"event": string(ev.Kind), "state": string(r.State), "was": string(before.State)}
	if a := r.Last(); a != nil {
		detail["attempt"] = a.ID
		if a.Bot != "" {
			detail["bot"] = a.Bot
		}
		if a.CarrierID != "" {
			detail["carrier_id"] = a.CarrierID
		}
		if a.AnsweredBy != "" {
			detail["answered_by"] = a.AnsweredBy
		}
	}
	if ev.Reason != "" {
		detail["reason"] = ev.Reason
	}
	typ, id := callChanged, ""
	switch {
	case r.State.Terminal() && !before.State.Terminal():
		typ, id = events.CallEnded, endID(r)
		c.o.d.outcomes.note(r)
		detail["outcome"] = string(r.Outcome())
		if a := r.Last(); a != nil && !a.LiveAt.IsZero() {
			detail["length_ms"] = r.EndedAt.Sub(a.LiveAt).Milliseconds()
		}
	case r.State != before.State:
		switch r.State {
		case call.Placing:
			typ = events.CallAdmitted
		case call.Dialing:
			typ = events.CallDialing
		case call.Ringing:
			typ = events.CallRinging
		case call.Live:
			typ = events.CallAnswered
		case call.Queued, call.Scheduled:
			typ = events.CallQueued
			if !r.BotWaitSince.IsZero() {
				if before.BotWaitSince.IsZero() {
					typ = events.CallBotWaitStarted
				}
				detail["left_ms"] = max(0, r.BotWaitSince.Add(r.Order.BotWait()).Sub(c.now())).Milliseconds()
				detail["final_attempt"] = r.Final
			}
		}
	case ev.Kind == call.EvCancel:
		typ = callCancelRequested
	}
	c.o.d.cfg.Emit(Happening{Type: typ, Order: r.Order, At: c.now().Truncate(time.Millisecond), Record: &r, Detail: detail, ID: id})
}

// endID names the one end of a call, unless its id is so long that none can be made.
func endID(r call.Record) string {
	if id := r.Order.CallID + "/ended"; len(id) <= events.MaxID {
		return id
	}
	return ""
}

// toldAgain is how long after its end a call's end is told again by an office that finds
// it: within the time in which the log recognises what it has.
const toldAgain = 100 * time.Second

// tellEnd tells that a call had ended when the office was taken: whoever stored the end
// may have died before it was told.
func (o *office) tellEnd(r call.Record) {
	if o.d.clock.real(o.d.clock.now().Sub(r.EndedAt)) > toldAgain {
		return
	}
	detail := map[string]any{"state": string(r.State), "outcome": string(r.Outcome())}
	if a := r.Last(); a != nil {
		detail["attempt"] = a.ID
	}
	o.d.cfg.Emit(Happening{Type: events.CallEnded, Order: r.Order, At: r.EndedAt.Truncate(time.Millisecond), Record: &r, Detail: detail, ID: endID(r)})
}
