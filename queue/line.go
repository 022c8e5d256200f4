package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/wire"
)

// Why something was not done. Every error of this package that the caller may
// branch on wraps one of them.
var (
	// ErrDuplicate: this call is in line already. For a repeated put that is good news.
	ErrDuplicate = errors.New("the call is in line already")
	// ErrTooLarge: the order is longer than [wire.MaxMessage].
	ErrTooLarge = errors.New("order too large")
	// ErrUnavailable: NATS did not answer in time or cannot serve. Whether it was
	// done is not known, and it may yet be: while the connection is away the client
	// keeps what it is told to send. Doing it again is safe.
	ErrUnavailable = errors.New("the line is not available")
	// ErrNotFound: no such message is in line (any more).
	ErrNotFound = errors.New("not in line")
	// ErrLost: another has taken office, or the stream is gone.
	ErrLost = errors.New("office lost")
	// ErrGap: something was sent to this office and did not arrive. Take office again.
	ErrGap = errors.New("messages were lost on the way")
)

// Key is one call's place: the four tokens of its subject.
type Key struct {
	Region, Class, Org, Call string
}

// Subject is where the call waits. The error names the token that cannot be one.
func (k Key) Subject() (string, error) {
	subj, err := wire.Line(k.Region, k.Class, k.Org, k.Call)
	if err != nil {
		return "", fmt.Errorf("queue: key %+v: %w", k, err)
	}
	return subj, nil
}

// parseKey is the inverse of [Key.Subject]; the zero key when somebody published
// on a subject that Subject would not make.
func parseKey(subj string) Key {
	region, class, org, call, ok := wire.ParseLine(subj)
	if !ok {
		return Key{}
	}
	for _, token := range []string{region, class, org, call} {
		if wire.CheckToken(token) != nil {
			return Key{}
		}
	}
	return Key{region, class, org, call}
}

// Line is the putter's, the reader's and the operator's way to the line. Its
// methods may be called from any goroutine.
type Line struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	cfg    Config
	api    string // prefix of JetStream's own subjects
}

// Open finds the line and makes it when it does not exist. A stream of its name
// with other settings is refused with a [*SettingError]; it is never changed,
// except for Replicas where cfg asks for a number.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Line, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	l := &Line{js: js, cfg: cfg, api: apiPrefix(js)}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	st, err := open(ctx, js, cfg)
	if err != nil {
		return nil, fmt.Errorf("queue: open %s: %w", wire.StreamLine, err)
	}
	l.stream = st
	return l, nil
}

func (l *Line) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.cfg.Timeout, fmt.Errorf("no answer from NATS within %v", l.cfg.Timeout))
}

// Receipt is the line's answer to a put.
type Receipt struct {
	Seq uint64 // of the message; goes up, and no two messages ever have the same
}

// Put puts one order in line. The order is opaque here; the dispatcher expects a
// JSON object of at most [wire.MaxMessage] bytes and parks anything else.
//
// Errors wrap [ErrDuplicate] (nothing was changed), [ErrTooLarge], [wire.ErrToken]
// or [ErrUnavailable]. After the last, put it again: as long as the first one waits
// the answer is ErrDuplicate, which then means that it is stored.
func (l *Line) Put(ctx context.Context, k Key, order []byte) (Receipt, error) {
	subj, err := k.Subject()
	if err != nil {
		return Receipt{}, err
	}
	if len(order) > wire.MaxMessage {
		return Receipt{}, fmt.Errorf("queue: put %s: %w: %d bytes, at most %d", k.Call, ErrTooLarge, len(order), wire.MaxMessage)
	}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	ack, err := l.js.Publish(ctx, subj, order)
	if err != nil {
		return Receipt{}, fmt.Errorf("queue: put %s: %w", k.Call, putError(ctx, err))
	}
	return Receipt{Seq: ack.Sequence}, nil
}

// The server's error codes that mean something here.
const (
	codeStoreFailed = 10077 // for many reasons; which one stands in the description
	codeTooLarge    = 10054
)

// perSubject is how the server describes the one refusal that is a duplicate. The
// code alone does not say so: a full disk has the same.
const perSubject = "maximum messages per subject"

func putError(ctx context.Context, err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch {
		case api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, perSubject):
			return ErrDuplicate
		case api.ErrorCode == codeTooLarge:
			return fmt.Errorf("%w: %w", ErrTooLarge, err)
		}
	}
	return unavailable(ctx, err)
}

// unavailable wraps what went wrong on the way, with the reason of the deadline
// where that was it.
func unavailable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.DeadlineExceeded) {
		err = cause
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Cancel takes a call off the line and reports whether it was there. It may be
// repeated. The dispatcher that holds the call is not told: whoever cancels asks
// the dispatcher, and comes here when there is none.
func (l *Line) Cancel(ctx context.Context, k Key) (bool, error) {
	subj, err := k.Subject()
	if err != nil {
		return false, err
	}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	m, err := l.leader(ctx, get{LastFor: subj})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("queue: cancel %s: %w", k.Call, err)
	}
	// By sequence: purging a subject looks through the whole stream, and would take
	// a message that was put after the look.
	return l.CancelSeq(ctx, m.Seq)
}

// CancelSeq is [Line.Cancel] for whoever knows the message's number.
func (l *Line) CancelSeq(ctx context.Context, seq uint64) (bool, error) {
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	err := l.stream.DeleteMsg(ctx, seq)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		if _, gone := l.leader(ctx, get{Seq: seq}); errors.Is(gone, ErrNotFound) {
			return false, nil
		}
	}
	return false, fmt.Errorf("queue: cancel %d: %w", seq, unavailable(ctx, err))
}

// Place is where a call stands by age alone. Who goes next is not decided by age:
// ask the dispatcher.
type Place struct {
	Seq      uint64
	Enqueued time.Time
	Ahead    uint64 // messages that were put earlier and still wait
	Waiting  uint64 // messages in line, this one included
}

// Position finds a call in line; [ErrNotFound] when it is not there.
func (l *Line) Position(ctx context.Context, k Key) (Place, error) {
	subj, err := k.Subject()
	if err != nil {
		return Place{}, err
	}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	m, err := l.leader(ctx, get{LastFor: subj})
	if err != nil {
		return Place{}, fmt.Errorf("queue: position of %s: %w", k.Call, err)
	}
	all, err := l.Count(ctx, Filter{})
	if err != nil {
		return Place{}, err
	}
	from, err := l.batch(ctx, wire.StreamLine, get{Seq: m.Seq, NextFor: wire.LineAll(), Batch: 1})
	if err != nil {
		return Place{}, fmt.Errorf("queue: position of %s: %w", k.Call, err)
	}
	p := Place{Seq: m.Seq, Enqueued: m.Time, Waiting: all.Waiting}
	if later := uint64(len(from.msgs)) + from.behind; p.Waiting > later {
		p.Ahead = p.Waiting - later
	}
	return p, nil
}
