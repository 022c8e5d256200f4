package cdr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Config says how records are kept. The zero value is right for one server.
type Config struct {
	// Replicas is how many servers keep the bucket: 1, 3 or 5. 0: as it is; 1 when
	// it does not exist yet.
	Replicas int
	// Retention is how long a record is kept after its last write once nothing is
	// left to do, 1 h to 10 years. 0: 30 days. It holds for writes from now on.
	Retention time.Duration
	// Timeout bounds every exchange with NATS, repeats included, beside the caller's
	// own deadline. 0: 5 s.
	Timeout time.Duration
}

const (
	defaultRetention = 30 * 24 * time.Hour
	minRetention     = time.Hour
	maxRetention     = 10 * 365 * 24 * time.Hour
	defaultTimeout   = 5 * time.Second
)

// Validate reports the first field that cannot be.
func (c Config) Validate() error {
	if err := checkReplicas(c.Replicas); err != nil {
		return err
	}
	if c.Retention != 0 && (c.Retention < minRetention || c.Retention > maxRetention) {
		return fmt.Errorf("cdr: Retention: %v, want %v to %v", c.Retention, minRetention, maxRetention)
	}
	return checkTimeout(c.Timeout)
}

// PeopleConfig says how person locks are kept.
type PeopleConfig struct {
	// Replicas is as in [Config].
	Replicas int
	// TTL is how long a lock lives without [People.Refresh], 1 s to 24 h. 0: 10 min.
	TTL time.Duration
	// Secret keys the HMAC that stands for a number. Every process of an
	// environment needs the same one. Empty: numbers are hidden from eyes, not from
	// somebody who tries all of them.
	Secret []byte
	// Timeout is as in [Config].
	Timeout time.Duration
}

const (
	defaultLockTTL = 10 * time.Minute
	maxLockTTL     = 24 * time.Hour
)

// Validate reports the first field that cannot be.
func (c PeopleConfig) Validate() error {
	if err := checkReplicas(c.Replicas); err != nil {
		return err
	}
	if c.TTL != 0 && (c.TTL < time.Second || c.TTL > maxLockTTL) { // the server knows no shorter one
		return fmt.Errorf("cdr: TTL: %v, want 1s to %v", c.TTL, maxLockTTL)
	}
	return checkTimeout(c.Timeout)
}

func checkReplicas(n int) error {
	if !slices.Contains([]int{0, 1, 3, 5}, n) {
		return fmt.Errorf("cdr: Replicas: %d, want 1, 3 or 5", n)
	}
	return nil
}

func checkTimeout(d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("cdr: Timeout: %v, want a positive duration", d)
	}
	return nil
}

// SettingError says that a bucket of the name exists and does not keep what is
// promised here. A person has to look.
type SettingError struct {
	Bucket, Field string
	Got, Want     any
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("cdr: bucket %s: %s is %v, want %v", e.Bucket, e.Field, e.Got, e.Want)
}

// bucketConfig is a key-value bucket with two differences from those that clients
// make: a message may carry its own TTL without leaving a marker behind, and may be
// deleted by its number.
func bucketConfig(name, description string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              "KV_" + name,
		Description:       description,
		Subjects:          []string{"$KV." + name + ".>"},
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		MaxMsgsPerSubject: 1,
		MaxMsgSize:        maxStored,
		AllowMsgTTL:       true,
		AllowRollup:       true,
		AllowDirect:       true,
		Replicas:          replicas,
	}
}

// openStream finds the bucket's stream, makes it, or brings Replicas up to date.
func openStream(ctx context.Context, js jetstream.JetStream, name, description string, replicas int) (jetstream.Stream, error) {
	want := bucketConfig(name, description, max(replicas, 1))
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
		{"Storage", got.Storage, want.Storage},
		{"MaxMsgsPerSubject", got.MaxMsgsPerSubject, want.MaxMsgsPerSubject},
		{"MaxAge", got.MaxAge, want.MaxAge}, // a call that goes on would vanish
		{"Discard", got.Discard, want.Discard},
		{"AllowMsgTTL", got.AllowMsgTTL, want.AllowMsgTTL},
		{"AllowDirect", got.AllowDirect, want.AllowDirect},
		{"DenyDelete", got.DenyDelete, want.DenyDelete},
		{"NoAck", got.NoAck, want.NoAck},
		{"Mirror", got.Mirror != nil, false},
	} {
		if f.got != f.want {
			return nil, &SettingError{Bucket: name, Field: f.name, Got: f.got, Want: f.want}
		}
	}
	if replicas == 0 || got.Replicas == replicas {
		return st, nil
	}
	got.Replicas = replicas
	return js.UpdateStream(ctx, got)
}
