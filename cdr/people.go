package cdr

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
	"dibs/wire"
)

// ErrHeld: somebody else has the person; see [HeldError].
var ErrHeld = errors.New("the person is taken")

// ErrNotHeld: the lock is not the owner's (any more).
var ErrNotHeld = errors.New("the lock is not ours")

// HeldError says who has the person. It is an [ErrHeld].
type HeldError struct {
	Owner string // an attempt's id
}

func (e *HeldError) Error() string { return ErrHeld.Error() + ": by " + e.Owner }

func (e *HeldError) Unwrap() error { return ErrHeld }

// People are the locks on persons: at most one owner has a person of an org. Its
// methods may be called from any goroutine.
//
// The owner is the attempt, so taking a lock again is harmless, also after the
// answer to the first time was lost. A lock that is not refreshed goes by itself,
// by the server's clock.
type People struct {
	bucket *bucket
	ttl    time.Duration
	secret []byte
}

// OpenPeople finds the bucket and makes it when it does not exist. A bucket of its
// name with other settings is refused with a [*SettingError].
func OpenPeople(ctx context.Context, js jetstream.JetStream, cfg PeopleConfig) (*People, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultLockTTL
	}
	b, err := openBucket(ctx, js, wire.BucketPeople, "one key per person on the phone", cfg.Replicas, cfg.Timeout)
	if err != nil {
		return nil, err
	}
	return &People{bucket: b, ttl: cfg.TTL, secret: cfg.Secret}, nil
}

// TTL is how long a lock lives without a refresh; refresh it three times as often.
func (p *People) TTL() time.Duration { return p.ttl }

// key stands for a person: the org in clear, the number not.
func (p *People) key(who call.Person) (string, error) {
	if err := wire.CheckToken(who.Org); err != nil {
		return "", fmt.Errorf("org: %w", err)
	}
	if !call.E164(who.Number) {
		return "", errors.New("number: want E.164")
	}
	h := hmac.New(sha256.New, p.secret)
	_, _ = h.Write([]byte(who.Org + "\x00" + who.Number))
	return who.Org + "." + hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Lock takes the person for owner, or keeps it when owner has it, for TTL from now
// on. Errors: [ErrHeld] as a [*HeldError], or [ErrUnavailable]: try again.
func (p *People) Lock(ctx context.Context, who call.Person, owner string) error {
	if err := wire.CheckToken(owner); err != nil {
		return fmt.Errorf("cdr: lock: owner: %w", err)
	}
	key, err := p.key(who)
	if err != nil {
		return fmt.Errorf("cdr: lock: %w", err)
	}
	// What is there may change while we look; it does not do so for long.
	for rev, tries := uint64(0), 0; ; tries++ {
		err = p.put(ctx, key, owner, rev)
		c, lost := errors.AsType[*conflict](err)
		if !lost {
			break
		}
		holder := string(c.last.value)
		if c.last.rev != 0 && !c.last.deleted() && holder != owner || tries == 10 {
			err = &HeldError{Owner: holder}
			break
		}
		rev = c.last.rev // ours, or nobody's
	}
	if err != nil {
		return fmt.Errorf("cdr: lock for %s: %w", owner, err)
	}
	return nil
}

func (p *People) put(ctx context.Context, key, owner string, rev uint64) error {
	_, err := p.bucket.put(ctx, write{
		key: key, scope: key, rev: rev, value: []byte(owner), ttl: p.ttl, mark: rand.Text(),
	})
	return err
}

// Refresh keeps the lock for TTL from now on. Errors: [ErrNotHeld] when it ran out or
// is another's, or [ErrUnavailable].
func (p *People) Refresh(ctx context.Context, who call.Person, owner string) error {
	key, last, err := p.last(ctx, who)
	if err == nil && string(last.value) != owner {
		err = ErrNotHeld
	}
	if err == nil {
		// A put, because nothing else renews a key's time.
		err = p.put(ctx, key, owner, last.rev)
		if c, lost := errors.AsType[*conflict](err); lost {
			if err = nil; string(c.last.value) != owner { // else: refreshed by another goroutine of ours
				err = ErrNotHeld
			}
		}
	}
	if err != nil {
		return fmt.Errorf("cdr: refresh the lock of %s: %w", owner, err)
	}
	return nil
}

// Unlock gives the person back. It is no error when the lock ran out; a lock of
// another owner is left alone.
func (p *People) Unlock(ctx context.Context, who call.Person, owner string) error {
	_, last, err := p.last(ctx, who)
	if errors.Is(err, ErrNotHeld) || err == nil && string(last.value) != owner {
		return nil
	}
	if err == nil {
		// By number: whoever has the person next is not touched by it.
		ctx, cancel := p.bucket.deadline(ctx)
		defer cancel()
		err = p.bucket.remove(ctx, last.rev)
	}
	if err != nil {
		return fmt.Errorf("cdr: unlock for %s: %w", owner, err)
	}
	return nil
}

// Holder is who has the person; "" for nobody.
func (p *People) Holder(ctx context.Context, who call.Person) (string, error) {
	_, last, err := p.last(ctx, who)
	if errors.Is(err, ErrNotHeld) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cdr: holder of a lock: %w", err)
	}
	return string(last.value), nil
}

// last is the lock on a person; ErrNotHeld when there is none.
func (p *People) last(ctx context.Context, who call.Person) (key string, e entry, err error) {
	if key, err = p.key(who); err != nil {
		return "", entry{}, err
	}
	ctx, cancel := p.bucket.deadline(ctx)
	defer cancel()
	if e, err = p.bucket.last(ctx, key); errors.Is(err, ErrNotFound) || err == nil && e.deleted() {
		err = ErrNotHeld
	}
	return key, e, err
}
