package queue

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

// Config says how the line is kept. The zero value is right for one server and
// for every program that only puts.
type Config struct {
	// Replicas is how many servers keep the line: 1, 3 or 5. 0: as it is; 1 when it
	// does not exist yet.
	Replicas int
	// Timeout bounds every exchange with NATS beside the caller's own deadline.
	// 0: 5 s.
	Timeout time.Duration
}

// Validate reports the first field that cannot be.
func (c Config) Validate() error {
	if !slices.Contains([]int{0, 1, 3, 5}, c.Replicas) {
		return fmt.Errorf("queue: Replicas: %d, want 1, 3 or 5", c.Replicas)
	}
	if c.Timeout < 0 {
		return fmt.Errorf("queue: Timeout: %v, want a positive duration", c.Timeout)
	}
	return nil
}

const (
	defaultTimeout = 5 * time.Second

	// headerRoom is what a message may be longer than an order: whatever headers a
	// putter adds.
	headerRoom = 4 << 10
)

// SettingError says that a stream of the line's name exists and is not the line:
// keeping calls in it would lose or repeat some. A person has to look.
type SettingError struct {
	Stream, Field string
	Got, Want     any
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("queue: stream %s: %s is %v, want %v", e.Stream, e.Field, e.Got, e.Want)
}

func lineConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 wire.StreamLine,
		Description:          "outbound calls that have not been tried yet",
		Subjects:             []string{linePrefix + "*.*.*.*"},
		Retention:            jetstream.WorkQueuePolicy,
		Storage:              jetstream.FileStorage,
		Discard:              jetstream.DiscardNew,
		MaxMsgsPerSubject:    1,
		DiscardNewPerSubject: true,
		MaxMsgSize:           wire.MaxMessage + headerRoom,
		AllowDirect:          true,
		Replicas:             replicas,
	}
}

// open finds the line, makes it, or brings what may be changed up to date.
func open(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.Stream, error) {
	want := lineConfig(max(cfg.Replicas, 1))
	st, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		st, err = js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was first
			st, err = js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	got := st.CachedInfo().Config
	if err := foreign(got, want); err != nil {
		return nil, err
	}
	stale := got.MaxMsgSize != want.MaxMsgSize || !got.AllowDirect
	if cfg.Replicas != 0 && got.Replicas != cfg.Replicas {
		got.Replicas, stale = cfg.Replicas, true
	}
	if !stale {
		return st, nil
	}
	got.MaxMsgSize, got.AllowDirect = want.MaxMsgSize, true
	return js.UpdateStream(ctx, got)
}

// foreign names the first setting under which the line's promises do not hold.
func foreign(got, want jetstream.StreamConfig) error {
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"Retention", got.Retention, want.Retention},
		{"Subjects", strings.Join(got.Subjects, " "), strings.Join(want.Subjects, " ")},
		{"Storage", got.Storage, want.Storage},
		{"Discard", got.Discard, want.Discard},
		{"MaxMsgsPerSubject", got.MaxMsgsPerSubject, want.MaxMsgsPerSubject},
		{"DiscardNewPerSubject", got.DiscardNewPerSubject, want.DiscardNewPerSubject},
		{"MaxAge", got.MaxAge, want.MaxAge}, // a call that waits long would vanish
		{"NoAck", got.NoAck, want.NoAck},
		{"Mirror", got.Mirror != nil, false},
		{"Sources", len(got.Sources), 0},
		{"Sealed", got.Sealed, want.Sealed},
	} {
		if f.got != f.want {
			return &SettingError{Stream: want.Name, Field: f.name, Got: f.got, Want: f.want}
		}
	}
	return nil
}
