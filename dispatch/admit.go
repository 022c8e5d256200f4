package dispatch

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"dibs/admission"
	"dibs/call"
	"dibs/events"
	"dibs/wire"
)

const (
	// admitIn is how long an inbound admission may take. Then the call comes in all the
	// same, uncounted until its record appears: a caller is not to pay for our silence.
	admitIn = 250 * time.Millisecond
	// expectIn is how long a call that was let in is counted without a record.
	expectIn = 30 * time.Second
)

// letIn is the office's answer about a call that comes in.
type letIn struct {
	OK        bool              `json:"ok"`
	Providers map[string]string `json:"providers,omitempty"` // kind → the one it counts for
	Reason    string            `json:"reason,omitempty"`    // not OK
}

// Doorman asks the office whether a call may come in; it is what [Reception].Admit is
// set to. Safe for concurrent use.
type Doorman struct {
	Desk *Desk
	Log  zerolog.Logger

	warned atomic.Int64 // when it last said that nobody answers, in Unix seconds
}

// Admit is an [Admit]. Nobody in office, or no answer within 250 ms: the call comes in.
func (d *Doorman) Admit(ctx context.Context, o call.Order) (providers map[string]string, refused string) {
	asking, cancel := context.WithTimeout(ctx, admitIn)
	defer cancel()
	r, err := d.Desk.askNow(asking, askAdmit, deskRequest{CallID: o.CallID, Org: o.Org, Region: o.Region, Campaign: o.Campaign, Needs: o.Needs})
	switch {
	case ctx.Err() != nil: // the call turned out to be known
		return nil, ""
	case err != nil || r.LetIn == nil:
		now := time.Now().Unix()
		if last := d.warned.Load(); now-last >= 60 && d.warned.CompareAndSwap(last, now) {
			d.Log.Warn().Err(err).Msg("nobody decides about calls that come in: all are let in, and counted later")
		}
		return nil, ""
	case r.LetIn.OK:
		return r.LetIn.Providers, ""
	}
	return nil, r.LetIn.Reason
}

// askNow asks the office once, for as long as ctx lasts.
func (d *Desk) askNow(ctx context.Context, question string, req deskRequest) (deskReply, error) {
	subj, err := wire.Desk(question)
	if err != nil {
		return deskReply{}, err
	}
	data, err := json.Marshal(req)
	if err != nil {
		return deskReply{}, err
	}
	return d.askFor(ctx, subj, data)
}

// admit decides about a call that comes in. Let in, it is counted from here on; its
// record, whose caller counts for the same id, is awaited.
func (o *office) admit(ask deskAsk) {
	id := ask.req.CallID
	if wire.CheckToken(id) != nil || wire.CheckToken(ask.req.Org) != nil {
		respond(ask.msg, deskReply{Code: deskMalformed, Detail: "no call, or nobody's"})
		return
	}
	if _, was := o.found.adopted[id]; was { // it is there, or over: the record says it better
		respond(ask.msg, deskReply{Code: deskOK, LetIn: &letIn{OK: true}})
		return
	}
	order := call.Order{CallID: id, Org: ask.req.Org, Class: call.ClassInbound, Region: ask.req.Region, Campaign: ask.req.Campaign, Needs: ask.req.Needs}
	d := o.adm.Inbound(admission.Call{ID: id, Org: order.Org, Region: order.Region, Campaign: order.Campaign, Needs: needsOf(order)})
	if d.Admitted {
		if o.inFlight[id] == nil {
			o.expected[id] = time.Now()
		}
		respond(ask.msg, deskReply{Code: deskOK, LetIn: &letIn{OK: true, Providers: chosen(d.Providers)}})
		return
	}
	reason, scope, no := reasonOf(d)
	respond(ask.msg, deskReply{Code: deskOK, LetIn: &letIn{Reason: reason}})
	o.d.cfg.Emit(Happening{Type: events.CallVerdict, Order: order, At: o.d.clock.now(), Detail: map[string]any{
		"reason": reason, "scope": scope, "in_use": no.InUse, "limit": no.Limit, "class": call.ClassInbound, "refused": true,
	}})
}

// arrivedIn strikes a call off the awaited ones; one that nobody follows is not
// counted any more.
func (o *office) arrivedIn(id string) {
	delete(o.expected, id)
	if o.inFlight[id] == nil {
		o.adm.End(id)
	}
}

// giveUpExpected frees the slots of calls that were let in and never recorded.
func (o *office) giveUpExpected(now time.Time) {
	for id, at := range o.expected {
		if now.Sub(at) > expectIn {
			o.arrivedIn(id)
			o.d.cfg.Log.Warn().Str("call", id).Msg("let in and never recorded: its slot is free again")
		}
	}
}
