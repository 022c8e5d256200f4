package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"dibs/call"
	"dibs/cdr"
	"dibs/events"
	"dibs/pool"
	"dibs/queue"
	"dibs/wire"
)

// apply is the one way in which a record moves: decide, store, tell, act. False
// means that the caller must stop: the record is another's, or ctx has ended.
func (c *caller) apply(ctx context.Context, ev call.Event) bool {
	now := c.now()
	next, effects := call.Apply(c.rec, ev, now)
	if next.Changes == c.rec.Changes {
		return true // it says nothing new
	}
	before := c.rec
	if !c.store(ctx, next) {
		return false
	}
	c.tell(before, ev)
	return c.settle(ctx, effects)
}

// store writes the record; what cannot be known is written again until it is.
func (c *caller) store(ctx context.Context, next call.Record) bool {
	var rev cdr.Rev
	err := retry(ctx, func() (err error) {
		if c.rev == 0 {
			rev, err = c.o.d.cfg.Records.Create(ctx, next)
		} else {
			rev, err = c.o.d.cfg.Records.Update(ctx, next, c.rev)
		}
		return err
	}, cdr.ErrLost, cdr.ErrExists, cdr.ErrTooLarge)
	switch {
	case err == nil:
		c.rec, c.rev = next, rev
		c.talking.Store(next.State == call.Live)
		return true
	case errors.Is(err, cdr.ErrExists):
		c.exists(ctx, err)
	case errors.Is(err, cdr.ErrLost):
		c.lost = err
	case ctx.Err() != nil:
		return c.storedAfterAll(next)
	default:
		c.o.d.cfg.Log.Error().Err(err).Str("call", c.id).Msg("record not stored")
		c.lost = err
	}
	return false
}

// storedAfterAll is for a write whose answer the end of the office has cut off: what was
// stored is told, and nothing new is written.
func (c *caller) storedAfterAll(next call.Record) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	r, rev, err := c.o.d.cfg.Records.Get(ctx, c.id)
	if err != nil {
		return false
	}
	is, err1 := json.Marshal(r)
	meant, err2 := json.Marshal(next)
	if err1 != nil || err2 != nil || !bytes.Equal(is, meant) {
		return false
	}
	c.rec, c.rev = next, rev
	return true
}

// exists is for a message whose call has a record that taking office did not show.
func (c *caller) exists(ctx context.Context, err error) {
	var r call.Record
	var broken *cdr.Broken
	gerr := retry(ctx, func() (err error) {
		r, _, err = c.o.d.cfg.Records.Get(ctx, c.id)
		if broken, _ = errors.AsType[*cdr.Broken](err); broken != nil {
			return nil
		}
		return err
	}, cdr.ErrNotFound)
	switch {
	case broken != nil: // whether the call was made, only a person can find out
		if c.item != nil {
			c.o.park(ctx, c.item, broken)
			c.item, c.seq = nil, 0
		}
		return
	case gerr == nil && !r.State.Terminal():
		// The office before ours wrote it after we had read: begin anew, and find it.
		c.lost = err
		return
	}
	// The call has left the line before, and its message was put, or delivered, once
	// more: there is nothing to do but to take it off.
	c.rec.State = call.State(call.Completed) // ours alone: only so that ack takes it
	c.ack(ctx)
}

// settle does what was decided and strikes it off.
func (c *caller) settle(ctx context.Context, effects []call.Effect) bool {
	if len(effects) == 0 {
		return true
	}
	var done []call.Effect
	for _, e := range effects {
		if c.do(ctx, e) {
			done = append(done, e)
		}
	}
	next := call.Settle(c.rec, c.now(), done...)
	if next.Changes == c.rec.Changes && len(next.Owed) == len(c.rec.Owed) {
		return true
	}
	return c.store(ctx, next)
}

// do carries out one effect and reports whether it is done, or given up after
// tries enough. Every one of them may be done twice.
func (c *caller) do(ctx context.Context, e call.Effect) bool {
	var err error
	switch e.Act {
	case call.Release, call.Requeue:
		// What a call holds follows from its record; the office reads it.
	case call.CancelBot:
		err = c.cancelBot(ctx, e.Attempt)
	case call.Hangup:
		if a := c.rec.Attempt(e.Attempt); a != nil && a.CarrierID != "" {
			err = retryFew(ctx, func() error {
				ctx, cancel := context.WithTimeout(ctx, placeIn)
				defer cancel()
				return c.o.d.cfg.Carrier.Hangup(ctx, a.CarrierID)
			})
		}
	case call.AskRetry:
		if order, why := call.NextTry(c.rec); why == "" {
			err = c.put(ctx, order)
		}
	case call.AskCallback:
		order, ok := call.Callback(c.rec)
		if !ok || !c.rec.Order.CallBack {
			break
		}
		may, known := c.mayCallBack(ctx, order.Person(), order.CallID)
		if !known {
			return false // the next term does it
		}
		if may {
			if err = c.put(ctx, order); err == nil {
				c.emit(events.CallbackRequested, map[string]any{"callback": order.CallID, "not_after": order.NotAfter})
			}
		}
	}
	if err == nil {
		return true
	}
	if ctx.Err() != nil {
		return false // the next term does it
	}
	c.o.d.cfg.Log.Warn().Err(err).Str("call", c.id).Str("act", string(e.Act)).Msg("given up")
	c.o.d.cfg.Emit(Happening{Type: callEffectGivenUp, Order: c.rec.Order, At: c.now(), Detail: map[string]any{"act": string(e.Act), "why": err.Error()}})
	return true
}

// put puts a follow-up call in line; its id follows from this one, so twice is once.
func (c *caller) put(ctx context.Context, order call.Order) error {
	data, err := order.Encode()
	if err != nil {
		return err
	}
	key := queue.Key{Region: order.Region, Class: string(order.Class), Org: order.Org, Call: order.CallID}
	err = retry(ctx, func() error {
		_, err := c.o.d.cfg.Line.Put(ctx, key, data)
		return err
	}, queue.ErrDuplicate, queue.ErrTooLarge, wire.ErrToken)
	if errors.Is(err, queue.ErrDuplicate) {
		return nil
	}
	return err
}

// cancelBot frees the seat of an attempt. A bot that is gone, or does not know the
// call, has freed it already.
func (c *caller) cancelBot(ctx context.Context, attempt string) error {
	a := c.rec.Attempt(attempt)
	if a == nil || a.Bot == "" {
		return nil
	}
	return c.release(ctx, a.Bot, "", string(c.rec.State))
}

// release frees the seat that the call has at a bot; with a claim, only if it has it
// by this one.
func (c *caller) release(ctx context.Context, bot, claimID, why string) error {
	return retryFew(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := pool.Tell(ctx, c.o.d.cfg.NC, bot, wire.VerbRelease, wire.Command{CallID: c.id, ClaimID: claimID, Reason: why})
		if goneBot(err) {
			return nil
		}
		return err
	})
}

// retry repeats what may be repeated until it is done, an error in final comes, or
// ctx ends. The pauses grow to two seconds and are jittered.
func retry(ctx context.Context, do func() error, final ...error) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := do()
		if err == nil {
			return nil
		}
		for _, f := range final {
			if errors.Is(err, f) {
				return err
			}
		}
		if !sleep(ctx, pause) {
			return err
		}
	}
}

// retryFew tries four times.
func retryFew(ctx context.Context, do func() error) (err error) {
	for try, pause := 0, 100*time.Millisecond; try < 4; try, pause = try+1, 3*pause {
		if try > 0 && !sleep(ctx, pause) {
			return err
		}
		if err = do(); err == nil {
			return nil
		}
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
