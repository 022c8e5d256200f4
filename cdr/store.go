package cdr

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
	"dibs/wire"
)

// Rev is the number of one write. It goes up with every write to the bucket; 0 is
// no write.
type Rev uint64

// LostError says that a record was not written because of somebody else's write.
// It is an [ErrExists] from Create and an [ErrLost] from Update.
type LostError struct {
	CallID  string
	Current Rev // the last revision now; 0: there is no record any more
	err     error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("call %s: %v, revision %d", e.CallID, e.err, e.Current)
}

func (e *LostError) Unwrap() error { return e.err }

// Broken is a record that cannot be read.
type Broken struct {
	Key string // in the bucket
	Rev Rev
	Err error
}

func (b *Broken) Error() string {
	return fmt.Sprintf("record %s, revision %d: %v", b.Key, b.Rev, b.Err)
}

func (b *Broken) Unwrap() error { return b.Err }

// The two places of a record.
const (
	keyOpen = "open."
	keyDone = "done."
	keyBoth = "*."
)

// place is the key under which a record in its present state lies.
func place(r call.Record) string {
	if r.State.Terminal() && len(r.Owed) == 0 {
		return keyDone + r.Order.CallID
	}
	return keyOpen + r.Order.CallID
}

// Store is the way to the records. Its methods may be called from any goroutine.
type Store struct {
	bucket    *bucket
	retention time.Duration
	writer    string // in every mark: two stores never take each other's write for their own
}

// Open finds the bucket and makes it when it does not exist. A bucket of its name
// with other settings is refused with a [*SettingError].
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Retention == 0 {
		cfg.Retention = defaultRetention
	}
	b, err := openBucket(ctx, js, wire.BucketCalls, "one record per call", cfg.Replicas, cfg.Timeout)
	if err != nil {
		return nil, err
	}
	return &Store{bucket: b, retention: cfg.Retention, writer: rand.Text()}, nil
}

// Create stores the first revision of a call's record. Errors: [ErrExists] as a
// [*LostError] when the call has a record, ended or not; [ErrTooLarge];
// [ErrUnavailable]; or what [call.Record.Check] says.
func (s *Store) Create(ctx context.Context, r call.Record) (Rev, error) {
	rev, err := s.store(ctx, r, 0)
	var c *conflict
	if errors.As(err, &c) && c.last.deleted() { // somebody's tool left a marker
		rev, err = s.store(ctx, r, Rev(c.last.rev))
	}
	return rev, s.explain("create", r, err, ErrExists)
}

// Update stores the next revision of a record; rev is what the caller's own last
// write of it returned, or what [Store.Load] gave: never what a look in between
// showed. Errors: [ErrLost] as a [*LostError], the call is somebody else's now;
// [ErrTooLarge]; [ErrUnavailable], in which case the same record may be tried again
// with the same rev; or what [call.Record.Check] says.
func (s *Store) Update(ctx context.Context, r call.Record, rev Rev) (Rev, error) {
	if rev == 0 {
		return 0, fmt.Errorf("cdr: update call %s: revision 0 is no write", r.Order.CallID)
	}
	next, err := s.store(ctx, r, rev)
	return next, s.explain("update", r, err, ErrLost)
}

func (s *Store) store(ctx context.Context, r call.Record, rev Rev) (Rev, error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	value, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	w := write{key: place(r), scope: keyBoth + r.Order.CallID, rev: uint64(rev), value: value}
	w.mark = s.mark(w)
	if len(value)+len(w.mark)+512 > maxStored {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(value), maxStored-512)
	}
	if strings.HasPrefix(w.key, keyDone) {
		w.ttl = s.retention
	}
	next, err := s.bucket.put(ctx, w)
	if err == nil && rev != 0 && (w.ttl > 0 || r.State.Terminal()) {
		// It may have moved. The message it supersedes says so by its number, so
		// losing this delete costs only the room; Load does it then.
		_ = s.remove(ctx, rev)
	}
	return Rev(next), err
}

// mark names a write by who, on what, and what, so that the same one tried again
// by the caller is known again too.
func (s *Store) mark(w write) string {
	h := fnv.New64a()
	_, _ = h.Write(w.value)
	return fmt.Sprintf("%s-%d-%x", s.writer, w.rev, h.Sum64())
}

func (s *Store) remove(ctx context.Context, rev Rev) error {
	ctx, cancel := s.bucket.deadline(ctx)
	defer cancel()
	return s.bucket.remove(ctx, uint64(rev))
}

func (s *Store) explain(op string, r call.Record, err, lost error) error {
	if err == nil {
		return nil
	}
	if c, ok := errors.AsType[*conflict](err); ok {
		err = &LostError{CallID: r.Order.CallID, Current: Rev(c.last.rev), err: lost}
		return fmt.Errorf("cdr: %s: %w", op, err)
	}
	return fmt.Errorf("cdr: %s call %s: %w", op, r.Order.CallID, err)
}

// Get reads one record, wherever it lies. Errors: [ErrNotFound], a [*Broken], or
// [ErrUnavailable].
func (s *Store) Get(ctx context.Context, callID string) (call.Record, Rev, error) {
	if err := wire.CheckToken(callID); err != nil {
		return call.Record{}, 0, fmt.Errorf("cdr: get: call id: %w", err)
	}
	ctx, cancel := s.bucket.deadline(ctx)
	defer cancel()
	e, err := s.bucket.last(ctx, keyBoth+callID)
	if err == nil && e.deleted() {
		err = ErrNotFound
	}
	if err != nil {
		return call.Record{}, 0, fmt.Errorf("cdr: get call %s: %w", callID, err)
	}
	r, broken := read(e)
	if broken != nil {
		return call.Record{}, 0, fmt.Errorf("cdr: get call %s: %w", callID, broken)
	}
	return r, Rev(e.rev), nil
}

// read decodes an entry and checks that it is the record of its key.
func read(e entry) (call.Record, *Broken) {
	var r call.Record
	err := json.Unmarshal(e.value, &r)
	if err == nil {
		err = r.Check()
	}
	if _, id, _ := strings.Cut(e.key, "."); err == nil && r.Order.CallID != id {
		err = fmt.Errorf("is the record of call %s", r.Order.CallID)
	}
	if err != nil {
		return call.Record{}, &Broken{Key: e.key, Rev: Rev(e.rev), Err: err}
	}
	return r, nil
}
