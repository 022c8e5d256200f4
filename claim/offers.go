package claim

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"dibs/wire"
)

// offers are the queue-group memberships of the idle seats: at most one pair a
// seat, each good for one request. Owned by the goroutine of [Answerer.Run].
type offers struct {
	nc       *nats.Conn
	subjects [2]string // pool, region
	asks     chan *nats.Msg
	bySeat   map[int]*pair // seat → its offers that are out
	bySub    map[*nats.Subscription]int
}

type pair [2]*nats.Subscription

func newOffers(nc *nats.Conn, region, pool string, asks chan *nats.Msg) (*offers, error) {
	p, err := wire.ClaimPool(region, pool)
	if err != nil {
		return nil, fmt.Errorf("claim: pool: %w", err)
	}
	r, err := wire.ClaimRegion(region)
	if err != nil {
		return nil, fmt.Errorf("claim: region: %w", err)
	}
	return &offers{nc: nc, subjects: [2]string{p, r}, asks: asks, bySeat: map[int]*pair{}, bySub: map[*nats.Subscription]int{}}, nil
}

// make offers a seat on both subjects.
func (o *offers) make(seat int) error {
	if o.bySeat[seat] != nil {
		return nil
	}
	p := &pair{}
	o.bySeat[seat] = p
	for i, subj := range o.subjects {
		sub, err := o.nc.ChanQueueSubscribe(subj, wire.IdleGroup, o.asks)
		if err == nil {
			p[i] = sub
			o.bySub[sub] = seat
			err = sub.AutoUnsubscribe(1)
		}
		if err != nil {
			o.withdraw(seat)
			return fmt.Errorf("claim: offer: %w", err)
		}
	}
	return nil
}

// used notes that an offer has delivered its one request and says whose it was;
// -1 when it was withdrawn before.
func (o *offers) used(sub *nats.Subscription) int {
	seat, ok := o.bySub[sub]
	if !ok {
		return -1
	}
	delete(o.bySub, sub)
	_ = sub.Unsubscribe() // the server has removed it; this frees the client's side
	p := o.bySeat[seat]
	for i := range p {
		if p[i] == sub {
			p[i] = nil
		}
	}
	return seat
}

// withdraw takes a seat's offers back. Requests that are already on their way
// still arrive and find the seat taken.
func (o *offers) withdraw(seat int) {
	p := o.bySeat[seat]
	if p == nil {
		return
	}
	delete(o.bySeat, seat)
	for _, sub := range p {
		if sub == nil {
			continue
		}
		delete(o.bySub, sub)
		if err := sub.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			_ = sub.Unsubscribe()
		}
	}
}

// complete reports whether both of a seat's offers are out.
func (o *offers) complete(seat int) bool {
	p := o.bySeat[seat]
	return p != nil && p[0] != nil && p[1] != nil
}
