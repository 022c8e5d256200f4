package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/api"
	"dibs/call"
	"dibs/carrier"
	"dibs/cdr"
	"dibs/queue"
	"dibs/wire"
)

// Desk is what every backend uses to reach the calls: puts go to the line, reads
// to the records, and what needs the office is asked over NATS. Safe for
// concurrent use.
type Desk struct {
	NC      *nats.Conn
	Line    *queue.Line
	Records *cdr.Store
	// Events reads what happened to a call from a moment on. Nil: nothing is known.
	Events func(ctx context.Context, callID string, from time.Time, limit int) ([]api.TimelineEntry, error)
}

// Put puts one order in line: one publish with an answer, nothing else. Errors
// wrap [api.ErrDuplicate] or [api.ErrUnavailable]; after the latter, put again.
func (d *Desk) Put(ctx context.Context, o call.Order) error {
	data, err := o.Encode()
	if err != nil {
		return err
	}
	if o.RequestHash != "" { // an order that may be a repeat: its call may have left the line
		if _, _, err := d.Records.Get(ctx, o.CallID); err == nil {
			return fmt.Errorf("dispatch: put %s: %w", o.CallID, api.ErrDuplicate)
		} else if !errors.Is(err, cdr.ErrNotFound) {
			return fmt.Errorf("dispatch: put %s: %w: %w", o.CallID, api.ErrUnavailable, err)
		}
	}
	_, err = d.Line.Put(ctx, queue.Key{Region: o.Region, Class: string(o.Class), Org: o.Org, Call: o.CallID}, data)
	switch {
	case errors.Is(err, queue.ErrDuplicate):
		return fmt.Errorf("dispatch: put %s: %w", o.CallID, api.ErrDuplicate)
	case errors.Is(err, queue.ErrUnavailable):
		return fmt.Errorf("dispatch: put %s: %w: %w", o.CallID, api.ErrUnavailable, err)
	}
	return err
}

// Get is the record of a call, or what the line holds of one never tried.
func (d *Desk) Get(ctx context.Context, id string) (call.Record, error) {
	// Twice: a call that leaves the line between the two looks is found by the third.
	for range 2 {
		r, _, err := d.Records.Get(ctx, id)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, cdr.ErrNotFound) {
			return call.Record{}, fmt.Errorf("dispatch: get %s: %w: %w", id, api.ErrUnavailable, err)
		}
		w, err := d.Line.Find(ctx, id)
		if err == nil {
			o, err := call.DecodeOrder(w.Order)
			if err != nil {
				return call.Record{}, fmt.Errorf("dispatch: get %s: %w", id, err)
			}
			return call.New(o, w.Enqueued), nil
		}
		if !errors.Is(err, queue.ErrNotFound) {
			return call.Record{}, fmt.Errorf("dispatch: get %s: %w: %w", id, api.ErrUnavailable, err)
		}
	}
	return call.Record{}, fmt.Errorf("dispatch: get %s: %w", id, api.ErrNotFound)
}

// Cancel stops a call in whatever state it is and returns what became of it.
func (d *Desk) Cancel(ctx context.Context, id, reason string) (call.Record, error) {
	if _, err := d.ask(ctx, askCancel, deskRequest{CallID: id, Reason: reason}); err != nil {
		return call.Record{}, fmt.Errorf("dispatch: cancel %s: %w", id, err)
	}
	return d.Get(ctx, id)
}

// CarrierEvent hands a verified status event to the call it belongs to.
func (d *Desk) CarrierEvent(ctx context.Context, ev carrier.Event) error {
	if _, err := d.ask(ctx, askEvent, deskRequest{Event: &ev}); err != nil {
		if errors.Is(err, api.ErrEnded) {
			return nil // it says nothing new
		}
		return fmt.Errorf("dispatch: event of %s: %w", ev.Attempt, err)
	}
	return nil
}

// Why explains why a call has not gone out; [api.ErrEnded] when it is over.
func (d *Desk) Why(ctx context.Context, id string) (api.Why, error) {
	r, err := d.ask(ctx, askWhy, deskRequest{CallID: id})
	if err != nil {
		return api.Why{}, fmt.Errorf("dispatch: why %s: %w", id, err)
	}
	if r.Why == nil {
		return api.Why{}, fmt.Errorf("dispatch: why %s: %w: the desk said nothing", id, api.ErrUnavailable)
	}
	return *r.Why, nil
}

// Timeline is what happened to a call, oldest first.
func (d *Desk) Timeline(ctx context.Context, id string, limit int) ([]api.TimelineEntry, error) {
	if d.Events == nil {
		return nil, nil
	}
	r, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	from := r.Order.QueuedAt
	if !from.IsZero() {
		from = from.Add(-time.Minute) // two clocks
	}
	return d.Events(ctx, id, from, limit)
}

// ask asks the office, and again while it is just changing hands, until ctx ends
// or 5 s are over.
func (d *Desk) ask(ctx context.Context, question string, req deskRequest) (deskReply, error) {
	subj, err := wire.Desk(question)
	if err != nil {
		return deskReply{}, err
	}
	data, err := json.Marshal(req)
	if err != nil {
		return deskReply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		r, err := d.askOnce(ctx, subj, data)
		if !errors.Is(err, api.ErrUnavailable) || !sleep(ctx, pause) {
			return r, err
		}
	}
}

func (d *Desk) askOnce(ctx context.Context, subj string, data []byte) (r deskReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return d.askFor(ctx, subj, data)
}

// askFor asks once, for as long as ctx lasts, and reads the answer.
func (d *Desk) askFor(ctx context.Context, subj string, data []byte) (r deskReply, err error) {
	return read(d.NC.RequestWithContext(ctx, subj, data))
}

// read is the desk's answer, or what its absence means.
func read(m *nats.Msg, err error) (r deskReply, _ error) {
	if err != nil {
		return r, fmt.Errorf("%w: nobody in office answers: %w", api.ErrUnavailable, err)
	}
	if len(m.Data) > wire.MaxMessage || json.Unmarshal(m.Data, &r) != nil {
		return r, fmt.Errorf("%w: the desk's answer cannot be read", api.ErrUnavailable)
	}
	switch r.Code {
	case deskOK:
		return r, nil
	case deskNotFound:
		return r, api.ErrNotFound
	case deskEnded:
		return r, api.ErrEnded
	case deskMalformed:
		return r, fmt.Errorf("the desk could not read the question: %s", r.Detail)
	}
	return r, fmt.Errorf("%w: %s", api.ErrUnavailable, r.Detail)
}
