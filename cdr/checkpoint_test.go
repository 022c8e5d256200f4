package cdr_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"dibs/cdr"
	"dibs/internal/natstest"
	"dibs/wire"
)

func TestCheckpoints(t *testing.T) {
	broker := natstest.Start(t)
	a, err := cdr.OpenCheckpoints(t.Context(), broker.JetStream(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := cdr.OpenCheckpoints(t.Context(), broker.JetStream(t), 0) // another replica
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Get(t.Context(), "c1"); !errors.Is(err, cdr.ErrNotFound) {
		t.Errorf("nothing was left: %v", err)
	}
	most := `"` + strings.Repeat("x", wire.MaxCheckpoint-2) + `"`
	for _, left := range []string{`{"step":1}`, `null`, most, `{"step":2}`} {
		if err := a.Put(t.Context(), "c1", json.RawMessage(left)); err != nil {
			t.Fatalf("%.20s: %v", left, err)
		}
	}
	if got, err := b.Get(t.Context(), "c1"); err != nil || string(got) != `{"step":2}` {
		t.Errorf("got %s, %v, want the newest", got, err)
	}
	if err := a.Put(t.Context(), "c1", json.RawMessage(most+" ")); !errors.Is(err, cdr.ErrTooLarge) {
		t.Errorf("8193 bytes: %v", err)
	}
	for id, left := range map[string]string{"c1": "{", "a.b": "1", "": "1"} {
		if err := a.Put(t.Context(), id, json.RawMessage(left)); err == nil {
			t.Errorf("call %q, %q: taken", id, left)
		}
	}
}
