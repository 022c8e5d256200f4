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

// Config says how events are kept and told. The zero value is right for one server.
type Config struct {
	// Source names this process in its events, as a URI reference. "": "/dibs".
	Source string
	// Replicas is how many servers keep the stream: 1, 3 or 5. 0: as it is; 1 when it
	// does not exist yet.
	Replicas int
	// MaxAge is how long events are kept, 1 min to 10 years. 0: as it is; 30 days when
	// the stream does not exist yet.
	MaxAge time.Duration
	// MaxBytes is how much room events may take, at least 1 MiB; the oldest go
	// first. 0: as it is; 1 GiB when the stream does not exist yet.
	MaxBytes int64
	// Buffer is how many emitted events may wait to be published, 8 to 1,000,000.
	// 0: 8,192.
	Buffer int
	// Timeout bounds every exchange with NATS beside the caller's own deadline.
	// 0: 5 s.
	Timeout time.Duration
}

const (
	defaultSource   = "/dibs"
	defaultMaxAge   = 30 * 24 * time.Hour
	defaultMaxBytes = 1 << 30
	defaultBuffer   = 8192
	defaultTimeout  = 5 * time.Second

	minMaxAge   = time.Minute
	maxMaxAge   = 10 * 365 * 24 * time.Hour
	minMaxBytes = 1 << 20
	maxBuffer   = 1_000_000

	// repeats is for how long the server recognises an event that is published again.
	repeats = 2 * time.Minute
	// headerRoom is what an event may be longer than its data.
	headerRoom = 4 << 10
)

// Validate reports the first field that cannot be.
func (c Config) Validate() error {
	if err := (Event{Type: "x", Subject: "x", Source: c.Source}).Check(); err != nil {
		return fmt.Errorf("events: Source: %w", err)
	}
	if !slices.Contains([]int{0, 1, 3, 5}, c.Replicas) {
		return fmt.Errorf("events: Replicas: %d, want 1, 3 or 5", c.Replicas)
	}
	if c.MaxAge != 0 && (c.MaxAge < minMaxAge || c.MaxAge > maxMaxAge) {
		return fmt.Errorf("events: MaxAge: %v, want %v to %v", c.MaxAge, minMaxAge, maxMaxAge)
	}
	if c.MaxBytes != 0 && c.MaxBytes < minMaxBytes {
		return fmt.Errorf("events: MaxBytes: %d, want at least %d", c.MaxBytes, minMaxBytes)
	}
	if c.Buffer != 0 && (c.Buffer < workers || c.Buffer > maxBuffer) {
		return fmt.Errorf("events: Buffer: %d, want %d to %d", c.Buffer, workers, maxBuffer)
	}
	if c.Timeout < 0 {
		return fmt.Errorf("events: Timeout: %v, want a positive duration", c.Timeout)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Source == "" {
		c.Source = defaultSource
	}
	if c.Buffer == 0 {
		c.Buffer = defaultBuffer
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	return c
}

// SettingError says that a stream of the name exists and is something else.
type SettingError struct {
	Stream, Field string
	Got, Want     any
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("events: stream %s: %s is %v, want %v", e.Stream, e.Field, e.Got, e.Want)
}

// openStream finds the stream, makes it, or brings its limits up to date.
func openStream(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.Stream, error) {
	want := jetstream.StreamConfig{
		Name:        wire.StreamEvents,
		Description: "what happened, as CloudEvents",
		Subjects:    []string{wire.EventsAll()},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardOld,
		Compression: jetstream.S2Compression,
		MaxAge:      defaultMaxAge,
		MaxBytes:    defaultMaxBytes,
		MaxMsgSize:  MaxData + headerRoom,
		Duplicates:  repeats,
		AllowDirect: true,
		Replicas:    1,
	}
	adopt(&want, cfg)
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
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"Subjects", strings.Join(got.Subjects, " "), strings.Join(want.Subjects, " ")},
		{"Retention", got.Retention, want.Retention},
		{"Discard", got.Discard, want.Discard}, // else a full stream refuses what is new
		{"NoAck", got.NoAck, want.NoAck},
		{"Mirror", got.Mirror != nil, false},
	} {
		if f.got != f.want {
			return nil, &SettingError{Stream: want.Name, Field: f.name, Got: f.got, Want: f.want}
		}
	}
	if !adopt(&got, cfg) {
		return st, nil
	}
	got.Duplicates = min(repeats, got.MaxAge)
	return js.UpdateStream(ctx, got)
}

// adopt sets what cfg asks for and reports whether that changed anything.
func adopt(c *jetstream.StreamConfig, cfg Config) bool {
	before := *c
	if cfg.Replicas != 0 {
		c.Replicas = cfg.Replicas
	}
	if cfg.MaxAge != 0 {
		c.MaxAge, c.Duplicates = cfg.MaxAge, min(repeats, cfg.MaxAge)
	}
	if cfg.MaxBytes != 0 {
		c.MaxBytes = cfg.MaxBytes
	}
	return before.Replicas != c.Replicas || before.MaxAge != c.MaxAge || before.MaxBytes != c.MaxBytes
}
