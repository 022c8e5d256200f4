package queue

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/wire"
)

const (
	// ackWait is after how long the server delivers again what nobody confirmed;
	// the package comment says why it is so long.
	ackWait = time.Hour
	// auditEvery is how often Run compares what arrived with what was sent.
	auditEvery = 10 * time.Second

	// How much is on its way at once: enough for full speed, little enough for
	// the client's buffers when every order is as long as it may be.
	pullMessages = 5000
	pullBytes    = 16 << 20
	pullBeat     = 5 * time.Second // silence of twice this long means trouble

	consumerPrefix = "dispatcher-"
	holderKey      = "dibs-holder" // in the consumer's metadata, for people
)

// The server's words for "somebody else took office between your two steps".
const (
	codeConsumerExists    = 10148
	codeSecondReader      = 10099
	codeReaderOverlapping = 10100
	codeNotCreated        = 10012 // it was deleted while it was being made
)

// Of two who take office at once each may undo the other's step; it does not go on
// for long.
const (
	takeTries = 200
	takePause = 10 * time.Millisecond
)

// Office is one term as the line's only reader. It ends when another takes
// office, and never begins again.
type Office struct {
	line    *Line
	cons    jetstream.Consumer
	backlog uint64

	more    chan struct{} // something is in fresh
	trouble chan struct{} // look now, not at the next audit

	mu     sync.Mutex
	held   map[uint64]struct{} // stream sequences handed over and not given back
	fresh  []*Item             // received, not handed over yet
	behind uint64              // waiting on the server behind the last of fresh
	seen   uint64              // the last delivery's number
	gap    bool                // a number was left out
	lost   bool

	words map[string]string // one copy of each region, class and org; owned by receive
	sent  uint64            // deliveries the server spoke of at the audit before; owned by Run
}

// TakeOffice ends the term before, whoever held it, and begins a new one: every
// message that has not left the line will be handed over by [Office.Run]. Holder
// says who, for people who look at the consumer; it is a token ([wire.CheckToken]).
//
// Only the elected dispatcher may call it. It gives up when ctx ends, with an
// error that wraps [ErrUnavailable].
func (l *Line) TakeOffice(ctx context.Context, holder string) (*Office, error) {
	if err := wire.CheckToken(holder); err != nil {
		return nil, fmt.Errorf("queue: take office: holder: %w", err)
	}
	if err := l.openParked(ctx); err != nil {
		return nil, fmt.Errorf("queue: take office: %w", err)
	}
	for tries := 1; ; tries++ {
		if err := l.endTerms(ctx); err != nil {
			return nil, fmt.Errorf("queue: take office: %w", err)
		}
		cons, err := l.newConsumer(ctx, holder)
		if err == nil {
			return &Office{
				line: l, cons: cons, backlog: cons.CachedInfo().NumPending,
				more: make(chan struct{}, 1), trouble: make(chan struct{}, 1),
				held: make(map[uint64]struct{}), words: make(map[string]string),
			}, nil
		}
		if !outpaced(err) || tries == takeTries {
			return nil, fmt.Errorf("queue: take office: %w", unavailable(ctx, err))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("queue: take office: %w", unavailable(ctx, ctx.Err()))
		case <-time.After(takePause/2 + rand.N(takePause)):
		}
	}
}

// outpaced reports whether another took office meanwhile; the last one wins, so it
// is tried again.
func outpaced(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && slices.Contains([]jetstream.ErrorCode{codeSecondReader, codeReaderOverlapping, codeConsumerExists, codeNotCreated}, api.ErrorCode)
}

// endTerms deletes the consumer of the term before.
func (l *Line) endTerms(ctx context.Context) error {
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	names := l.stream.ConsumerNames(ctx)
	for name := range names.Name() {
		if !strings.HasPrefix(name, consumerPrefix) {
			return fmt.Errorf("consumer %q of %s is not ours and is in the way", name, wire.StreamLine)
		}
		if err := l.stream.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return unavailable(ctx, err)
		}
	}
	if err := names.Err(); err != nil {
		return unavailable(ctx, err)
	}
	return nil
}

func (l *Line) newConsumer(ctx context.Context, holder string) (jetstream.Consumer, error) {
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	return l.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable:       consumerPrefix + crand.Text(),
		Description:   "the elected dispatcher's, for one term of office",
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		Metadata:      map[string]string{holderKey: holder},
	})
}

// Backlog is how many messages were in line when office was taken.
func (o *Office) Backlog() uint64 { return o.backlog }

// Held is how many items were handed over and not given back yet.
func (o *Office) Held() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.held)
}

// Run reads the line and hands over what it finds, oldest first, in batches;
// behind is how many messages wait on the server behind the batch, so 0 says that
// the line has been read to its end. While deliver runs nothing is handed over,
// but the line is read on.
//
// Run is called once. It returns nil when ctx ends, and an error that wraps
// [ErrLost] when another has taken office or [ErrGap] when something was lost on
// the way; office must then be taken again. It waits through an outage of NATS.
func (o *Office) Run(ctx context.Context, deliver func(items []*Item, behind uint64)) error {
	reading, err := o.cons.Consume(o.receive,
		jetstream.PullMaxMessagesWithBytesLimit(pullMessages, pullBytes),
		jetstream.PullHeartbeat(pullBeat),
		jetstream.ConsumeErrHandler(func(jetstream.ConsumeContext, error) { signal(o.trouble) }))
	if err != nil {
		return fmt.Errorf("queue: read the line: %w", unavailable(ctx, err))
	}
	defer func() {
		reading.Stop()
		<-reading.Closed()
	}()
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.more:
			if items, behind := o.take(); len(items) > 0 {
				deliver(items, behind)
			}
		case <-tick.C:
			err = o.audit(ctx)
		case <-o.trouble:
			err = o.audit(ctx)
		}
		if err != nil {
			return fmt.Errorf("queue: read the line: %w", err)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// receive takes one delivery, on the client's goroutine.
func (o *Office) receive(msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil { // not a delivery
		signal(o.trouble)
		return
	}
	it := &Item{
		Key: o.key(msg.Subject()), Seq: meta.Sequence.Stream, Order: msg.Data(),
		Enqueued: meta.Timestamp, Deliveries: int(meta.NumDelivered),
		office: o, subject: msg.Subject(), reply: msg.Reply(),
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if meta.Sequence.Consumer > o.seen+1 {
		o.gap = true
		signal(o.trouble)
	}
	// In a cluster a new leader of the consumer may count from a little earlier.
	o.seen = meta.Sequence.Consumer
	if _, held := o.held[it.Seq]; held {
		return // AckWait ran out; the caller has it
	}
	o.held[it.Seq] = struct{}{}
	o.fresh = append(o.fresh, it)
	o.behind = meta.NumPending
	signal(o.more)
}

// key is the subject's key with one copy of the words that occur again and again.
func (o *Office) key(subj string) Key {
	k := parseKey(subj)
	for _, w := range []*string{&k.Region, &k.Class, &k.Org} {
		one, ok := o.words[*w]
		if !ok {
			one = strings.Clone(*w)
			o.words[one] = one
		}
		*w = one
	}
	return k
}

func (o *Office) take() ([]*Item, uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	items := o.fresh
	o.fresh = nil
	return items, o.behind
}

// audit finds out whether the office is still ours and whether everything that
// was sent has arrived. A server that does not answer proves nothing.
func (o *Office) audit(ctx context.Context) error {
	ctx, cancel := o.line.deadline(ctx)
	defer cancel()
	info, err := o.cons.Info(ctx)
	if gone(err) {
		return o.lose()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gap {
		return ErrGap
	}
	if err != nil {
		return nil
	}
	// What was sent before the audit before has had ten seconds to arrive.
	if o.sent > o.seen {
		return fmt.Errorf("%w: %d of %d deliveries arrived", ErrGap, o.seen, o.sent)
	}
	o.sent = 0
	if info.Delivered.Consumer > o.seen {
		o.sent = info.Delivered.Consumer
	}
	return nil
}

// lose marks the office as lost; later exchanges need not ask the server.
func (o *Office) lose() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost = true
	return ErrLost
}

func gone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}
