package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/wire"
)

// StreamParked keeps the messages that the dispatcher could not read, for people:
// the newest 10,000 of the last 30 days.
const StreamParked = "DIBS_PARKED"

const (
	parkedSubject = wire.Prefix + "parked"
	parkedMax     = 10_000
	parkedAge     = 30 * 24 * time.Hour
	// parkedOnce is for how long a repeated park is recognised.
	parkedOnce = time.Hour

	headerSubject  = "Dibs-Subject"
	headerReason   = "Dibs-Reason"
	headerEnqueued = "Dibs-Enqueued"
)

// Parked is a message that was set aside.
type Parked struct {
	ID       uint64 // among the parked
	Subject  string // where it was published
	Reason   string
	Enqueued time.Time
	At       time.Time // when it was set aside
	Order    []byte
}

func (l *Line) openParked(ctx context.Context) error {
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	cfg := jetstream.StreamConfig{
		Name:        StreamParked,
		Description: "messages of the line that the dispatcher could not read",
		Subjects:    []string{parkedSubject},
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardOld,
		MaxMsgs:     parkedMax,
		MaxAge:      parkedAge,
		Duplicates:  parkedOnce,
		AllowDirect: true,
		Replicas:    l.stream.CachedInfo().Config.Replicas,
	}
	if _, err := l.js.CreateOrUpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("%s: %w", StreamParked, unavailable(ctx, err))
	}
	return nil
}

// Park sets the message aside for a person and takes it off the line, in this
// order, so it is never in neither place. It returns what was parked, for the
// event that the caller tells the world.
func (it *Item) Park(ctx context.Context, reason string) (Parked, error) {
	l := it.office.line
	p := Parked{Subject: it.subject, Reason: oneLine(reason), Enqueued: it.Enqueued, At: time.Now(), Order: it.Order}
	pub, cancel := l.deadline(ctx)
	defer cancel()
	m := &nats.Msg{Subject: parkedSubject, Data: it.Order, Header: nats.Header{
		headerSubject:  {p.Subject},
		headerReason:   {p.Reason},
		headerEnqueued: {p.Enqueued.UTC().Format(time.RFC3339Nano)},
	}}
	// The time makes the id unique when the stream is made anew and counts from 1.
	id := fmt.Sprintf("%d-%d", it.Seq, it.Enqueued.UnixNano())
	ack, err := l.js.PublishMsg(pub, m, jetstream.WithMsgID(id))
	if err != nil {
		return Parked{}, fmt.Errorf("queue: park %d: %w", it.Seq, unavailable(pub, err))
	}
	p.ID = ack.Sequence
	return p, it.settle(ctx, "park", "+TERM "+p.Reason)
}

// Parked lists what was set aside, oldest first, like [Line.List].
func (l *Line) Parked(ctx context.Context, limit int, cursor uint64) (parked []Parked, next uint64, err error) {
	if limit < 1 || limit > MaxPage {
		return nil, 0, fmt.Errorf("queue: parked: limit: %d, want 1 to %d", limit, MaxPage)
	}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	found, err := l.batch(ctx, StreamParked, get{Seq: cursor, NextFor: parkedSubject, Batch: limit})
	if errors.Is(err, nats.ErrNoResponders) { // nobody has ever taken office
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("queue: parked: %w", err)
	}
	for _, m := range found.msgs {
		p := Parked{ID: m.Seq, Subject: m.Header.Get(headerSubject), Reason: m.Header.Get(headerReason), At: m.Time, Order: m.Data}
		p.Enqueued, _ = time.Parse(time.RFC3339Nano, m.Header.Get(headerEnqueued))
		parked = append(parked, p)
	}
	if n := len(parked); n > 0 && found.behind > 0 {
		next = parked[n-1].ID + 1
	}
	return parked, next, nil
}

// Unpark puts a parked message back in line, where it was published, when a
// dispatcher that can read it is in office. A call that is in line again already
// is not put twice; that is no error.
func (l *Line) Unpark(ctx context.Context, id uint64) error {
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	st, err := l.js.Stream(ctx, StreamParked)
	if err != nil {
		return fmt.Errorf("queue: unpark %d: %w", id, unavailable(ctx, err))
	}
	m, err := st.GetMsg(ctx, id)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("queue: unpark %d: %w", id, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("queue: unpark %d: %w", id, unavailable(ctx, err))
	}
	if _, err := l.js.Publish(ctx, m.Header.Get(headerSubject), m.Data); err != nil {
		if err := putError(ctx, err); !errors.Is(err, ErrDuplicate) {
			return fmt.Errorf("queue: unpark %d: %w", id, err)
		}
	}
	if err := st.DeleteMsg(ctx, id); err != nil && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return fmt.Errorf("queue: unpark %d: %w", id, unavailable(ctx, err))
	}
	return nil
}
