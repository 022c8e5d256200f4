package dispatch

import (
	"time"

	"dibs/call"
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
	}
	if ev.Reason != "" {
		detail["reason"] = ev.Reason
	}
	typ := "call.changed"
	switch {
	case r.State.Terminal() && !before.State.Terminal():
		typ = "call.ended"
		detail["outcome"] = string(r.Outcome())
		if a := r.Last(); a != nil && !a.LiveAt.IsZero() {
			detail["length_ms"] = r.EndedAt.Sub(a.LiveAt).Milliseconds()
		}
	case r.State != before.State:
		switch r.State {
		case call.Placing:
			typ = "call.admitted"
		case call.Dialing:
			typ = "call.dialing"
		case call.Ringing:
			typ = "call.ringing"
		case call.Live:
			typ = "call.answered"
		case call.Queued, call.Scheduled:
			typ = "call.queued"
			if !r.BotWaitSince.IsZero() {
				typ = "call.bot_wait"
				detail["left_ms"] = max(0, r.BotWaitSince.Add(call.BotWait).Sub(c.now())).Milliseconds()
				detail["final_attempt"] = r.Final
			}
		}
	case ev.Kind == call.EvCancel:
		typ = "call.cancel_requested"
	}
	c.o.d.cfg.Emit(Happening{Type: typ, Order: r.Order, At: c.now().Truncate(time.Millisecond), Record: &r, Detail: detail})
}
