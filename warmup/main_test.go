package warmup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come; nothing takes that long.
const patience = 20 * time.Second

// noLeaks fails t if anything that it starts from here on is left when it ends.
// It must be called before anything that is cleaned up.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if !t.Failed() {
			goleak.VerifyNone(t, before)
		}
	})
}

func newWarmer(t *testing.T, cfg Config) *Warmer {
	t.Helper()
	if cfg.Voice == nil {
		cfg.Voice = tone{}
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// prepare warms up, or fails the test.
func prepare(t *testing.T, w *Warmer, call Call) *Prepared {
	t.Helper()
	p, err := w.Prepare(t.Context(), call)
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// prepareFails is the error of a warm-up that must fail.
func prepareFails(t *testing.T, w *Warmer, call Call) *Error {
	t.Helper()
	p, err := w.Prepare(t.Context(), call)
	if p != nil {
		p.Close()
	}
	return coded(t, err)
}

func coded(t *testing.T, err error) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	return e
}

// wantError compares what the caller of a failed warm-up goes by.
func wantError(t *testing.T, e *Error, step string, code Code, permanent bool, detail string) {
	t.Helper()
	if e.Step != step || e.Code != code || e.Permanent != permanent || !strings.Contains(e.Error(), detail) {
		t.Errorf("got step %q, code %q, permanent %v, text %q;\nwant %q, %q, %v, text with %q", e.Step, e.Code, e.Permanent, e, step, code, permanent, detail)
	}
}

// await fails t if c stays silent.
func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
		panic("not reached")
	}
}

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s did not happen", what)
		}
	}
}
