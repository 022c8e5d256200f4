package dispatch

import (
	"context"
	"strings"
	"time"

	"dibs/call"
	"dibs/cdr"
)

// adoption is a call that came in, recorded by whoever answered it, for which the
// office was asked and has no caller yet.
type adoption struct {
	rec call.Record
	rev cdr.Rev
	ask deskAsk // dealt with when the call has its caller
}

// foundlings are what the office remembers of calls that come in: they are recorded
// by others, and what is said of them may come before their record. Owned by the
// office's loop.
type foundlings struct {
	adopted map[string]time.Time // calls that this term has taken over: nobody does it twice
	early   map[string]early     // ends that came before the record
	revoked map[string]time.Time // callbacks that nobody needs any more, not read from the line yet
}

type early struct {
	ev call.Event
	at time.Time
}

func newFoundlings() foundlings {
	return foundlings{adopted: map[string]time.Time{}, early: map[string]early{}, revoked: map[string]time.Time{}}
}

// maxEarly bounds what is remembered of calls that may never be recorded.
const maxEarly = 10_000

// noteEarly remembers that a call has ended whose record is still to come: its
// caller would not wait for our answer.
func (f *foundlings) noteEarly(id string, ev call.Event, now time.Time) {
	if strings.HasPrefix(id, inboundPrefix) && ev.Kind == call.EvEnd && len(f.early) < maxEarly {
		f.early[id] = early{ev, now}
	}
}

// tidy forgets what cannot matter any more.
func (f *foundlings) tidy(now time.Time) {
	for id, at := range f.adopted {
		if now.Sub(at) > 25*time.Hour { // longer than any call
			delete(f.adopted, id)
		}
	}
	for id, e := range f.early {
		if now.Sub(e.at) > time.Minute {
			delete(f.early, id)
		}
	}
	for id, at := range f.revoked {
		if now.Sub(at) > call.CallbackLife {
			delete(f.revoked, id)
		}
	}
}

// adopt gives a recorded call its caller, and then the question its answer.
func (o *office) adopt(ctx context.Context, a adoption) {
	id := a.rec.Order.CallID
	if !a.rec.InFlight() && len(call.Pending(a.rec)) == 0 { // over before anybody had to follow it
		o.arrivedIn(id)
		respond(a.ask.msg, deskReply{Code: deskEnded})
		return
	}
	if o.inFlight[id] == nil {
		if _, was := o.found.adopted[id]; was { // it has ended since its record was read
			o.arrivedIn(id)
			respond(a.ask.msg, deskReply{Code: deskEnded})
			return
		}
		now := o.d.clock.now()
		o.found.adopted[id] = now
		c := newCaller(o, a.rec, a.rev)
		o.knowAll(a.rec)
		o.people.Note(a.rec)
		delete(o.expected, id)
		o.restore(a.rec)
		if a.rec.InFlight() {
			o.revoke(ctx, o.people.Inbound(a.rec.Order.Person(), id, now))
		}
		if e, ok := o.found.early[id]; ok {
			delete(o.found.early, id)
			e.ev.Attempt = ""
			c.send(letter{ev: e.ev})
		}
		o.start(ctx, c)
	}
	if a.ask.question == askAdopt {
		respond(a.ask.msg, deskReply{Code: deskOK})
		return
	}
	o.answer(ctx, a.ask)
}

// revoke cancels a callback: the person has got through by themselves.
func (o *office) revoke(ctx context.Context, callback string) {
	if callback == "" {
		return
	}
	ev := call.Event{Kind: call.EvCancel, Reason: "called_again"}
	switch c, w := o.inFlight[callback], o.known[callback]; {
	case c != nil:
		if !c.talking.Load() { // they may be talking with us on another line
			c.send(letter{ev: ev})
		}
	case w != nil:
		o.urgent = append(o.urgent, urgent{w: w, ev: &ev})
	default: // promised, and its order is on its way here
		o.found.revoked[callback] = o.d.clock.now()
	}
}

// promise is a caller's question whether its person is to be called back, under id.
type promise struct {
	who call.Person
	id  string
	ok  chan<- bool
}

// mayCallBack asks the office's book of people: there is one callback a person. An
// office that ends does not answer; the next one does it.
func (c *caller) mayCallBack(ctx context.Context, who call.Person, id string) (may, known bool) {
	ok := make(chan bool, 1)
	select {
	case c.o.promises <- promise{who, id, ok}:
	case <-ctx.Done():
		return false, false
	}
	select {
	case may = <-ok:
		return may, true
	case <-ctx.Done():
		return false, false
	}
}

func (o *office) promised(p promise) {
	_, made := o.people.CallBack(p.who, p.id, o.d.clock.now())
	p.ok <- made
}
