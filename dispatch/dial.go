package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/call"
	"dibs/carrier"
	"dibs/claim"
	"dibs/events"
)

// How long the carrier may take to answer a dial, or a look-up.
const (
	placeIn  = 10 * time.Second
	lookUpIn = 10 * time.Second
)

func goneBot(err error) bool { return errors.Is(err, nats.ErrNoResponders) }

// claim asks for a bot, beside everything else.
func (c *caller) claim(ctx context.Context) {
	ctx, c.unclaim = context.WithCancel(ctx)
	c.seeking.Store(true)
	req := claimRequest(c.rec, c.now())
	done := c.claimed
	go func() {
		got, err := c.o.d.cfg.Asker.Assign(ctx, req)
		done <- claimed{got, err}
	}()
}

// giveUpClaim ends a claim that still runs, and frees a seat that came too late.
func (c *caller) giveUpClaim() {
	if c.unclaim == nil {
		return
	}
	c.unclaim()
	if got := <-c.claimed; got.got != nil {
		c.sendHome(got.got)
	}
	c.unclaim = nil
}

// keepOrSendHome is for a record that could not be stored: the bot goes home unless the
// record as we know it has it. Should it have been stored all the same, the next office
// finds a call that was being placed, and makes it wait again.
func (c *caller) keepOrSendHome(got *claim.Assignment) {
	if a := c.rec.Last(); a == nil || a.Bot != got.BotID {
		c.sendHome(got)
	}
}

// sendHome frees a seat of which no record tells, whether or not the office goes on.
func (c *caller) sendHome(got *claim.Assignment) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = c.release(ctx, got.BotID, got.ClaimID, "too late") // if this fails, the bot frees it when no media comes
}

// gotBot goes on after a claim: to the dial, or back to the line.
func (c *caller) gotBot(ctx context.Context, got claimed) bool {
	if c.rescue {
		return c.gotRescuer(ctx, got)
	}
	if got.err != nil {
		c.seeking.Store(false)
		return c.noBot(ctx, got.err)
	}
	c.bot = got.got
	time.AfterFunc(time.Second, func() { c.seeking.Store(false) }) // not every bot beats
	c.emit(events.CallClaimed, map[string]any{
		"bot": got.got.BotID, "seat": got.got.Seat, "attempts": got.got.Attempts, "warmup": got.got.Warmup, "took_ms": got.got.Took.Milliseconds(),
	})
	if !c.apply(ctx, call.Event{Kind: call.EvBot, Bot: got.got.BotID}) {
		c.keepOrSendHome(got.got)
		return false
	}
	if c.rec.State != call.Placing { // cancelled, say; the bot was sent home by an effect
		return true
	}
	c.o.d.cfg.At(StepBot, c.id)
	if !c.apply(ctx, call.Event{Kind: call.EvIntent}) {
		return false
	}
	if c.rec.State == call.Dialing {
		return c.dial(ctx)
	}
	return true
}

// giveUpTurn lets somebody else of the number go, when this call was not dialled.
func (c *caller) giveUpTurn() {
	if !c.turn.IsZero() {
		c.o.d.pace.giveBack(c.rec.Order.From, time.Now())
		c.turn = time.Time{}
	}
}

// noBot is a claim without a bot: a wait, unless no bot would ever do.
func (c *caller) noBot(ctx context.Context, err error) bool {
	c.missed = true
	r, ok := errors.AsType[*claim.Refused](err)
	if !ok {
		if ctx.Err() != nil {
			return false
		}
		c.o.d.cfg.Log.Warn().Err(err).Str("call", c.id).Msg("claim")
		return c.apply(ctx, call.Event{Kind: call.EvNoBot, Reason: "claim_failed"})
	}
	c.emit(callClaimRefused, map[string]any{"code": r.Code, "counts": r.Counts, "attempts": r.Attempts, "detail": r.Detail})
	if r.CallsFault {
		return c.apply(ctx, call.Event{Kind: call.EvRejected, Reason: r.Code})
	}
	return c.apply(ctx, call.Event{Kind: call.EvNoBot, Reason: r.Code})
}

var errNotSent = &carrier.Error{Verdict: carrier.NotPlaced, Detail: "not sent: the office is over, or the intent too old"}

// dial asks the carrier, once in the life of this attempt, and only while the
// intent is fresh and the office ours.
func (c *caller) dial(ctx context.Context) bool {
	c.o.d.cfg.At(StepIntent, c.id)
	rec, a := c.rec, c.rec.Current()
	o := c.rec.Order
	d := carrier.Dial{
		Attempt: a.ID, To: o.To, From: o.From, Media: *mediaOf(c.rec, c.bot.Media),
		NextURL: nextURL(c.o.d.cfg.PublicURL, c.o.d.cfg.Carrier.Name(), a.ID), Detect: o.Detect,
		StatusURL: c.o.d.cfg.statusURL(a.ID), Ring: o.RingMS.Or(call.DefaultRing), MaxCall: o.MaxCallMS.Or(call.DefaultMaxCall),
	}
	c.dialling, c.turn = true, time.Time{} // the turn is used
	// Not ended with the office: what the carrier says of a dial that is out is worth
	// waiting for.
	c.o.callers.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), placeIn)
		defer cancel()
		// The last thing before the dial: nothing that takes time may come between.
		if _, _, ours := c.o.d.cfg.Leader.Leading(); !ours || !call.MaySend(rec, c.now()) {
			c.placed <- dialled{attempt: a.ID, err: errNotSent}
			return
		}
		got, err := c.o.d.cfg.Carrier.Place(ctx, d)
		c.placed <- dialled{a.ID, got, err}
	})
	return true
}

// gotCarrier reads the carrier's answer to a dial by its verdict.
func (c *caller) gotCarrier(ctx context.Context, got dialled) bool {
	ev := call.Event{Attempt: got.attempt}
	verdict := carrier.VerdictOf(got.err)
	if got.err != nil {
		c.emit(callDialFailed, map[string]any{"verdict": string(verdict), "why": got.err.Error(), "attempt": got.attempt})
	}
	switch verdict {
	case "":
		c.o.d.cfg.At(StepAccepted, c.id)
		ev.Kind, ev.CarrierID = call.EvPlaced, got.got.ID
		c.o.knows(got.got.ID, c.id)
	case carrier.RateLimited:
		ev.Kind = call.EvRefused429
		if e, ok := errors.AsType[*carrier.Error](got.err); ok {
			ev.RetryAfter = call.ToMillis(e.RetryAfter)
		}
		c.o.d.pace.hold(c.rec.Order.From, time.Now(), ev.RetryAfter.Or(time.Second)) // the others need not learn it, too
	case carrier.NotPlaced:
		ev.Kind, ev.Reason = call.EvTakenBack, "carrier not reached"
	case carrier.Refused:
		ev.Kind, ev.Reason = call.EvRefused, "carrier_refused"
	default:
		c.doubtful = true
		return true // it may ring: the intent stands, look-up and status events decide
	}
	if !c.apply(ctx, ev) {
		return false
	}
	switch {
	case verdict == "":
		c.o.d.cfg.At(StepCarrierID, c.id)
		c.ack(ctx)
	case !c.rec.InFlight():
		c.bot = nil
	}
	return true
}

// lookUp asks the carrier what it knows of the attempt, beside everything else.
func (c *caller) lookUp(ctx context.Context) {
	a := c.rec.Current()
	if a == nil || c.looking {
		return
	}
	c.looking = true
	o := c.rec.Order
	q := carrier.Query{ID: a.CarrierID}
	if q.ID == "" {
		q = carrier.Query{To: o.To, From: o.From, StartedSince: c.o.d.clock.outside(a.IntentAt)}
	}
	ev := call.Evidence{OwnerGone: a.Owner != c.o.owner, Talking: c.o.d.cfg.Roster.Live(time.Now(), c.id)}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, lookUpIn)
		defer cancel()
		found, err := c.o.d.cfg.Carrier.Find(ctx, q)
		switch {
		case err != nil:
			ev.Lookup = call.LookupDown
		default:
			ev.Lookup = call.LookupNone
			for _, f := range found {
				// By numbers it may be another call to the same person.
				if other := c.o.whose(f.ID); other == "" || other == c.id {
					saw(&ev, f)
					break
				}
			}
		}
		c.looked <- ev
	}()
}

// saw adds what a look-up found to the evidence.
func saw(ev *call.Evidence, f carrier.Found) {
	ev.Lookup, ev.CarrierID, ev.Status, ev.Answered = call.LookupFound, f.ID, string(f.Status), f.Answered
}
