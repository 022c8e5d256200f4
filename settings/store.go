package settings

import (
	"cmp"
	"context"
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
	Cap      int // of the platform, as long as it says none itself; 0: [DefaultCap]
	Log      zerolog.Logger
}

// Store is the way to the settings. Its methods may be called from any goroutine.
type Store struct {
	js  jetstream.JetStream
	kv  jetstream.KeyValue
	cap int
	log zerolog.Logger

	mu       sync.RWMutex
	numbers  map[string]api.Number // E.164 → its settings
	kept     map[string]kept       // key → what admission is told; whole once synced
	revs     map[string]uint64     // key → its revision that memory holds
	seen     uint64                // revision up to which memory is whole, once synced
	synced   bool
	watchers []chan struct{} // told of changes of kept
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
	return &Store{
		js: js, kv: kv, cap: cmp.Or(cfg.Cap, DefaultCap), log: cfg.Log,
		numbers: map[string]api.Number{}, kept: map[string]kept{}, revs: map[string]uint64{},
	}, nil
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
	w, err := s.kv.WatchAll(ctx)
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
				s.mu.Lock()
				s.synced = true
				s.mu.Unlock()
			default:
				s.see(e)
			}
		}
	}
}

// see takes one change into memory. Two may be reading at once, so what is older
// than what is there is passed over.
func (s *Store) see(e jetstream.KeyValueEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Revision() < s.revs[e.Key()] {
		return
	}
	s.revs[e.Key()], s.seen = e.Revision(), max(s.seen, e.Revision())
	switch k := e.Key(); {
	case strings.HasPrefix(k, keyNumber):
		s.seeNumber(e)
	case strings.HasPrefix(k, keyOrg), strings.HasPrefix(k, keyCampaign), k == keyPlatform:
		s.seeLimit(e)
	} // others are of a later version
}

// seeNumber takes a number's settings into memory.
func (s *Store) seeNumber(e jetstream.KeyValueEntry) {
	number := "+" + strings.TrimPrefix(e.Key(), keyNumber)
	v, err := read(e)
	if err != nil && !errors.Is(err, ErrNotFound) {
		s.log.Error().Err(err).Str("key", keyNumber+"…"+number[max(0, len(number)-2):]).Msg("a number's settings cannot be read: calls to it are refused")
	}
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
	rev, err := s.kv.Put(ctx, key(v.Number.Number), data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := key(v.Number.Number); rev < s.revs[k] {
		return nil
	} else {
		s.revs[k] = rev
	}
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
