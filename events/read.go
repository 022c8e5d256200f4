package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/wire"
)

// MaxPage is the most events that are read at once.
const MaxPage = 1000

// Page is a part of what happened, oldest first.
type Page struct {
	Events []Event
	Next   uint64 // cursor of what follows, also when nothing does yet
}

// Timeline reads what happened to one call (or bot, or whatever the subject of
// events is), oldest first: at most limit events (1 to [MaxPage]; 0 means 200), from
// the moment from on. Give the moment when the call was made: with the zero time
// everything that is kept has to be looked through.
func (l *Log) Timeline(ctx context.Context, subject string, from time.Time, limit int) ([]Event, error) {
	if err := wire.CheckToken(subject); err != nil {
		return nil, fmt.Errorf("events: timeline: subject: %w", err)
	}
	if limit == 0 {
		limit = 200
	}
	q := query{from: from, limit: limit, batch: maxFetch}
	for tokens := range maxTokens {
		q.subjects = append(q.subjects, prefix+strings.Repeat("*.", tokens+1)+shard(subject))
	}
	var found []Event
	err := l.read(ctx, q, func(e Event) bool {
		if e.Subject == subject {
			found = append(found, e)
		}
		return len(found) < limit
	})
	if err != nil {
		return nil, fmt.Errorf("events: timeline of %s: %w", subject, err)
	}
	return found, nil
}

// Since reads what happened from a moment on, or, with a cursor that is not 0, what
// follows it: at most limit events (1 to [MaxPage]; 0 means 200). Types choose
// types ("call.ended") and families of them ("call"); none means all.
func (l *Log) Since(ctx context.Context, from time.Time, types []string, cursor uint64, limit int) (Page, error) {
	subjects, err := families(types)
	if err != nil {
		return Page{}, fmt.Errorf("events: since: %w", err)
	}
	if limit == 0 {
		limit = 200
	}
	p := Page{Next: cursor}
	q := query{subjects: subjects, from: from, cursor: cursor, limit: limit, batch: min(limit, maxFetch)}
	err = l.read(ctx, q, func(e Event) bool {
		p.Events = append(p.Events, e)
		p.Next = e.Seq
		return len(p.Events) < limit
	})
	if err != nil {
		return Page{}, fmt.Errorf("events: since: %w", err)
	}
	return p, nil
}

// pullBeat: a server that says nothing for twice as long has lost our pull.
const pullBeat = 5 * time.Second

// Follow hands over what happens after the cursor, and with cursor 0 from now on,
// until ctx ends, and then returns nil. It waits through an outage of NATS. Types are
// as in [Log.Since]. f is called by one goroutine.
func (l *Log) Follow(ctx context.Context, types []string, cursor uint64, f func(Event)) error {
	subjects, err := families(types)
	if err != nil {
		return fmt.Errorf("events: follow: %w", err)
	}
	begin, cancel := l.deadline(ctx)
	defer cancel()
	if cursor == 0 {
		// A place in the log, and not "what is new": that begins anew after an outage, and
		// what came just before it would be lost.
		s, err := l.js.Stream(begin, wire.StreamEvents)
		if err != nil {
			return fmt.Errorf("events: follow: %w", unavailable(begin, err))
		}
		cursor = s.CachedInfo().State.LastSeq
	}
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: cursor + 1,
	}
	cons, err := l.js.OrderedConsumer(begin, wire.StreamEvents, cfg)
	if err != nil {
		return fmt.Errorf("events: follow: %w", unavailable(begin, err))
	}
	it, err := cons.Messages(jetstream.PullMaxMessages(500), jetstream.PullHeartbeat(pullBeat))
	if err != nil {
		return fmt.Errorf("events: follow: %w", unavailable(begin, err))
	}
	defer func() {
		name := cons.CachedInfo().Name
		it.Stop()
		l.forget(ctx, name)
	}()
	// Stopping the iterator is the only way out of a wait for a server that is gone.
	defer context.AfterFunc(ctx, it.Stop)()
	for {
		m, err := it.Next()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("events: follow: %w", unavailable(ctx, err))
		}
		if e, ok := parseMsg(m); ok {
			f(e)
		}
	}
}

func parseMsg(m jetstream.Msg) (Event, bool) {
	meta, err := m.Metadata()
	if err != nil {
		return Event{}, false
	}
	return parse(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp), true
}

// families are the subjects of types and of everything below them. What another
// one covers is left out, because the server takes no two that overlap.
func families(types []string) ([]string, error) {
	var subjects []string
	for _, typ := range types {
		s, err := wire.EventOf(typ)
		if err != nil {
			return nil, fmt.Errorf("type: %w", err)
		}
		subjects = append(subjects, s+".")
	}
	slices.Sort(subjects) // what covers comes before what is covered
	var left []string
	for _, s := range subjects {
		if n := len(left); n == 0 || !strings.HasPrefix(s, strings.TrimSuffix(left[n-1], ">")) {
			left = append(left, s+">")
		}
	}
	if left == nil {
		left = []string{wire.EventsAll()}
	}
	return left, nil
}

// query is what lies under subjects, after the cursor or, when that is 0, from a
// moment on.
type query struct {
	subjects []string
	from     time.Time
	cursor   uint64
	limit    int // the caller's, only checked here
	batch    int // how many are asked for at once
}

const maxFetch = 500

// read hands over what q asks for until f has enough or everything was read.
func (l *Log) read(ctx context.Context, q query, f func(Event) bool) error {
	if q.limit < 1 || q.limit > MaxPage {
		return fmt.Errorf("limit: %d, want 1 to %d", q.limit, MaxPage)
	}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	cfg := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, FilterSubjects: q.subjects, DeliverPolicy: jetstream.DeliverAllPolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: 30 * time.Second,
	}
	switch {
	case q.cursor != 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, q.cursor+1
	case !q.from.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &q.from
	}
	cons, err := l.stream.CreateConsumer(ctx, cfg)
	if err != nil {
		return unavailable(ctx, err)
	}
	defer l.forget(ctx, cons.CachedInfo().Name)
	for want, count := cons.CachedInfo().NumPending, uint64(0); count < want; {
		batch, err := cons.FetchNoWait(q.batch)
		if err != nil {
			return unavailable(ctx, err)
		}
		before := count
		for m := range batch.Messages() {
			count++
			meta, err := m.Metadata()
			if err != nil || meta.Sequence.Consumer != count {
				return unavailable(ctx, errors.New("events were lost on the way"))
			}
			if e, ok := parseMsg(m); ok && !f(e) {
				return nil
			}
		}
		if err := batch.Error(); err != nil {
			return unavailable(ctx, err)
		}
		if ctx.Err() != nil {
			return unavailable(ctx, ctx.Err())
		}
		if count == before {
			return nil // the others have expired meanwhile
		}
	}
	return nil
}

// forget deletes a reader's consumer; the server would do so itself, later.
func (l *Log) forget(ctx context.Context, name string) {
	if !l.js.Conn().IsConnected() {
		return
	}
	ctx, cancel := l.deadline(context.WithoutCancel(ctx))
	defer cancel()
	_ = l.stream.DeleteConsumer(ctx, name)
}
