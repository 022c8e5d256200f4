package leader

import (
	"context"
	"time"
)

// tenure is one time in office. Its context ends by a clock of its own, whatever
// the loop of Run is busy with. A nil tenure is a candidate's.
type tenure struct {
	term   uint64
	cancel context.CancelCauseFunc
	clock  *time.Timer
	done   chan struct{} // closed when the function in office has returned

	// Set before done is closed.
	err error
	own bool // it returned although its context was alive
}

// begin calls the function in office.
func begin(parent context.Context, term uint64, until time.Time, inOffice func(context.Context, uint64) error) *tenure {
	ctx, cancel := context.WithCancelCause(parent)
	t := &tenure{
		term: term, cancel: cancel, done: make(chan struct{}),
		clock: time.AfterFunc(time.Until(until), func() { cancel(ErrDoubted) }),
	}
	go func() {
		defer close(t.done)
		err := inOffice(ctx, term)
		t.err, t.own = err, ctx.Err() == nil
	}()
	return t
}

// extend lets the context live until then. It reports false when it is too late.
func (t *tenure) extend(until time.Time) bool {
	if !t.clock.Stop() {
		return false
	}
	t.clock.Reset(time.Until(until))
	return true
}

// end ends the context, waits for the function and gives what it returned.
func (t *tenure) end(cause error) error {
	t.clock.Stop()
	t.cancel(cause)
	<-t.done
	return t.err
}

// over is closed when the function has returned.
func (t *tenure) over() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.done
}

// resigned reports whether the function returned although it was in office.
func (t *tenure) resigned() bool {
	select {
	case <-t.over():
		return t.own
	default:
		return false
	}
}
