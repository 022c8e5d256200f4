package breaker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Config says when a breaker opens and for how long. The zero value is right for a bot.
type Config struct {
	Failures int           // failures in a row that open it, 1 to 1,000; 0: 3
	OpenFor  time.Duration // refuses for this long, then lets a probe through, at least 1 ms; 0: 30 s
	MaxHold  time.Duration // a try without a verdict counts as failed after this, at least 1 ms; 0: 20 s
}

func (c Config) withDefaults() (Config, error) {
	if c.Failures == 0 {
		c.Failures = 3
	}
	if c.OpenFor == 0 {
		c.OpenFor = 30 * time.Second
	}
	if c.MaxHold == 0 {
		c.MaxHold = 20 * time.Second
	}
	if c.Failures < 1 || c.Failures > 1000 {
		return c, fmt.Errorf("breaker: Failures: %d, want 1 to 1000", c.Failures)
	}
	if c.OpenFor < time.Millisecond {
		return c, fmt.Errorf("breaker: OpenFor: %v, want at least 1ms", c.OpenFor)
	}
	if c.MaxHold < time.Millisecond {
		return c, fmt.Errorf("breaker: MaxHold: %v, want at least 1ms", c.MaxHold)
	}
	return c, nil
}

// State is where a breaker stands.
type State string

// The states.
const (
	StateClosed   State = "closed"    // every try is let through
	StateOpen     State = "open"      // none is
	StateHalfOpen State = "half_open" // one is, the probe
)

// View is a breaker as others see it.
type View struct {
	State     State
	Failures  int           // counted failures in a row, over all states
	LastError string        // of the last of them, fit to show; empty when Failures is 0
	RetryIn   time.Duration // open: until a probe is let through; otherwise 0
}

// Open is why a try was not let through.
type Open View

func (o *Open) Error() string {
	s := fmt.Sprintf("breaker %s after %d failures in a row", o.State, o.Failures)
	if o.RetryIn > 0 {
		s += fmt.Sprintf(", next try in %v", o.RetryIn.Round(time.Millisecond))
	}
	if o.LastError != "" {
		s += ": " + o.LastError
	}
	return s
}

// Breaker is one circuit breaker. It is safe for concurrent use.
type Breaker struct {
	cfg     Config
	cb      *gobreaker.TwoStepCircuitBreaker[struct{}]
	changed chan struct{}

	// gobreaker calls back with its own lock held and takes it again for every
	// question: mu may be taken inside a callback, but no question may be asked
	// while mu is held.
	mu        sync.Mutex
	state     State
	opened    time.Time
	failures  int // at the last counted failure
	lastError string
}

// New makes a closed breaker. The error names the field of cfg that is wrong.
func New(cfg Config) (*Breaker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Breaker{cfg: cfg, changed: make(chan struct{}, 1), state: StateClosed}
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   1,
		Timeout:       cfg.OpenFor - 1, // gobreaker is still open at the very end of it; we are not
		ReadyToTrip:   b.tripped,
		OnStateChange: b.moved,
		IsSuccessful:  b.successful,
		IsExcluded:    func(err error) bool { return err == errForgotten },
	})
	return b, nil
}

// Allow asks for a try. The error is an [*Open].
func (b *Breaker) Allow() (*Try, error) {
	done, err := b.cb.Allow()
	if err != nil {
		v := b.View()
		return nil, (*Open)(&v)
	}
	t := &Try{done: done}
	t.hold = time.AfterFunc(b.cfg.MaxHold, func() {
		t.once.Do(func() { t.done(failure(fmt.Sprintf("no verdict within %v", b.cfg.MaxHold))) })
	})
	return t, nil
}

// View is how the breaker stands now.
func (b *Breaker) View() View {
	b.cb.State() // lets the time pass: open may become half open here
	row := b.cb.Counts().ConsecutiveFailures

	b.mu.Lock()
	defer b.mu.Unlock()
	v := View{State: b.state, Failures: b.failures}
	if v.State == StateClosed {
		v.Failures = int(row) // a success has put it back to 0 since
	}
	if v.State == StateOpen {
		v.RetryIn = max(time.Until(b.opened.Add(b.cfg.OpenFor)), time.Millisecond)
	}
	if v.Failures > 0 {
		v.LastError = b.lastError
	}
	return v
}

// Changed holds a note when the state has changed since the last note was taken.
// Several changes may leave one note. It is never closed.
func (b *Breaker) Changed() <-chan struct{} { return b.changed }

// tripped hears of every counted failure in closed.
func (b *Breaker) tripped(c gobreaker.Counts) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = int(c.ConsecutiveFailures)
	return b.failures >= b.cfg.Failures
}

// successful hears of every verdict that counts.
func (b *Breaker) successful(err error) bool {
	f, failed := err.(failure)
	if failed {
		b.mu.Lock()
		b.lastError = string(f)
		b.mu.Unlock()
	}
	return !failed
}

func (b *Breaker) moved(_ string, from, to gobreaker.State) {
	b.mu.Lock()
	switch to {
	case gobreaker.StateOpen:
		if from == gobreaker.StateHalfOpen {
			b.failures++
		}
		b.state, b.opened = StateOpen, time.Now()
		// Half open is found out by asking; ask when it is due, so that Changed tells.
		time.AfterFunc(b.cfg.OpenFor, func() { b.cb.State() })
	case gobreaker.StateHalfOpen:
		b.state = StateHalfOpen
	case gobreaker.StateClosed:
		b.state, b.failures = StateClosed, 0
	}
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default: // a note is waiting already
	}
}

// Try is one warm-up that was let through. Its methods may be called from any
// goroutine, in any order and number: the first one decides.
type Try struct {
	done func(error)
	hold *time.Timer
	once sync.Once
}

// Done counts the try: nil is a success, anything else a failure, whose text is
// kept for [View].LastError without what must not be shown.
func (t *Try) Done(err error) {
	if err == nil {
		t.end(nil)
		return
	}
	t.end(failure(show(err.Error())))
}

// Forget ends the try without counting it.
func (t *Try) Forget() { t.end(errForgotten) }

func (t *Try) end(verdict error) {
	t.once.Do(func() {
		t.hold.Stop()
		t.done(verdict)
	})
}

// A verdict is nil, errForgotten or a failure with a text that may be shown.
// gobreaker looks at it under its lock, so it must not carry foreign code.
type failure string

func (f failure) Error() string { return string(f) }

var errForgotten = errors.New("forgotten")
