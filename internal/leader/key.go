package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dibs/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// markers is how long the broker keeps the mark of an expired key. Nobody waits
// for them; the setting is what allows keys to expire one by one.
const markers = time.Minute

// EnsureBucket makes the bucket of all offices, or sets it right, with so many
// replicas (0 is 1; more than one needs a cluster). Run does it by itself.
func EnsureBucket(ctx context.Context, js jetstream.JetStream, replicas int) error {
	_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket:      wire.BucketOffice,
		Description: "who is in office; one key per office",
		// On disk, because terms are revisions and must outlive the broker.
		Storage:        jetstream.FileStorage,
		Replicas:       replicas,
		LimitMarkerTTL: markers,
	})
	if err != nil {
		return fmt.Errorf("bucket %s: %w", wire.BucketOffice, err)
	}
	return nil
}

// givenBack is the header by which a key that its holder deleted is told from one
// that was deleted by hand.
const givenBack = "Dibs-Given-Back"

// content is the value of the key.
type content struct {
	ID       string `json:"id"`
	Instance string `json:"instance"`
}

// key is the office's key in the bucket, seen below the key-value interface:
// that one hides the revision of a key that is vacant, which is what the next
// write must name.
type key struct {
	js       jetstream.JetStream
	cfg      Config
	instance string

	stream jetstream.Stream // nil until the bucket is known to be there
}

func (k *key) subject() string { return "$KV." + wire.BucketOffice + "." + k.cfg.Key }

// look reads the key, and makes the bucket first where that has not been done.
func (k *key) look(ctx context.Context, deadline time.Time) (record, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if k.stream == nil {
		if err := EnsureBucket(ctx, k.js, k.cfg.Replicas); err != nil {
			return record{}, err
		}
		s, err := k.js.Stream(ctx, "KV_"+wire.BucketOffice)
		if err != nil {
			return record{}, fmt.Errorf("bucket %s: %w", wire.BucketOffice, err)
		}
		k.stream = s
	}
	m, err := k.stream.GetLastMsgForSubject(ctx, k.subject())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return record{}, nil
	}
	if err != nil {
		k.missing(err)
		return record{}, fmt.Errorf("look at office %s: %w", k.cfg.Key, err)
	}
	r := record{rev: m.Sequence}
	if len(m.Data) == 0 { // the mark of a key that has expired or was deleted
		r.safe = m.Header.Get(jetstream.MarkerReasonHeader) == "MaxAge" || m.Header.Get(givenBack) != ""
		return r, nil
	}
	var c content
	if json.Unmarshal(m.Data, &c) != nil || c.Instance == "" {
		c.Instance = "?" // whoever that is will not renew it
	}
	r.id, r.instance = c.ID, c.Instance
	return r, nil
}

// write takes or renews the key if its revision is still rev.
func (k *key) write(ctx context.Context, deadline time.Time, rev uint64) (uint64, error) {
	value, err := json.Marshal(content{ID: k.cfg.ID, Instance: k.instance})
	if err != nil {
		return 0, err
	}
	m := nats.NewMsg(k.subject())
	m.Data = value
	return k.publish(ctx, deadline, m, rev, jetstream.WithMsgTTL(k.cfg.TTL))
}

// giveBack deletes the key if it is still this process's. A write that was under
// way when Run ended may still come between, and so it tries again until deadline.
func (k *key) giveBack(ctx context.Context, deadline time.Time, pause time.Duration) error {
	for {
		r, err := k.look(ctx, deadline)
		if err != nil || r.instance != k.instance {
			return err
		}
		m := nats.NewMsg(k.subject())
		m.Header.Set("KV-Operation", "DEL")
		m.Header.Set(givenBack, k.instance)
		_, err = k.publish(ctx, deadline, m, r.rev)
		if !errors.Is(err, errRefused) && !errors.Is(err, errBusy) || time.Until(deadline) < pause {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

func (k *key) publish(ctx context.Context, deadline time.Time, m *nats.Msg, rev uint64, opts ...jetstream.PublishOpt) (uint64, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	// Sending it again is the office's decision.
	ack, err := k.js.PublishMsg(ctx, m, append(opts, jetstream.WithExpectLastSequencePerSubject(rev), jetstream.WithRetryAttempts(0))...)
	if err == nil {
		return ack.Sequence, nil
	}
	k.missing(err)
	err = fmt.Errorf("write office %s: %w", k.cfg.Key, err)
	if ae, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch ae.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence:
			return 0, fmt.Errorf("%w: %w", errRefused, err)
		case jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			// Not a lost race, whatever its text says: an earlier write of the key
			// is one that the cluster has not finished.
			return 0, fmt.Errorf("%w: %w", errBusy, err)
		}
	}
	return 0, err
}

// missing has the bucket made again where an error may say that it is gone.
func (k *key) missing(err error) {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound) {
		k.stream = nil
	}
}
