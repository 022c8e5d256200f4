package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/api"
	"dibs/call"
	"dibs/carrier"
	"dibs/cdr"
	"dibs/wire"
)

// The questions that the office answers, below desk.
const (
	askCancel = "call.cancel"
	askEvent  = "call.event"
	askAdopt  = "call.adopt" // a call that came in is recorded: follow it
	askNext   = "call.next"  // the carrier asks how to go on with a call
	askWhy    = "why"
	askAdmit  = "admit" // may a call come in
	askUsage  = "usage" // what is counted of an org, a campaign, the platform
)

// The desk's answers.
const (
	deskOK          = "ok"
	deskNotFound    = "not_found"
	deskEnded       = "ended"
	deskUnavailable = "unavailable" // ask again: the office is just being taken, or lost
	deskMalformed   = "malformed"
)

type deskRequest struct {
	CallID string         `json:"call_id,omitempty"`
	Reason string         `json:"reason,omitempty"`
	Event  *carrier.Event `json:"event,omitempty"`

	Attempt   string `json:"attempt,omitempty"`    // next
	CarrierID string `json:"carrier_id,omitempty"` // next
	Ask       string `json:"ask,omitempty"`        // next: which question it is; the same again has the same answer

	Org      string              `json:"org_id,omitempty"` // admit, and the next three
	Region   string              `json:"region,omitempty"`
	Campaign string              `json:"campaign_id,omitempty"`
	Needs    map[string][]string `json:"needs,omitempty"`

	Scope string `json:"scope,omitempty"` // usage
}

type deskReply struct {
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`

	Why *api.Why             `json:"why,omitempty"`
	Do  *carrier.Instruction `json:"do,omitempty"` // next

	LetIn *letIn     `json:"let_in,omitempty"` // admit
	Usage *api.Usage `json:"usage,omitempty"`  // usage
}

type deskAsk struct {
	question string
	req      deskRequest
	msg      *nats.Msg
}

type deskSubs []*nats.Subscription

func (s deskSubs) close() {
	for _, sub := range s {
		_ = sub.Unsubscribe()
	}
}

// openDesk begins to answer. It ends with the office: whoever asks afterwards
// meets no responders, and knows at once that nobody is there.
func (o *office) openDesk(ctx context.Context) (deskSubs, error) {
	var subs deskSubs
	for _, q := range []string{askCancel, askEvent, askAdopt, askNext, askWhy, askAdmit, askUsage} {
		subj, err := wire.Desk(q)
		if err != nil {
			return nil, fmt.Errorf("dispatch: %w", err)
		}
		sub, err := o.d.cfg.NC.Subscribe(subj, func(m *nats.Msg) {
			ask := deskAsk{question: q, msg: m}
			if len(m.Data) > wire.MaxMessage || json.Unmarshal(m.Data, &ask.req) != nil {
				respond(m, deskReply{Code: deskMalformed})
				return
			}
			select {
			case o.asks <- ask:
			case <-ctx.Done():
			}
		})
		if err != nil {
			subs.close()
			return nil, fmt.Errorf("dispatch: desk: %w", err)
		}
		subs = append(subs, sub)
	}
	return subs, nil
}

func respond(m *nats.Msg, r deskReply) {
	if data, err := json.Marshal(r); err == nil && m.Reply != "" {
		_ = m.Respond(data)
	}
}

// answer deals with one question. Whatever takes time is done by the call's caller
// or beside the loop.
func (o *office) answer(ctx context.Context, ask deskAsk) {
	if _, _, ours := o.d.cfg.Leader.Leading(); !ours {
		return // silence is better than an answer in somebody else's office
	}
	switch ask.question {
	case askWhy:
		o.answerWhy(ctx, ask)
		return
	case askAdmit:
		o.admit(ask)
		return
	case askUsage:
		u := o.usage(ask.req.Scope)
		respond(ask.msg, deskReply{Code: deskOK, Usage: &u})
		return
	}
	id, ev, err := ask.event()
	if err != nil {
		respond(ask.msg, deskReply{Code: deskMalformed, Detail: err.Error()})
		return
	}
	if ask.question == askEvent {
		o.knows(ask.req.Event.ID, id)
	}
	done := make(chan error, 1)
	if c := o.inFlight[id]; c != nil {
		switch ask.question {
		case askAdopt:
			respond(ask.msg, deskReply{Code: deskOK})
			return
		case askNext:
			o.askNext(ctx, ask, c, ev)
			return
		}
		if !c.send(letter{ev: ev, re: done}) {
			respond(ask.msg, deskReply{Code: deskUnavailable, Detail: "too much happens to this call"})
			return
		}
		o.callers.Go(func() { o.reply(ctx, ask, c, done) })
		return
	}
	if w := o.known[id]; w != nil && ask.question == askCancel {
		o.begin(ctx, w, &ev, done, nil)
		if c := o.inFlight[id]; c != nil {
			o.callers.Go(func() { o.reply(ctx, ask, c, done) })
			return
		}
	}
	o.found.noteEarly(id, ev, o.d.clock.now())
	o.absent(ctx, ask, id)
}

func (o *office) answerWhy(ctx context.Context, ask deskAsk) {
	id := ask.req.CallID
	if why, ok := o.why(id); ok {
		respond(ask.msg, deskReply{Code: deskOK, Why: &why})
		return
	}
	o.absent(ctx, ask, id)
}

// absent answers about a call that neither waits nor is in flight.
func (o *office) absent(ctx context.Context, ask deskAsk, id string) {
	read := o.read
	o.callers.Go(func() {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		r, rev, err := o.d.cfg.Records.Get(short, id)
		switch {
		case err == nil && r.Order.Inbound():
			select {
			case o.adopts <- adoption{r, rev, ask}:
			case <-ctx.Done():
			}
		case err == nil && r.State.Terminal():
			respond(ask.msg, deskReply{Code: deskEnded})
		case errors.Is(err, cdr.ErrNotFound) && (read || strings.HasPrefix(id, inboundPrefix)): // those do not wait on the line
			respond(ask.msg, deskReply{Code: deskNotFound})
		default:
			respond(ask.msg, deskReply{Code: deskUnavailable})
		}
	})
}

// askNext puts the carrier's question to a call's caller and waits for the answer,
// which takes as long as the claim of another bot.
func (o *office) askNext(ctx context.Context, ask deskAsk, c *caller, ev call.Event) {
	do := make(chan carrier.Instruction, 1)
	if !c.send(letter{ev: ev, next: do, ask: ask.req.Ask}) {
		respond(ask.msg, deskReply{Code: deskUnavailable, Detail: "too much happens to this call"})
		return
	}
	o.callers.Go(func() {
		select {
		case i := <-do:
			respond(ask.msg, deskReply{Code: deskOK, Do: &i})
		case <-c.over:
			select {
			case i := <-do:
				respond(ask.msg, deskReply{Code: deskOK, Do: &i})
			default:
				respond(ask.msg, deskReply{Code: deskUnavailable, Detail: errChanging.Error()})
			}
		case <-ctx.Done():
		}
	})
}

// reply waits for what a caller made of a letter.
func (o *office) reply(ctx context.Context, ask deskAsk, c *caller, done <-chan error) {
	answer := func(err error) {
		if err != nil {
			respond(ask.msg, deskReply{Code: deskUnavailable, Detail: err.Error()})
			return
		}
		respond(ask.msg, deskReply{Code: deskOK})
	}
	select {
	case err := <-done:
		answer(err)
	case <-c.over:
		select {
		case err := <-done: // the letter may be what ended it
			answer(err)
		default:
			answer(errChanging)
		}
	case <-ctx.Done():
	}
}

// errChanging: the call ended before its caller had read the letter.
var errChanging = errors.New("the call is just changing hands")

// event is what a question means for its call.
func (a deskAsk) event() (id string, ev call.Event, err error) {
	if a.question == askCancel {
		return a.req.CallID, call.Event{Kind: call.EvCancel, Reason: a.req.Reason}, wire.CheckToken(a.req.CallID)
	}
	if a.question == askAdopt {
		return a.req.CallID, ev, wire.CheckToken(a.req.CallID)
	}
	if a.question == askNext {
		id, ok := callOf(a.req.Attempt)
		if !ok {
			return "", ev, fmt.Errorf("attempt %q is none of ours", a.req.Attempt)
		}
		return id, call.Event{Kind: call.EvLive, Attempt: a.req.Attempt, CarrierID: a.req.CarrierID}, nil
	}
	e := a.req.Event
	if e == nil {
		return "", ev, errors.New("event: missing")
	}
	ev, ok := call.StatusEvent(string(e.Status))
	if !ok {
		return "", ev, fmt.Errorf("status %q is none", e.Status)
	}
	ev.Attempt, ev.CarrierID = e.Attempt, e.ID
	if ev.Outcome == call.Failed && call.TemporaryFailure(e.SIPCode) {
		ev.Outcome = call.FailedTemporary
	}
	if ev.Kind == call.EvLive || ev.Kind == call.EvEnd {
		ev.Answered = e.Answered
	}
	id, ok = callOf(e.Attempt)
	if !ok {
		return "", ev, fmt.Errorf("attempt %q is none of ours", e.Attempt)
	}
	return id, ev, nil
}

// callOf is the call that an attempt is of.
func callOf(attempt string) (id string, ok bool) {
	i := strings.LastIndexByte(attempt, '-')
	if i <= 0 || wire.CheckToken(attempt) != nil {
		return "", false
	}
	return attempt[:i], true
}
