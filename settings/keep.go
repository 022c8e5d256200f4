package settings

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/api"
	"dibs/wire"
)

// The keys of what admission is told.
const (
	keyOrg      = "org."
	keyCampaign = "campaign."
	keyPlatform = "platform"
)

// kept is one entry that admission is told of; one of the three is set.
type kept struct {
	Org      *api.Org      `json:"org,omitempty"`
	Campaign *api.Campaign `json:"campaign,omitempty"`
	Platform *api.Platform `json:"platform,omitempty"`
	File     string        `json:"file,omitempty"` // hash of what the file last said of it
}

// key is where an entry belongs.
func (k kept) key() string {
	switch {
	case k.Org != nil:
		return keyOrg + k.Org.ID
	case k.Campaign != nil:
		return keyCampaign + k.Campaign.ID
	}
	return keyPlatform
}

func (k kept) check() error {
	switch {
	case k.Org != nil:
		return CheckOrg(*k.Org)
	case k.Campaign != nil:
		return CheckCampaign(*k.Campaign)
	case k.Platform != nil:
		return CheckPlatform(*k.Platform)
	}
	return errors.New("settings: an entry of nothing")
}

// Limits is what admission is told, from memory. Errors: [ErrUnavailable] before the
// bucket was read.
func (s *Store) Limits() (Limits, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.synced {
		return Limits{}, fmt.Errorf("%w: not read yet", ErrUnavailable)
	}
	return limitsOf(s.cap, s.kept), nil
}

func limitsOf(cap int, all map[string]kept) Limits {
	l := Limits{Cap: cap, Orgs: map[string]api.Org{}, Campaigns: map[string]api.Campaign{}}
	for _, k := range all {
		switch {
		case k.Org != nil:
			l.Orgs[k.Org.ID] = *k.Org
		case k.Campaign != nil:
			l.Campaigns[k.Campaign.ID] = *k.Campaign
		case k.Platform != nil:
			l.Platform = *k.Platform
		}
	}
	return l
}

// Watch is told, once for any number of changes, that [Store.Limits] may say
// something else. Give it back with [Store.Unwatch].
func (s *Store) Watch() <-chan struct{} {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, ch)
	return ch
}

// Unwatch ends what [Store.Watch] began.
func (s *Store) Unwatch(ch <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = slices.DeleteFunc(s.watchers, func(c chan struct{}) bool { return c == ch })
}

// keep takes one entry into memory; nil: it is gone. The caller holds mu.
func (s *Store) keep(key string, k *kept) {
	if k == nil {
		delete(s.kept, key)
	} else {
		s.kept[key] = *k
	}
	for _, ch := range s.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// seeLimit takes one change from the bucket into memory. What cannot be read counts
// as not there.
func (s *Store) seeLimit(e jetstream.KeyValueEntry) {
	var k *kept
	if e.Operation() == jetstream.KeyValuePut {
		k = &kept{}
		err := json.Unmarshal(e.Value(), k)
		if err == nil {
			err = k.check()
		}
		if err == nil && k.key() != e.Key() {
			err = errors.New("it stands under the key of another")
		}
		if err != nil {
			s.log.Error().Err(err).Str("key", e.Key()).Msg("a limit cannot be read: it counts as not set")
			k = nil
		}
	}
	s.keep(e.Key(), k)
}

// Refresh reads the whole bucket now. Whoever decides by the settings does it before
// the first decision. Errors: [ErrUnavailable].
func (s *Store) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	st, err := s.js.Stream(ctx, "KV_"+wire.BucketSettings)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	last := st.CachedInfo().State.LastSeq
	w, err := s.kv.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = w.Stop() }()
	there := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return fmt.Errorf("%w: the reading ended early", ErrUnavailable)
			case e != nil:
				there[e.Key()] = true
				s.see(e)
				continue
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for key := range s.kept { // markers of what was deleted may have been tidied away
				if !there[key] && s.revs[key] <= last {
					s.keep(key, nil)
				}
			}
			s.seen, s.synced = max(s.seen, last), true
			return nil
		}
	}
}

// tries is how often a write is tried that others were quicker than.
const tries = 10

// write stores one change if the whole, with it, is valid: the store refuses it when
// anything has changed since the whole was read, and then it is read again.
func (s *Store) write(ctx context.Context, key string, edit func(old *kept) (*kept, error)) (old *kept, err error) {
	for try := range tries {
		s.mu.RLock()
		synced := s.synced
		s.mu.RUnlock()
		if try > 0 || !synced {
			if err := s.Refresh(ctx); err != nil {
				return nil, err
			}
		}
		s.mu.RLock()
		seen, all := s.seen, maps.Clone(s.kept)
		s.mu.RUnlock()
		old = nil
		if k, ok := all[key]; ok {
			old = &k
		}
		to, err := edit(old)
		if err != nil {
			return nil, err
		}
		before := limitsOf(s.cap, all)
		if delete(all, key); to != nil {
			all[key] = *to
		}
		if err := limitsOf(s.cap, all).check(before, key); err != nil {
			return nil, err
		}
		switch _, err := s.publish(ctx, key, to, jetstream.WithExpectLastSequence(seen)); {
		case err == nil:
			return old, nil
		case !overtaken(err):
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return nil, fmt.Errorf("%w: too many change them at once", ErrUnavailable)
}

// publish stores what stands under key from now on, nil: nothing, and returns its
// revision.
func (s *Store) publish(ctx context.Context, key string, to *kept, opts ...jetstream.PublishOpt) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	msg := nats.NewMsg("$KV." + wire.BucketSettings + "." + key)
	if to == nil {
		msg.Header.Set("KV-Operation", "DEL")
	} else {
		data, err := json.Marshal(to)
		if err != nil {
			return 0, err
		}
		msg.Data = data
	}
	ack, err := s.js.PublishMsg(ctx, msg, opts...)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ack.Sequence > s.revs[key] { // the watch may have been quicker, and seen the next one already
		s.keep(key, to)
		s.revs[key] = ack.Sequence
		if ack.Sequence == s.seen+1 {
			s.seen = ack.Sequence
		}
	}
	return ack.Sequence, nil
}

// overtaken reports whether somebody else has written since.
func overtaken(err error) bool {
	var js jetstream.JetStreamError
	if !errors.As(err, &js) || js.APIError() == nil {
		return false
	}
	code := js.APIError().ErrorCode
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// put stores an entry and keeps what the file last said of it: it is not its turn
// again until it changes.
func (s *Store) putLimit(ctx context.Context, k kept) (old *kept, err error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	return s.write(ctx, k.key(), func(old *kept) (*kept, error) {
		if old != nil {
			k.File = old.File
		}
		return &k, nil
	})
}

func (s *Store) deleteLimit(ctx context.Context, key string) (old *kept, err error) {
	return s.write(ctx, key, func(old *kept) (*kept, error) {
		if old == nil {
			return nil, ErrNotFound
		}
		return nil, nil
	})
}

// PutOrg stores an envelope and returns the one before, nil when there was none.
// Errors: an [*Invalid], [ErrUnavailable].
func (s *Store) PutOrg(ctx context.Context, o api.Org) (old *api.Org, err error) {
	k, err := s.putLimit(ctx, kept{Org: &o})
	return cmp.Or(k, &kept{}).Org, err
}

// DeleteOrg takes an envelope away and returns it. Nothing is hung up: the org's
// calls go on and count as those of an org without one. Errors: [ErrNotFound],
// [ErrUnavailable].
func (s *Store) DeleteOrg(ctx context.Context, id string) (old *api.Org, err error) {
	k, err := s.deleteLimit(ctx, keyOrg+id)
	return cmp.Or(k, &kept{}).Org, err
}

// PutCampaign is as [Store.PutOrg].
func (s *Store) PutCampaign(ctx context.Context, c api.Campaign) (old *api.Campaign, err error) {
	k, err := s.putLimit(ctx, kept{Campaign: &c})
	return cmp.Or(k, &kept{}).Campaign, err
}

// DeleteCampaign is as [Store.DeleteOrg]: its calls go without a cap of their own.
func (s *Store) DeleteCampaign(ctx context.Context, id string) (old *api.Campaign, err error) {
	k, err := s.deleteLimit(ctx, keyCampaign+id)
	return cmp.Or(k, &kept{}).Campaign, err
}

// PutPlatform is as [Store.PutOrg].
func (s *Store) PutPlatform(ctx context.Context, p api.Platform) (old *api.Platform, err error) {
	k, err := s.putLimit(ctx, kept{Platform: &p})
	return cmp.Or(k, &kept{}).Platform, err
}
