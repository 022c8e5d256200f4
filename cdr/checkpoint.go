package cdr

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/wire"
)

// bucketCheckpoints keeps what bots leave for each other; a call lasts 24 h at most.
const (
	bucketCheckpoints = "dibs_checkpoints"
	checkpointLife    = 25 * time.Hour
)

// Checkpoints are what a bot leaves of a call in case it is lost: the newest of each
// call, not more than [wire.MaxCheckpoint] bytes, for a day. They are no part of the
// record, because a bot may write one whenever it likes, and the record has one
// writer. Safe for concurrent use.
type Checkpoints struct{ kv jetstream.KeyValue }

// OpenCheckpoints finds their bucket, and makes it when it does not exist.
func OpenCheckpoints(ctx context.Context, js jetstream.JetStream, replicas int) (*Checkpoints, error) {
	kv, err := js.KeyValue(ctx, bucketCheckpoints)
	if errors.Is(err, jetstream.ErrBucketNotFound) || err == nil && replicas != 0 {
		kv, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucketCheckpoints, Description: "what bots leave of calls", History: 1, TTL: checkpointLife, Replicas: cmp.Or(replicas, 1),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("cdr: open %s: %w", bucketCheckpoints, err)
	}
	return &Checkpoints{kv}, nil
}

// Put keeps data for the call; the newest wins. Errors: [ErrTooLarge],
// [ErrUnavailable], or that it is no JSON.
func (c *Checkpoints) Put(ctx context.Context, callID string, data json.RawMessage) error {
	if err := wire.CheckToken(callID); err != nil {
		return fmt.Errorf("cdr: checkpoint: call id: %w", err)
	}
	if len(data) > wire.MaxCheckpoint {
		return fmt.Errorf("cdr: checkpoint of call %s: %w: %d bytes, at most %d", callID, ErrTooLarge, len(data), wire.MaxCheckpoint)
	}
	if !json.Valid(data) {
		return fmt.Errorf("cdr: checkpoint of call %s: not JSON", callID)
	}
	if _, err := c.kv.Put(ctx, callID, data); err != nil {
		return fmt.Errorf("cdr: checkpoint of call %s: %w: %w", callID, ErrUnavailable, err)
	}
	return nil
}

// Get is what was left last. Errors: [ErrNotFound], [ErrUnavailable].
func (c *Checkpoints) Get(ctx context.Context, callID string) (json.RawMessage, error) {
	if err := wire.CheckToken(callID); err != nil {
		return nil, fmt.Errorf("cdr: checkpoint: call id: %w", err)
	}
	e, err := c.kv.Get(ctx, callID)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, fmt.Errorf("cdr: checkpoint of call %s: %w", callID, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("cdr: checkpoint of call %s: %w: %w", callID, ErrUnavailable, err)
	}
	return e.Value(), nil
}
