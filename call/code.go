package call

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Why an order or a record was not read. Every error of [DecodeOrder] and
// [DecodeRecord] wraps one of them; with ErrInvalid a [*FieldError] says more.
var (
	ErrTooLarge  = errors.New("too large")
	ErrMalformed = errors.New("malformed")
	ErrVersion   = errors.New("of a newer version")
	ErrInvalid   = errors.New("invalid")
)

// MaxRecord is the most bytes of a record as JSON: an order and its attempts.
const MaxRecord = 256 << 10

// DecodeOrder reads an order and checks it. Unknown fields are ignored.
func DecodeOrder(data []byte) (Order, error) {
	var o Order
	if err := decode(data, &o, &o.V, MaxOrder); err != nil {
		return Order{}, fmt.Errorf("order: %w", err)
	}
	if err := o.Check(); err != nil {
		return Order{}, fmt.Errorf("order: %w: %w", ErrInvalid, err)
	}
	return o, nil
}

// Encode writes the order, and refuses one that nobody would take.
func (o Order) Encode() ([]byte, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("order: %w: %w", ErrInvalid, err)
	}
	data, err := encode(o, MaxOrder)
	if err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	return data, nil
}

// DecodeRecord reads a record and checks it. Unknown fields are ignored. A record
// that cannot be read is to be shown to a person; its call must not be dialled.
func DecodeRecord(data []byte) (Record, error) {
	var r Record
	if err := decode(data, &r, &r.V, MaxRecord); err != nil {
		return Record{}, fmt.Errorf("record: %w", err)
	}
	if err := r.Check(); err != nil {
		return Record{}, fmt.Errorf("record: %w: %w", ErrInvalid, err)
	}
	return r, nil
}

// Encode writes the record, and refuses one that nobody could go on with.
func (r Record) Encode() ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("record: %w: %w", ErrInvalid, err)
	}
	data, err := encode(r, MaxRecord)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return data, nil
}

// decode reads v, whose version stands at version. It is looked at first even when a
// newer writer changed the type of a field: "of a newer version" is a better answer
// than "malformed".
func decode(data []byte, v any, version *int, most int) error {
	if len(data) > most {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), most)
	}
	err := json.Unmarshal(data, v)
	if err != nil {
		var probe struct {
			V int `json:"v"`
		}
		if json.Unmarshal(data, &probe) == nil {
			*version = probe.V
		}
	}
	if *version > Version {
		return fmt.Errorf("%w: %d, this side reads %d", ErrVersion, *version, Version)
	}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%w: field %q: %s instead of %s", ErrMalformed, te.Field, te.Value, te.Type)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

func encode(v any, most int) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(data) > most {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), most)
	}
	return data, nil
}
