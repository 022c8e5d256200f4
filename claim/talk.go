package claim

import (
	"context"
	"errors"
	"sync"
	"time"

	"dibs/wire"
)

// talk is one conversation, from accepted to assigned or ended. It has no
// goroutine of its own: the asker's words, its timers and the end of the warm-up
// each do their step under mu. Until it is over it alone moves the seat.
type talk struct {
	a       *Answerer
	req     *wire.ClaimRequest
	seat    int
	session Session
	to      string // where the first ask is answered
	token   string // last token of the inbox on which the asker is heard
	begun   time.Time

	mu        sync.Mutex
	over      bool
	cause     error                   // why it ended without an assignment
	abort     context.CancelCauseFunc // ends the context of Warm; nil before begin
	warm      bool                    // Warm runs: whoever ends the talk leaves the Drop to it
	confirmed bool
	ready     *wire.Reply
	deadline  *time.Timer // for confirm, then for ack
}

func newTalk(a *Answerer, req *wire.ClaimRequest, seat int, session Session, to string) *talk {
	return &talk{a: a, req: req, seat: seat, session: session, to: to, begun: time.Now(), warm: true}
}

// begin says accepted and warms up.
func (t *talk) begin() {
	t.reply(t.to, &wire.Reply{Status: wire.Accepted})
	ctx, abort := context.WithCancelCause(context.Background())
	t.mu.Lock()
	if t.over { // already: withdrawn, or the bot stops
		t.mu.Unlock()
		abort(nil)
		t.session.Drop(t.cause)
		return
	}
	t.abort = abort
	t.deadline = time.AfterFunc(t.a.cfg.ConfirmIn, t.unconfirmed)
	t.a.running.Add(1) // under mu: whoever ended this talk may wait for it
	t.mu.Unlock()
	defer t.a.running.Done()
	t.prepare(ctx)
}

// prepare warms up, within the bot's budget and well within the asker's window,
// so that the bot fails first and says why. ctx ends with the reason.
func (t *talk) prepare(ctx context.Context) {
	window := t.req.ReadyMS.Duration()
	late := time.AfterFunc(min(t.a.cfg.WarmIn, max(window-time.Second, window/2)), func() { t.end(ErrLate) })
	r, err := t.session.Warm(ctx, t.seat)
	late.Stop()
	t.mu.Lock()
	t.warm = false
	if t.over {
		t.mu.Unlock()
		t.session.Drop(context.Cause(ctx))
		return
	}
	if err != nil {
		t.mu.Unlock()
		t.end(err)
		return
	}
	t.a.seats.Move(time.Now(), t.seat, t.req.ClaimID, wire.SeatAssigned)
	r.Status, r.Warmup.TotalMS = wire.Ready, wire.ToMillis(time.Since(t.begun))
	t.ready = &r
	t.deadline.Stop()
	t.deadline = time.AfterFunc(t.a.cfg.AckIn, t.unacked)
	t.mu.Unlock()
	t.reply(t.to, &r)
}

// again answers a repeated ask, from a new inbox, with what was said before.
func (t *talk) again(to string) {
	t.mu.Lock()
	ready := t.ready
	t.mu.Unlock()
	t.reply(to, &wire.Reply{Status: wire.Accepted})
	if ready != nil {
		t.reply(to, ready)
	}
}

func (t *talk) reply(to string, r *wire.Reply) {
	out := *r
	out.ClaimID, out.Seat = t.req.ClaimID, t.seat
	t.a.reply(to, t.a.inbox+"."+t.token, &out)
}

func (t *talk) confirm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over && !t.confirmed {
		t.confirmed = true
		t.a.seats.Move(time.Now(), t.seat, t.req.ClaimID, wire.SeatWarming)
	}
}

func (t *talk) unconfirmed() {
	t.mu.Lock()
	late := !t.confirmed && t.ready == nil
	t.mu.Unlock()
	if late {
		t.end(ErrUnconfirmed)
	}
}

// ack hands the seat over to the session.
func (t *talk) ack() {
	t.mu.Lock()
	if t.over || t.ready == nil {
		t.mu.Unlock()
		return
	}
	t.over = true
	t.deadline.Stop()
	t.mu.Unlock()
	t.abort(nil)
	t.session.Assigned()
	t.a.lookAgain()
}

func (t *talk) goesOn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.over
}

func (t *talk) unacked() {
	// Media may have come while the ack was lost: then somebody is there.
	if state, held := t.a.seats.Holds(t.seat, t.req.ClaimID); held && state == wire.SeatLive {
		t.ack()
		return
	}
	t.end(ErrNoAck)
}

// end ends the conversation without an assignment, whatever it was doing, and
// reports whether it did: false when it was over already. The seat is idle when
// it returns; what the session still has to tidy up waits for nobody.
func (t *talk) end(cause error) bool {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return false
	}
	t.over, t.cause = true, cause
	warm, abort := t.warm, t.abort
	if t.deadline != nil {
		t.deadline.Stop()
	}
	t.mu.Unlock()
	// Forgotten first: whoever is asked by the offer that follows must not find
	// this conversation any more.
	t.a.forget(t)
	if abort != nil {
		abort(cause)
	}
	t.fail(cause)
	t.a.seats.Move(time.Now(), t.seat, t.req.ClaimID, wire.SeatIdle)
	if !warm {
		t.session.Drop(cause)
	}
	return true
}

// fail tells the asker that it gets nothing, when it is still there to hear it.
func (t *talk) fail(cause error) {
	r := wire.Reply{Status: wire.Failed, Warmup: wire.Warmup{TotalMS: wire.ToMillis(time.Since(t.begun))}}
	f, told := errors.AsType[*Failure](cause)
	switch {
	case told:
		r.Code, r.Detail, r.Warmup.Steps = f.Code, f.Detail, f.Steps
		if f.CallsFault {
			r.Status = wire.Rejected
		}
	case errors.Is(cause, ErrLate):
		r.Code, r.Detail = "warmup_timeout", "warm-up over its budget"
	case errors.Is(cause, ErrStopped):
		r.Code, r.Detail = "draining", "the bot stops"
	case errors.Is(cause, ErrReleased):
		r.Code, r.Detail = "released", "released before it was ready"
	case errors.Is(cause, ErrWithdrawn), errors.Is(cause, ErrAskerGone), errors.Is(cause, ErrNoAck), errors.Is(cause, ErrUnconfirmed):
		return // nobody listens
	default:
		r.Code, r.Detail = "warmup_failed", cause.Error()
	}
	t.reply(t.to, &r)
}
