package cdr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Why something was not done. Every error of this package that the caller may
// branch on wraps one of them.
var (
	// ErrExists: the call has a record already.
	ErrExists = errors.New("the record exists")
	// ErrLost: somebody else has written since; see [LostError].
	ErrLost = errors.New("somebody else has written")
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("no such record")
	// ErrUnavailable: NATS did not answer in time or cannot serve. Whether it was
	// done is not known, and it may yet be; the same write may be tried again.
	ErrUnavailable = errors.New("the records are not available")
	// ErrTooLarge: the record is longer than the bucket takes.
	ErrTooLarge = errors.New("record too large")
)

// maxStored is the most bytes of one entry, headers included; an order may have
// 64 KiB.
const maxStored = 256 << 10

// The server's error codes that mean something here.
const (
	codeWrongLast = 10071 // the last revision is another one
	codeInProcess = 10164 // an earlier write of this key is not finished
	codeNoMessage = 10037 // the server looked and there is none
)

// How writes are repeated.
const (
	tryTimeout = time.Second            // for one answer, before the write is sent again
	firstPause = 2 * time.Millisecond   // before the first repeat
	maxPause   = 250 * time.Millisecond // and at most
)

// markHeader carries the mark by which a writer knows its own write again.
const markHeader = "Dibs-Write"

// bucket is a key-value bucket with the one write that is needed: against the last
// revision of a key or a pattern, with a TTL, repeated until its fate is known.
type bucket struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	name    string
	api     string // prefix of JetStream's own subjects
	timeout time.Duration

	inProcess atomic.Int64 // refusals with 10164, for tests and the curious
}

func openBucket(ctx context.Context, js jetstream.JetStream, name, description string, replicas int, timeout time.Duration) (*bucket, error) {
	if timeout == 0 {
		timeout = defaultTimeout
	}
	b := &bucket{js: js, name: name, timeout: timeout, api: apiPrefix(js)}
	ctx, cancel := b.deadline(ctx)
	defer cancel()
	st, err := openStream(ctx, js, name, description, replicas)
	if err != nil {
		return nil, fmt.Errorf("cdr: open %s: %w", name, err)
	}
	b.stream = st
	return b, nil
}

func (b *bucket) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.timeout, fmt.Errorf("no answer from NATS within %v", b.timeout))
}

func (b *bucket) streamName() string { return "KV_" + b.name }

func (b *bucket) subject(key string) string { return "$KV." + b.name + "." + key }

// entry is what is stored under a key.
type entry struct {
	key    string
	rev    uint64
	time   time.Time
	value  []byte
	header nats.Header
}

// deleted reports whether the entry is a marker that some tool left behind.
func (e entry) deleted() bool {
	return e.header.Get("KV-Operation") != "" || e.header.Get(jetstream.MarkerReasonHeader) != ""
}

// write is one compare-and-set.
type write struct {
	key   string
	scope string // key or pattern whose last revision must be rev
	rev   uint64 // 0: there must be none
	value []byte
	ttl   time.Duration // 0: for ever
	mark  string        // the same for the same write, and for no other
}

// conflict says that the last revision is another writer's; last is the zero entry
// when there is none.
type conflict struct{ last entry }

func (c *conflict) Error() string { return fmt.Sprintf("revision %d is not ours", c.last.rev) }

// put writes until it is known to be stored (the new revision), to be refused (a
// *conflict), or the deadline is over (ErrUnavailable). Sending a write twice is
// safe: once it is stored, the second copy has the wrong revision.
func (b *bucket) put(ctx context.Context, w write) (uint64, error) {
	ctx, cancel := b.deadline(ctx)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		rev, err := b.publish(ctx, w)
		if err == nil {
			return rev, nil
		}
		api, refused := errors.AsType[*jetstream.APIError](err)
		switch {
		case refused && api.ErrorCode == codeInProcess:
			b.inProcess.Add(1)
		case refused && api.ErrorCode == codeWrongLast:
			last, lerr := b.last(ctx, w.scope)
			switch {
			case lerr == nil && last.header.Get(markHeader) == w.mark:
				return last.rev, nil // our own first copy
			case lerr == nil, errors.Is(lerr, ErrNotFound):
				return 0, &conflict{last}
			}
			err = lerr
		case refused && api.Code/100 == 4: // it would be refused again
			return 0, err
		case errors.Is(err, nats.ErrConnectionClosed): // by us
			return 0, unavailable(ctx, err)
		}
		select {
		case <-ctx.Done():
			return 0, unavailable(ctx, err)
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

func (b *bucket) publish(ctx context.Context, w write) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	m := &nats.Msg{Subject: b.subject(w.key), Data: w.value, Header: nats.Header{markHeader: {w.mark}}}
	opts := []jetstream.PublishOpt{jetstream.WithExpectLastSequenceForSubject(w.rev, b.subject(w.scope))}
	if w.ttl > 0 {
		opts = append(opts, jetstream.WithMsgTTL(w.ttl))
	}
	ack, err := b.js.PublishMsg(ctx, m, opts...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// last is the newest entry of a key or pattern, from the leader.
func (b *bucket) last(ctx context.Context, scope string) (entry, error) {
	body, err := json.Marshal(map[string]string{"last_by_subj": b.subject(scope)})
	if err != nil {
		return entry{}, err
	}
	reply, err := b.js.Conn().RequestWithContext(ctx, b.api+"STREAM.MSG.GET."+b.streamName(), body)
	if err != nil {
		return entry{}, unavailable(ctx, err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return entry{}, unavailable(ctx, err)
	}
	if answer.Error != nil && answer.Error.ErrorCode == codeNoMessage {
		return entry{}, ErrNotFound
	}
	if answer.Error != nil {
		return entry{}, unavailable(ctx, answer.Error)
	}
	m := answer.Message
	e := entry{key: b.key(m.Subject), rev: m.Seq, time: m.Time, value: m.Data}
	if len(m.Header) > 0 {
		if e.header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return entry{}, unavailable(ctx, err)
		}
	}
	return e, nil
}

func (b *bucket) key(subject string) string { return strings.TrimPrefix(subject, b.subject("")) }

// remove deletes exactly this revision; it is no error when it is gone already.
func (b *bucket) remove(ctx context.Context, rev uint64) error {
	err := b.stream.DeleteMsg(ctx, rev)
	if err == nil || errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return nil
	}
	return unavailable(ctx, err)
}

// unavailable wraps what went wrong on the way, with the reason of the deadline
// where that was it.
func unavailable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.DeadlineExceeded) {
		err = cause
	}
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// apiPrefix is where JetStream's own subjects of js begin.
func apiPrefix(js jetstream.JetStream) string {
	switch o := js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return jetstream.DefaultAPIPrefix
}
