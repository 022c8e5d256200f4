package breaker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// model says what a breaker must do, in whole seconds.
type model struct {
	now, opened int
	state       State
	generation  int // of the state; a verdict on a try of another one is ignored
	failures    int
	tries       []*modelTry
}

type modelTry struct {
	try        *Try
	generation int
	began      int
	ended      bool
}

const (
	modelFailures, modelOpenFor, modelMaxHold = 3, 30, 20
)

func (m *model) move(s State) {
	m.state = s
	m.generation++
	switch s {
	case StateOpen:
		m.opened = m.now
	case StateClosed:
		m.failures = 0
	}
}

// probing reports whether a try of this half open is without a verdict.
func (m *model) probing() bool {
	return slices.ContainsFunc(m.tries, func(x *modelTry) bool { return x.generation == m.generation && !x.ended })
}

func (m *model) end(x *modelTry, failed, counted bool) {
	if x.ended {
		return
	}
	x.ended = true
	if !counted || x.generation != m.generation {
		return
	}
	switch {
	case failed:
		m.failures++
		if m.state == StateHalfOpen || m.failures >= modelFailures {
			m.move(StateOpen)
		}
	case m.state == StateHalfOpen:
		m.move(StateClosed)
	default:
		m.failures = 0
	}
}

func (m *model) tick() {
	m.now++
	if m.state == StateOpen && m.now >= m.opened+modelOpenFor {
		m.move(StateHalfOpen)
	}
	for _, x := range m.tries {
		if m.now >= x.began+modelMaxHold {
			m.end(x, true, true)
		}
	}
}

func TestMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// rapid would take the test's deadline for one of the bubble's time.
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
			b, err := New(Config{})
			if err != nil {
				rt.Fatal(err)
			}
			m := &model{state: StateClosed}
			pick := func(rt *rapid.T) *modelTry {
				if len(m.tries) == 0 {
					rt.Skip("no try yet")
				}
				return rapid.SampledFrom(m.tries).Draw(rt, "try")
			}
			rt.Repeat(map[string]func(*rapid.T){
				"allow": func(rt *rapid.T) {
					want := m.state == StateClosed || m.state == StateHalfOpen && !m.probing()
					try, err := b.Allow()
					if (err == nil) != want {
						rt.Fatalf("Allow in %s: got %v, want let through: %v", m.state, err, want)
					}
					if err == nil {
						m.tries = append(m.tries, &modelTry{try: try, generation: m.generation, began: m.now})
					}
				},
				"success": func(rt *rapid.T) { x := pick(rt); x.try.Done(nil); m.end(x, false, true) },
				"failure": func(rt *rapid.T) { x := pick(rt); x.try.Done(errors.New("boom")); m.end(x, true, true) },
				"forget":  func(rt *rapid.T) { x := pick(rt); x.try.Forget(); m.end(x, false, false) },
				"wait": func(rt *rapid.T) {
					for range rapid.IntRange(1, 12).Draw(rt, "seconds") {
						time.Sleep(time.Second)
						synctest.Wait()
						m.tick()
					}
				},
				"": func(rt *rapid.T) {
					v := b.View()
					if v.State != m.state || v.Failures != m.failures {
						rt.Fatalf("View: got %s with %d failures, want %s with %d", v.State, v.Failures, m.state, m.failures)
					}
					if want := time.Duration(m.opened+modelOpenFor-m.now) * time.Second; m.state == StateOpen && v.RetryIn != want {
						rt.Fatalf("RetryIn: got %v, want %v", v.RetryIn, want)
					}
					if (v.LastError != "") != (v.Failures > 0) {
						rt.Fatalf("LastError: got %q with %d failures", v.LastError, v.Failures)
					}
				},
			})
		})
	})
}
