package events

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Why something was not done.
var (
	// ErrInvalid: the event cannot be published as it is; the error names the field.
	ErrInvalid = errors.New("invalid event")
	// ErrUnavailable: NATS did not answer in time or cannot serve. Whether the event
	// is stored is not known; publishing it again with its id is safe.
	ErrUnavailable = errors.New("the events are not available")
)

// How emitted events are published.
const (
	// workers publish at the same time; each has the subjects whose hash is its own, so
	// that what happened to one call is stored in order.
	workers    = 8
	firstPause = 50 * time.Millisecond // before an event is tried again
	maxPause   = 2 * time.Second
	// leaving is for how long Run publishes what it has when its context has ended.
	leaving = 5 * time.Second
)

// Log is the way to the events. Its methods may be called from any goroutine.
type Log struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	cfg    Config

	buffers [workers]chan Event

	emitted, published, dropped, refused atomic.Uint64
}

// Stats count what became of emitted events since the start.
type Stats struct {
	Emitted   uint64 // taken or dropped
	Published uint64 // stored
	Dropped   uint64 // the buffer was full, or the process ended before it was stored
	Refused   uint64 // invalid
	Waiting   int    // in the buffers now
}

// Open finds the stream and makes it when it does not exist. A stream of its name
// that is something else is refused with a [*SettingError].
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &Log{js: js, cfg: cfg.withDefaults()}
	for i := range l.buffers {
		l.buffers[i] = make(chan Event, l.cfg.Buffer/workers)
	}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	st, err := openStream(ctx, js, cfg)
	if err != nil {
		return nil, fmt.Errorf("events: open: %w", err)
	}
	l.stream = st
	return l, nil
}

func (l *Log) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.cfg.Timeout, fmt.Errorf("no answer from NATS within %v", l.cfg.Timeout))
}

// complete fills in what the caller left out.
func (l *Log) complete(e Event) Event {
	if e.ID == "" {
		e.ID = rand.Text()
	}
	if e.Source == "" {
		e.Source = l.cfg.Source
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	return e
}

// Publish stores one event. Give it an ID when it may have to be repeated. Errors:
// [ErrInvalid] or [ErrUnavailable].
func (l *Log) Publish(ctx context.Context, e Event) error {
	if err := e.Check(); err != nil {
		return fmt.Errorf("events: publish: %w: %w", ErrInvalid, err)
	}
	if err := l.publish(ctx, l.complete(e)); err != nil {
		return fmt.Errorf("events: publish %s: %w", e.Type, err)
	}
	return nil
}

func (l *Log) publish(ctx context.Context, e Event) error {
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	_, err := l.js.PublishMsg(ctx, e.message(), jetstream.WithMsgID(e.ID))
	if err == nil {
		return nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.Code/100 == 4 || errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: %w", ErrInvalid, err) // it would be refused again
	}
	return unavailable(ctx, err)
}

// Emit takes an event to be published by [Log.Run], and never waits. It reports
// whether it was taken: false when its buffer is full or it is invalid, which is
// counted. The data must not be changed afterwards.
func (l *Log) Emit(e Event) bool {
	l.emitted.Add(1)
	if e.Check() != nil {
		l.refused.Add(1)
		return false
	}
	e = l.complete(e) // now is when it happened
	select {
	case l.buffers[hash(e.Subject)%workers] <- e:
		return true
	default:
		l.dropped.Add(1)
		return false
	}
}

// Run publishes what is emitted until ctx ends, and then what is left for at most
// five seconds. It returns nil; what could not be stored is counted as dropped.
func (l *Log) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, buffer := range l.buffers {
		wg.Go(func() { l.work(ctx, buffer) })
	}
	wg.Wait()
	return nil
}

func (l *Log) work(ctx context.Context, buffer chan Event) {
	// The end of ctx comes later for what was taken before it.
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(leaving, cancel) })()
	for {
		select {
		case e := <-buffer:
			l.store(late, e)
			continue
		default:
		}
		select {
		case e := <-buffer:
			l.store(late, e)
		case <-ctx.Done():
			return
		}
	}
}

// store publishes one event, again and again until it is stored or ctx ends.
func (l *Log) store(ctx context.Context, e Event) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := l.publish(ctx, e)
		switch {
		case err == nil:
			l.published.Add(1)
			return
		case errors.Is(err, ErrInvalid):
			l.refused.Add(1)
			return
		}
		select {
		case <-ctx.Done():
			l.dropped.Add(1)
			return
		case <-time.After(pause):
		}
	}
}

// Stats counts what became of emitted events.
func (l *Log) Stats() Stats {
	s := Stats{
		Emitted: l.emitted.Load(), Published: l.published.Load(),
		Dropped: l.dropped.Load(), Refused: l.refused.Load(),
	}
	for _, b := range l.buffers {
		s.Waiting += len(b)
	}
	return s
}

// unavailable wraps what went wrong on the way, with the reason of the deadline
// where that was it.
func unavailable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.DeadlineExceeded) {
		err = cause
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
