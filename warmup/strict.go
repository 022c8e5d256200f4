package warmup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// fieldError says which field of a document cannot be taken, and why.
type fieldError struct{ field, detail string }

func (e *fieldError) Error() string {
	if e.field == "" {
		return e.detail
	}
	return e.field + ": " + e.detail
}

// valid reports the first place at which data is no JSON.
func valid(data []byte) error {
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := data[:min(max(int(se.Offset)-1, 0), len(data))]
		line := bytes.Count(before, []byte{'\n'}) + 1
		column := len(before) - bytes.LastIndexByte(before, '\n')
		return &fieldError{"", fmt.Sprintf("line %d, column %d: %v", line, column, se)}
	}
	return err
}

// reader takes the value of one field; path is the field's full name.
type reader func(path string, raw json.RawMessage) error

// object reads raw, which is valid JSON, as an object of exactly these fields,
// none of them twice. A value of null is as if the field were not there.
func object(path string, raw json.RawMessage, fields map[string]reader) error {
	return each(path, raw, func(name, path string, v json.RawMessage) error {
		read, ok := fields[name]
		if !ok {
			return &fieldError{path, "there is no such field"}
		}
		if string(v) == "null" {
			return nil
		}
		return read(path, v)
	})
}

func each(path string, raw json.RawMessage, f func(name, path string, v json.RawMessage) error) error {
	if kind(raw) != "an object" {
		return &fieldError{path, kind(raw) + ", want an object"}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return &fieldError{path, err.Error()}
	}
	seen := make(map[string]bool)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return &fieldError{path, err.Error()}
		}
		name, _ := t.(string)
		full := strings.TrimPrefix(path+"."+oneLine(name), ".")
		if seen[name] {
			return &fieldError{full, "stands there twice"}
		}
		seen[name] = true
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return &fieldError{full, err.Error()}
		}
		if err := f(name, full, v); err != nil {
			return err
		}
	}
	return nil
}

// kind names what raw is.
func kind(raw json.RawMessage) string {
	switch t := bytes.TrimLeft(raw, " \t\r\n"); {
	case len(t) == 0:
		return "nothing"
	case t[0] == '{':
		return "an object"
	case t[0] == '[':
		return "a list"
	case t[0] == '"':
		return "a string"
	case t[0] == 't', t[0] == 'f':
		return "true or false"
	case t[0] == 'n':
		return "null"
	default:
		return "a number"
	}
}

// text reads a string that check, which may be nil, agrees to.
func text(to *string, check func(string) error) reader {
	return func(path string, raw json.RawMessage) error {
		if kind(raw) != "a string" {
			return &fieldError{path, kind(raw) + ", want a string"}
		}
		if err := json.Unmarshal(raw, to); err != nil {
			return &fieldError{path, err.Error()}
		}
		if check == nil {
			return nil
		}
		if err := check(*to); err != nil {
			return &fieldError{path, err.Error()}
		}
		return nil
	}
}

// table reads an object whose values are strings; checks may be nil.
func table(to *map[string]string, limit int, name, value func(string) error) reader {
	return func(path string, raw json.RawMessage) error {
		m := make(map[string]string)
		err := each(path, raw, func(k, path string, v json.RawMessage) error {
			if len(m) == limit {
				return &fieldError{path, fmt.Sprintf("more than %d entries", limit)}
			}
			if name != nil {
				if err := name(k); err != nil {
					return &fieldError{path, err.Error()}
				}
			}
			var s string
			if err := text(&s, value)(path, v); err != nil {
				return err
			}
			m[k] = s
			return nil
		})
		if len(m) > 0 {
			*to = m
		}
		return err
	}
}

func truth(to *bool) reader {
	return func(path string, raw json.RawMessage) error {
		if json.Unmarshal(raw, to) != nil {
			return &fieldError{path, kind(raw) + ", want true or false"}
		}
		return nil
	}
}

// millis reads an integer of milliseconds, from -1 to a day.
func millis(to *time.Duration) reader {
	return func(path string, raw json.RawMessage) error {
		var n int64
		if json.Unmarshal(raw, &n) != nil || n < -1 || n > 86_400_000 {
			return &fieldError{path, "want an integer of milliseconds"}
		}
		*to = time.Duration(n) * time.Millisecond
		return nil
	}
}
