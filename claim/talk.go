package claim

import (
	"context"
	"errors"
	"time"

	"dibs/wire"
)

// talk is one conversation, from accepted to assigned or dropped. Its goroutine
// is the only one that moves the seat in that time.
type talk struct {
	a       *Answerer
	req     wire.ClaimRequest
	seat    int
	session Session
	token   string // last token of the inbox this conversation hears on

	said chan error    // the asker's words, as causes; never blocks the answerer
	more chan string   // further inboxes that asked for the same claim
	over chan struct{} // closed at the end; assigned is final then

	// owned by the talk's goroutine once it runs
	to       string
	ready    *wire.Reply
	assigned bool
}

// The two words that are no ends.
var (
	errConfirmed = errors.New("confirmed")
	errAcked     = errors.New("acked")
)

// tell passes a word on. A flood of words loses the later ones, never the seat,
// because the deadlines stand.
func (t *talk) tell(word error) {
	select {
	case t.said <- word:
	default:
	}
}

// again answers a repeated ask, from a new inbox, with what was answered before.
func (t *talk) again(to string) {
	select {
	case t.more <- to:
	default:
	}
}

// repeat says once more what was said so far. After the end of the talk's
// goroutine only the answerer calls it.
func (t *talk) repeat(to string) {
	t.to = to
	t.reply(&wire.Reply{Status: wire.Accepted})
	if t.ready != nil {
		t.reply(t.ready)
	}
}

func (t *talk) reply(r *wire.Reply) {
	r.ClaimID, r.Seat = t.req.ClaimID, t.seat
	t.a.reply(t.to, t.a.inbox+"."+t.token, r)
}

type warmed struct {
	reply wire.Reply
	err   error
}

func (t *talk) run(ctx context.Context) {
	cfg := &t.a.cfg
	begun := time.Now()
	budget := min(cfg.WarmIn, max(t.req.ReadyMS.Duration()-time.Second, t.req.ReadyMS.Duration()/2))
	warming, abort := context.WithCancelCause(ctx)
	late := time.AfterFunc(budget, func() { abort(ErrLate) })
	defer late.Stop()
	done := make(chan warmed, 1)
	go func() {
		r, err := t.session.Warm(warming, t.seat)
		done <- warmed{r, err}
	}()

	confirm := time.NewTimer(cfg.ConfirmIn)
	defer confirm.Stop()
	var ack <-chan time.Time
	confirmed := false
	var end error
	for end == nil {
		select {
		case <-warming.Done():
			end = context.Cause(warming)
		case <-confirm.C:
			if !confirmed && t.ready == nil {
				end = ErrUnconfirmed
			}
		case <-ack:
			// Media may have come while the ack was lost: then somebody is there.
			if state, held := t.a.seats.Holds(t.seat, t.req.ClaimID); held && state == wire.SeatLive {
				t.handOver()
				return
			}
			end = ErrNoAck
		case to := <-t.more:
			t.repeat(to)
		case word := <-t.said:
			switch word {
			case errConfirmed:
				confirmed = true
				t.a.seats.Move(time.Now(), t.seat, t.req.ClaimID, wire.SeatWarming)
			case errAcked:
				if t.ready != nil {
					t.handOver()
					return
				}
			default:
				end = word
			}
		case w := <-done:
			late.Stop()
			done = nil
			if w.err != nil {
				if end = context.Cause(warming); end == nil {
					end = w.err
				}
				break
			}
			t.a.seats.Move(time.Now(), t.seat, t.req.ClaimID, wire.SeatAssigned)
			r := w.reply
			r.Status, r.Warmup.TotalMS = wire.Ready, wire.ToMillis(time.Since(begun))
			t.ready = &r
			t.reply(t.ready)
			ack = time.After(cfg.AckIn)
		}
	}
	t.fail(end, time.Since(begun))
	abort(end)
	// Ended first: whoever is asked by the offer that follows must not find this
	// conversation any more.
	t.a.ended <- t
	t.a.seats.Move(time.Now(), t.seat, t.req.ClaimID, wire.SeatIdle)
	close(t.over)
	if done != nil {
		<-done // the seat is free already; only the session's own tidying waits for Warm
	}
	t.session.Drop(end)
}

func (t *talk) handOver() {
	t.assigned = true
	t.session.Assigned()
	t.a.ended <- t
	close(t.over)
}

// fail tells the asker that it gets nothing, when it is still there to hear it.
func (t *talk) fail(end error, took time.Duration) {
	r := wire.Reply{Status: wire.Failed, Warmup: wire.Warmup{TotalMS: wire.ToMillis(took)}}
	f, told := errors.AsType[*Failure](end)
	switch {
	case told:
		r.Code, r.Detail, r.Warmup.Steps = f.Code, f.Detail, f.Steps
		if f.CallsFault {
			r.Status = wire.Rejected
		}
	case errors.Is(end, ErrLate):
		r.Code, r.Detail = "warmup_timeout", "warm-up over its budget"
	case errors.Is(end, ErrStopped):
		r.Code, r.Detail = "draining", "the bot stops"
	case errors.Is(end, ErrReleased):
		r.Code, r.Detail = "released", "released before it was ready"
	case errors.Is(end, ErrWithdrawn), errors.Is(end, ErrAskerGone), errors.Is(end, ErrNoAck), errors.Is(end, ErrUnconfirmed):
		return // nobody listens
	default:
		r.Code, r.Detail = "warmup_failed", end.Error()
	}
	t.reply(&r)
}
