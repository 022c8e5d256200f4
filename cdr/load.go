package cdr

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
)

// Loaded is what [Store.Load] did.
type Loaded struct {
	Rev    Rev       // the bucket's last revision when it began; [Store.Watch] goes on from here
	Open   int       // open records handed over
	Done   int       // done records handed over
	Broken []*Broken // what could not be read; a person has to look
}

// Load hands over every open record, and every done one whose last write was not
// before since (the zero time: none), each with its revision, to be advanced from
// there. A call that changes meanwhile may come twice, the newer revision last. f is
// called by one goroutine, and everything else waits for it.
//
// It is bounded by ctx, and gives up with [ErrUnavailable] when nothing comes for the
// timeout of the config.
func (s *Store) Load(ctx context.Context, since time.Time, f func(call.Record, Rev)) (Loaded, error) {
	var l Loaded
	newest := make(map[string]uint64) // call → revision, of the open ones
	give := func(e entry, count *int) {
		_, id, _ := strings.Cut(e.key, ".")
		if newest[id] > e.rev { // a done one that was opened again
			return
		}
		newest[id] = e.rev
		r, broken := read(e)
		if broken != nil {
			l.Broken = append(l.Broken, broken)
			return
		}
		*count++
		f(r, Rev(e.rev))
	}
	var chunk []entry // open ones, of which some may turn out to be superseded
	flush := func() error {
		left, err := s.dropSuperseded(ctx, chunk)
		for _, e := range left {
			give(e, &l.Open)
		}
		chunk = nil
		return err
	}
	err := s.begin(ctx, &l.Rev)
	if err == nil {
		err = s.bucket.scan(ctx, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{s.bucket.subject(keyOpen + "*")},
			DeliverPolicy:  jetstream.DeliverLastPerSubjectPolicy,
		}, func(e entry) error {
			if chunk = append(chunk, e); len(chunk) < maxMulti {
				return nil
			}
			return flush()
		})
	}
	if err == nil {
		err = flush()
	}
	if err == nil && !since.IsZero() {
		err = s.bucket.scan(ctx, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{s.bucket.subject(keyDone + "*")},
			DeliverPolicy:  jetstream.DeliverByStartTimePolicy, OptStartTime: &since,
		}, func(e entry) error {
			give(e, &l.Done)
			return nil
		})
	}
	if err != nil {
		return l, fmt.Errorf("cdr: load: %w", err)
	}
	return l, nil
}

// begin notes the bucket's last revision.
func (s *Store) begin(ctx context.Context, rev *Rev) error {
	ctx, cancel := s.bucket.deadline(ctx)
	defer cancel()
	info, err := s.bucket.stream.Info(ctx)
	if err != nil {
		return unavailable(ctx, err)
	}
	*rev = Rev(info.State.LastSeq)
	return nil
}

// maxMulti is how many keys are asked for at once; the server takes a little more.
const maxMulti = 1000

// dropSuperseded takes out those of which the call has a newer revision under the
// other key: their writer died between its write and the delete, which is done here.
func (s *Store) dropSuperseded(ctx context.Context, open []entry) ([]entry, error) {
	if len(open) == 0 {
		return nil, nil
	}
	ctx, cancel := s.bucket.deadline(ctx)
	defer cancel()
	subjects := make([]string, len(open))
	for i, e := range open {
		subjects[i] = s.bucket.subject(keyDone + strings.TrimPrefix(e.key, keyOpen))
	}
	newest := make(map[string]uint64) // call → revision of its done record
	if err := s.bucket.lasts(ctx, subjects, func(key string, rev uint64) {
		newest[strings.TrimPrefix(key, keyDone)] = rev
	}); err != nil {
		return nil, err
	}
	var err error
	left := slices.DeleteFunc(open, func(e entry) bool {
		old := newest[strings.TrimPrefix(e.key, keyOpen)] > e.rev
		if old && err == nil {
			err = s.bucket.remove(ctx, e.rev)
		}
		return old
	})
	return left, err
}

// Change is one write that [Store.Watch] saw.
type Change struct {
	CallID string
	Rev    Rev
	Record call.Record
	Broken *Broken // set instead of Record when it cannot be read
}

// Watch hands over every write after the revision from, in order, until ctx ends,
// and then returns nil. Writes that were superseded before the watch reached them
// may be left out, the last one never. It waits through an outage of NATS. With from
// out of [Loaded], no write is missed between the two.
func (s *Store) Watch(ctx context.Context, from Rev, f func(Change)) error {
	r, err := s.bucket.read(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(from) + 1,
	}, 0)
	if err != nil {
		return fmt.Errorf("cdr: watch: %w", err)
	}
	defer r.close(ctx)
	for {
		e, _, err := r.next(ctx, 0)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cdr: watch: %w", err)
		}
		if e.deleted() {
			continue
		}
		_, id, _ := strings.Cut(e.key, ".")
		c := Change{CallID: id, Rev: Rev(e.rev)}
		c.Record, c.Broken = read(e)
		f(c)
	}
}
