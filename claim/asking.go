package claim

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/wire"
)

// asking is one claim that runs: the loop over asks and phases. Owned by the
// goroutine that called Assign.
type asking struct {
	a     *Asker
	req   wire.ClaimRequest
	key   string
	ch    chan heard
	begun time.Time

	attempts []Attempt
	asks     int
	failures int    // warm-ups that failed
	took     *heard // the accepted we have confirmed, or the ready we have acked
}

// end is how one ask ended.
type end int

const (
	gotReady  end = iota
	nobody        // no responders: the phase is over
	notNow        // busy, draining, cordoned, or a word we do not know: pause, ask again
	another       // breaker open, silence, the bot died: ask again at once
	failed        // warm-up failed: one more bot, at once
	waited        // accepted, then silence to the end of the window: the phase is over
	callsOwn      // rejected: no bot would do better
	cancelled     // the caller's context ended
)

// run goes through the phases. Directed placement would stand before them.
func (c *asking) run(ctx context.Context) (*Assignment, error) {
	phases := []wire.Phase{wire.PhasePool, wire.PhaseRegion}
	if c.req.Pool == "" {
		phases = phases[1:]
	}
	for _, phase := range phases {
		got, over, err := c.phase(ctx, phase, Repeats)
		if got != nil || err != nil {
			return got, err
		}
		if over {
			return nil, c.refused()
		}
	}
	// Bots that only said busy to the end are there and change hands quickly: a seat
	// whose offer was just being made anew when the pool was asked is offered by now.
	if last := c.attempts[len(c.attempts)-1]; len(phases) > 1 && last.Answer == string(wire.Busy) {
		if got, _, err := c.phase(ctx, phases[0], 0); got != nil || err != nil {
			return got, err
		}
	}
	return nil, c.refused()
}

// phase asks in one phase until it is over, with at most so many repeats. over means
// that the whole claim is.
func (c *asking) phase(ctx context.Context, phase wire.Phase, most int) (got *Assignment, over bool, err error) {
	var subj string
	if phase == wire.PhasePool {
		subj, err = wire.ClaimPool(c.req.Region, c.req.Pool)
	} else {
		subj, err = wire.ClaimRegion(c.req.Region)
	}
	if err != nil {
		return nil, true, fmt.Errorf("claim: %w", err)
	}
	for repeats := 0; ; {
		how, got, err := c.ask(ctx, phase, subj)
		if err != nil {
			return nil, true, err
		}
		switch how {
		case gotReady:
			return got, true, nil
		case nobody, waited:
			return nil, false, nil
		case callsOwn:
			return nil, true, nil
		case failed:
			if c.failures++; c.failures >= WarmFailures {
				return nil, true, nil
			}
			continue // its bound is its own
		case cancelled:
			return nil, true, fmt.Errorf("claim: %w", context.Cause(ctx))
		}
		if repeats++; repeats > most {
			return nil, false, nil
		}
		if how == notNow {
			if err := c.wait(ctx, pause()); err != nil {
				return nil, true, err
			}
		}
	}
}

// wait pauses between asks. What arrives meanwhile belongs to asks that were
// given up.
func (c *asking) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return nil
		case h := <-c.ch:
			c.a.decline(h)
		case <-ctx.Done():
			return fmt.Errorf("claim: %w", context.Cause(ctx))
		}
	}
}

// ask asks once and waits for how it ends.
func (c *asking) ask(ctx context.Context, phase wire.Phase, subj string) (end, *Assignment, error) {
	c.asks++
	c.req.Phase, c.req.Attempt = phase, c.asks
	data, err := wire.Encode(c.req)
	if err != nil {
		return cancelled, nil, fmt.Errorf("claim: %w", err)
	}
	begun := time.Now()
	inbox, deaths := c.inbox(c.asks), c.inbox(0)
	if err := c.a.nc.PublishMsg(&nats.Msg{Subject: subj, Reply: inbox, Data: data}); err != nil {
		return cancelled, nil, fmt.Errorf("claim: ask: %w", err)
	}
	how, h := c.listen(ctx, begun, deaths)
	at := Attempt{Phase: phase, MS: wire.ToMillis(time.Since(begun)), BotID: h.reply.BotID, Code: h.reply.Code, Detail: h.reply.Detail, Answer: string(h.reply.Status)}
	switch {
	case how == cancelled:
		at.Answer = Cancelled
	case how == nobody:
		at.Answer = NoResponders
	case h.gone || how == waited:
		at.Answer = Lost
	case h.reply.Status == "":
		at.Answer = Silence
	}
	c.attempts = append(c.attempts, at)
	c.a.stats.asked(at.Answer)
	if how != gotReady {
		return how, nil, nil
	}
	r := h.reply
	return gotReady, &Assignment{
		BotID: r.BotID, Instance: r.Instance, Revision: r.Revision, Pod: r.Pod, Seat: r.Seat, ClaimID: c.req.ClaimID,
		Media: r.Media, Warmup: r.Warmup, Providers: r.Providers, Attempts: c.attempts, Took: time.Since(c.begun),
	}, nil
}

// inbox is where the answers to one ask are heard; number 0 hears who is dead.
func (c *asking) inbox(ask int) string {
	return c.a.inbox + "." + c.key + "." + strconv.Itoa(ask)
}

// listen hears the answers to the newest ask. An accepted or ready that answers
// an older ask of the same claim is as good: it is taken, and the newer one's is
// declined when it comes.
// deaths is where the death of the bot we confirmed is heard.
func (c *asking) listen(ctx context.Context, begun time.Time, deaths string) (end, heard) {
	accept := time.NewTimer(c.req.AcceptMS.Duration())
	defer accept.Stop()
	var window, again <-chan time.Time
	c.took = nil
	lost := func() heard { // the bot we had taken, for the record
		h := *c.took
		h.gone, c.took = true, nil
		return h
	}
	for {
		select {
		case <-ctx.Done():
			if c.took != nil {
				c.a.say(*c.took, wire.Withdraw)
			}
			c.took = nil
			return cancelled, heard{}
		case <-accept.C:
			if c.took == nil {
				return another, heard{}
			}
		case <-again:
			c.a.sayFrom(*c.took, wire.Confirm, deaths)
			again = time.After(confirmEvery)
		case <-window:
			c.a.say(*c.took, wire.Withdraw)
			return waited, lost()
		case h := <-c.ch:
			switch {
			case h.gone && h.ask == 0 && c.took != nil:
				return another, lost() // our confirm met nobody: the bot died
			case h.gone && h.ask == c.asks && c.took == nil:
				return nobody, h
			case h.gone:
				// an older ask's echo
			case c.took != nil && h.reply.BotID != c.took.reply.BotID:
				c.a.decline(h)
			case h.reply.Status == wire.Accepted:
				if c.took == nil {
					c.took = &h
					window = time.After(time.Until(begun.Add(c.req.ReadyMS.Duration())))
					again = time.After(confirmAfter)
				}
			case h.reply.Status == wire.Ready:
				c.took = &h
				c.a.say(h, wire.Ack)
				return gotReady, h
			case h.ask != c.asks && c.took == nil:
				// an older ask's refusal
			default:
				c.took = nil
				return endOf(h.reply.Status), h
			}
		}
	}
}

// endOf says what follows from an answer that is no yes.
func endOf(s wire.Status) end {
	switch s {
	case wire.BreakerOpen:
		return another
	case wire.Failed:
		return failed
	case wire.Rejected:
		return callsOwn
	}
	return notNow
}
