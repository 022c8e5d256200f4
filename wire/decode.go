package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// Limits on what is sent and what is read.
const (
	MaxMessage    = 64 << 10 // bytes of one message
	MaxMetadata   = 8 << 10  // bytes of the metadata object of a call
	MaxCheckpoint = 8 << 10  // bytes of what a bot leaves for the one that may come after it
)

// Why a message was not read. Every error of [Decode] wraps one of them.
var (
	ErrTooLarge  = errors.New("message too large")
	ErrMalformed = errors.New("malformed message")
	ErrVersion   = errors.New("message of a newer protocol version")
	ErrInvalid   = errors.New("invalid message")
)

// Message is what travels: a struct that checks its own required fields. Its
// version is 1 when it says none.
type Message interface {
	version() int
	Check() error
}

// Decode reads a message: size, JSON, version, then its required fields.
// Unknown fields are ignored. The error wraps [ErrTooLarge], [ErrMalformed],
// [ErrVersion] or [ErrInvalid] and names the field where there is one.
func Decode[T Message](data []byte) (T, error) {
	var m, zero T
	if len(data) > MaxMessage {
		return zero, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxMessage)
	}
	if t := bytes.TrimLeft(data, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		return zero, fmt.Errorf("%w: not a JSON object", ErrMalformed)
	}
	// The version is looked at first even when a newer sender changed the type of a
	// field: "speak an older version" is a better answer than "malformed".
	if err := json.Unmarshal(data, &m); err != nil {
		var probe struct {
			V int `json:"v"`
		}
		if json.Unmarshal(data, &probe) == nil && probe.V > Version {
			return zero, fmt.Errorf("%w: %d, this side speaks %d", ErrVersion, probe.V, Version)
		}
		if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return zero, fmt.Errorf("%w: field %q: %s instead of %s", ErrMalformed, te.Field, te.Value, te.Type)
		}
		return zero, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	v := m.version()
	if v > Version {
		return zero, fmt.Errorf("%w: %d, this side speaks %d", ErrVersion, v, Version)
	}
	if v < 0 {
		return zero, fmt.Errorf("%w: v: %d", ErrInvalid, v)
	}
	if err := m.Check(); err != nil {
		return zero, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return m, nil
}

// encoder writes into its own buffer. Unlike json.Marshal it leaves <, > and &
// alone: what a greeting says is no HTML, and would be six times as long.
type encoder struct {
	buf  bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}}

// Encode writes a message, and refuses one that no receiver would take.
func Encode(m Message) ([]byte, error) {
	if v := m.version(); v < 0 || v > Version {
		return nil, fmt.Errorf("%w: v: %d, this side speaks %d", ErrInvalid, v, Version)
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.buf.Reset()
	if err := e.json.Encode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	data := bytes.TrimSuffix(e.buf.Bytes(), []byte("\n"))
	if len(data) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxMessage)
	}
	return bytes.Clone(data), nil
}

// CheckMetadata reports whether raw may be the metadata of a call: a JSON
// object of at most [MaxMetadata] bytes, or nothing.
func CheckMetadata(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if len(raw) > MaxMetadata {
		return fmt.Errorf("metadata: %d bytes, at most %d", len(raw), MaxMetadata)
	}
	if t := bytes.TrimLeft(raw, " \t\r\n"); len(t) == 0 || t[0] != '{' || !json.Valid(raw) {
		return errors.New("metadata: not a JSON object")
	}
	return nil
}

// CheckCheckpoint reports whether raw may be a checkpoint: any JSON of at most
// [MaxCheckpoint] bytes, or nothing.
func CheckCheckpoint(raw json.RawMessage) error {
	if len(raw) > MaxCheckpoint {
		return fmt.Errorf("checkpoint: %d bytes, at most %d", len(raw), MaxCheckpoint)
	}
	if len(raw) > 0 && !json.Valid(raw) {
		return errors.New("checkpoint: not JSON")
	}
	return nil
}

// Millis is a duration on the wire: an integer of milliseconds, never below 0.
// Time-outs are at most 24 hours; ages, which are only told, may be longer.
type Millis int64

const (
	maxTimeout Millis = 24 * 60 * 60 * 1000
	maxAge     Millis = 1<<53 - 1 // the highest number that every language counts to
)

// Duration is d as Go has it; the longest that Go has for one that is longer.
func (d Millis) Duration() time.Duration {
	const most = Millis(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(d, -most), most)) * time.Millisecond
}

// ToMillis rounds down to whole milliseconds.
func ToMillis(d time.Duration) Millis { return Millis(d / time.Millisecond) }

func (d Millis) timeout(field string) error { return d.within(field, maxTimeout) }
func (d Millis) age(field string) error     { return d.within(field, maxAge) }

func (d Millis) within(field string, most Millis) error {
	if d < 0 || d > most {
		return fmt.Errorf("%s: %d, want 0 to %d", field, int64(d), int64(most))
	}
	return nil
}
