package simcarrier

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"
)

// Twilio's words for where a call stands.
const (
	statusQueued     = "queued"
	statusInitiated  = "initiated"
	statusRinging    = "ringing"
	statusInProgress = "in-progress"
	statusCompleted  = "completed"
	statusBusy       = "busy"
	statusNoAnswer   = "no-answer"
	statusCanceled   = "canceled"
	statusFailed     = "failed"
)

// call is one call. Its life is one goroutine; others reach it through stop,
// redirect and interrupt.
type call struct {
	// Set once.
	sid, to, from string
	inbound       bool
	nth           int // dial of this number, from 1
	plan          plan
	doc           document // what to do on answer
	statusURL     string   // where events go; empty: nowhere
	events        []string // the events asked for
	ring, limit   time.Duration
	detect        detection // whether to find out who answers
	created       time.Time
	stop          context.CancelCauseFunc // ends the call; the cause is an ending
	out           chan callback           // filled and closed by the call's goroutine

	// Guarded by Server.mu.
	status    string
	started   time.Time // left the queue
	answered  time.Time
	ended     time.Time
	updated   time.Time
	end       ending
	seq       int                // of the next callback
	answerer  string             // who answered, once it is found out
	redirect  *document          // what to do instead of what it does
	interrupt context.CancelFunc // cuts that short; nil: it does nothing yet
	warnings  []Warning
	streams   []*StreamView
}

// ending is how a call ends. It is the cause with which its context is cancelled.
type ending struct {
	status string
	sip    int
	by     string
}

func (e ending) Error() string { return "call " + e.status + " by " + e.by }

var (
	byCallee = ending{statusCompleted, 200, "callee"}
	byAPI    = ending{statusCompleted, 200, "api"}
	byLimit  = ending{statusCompleted, 200, "limit"}
	byTwiML  = ending{statusCompleted, 200, "twiml"}
	canceled = ending{statusCanceled, 487, "api"}
	gaveUp   = ending{statusCanceled, 487, "callee"} // an inbound caller who would not wait
	shutdown = ending{statusFailed, 503, "carrier"}
)

// endOf is the ending with which ctx was cancelled; the server's own end counts as one.
func endOf(ctx context.Context) ending {
	if e, ok := context.Cause(ctx).(ending); ok {
		return e
	}
	return shutdown
}

func newSID(kind string) string {
	var b [16]byte
	rand.Read(b[:])
	return kind + hex.EncodeToString(b[:])
}

// add puts c on the books and begins its life. False: the server has ended.
func (s *Server) add(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start == nil {
		return false
	}
	now := time.Now()
	c.sid, c.created, c.updated = newSID("CA"), now, now
	c.status = statusQueued
	c.out = make(chan callback, 64)
	if c.inbound {
		c.status, c.started = statusRinging, now
		s.stats.Inbound++
	} else {
		s.dials[c.to]++
		c.nth = s.dials[c.to]
		c.plan = s.cfg.profile(c.to).draw(s.cfg.Seed, c.to, c.nth)
		c.plan.queue += s.turn(now)
		s.stats.Created++
	}
	s.calls = append(s.calls, c)
	s.bySID[c.sid] = c
	s.forget()
	s.start(c)
	return true
}

// turn is how long the next call waits for its turn; mu is held.
func (s *Server) turn(now time.Time) time.Duration {
	if s.cfg.CPS == 0 {
		return 0
	}
	if s.next.Before(now) {
		s.next = now
	}
	wait := s.next.Sub(now)
	s.next = s.next.Add(time.Duration(float64(time.Second) / s.cfg.CPS))
	return wait
}

// forget drops the oldest ended calls beyond Keep; mu is held.
func (s *Server) forget() {
	for extra := len(s.calls) - s.cfg.Keep; extra > 0; extra-- {
		i := slices.IndexFunc(s.calls, func(c *call) bool { return !c.ended.IsZero() })
		if i < 0 {
			return
		}
		delete(s.bySID, s.calls[i].sid)
		s.calls = slices.Delete(s.calls, i, i+1)
	}
}

// live is one call from beginning to end.
func (s *Server) live(ctx context.Context, c *call) {
	var media mediaSide
	var end ending
	if c.inbound {
		end = s.announce(ctx, c, &media)
	} else {
		end = s.ringOut(ctx, c, &media)
	}
	s.mu.Lock()
	c.status, c.end = end.status, end
	c.ended = time.Now()
	c.updated = c.ended
	s.tell(c, "completed")
	s.mu.Unlock()
	close(c.out)
	media.open.Wait()
	s.record(c, &media)
}

// ringOut takes an outbound call from the queue to its end.
func (s *Server) ringOut(ctx context.Context, c *call, media *mediaSide) ending {
	if !sleep(ctx, c.plan.queue) {
		return endOf(ctx)
	}
	s.step(c, statusInitiated)
	if c.plan.end == statusFailed {
		if !sleep(ctx, c.plan.ring) {
			return endOf(ctx)
		}
		return ending{statusFailed, 404, "carrier"}
	}
	s.step(c, statusRinging)

	wait, end := c.plan.ring, c.plan.end
	if end == statusNoAnswer && wait == 0 || wait >= c.ring {
		wait, end = c.ring, statusNoAnswer
	}
	if !sleep(ctx, wait) {
		return endOf(ctx)
	}
	switch end {
	case statusBusy:
		return ending{statusBusy, 486, "callee"}
	case statusNoAnswer:
		return ending{statusNoAnswer, 487, "carrier"}
	}
	s.step(c, statusInProgress)
	return s.converse(ctx, c, media, nil)
}

// announce takes an inbound call to its end: the line's owner is asked first, and
// only then, unless it rejects, is the call answered.
func (s *Server) announce(ctx context.Context, c *call, media *mediaSide) ending {
	wait := ctx
	if c.plan.patient > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeoutCause(ctx, c.plan.patient, gaveUp)
		defer cancel()
	}
	got := s.ask(wait, c, c.doc)
	if wait.Err() != nil {
		return endOf(wait)
	}
	if len(got.verbs) > 0 && got.verbs[0].name == "Reject" {
		if got.verbs[0].attrs["reason"] == "busy" {
			return ending{statusBusy, 486, "twiml"}
		}
		return ending{statusNoAnswer, 603, "twiml"}
	}
	s.step(c, statusInProgress)
	return s.converse(ctx, c, media, &got)
}

// step moves c on and tells of it.
func (s *Server) step(c *call, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.status, c.updated = status, time.Now()
	switch status {
	case statusInitiated:
		c.started = c.updated
	case statusInProgress:
		c.answered = c.updated
		status = "answered"
	}
	s.tell(c, status)
}
