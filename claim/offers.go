package claim

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"dibs/wire"
)

// offers are the queue-group memberships of the idle seats: at most one pair a
// seat, each good for one request. Owned by the goroutine of [Answerer.Run].
type offers struct {
	nc       *nats.Conn
	subjects [2]string                   // pool, region
	asked    func(m *nats.Msg, seat int) // on the subscription's own goroutine
	bySeat   map[int]*pair               // seat → its offers that are out
}

// pair is one seat's two offers.
type pair [2]struct {
	sub  *nats.Subscription
	used *atomic.Bool // it has delivered its one request
}

func newOffers(nc *nats.Conn, region, pool string, asked func(*nats.Msg, int)) (*offers, error) {
	p, err := wire.ClaimPool(region, pool)
	if err != nil {
		return nil, fmt.Errorf("claim: pool: %w", err)
	}
	r, err := wire.ClaimRegion(region)
	if err != nil {
		return nil, fmt.Errorf("claim: region: %w", err)
	}
	return &offers{nc: nc, subjects: [2]string{p, r}, asked: asked, bySeat: map[int]*pair{}}, nil
}

// make offers a seat on both subjects, unless it is.
func (o *offers) make(seat int) error {
	if p := o.bySeat[seat]; p != nil {
		if !p[0].used.Load() && !p[1].used.Load() {
			return nil
		}
		o.withdraw(seat)
	}
	p := &pair{}
	o.bySeat[seat] = p
	for i, subj := range o.subjects {
		used := new(atomic.Bool)
		p[i].used = used
		// Not ChanQueueSubscribe: nats.go 1.55 reads a channel subscription's limit
		// without its lock while AutoUnsubscribe writes it.
		sub, err := o.nc.QueueSubscribe(subj, wire.IdleGroup, func(m *nats.Msg) {
			used.Store(true)
			o.asked(m, seat)
		})
		if err == nil {
			p[i].sub = sub
			err = sub.AutoUnsubscribe(1)
		}
		if err != nil {
			o.withdraw(seat)
			return fmt.Errorf("claim: offer: %w", err)
		}
	}
	return nil
}

// withdraw takes a seat's offers back. Requests that are already on their way
// still arrive and find the seat taken.
func (o *offers) withdraw(seat int) {
	p := o.bySeat[seat]
	if p == nil {
		return
	}
	delete(o.bySeat, seat)
	for i := range p {
		if p[i].sub == nil || p[i].used.Load() {
			continue // never made, or removed by the server and the client already
		}
		if err := p[i].sub.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			_ = p[i].sub.Unsubscribe()
		}
	}
}

// sync makes the offers what they should be: a pair for every idle seat of a bot
// that takes calls, none for the others. It reports whether it could. The other
// offer of a seat that was claimed this very moment is left until the asker has
// had its answer: what withdrawing costs would stand in that answer's way.
func (a *Answerer) sync() bool {
	open, all := a.bot.Closed() == nil, true
	a.states = a.seats.States(a.states[:0])
	for seat, state := range a.states {
		switch {
		case state == wire.SeatIdle && open:
			if err := a.offers.make(seat); err != nil {
				all = false
				a.cfg.Log.Warn().Err(err).Int("seat", seat).Msg("seat not offered")
			}
		case open && (state == wire.SeatClaimed || state == wire.SeatAssigned && a.talking(seat)):
		default:
			a.offers.withdraw(seat)
		}
	}
	return all
}

// talking reports whether the conversation about a seat goes on.
func (a *Answerer) talking(seat int) bool {
	a.mu.Lock()
	t := a.bySeat[seat]
	a.mu.Unlock()
	return t != nil && t.goesOn()
}

// lookAgain has Run look at the offers.
func (a *Answerer) lookAgain() {
	select {
	case a.look <- struct{}{}:
	default:
	}
}
