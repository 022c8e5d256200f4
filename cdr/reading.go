package cdr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reading is a look through a bucket, in the order of the writes. It survives
// outages of NATS.
type reading struct {
	bucket  *bucket
	it      jetstream.MessagesContext
	cons    jetstream.Consumer
	pending uint64 // how much there was when it began

	from  string // the consumer of the last entry
	count uint64 // entries of it so far

	quiet time.Duration // for how long nothing may come; 0: for ever
	alarm *time.Timer   // ends the reading when that is over
	leave func() bool   // takes back that the end of the context ends the reading
}

// pullBeat: a server that says nothing for twice as long has lost our pull, as when the
// leader of a stream changes; the client's own is 15 s.
const pullBeat = 5 * time.Second

// read begins a look, which ends with ctx and must be closed.
func (b *bucket) read(ctx context.Context, cfg jetstream.OrderedConsumerConfig, quiet time.Duration) (*reading, error) {
	begin, cancel := b.deadline(ctx)
	defer cancel()
	cons, err := b.js.OrderedConsumer(begin, b.streamName(), cfg)
	if err != nil {
		return nil, unavailable(begin, err)
	}
	r := &reading{bucket: b, cons: cons, pending: cons.CachedInfo().NumPending, quiet: quiet}
	if r.it, err = cons.Messages(jetstream.PullMaxMessages(2000), jetstream.PullHeartbeat(pullBeat)); err != nil {
		return nil, unavailable(begin, err)
	}
	// Stopping the iterator is the only way out of a wait for a server that is gone.
	r.leave = context.AfterFunc(ctx, r.it.Stop)
	if quiet > 0 {
		r.alarm = time.AfterFunc(quiet, r.it.Stop)
	}
	return r, nil
}

// errQuiet: nothing came for a moment.
var errQuiet = errors.New("nothing came")

// next is the next entry, and how many are behind it; errQuiet after wait, 0: for ever.
func (r *reading) next(ctx context.Context, wait time.Duration) (entry, uint64, error) {
	var opts []jetstream.NextOpt
	if wait > 0 {
		opts = append(opts, jetstream.NextMaxWait(wait))
	}
	m, err := r.it.Next(opts...)
	if errors.Is(err, nats.ErrTimeout) {
		return entry{}, 0, errQuiet
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if r.quiet > 0 && errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			err = fmt.Errorf("nothing came for %v", r.quiet)
		}
		return entry{}, 0, unavailable(ctx, err)
	}
	if r.alarm != nil {
		r.alarm.Reset(r.quiet)
	}
	meta, err := m.Metadata()
	if err != nil {
		return entry{}, 0, unavailable(ctx, err)
	}
	r.from, r.count = meta.Consumer, meta.Sequence.Consumer
	return entry{
		key: r.bucket.key(m.Subject()), rev: meta.Sequence.Stream, time: meta.Timestamp,
		value: m.Data(), header: m.Headers(),
	}, meta.NumPending, nil
}

func (r *reading) close(ctx context.Context) {
	r.leave()
	if r.alarm != nil {
		r.alarm.Stop()
	}
	name := r.cons.CachedInfo().Name
	r.it.Stop()
	// The server would forget it by itself, some minutes later.
	ctx, cancel := r.bucket.deadline(context.WithoutCancel(ctx))
	defer cancel()
	if r.bucket.js.Conn().IsConnected() {
		_ = r.bucket.stream.DeleteConsumer(ctx, name)
	}
}

// pauseInScan is after how long without an entry a scan asks whether there is one.
const pauseInScan = 250 * time.Millisecond

// left asks the server how much there is to come, on its way or not.
func (r *reading) left(ctx context.Context) (uint64, error) {
	ctx, cancel := r.bucket.deadline(ctx)
	defer cancel()
	info, err := r.cons.Info(ctx)
	if err != nil {
		return 0, unavailable(ctx, err)
	}
	arrived := uint64(0)
	if r.from == info.Name { // else the client has begun anew, after an outage
		arrived = r.count
	}
	return info.NumPending + info.Delivered.Consumer - min(arrived, info.Delivered.Consumer), nil
}

// scan hands over everything that cfg chooses and is stored when it begins.
func (b *bucket) scan(ctx context.Context, cfg jetstream.OrderedConsumerConfig, f func(entry) error) error {
	r, err := b.read(ctx, cfg, b.timeout)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	for behind := r.pending; behind > 0; {
		var e entry
		if e, behind, err = r.next(ctx, pauseInScan); errors.Is(err, errQuiet) {
			// What was behind may have been deleted since, and will never come.
			if behind, err = r.left(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if e.deleted() {
			continue
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// lasts tells the last revision of those of the subjects that exist, in one request.
func (b *bucket) lasts(ctx context.Context, subjects []string, f func(key string, rev uint64)) error {
	body, err := json.Marshal(map[string]any{"multi_last": subjects})
	if err != nil {
		return err
	}
	nc := b.js.Conn()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return unavailable(ctx, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(b.api+"DIRECT.GET."+b.streamName(), inbox, body); err != nil {
		return unavailable(ctx, err)
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return unavailable(ctx, err)
		}
		if seq := m.Header.Get(jetstream.SequenceHeader); seq != "" {
			rev, err := strconv.ParseUint(seq, 10, 64)
			if err != nil {
				return unavailable(ctx, err)
			}
			f(b.key(m.Header.Get(jetstream.SubjectHeader)), rev)
			continue
		}
		switch status := m.Header.Get("Status"); status {
		case "204", "404": // that was all; there is none
			return nil
		default:
			return unavailable(ctx, errors.New(status+" "+m.Header.Get("Description")))
		}
	}
}
