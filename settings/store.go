package settings

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/wire"
)

// Why something was not done.
var (
	ErrNotFound    = errors.New("no such number")
	ErrUnavailable = errors.New("the settings are not available") // NATS did not answer; whether it was done is not known, doing it again is safe
)

const (
	keyNumber = "number."
	answerIn  = 5 * time.Second // of NATS
)

// Config says how settings are kept.
type Config struct {
	Replicas int // copies: 1, 3 or 5; 0: as they are, 1 for new ones
	Log      zerolog.Logger
}

// Store is the way to the settings. Its methods may be called from any goroutine.
type Store struct {
	kv  jetstream.KeyValue
	log zerolog.Logger

	mu      sync.RWMutex
	numbers map[string]api.Number // E.164 → its settings
}

// stored is one entry of the bucket.
type stored struct {
	Number api.Number `json:"number"`
	File   string     `json:"file,omitempty"` // hash of what the file last said of it
}

// Open finds the bucket and makes it when it does not exist.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Store, error) {
	kv, err := js.KeyValue(ctx, wire.BucketSettings)
	if errors.Is(err, jetstream.ErrBucketNotFound) || err == nil && cfg.Replicas != 0 {
		kv, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: wire.BucketSettings, Description: "what operators may change", History: 5, Replicas: cmp.Or(cfg.Replicas, 1),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("settings: open: %w", err)
	}
	return &Store{kv: kv, log: cfg.Log, numbers: map[string]api.Number{}}, nil
}

// Run keeps the memory true until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.watch(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("settings are not watched; trying again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

func (s *Store) watch(ctx context.Context) error {
	w, err := s.kv.Watch(ctx, keyNumber+"*")
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return errors.New("the watch ended")
			case e == nil: // everything that was there has been seen
			default:
				s.see(e)
			}
		}
	}
}

// see takes one change into memory.
func (s *Store) see(e jetstream.KeyValueEntry) {
	number := "+" + strings.TrimPrefix(e.Key(), keyNumber)
	v, err := read(e)
	if err != nil && !errors.Is(err, ErrNotFound) {
		s.log.Error().Err(err).Str("key", keyNumber+"…"+number[max(0, len(number)-2):]).Msg("a number's settings cannot be read: calls to it are refused")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.numbers, number)
		return
	}
	s.numbers[number] = v.Number
}

// read is an entry as it was stored; [ErrNotFound] when it is a deletion.
func read(e jetstream.KeyValueEntry) (stored, error) {
	if e.Operation() != jetstream.KeyValuePut {
		return stored{}, ErrNotFound
	}
	var v stored
	if err := json.Unmarshal(e.Value(), &v); err != nil {
		return stored{}, fmt.Errorf("not a number's settings: %w", err)
	}
	if key(v.Number.Number) != e.Key() {
		return stored{}, errors.New("the settings of another number")
	}
	return v, Check(v.Number)
}

func key(number string) string { return keyNumber + strings.TrimPrefix(number, "+") }

// Number is the settings of one of our numbers: from memory, or from the bucket when
// it is not there.
// Errors: [ErrNotFound], [ErrUnavailable].
func (s *Store) Number(ctx context.Context, number string) (api.Number, error) {
	s.mu.RLock()
	n, ok := s.numbers[number]
	s.mu.RUnlock()
	if ok {
		return n, nil
	}
	// Rare enough to be asked for: it may have been set a moment ago.
	v, _, err := s.get(ctx, number)
	return v.Number, err
}

// get reads the bucket.
func (s *Store) get(ctx context.Context, number string) (stored, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	e, err := s.kv.Get(ctx, key(number))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrInvalidKey):
		return stored{}, 0, ErrNotFound
	case err != nil:
		return stored{}, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	v, err := read(e)
	return v, e.Revision(), err
}

// Numbers are all our numbers that can be read, in order.
func (s *Store) Numbers(ctx context.Context) ([]api.Number, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	l, err := s.kv.ListKeysFiltered(ctx, keyNumber+"*")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	out := []api.Number{}
	for k := range l.Keys() {
		v, _, err := s.get(ctx, "+"+strings.TrimPrefix(k, keyNumber))
		if errors.Is(err, ErrUnavailable) {
			return nil, err
		}
		if err == nil {
			out = append(out, v.Number)
		}
	}
	slices.SortFunc(out, func(a, b api.Number) int { return strings.Compare(a.Number, b.Number) })
	return out, nil
}

// Put stores a number's settings. Errors: an [*Invalid], [ErrUnavailable].
func (s *Store) Put(ctx context.Context, n api.Number) error {
	if err := Check(n); err != nil {
		return err
	}
	v, _, err := s.get(ctx, n.Number)
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return s.put(ctx, stored{n, v.File}) // what the file said stays: it is not its turn again until it changes
}

func (s *Store) put(ctx context.Context, v stored) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	if _, err := s.kv.Put(ctx, key(v.Number.Number), data); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers[v.Number.Number] = v.Number // whoever put it sees it at once; others within moments
	return nil
}

// Delete forgets a number: calls to it are refused. Errors: [ErrNotFound],
// [ErrUnavailable].
func (s *Store) Delete(ctx context.Context, number string) error {
	if _, _, err := s.get(ctx, number); errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnavailable) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	if err := s.kv.Delete(ctx, key(number)); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.numbers, number)
	return nil
}

// Seed puts what a file says, where the file says something else than the last
// time, and reports how many it put.
func (s *Store) Seed(ctx context.Context, numbers []api.Number) (put int, err error) {
	for _, n := range numbers {
		data, err := json.Marshal(n)
		if err != nil {
			return put, fmt.Errorf("settings: %w", err)
		}
		sum := sha256.Sum256(data)
		hash := hex.EncodeToString(sum[:8])
		v, _, err := s.get(ctx, n.Number)
		switch {
		case errors.Is(err, ErrUnavailable):
			return put, err
		case err == nil && v.File == hash:
			continue
		}
		if err := s.put(ctx, stored{n, hash}); err != nil {
			return put, err
		}
		put++
	}
	return put, nil
}
