package warmup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// DefaultBudget is what a whole warm-up may take. The asker waits 10 s for
// ready, so the bot gives up first and can say why.
const DefaultBudget = 8 * time.Second

// Step is one named piece of work.
type Step struct {
	Name   string
	Budget time.Duration // it may take this long; 0: what is left of the whole
	After  []string      // steps that must be done first

	// Run must return soon after its ctx ends: nobody leaves without it.
	Run func(ctx context.Context) error
}

// Outcome is how a step ended.
type Outcome string

// The outcomes.
const (
	OutcomeDone    Outcome = "done"
	OutcomeFailed  Outcome = "failed"
	OutcomeAborted Outcome = "aborted" // it ran when something else ended the warm-up
	OutcomeSkipped Outcome = "skipped" // it never began
)

// Took is how long one step took.
type Took struct {
	Step    string
	Began   time.Duration // after the warm-up's beginning
	Took    time.Duration
	Outcome Outcome
}

// Report is how long everything took, in the order in which the steps were given.
type Report struct {
	Total time.Duration
	Steps []Took
}

// Millis are the milliseconds of the steps that began, by name.
func (r Report) Millis() map[string]int64 {
	m := make(map[string]int64, len(r.Steps))
	for _, s := range r.Steps {
		if s.Outcome != OutcomeSkipped {
			m[s.Step] = s.Took.Milliseconds()
		}
	}
	return m
}

// errBudget is the cause when the whole budget is used up.
var errBudget = errors.New("budget used up")

// Run runs steps beside each other, each as soon as those it comes after are
// done, within budget (0: [DefaultBudget]). The first failure cancels the rest,
// and so does the end of ctx; in every case Run returns only when no step runs
// any more.
//
// The error is an [*Error], except for steps that cannot be run at all (two of
// one name, unknown or circular After).
func Run(ctx context.Context, budget time.Duration, steps []Step) (Report, error) {
	if budget <= 0 {
		budget = DefaultBudget
	}
	if err := checkSteps(steps); err != nil {
		return Report{}, err
	}
	parent := ctx
	ctx, stop := context.WithTimeoutCause(parent, budget, errBudget)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	began := time.Now()
	report := Report{Steps: make([]Took, len(steps))}
	done := make(map[string]chan struct{}, len(steps))
	for _, s := range steps {
		done[s.Name] = make(chan struct{})
	}
	var wg sync.WaitGroup
	for i, s := range steps {
		wg.Go(func() {
			// The cancel comes before this close, so who waited for a failed step sees both.
			defer close(done[s.Name])
			took := &report.Steps[i]
			*took = Took{Step: s.Name, Outcome: OutcomeSkipped}
			for _, name := range s.After {
				select {
				case <-done[name]:
				case <-ctx.Done():
				}
			}
			if ctx.Err() != nil {
				return
			}
			at := time.Now()
			took.Began = at.Sub(began)
			err := runStep(ctx, s)
			took.Took = time.Since(at)
			switch {
			case err == nil:
				took.Outcome = OutcomeDone
			case ctx.Err() != nil:
				took.Outcome = OutcomeAborted
			default:
				took.Outcome = OutcomeFailed
				cancel(err)
			}
		})
	}
	wg.Wait()
	report.Total = time.Since(began)
	if !slices.ContainsFunc(report.Steps, func(t Took) bool { return t.Outcome != OutcomeDone }) {
		return report, nil
	}
	return report, explain(parent, context.Cause(ctx), budget, report)
}

// runStep gives every error that is the step's own a code.
func runStep(ctx context.Context, s Step) error {
	if s.Budget > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, s.Budget)
		defer stop()
	}
	err := s.Run(ctx)
	if err == nil {
		return nil
	}
	e := &Error{Code: StepFailed, Detail: oneLine(err.Error()), Err: err}
	if own, ok := errors.AsType[*Error](err); ok {
		copied := *own // it may be shared, and gets a step and a report here
		e = &copied
	} else if ctx.Err() != nil {
		e = &Error{Code: TimedOut, Detail: fmt.Sprintf("not done within %v", s.Budget), Err: err}
	}
	e.Step = s.Name
	return e
}

// explain turns the cause of an unfinished warm-up into its error.
func explain(parent context.Context, cause error, budget time.Duration, report Report) error {
	e := &Error{Code: Cancelled, Err: cause}
	if own, ok := errors.AsType[*Error](cause); ok {
		copied := *own
		e = &copied
	}
	var running []string
	for _, t := range report.Steps {
		if t.Outcome == OutcomeAborted {
			running = append(running, t.Step)
		}
	}
	if e.Step == "" && len(running) > 0 {
		e.Step = running[0]
	}
	switch {
	case errors.Is(cause, errBudget):
		e.Code, e.Detail = TimedOut, fmt.Sprintf("%v are over", budget)
	case e.Code == Cancelled && errors.Is(parent.Err(), context.DeadlineExceeded):
		e.Code, e.Detail = TimedOut, "the time of whoever asked is over"
	case e.Code == Cancelled && e.Detail == "":
		e.Detail = "no longer wanted"
	default:
		running = nil
	}
	if len(running) > 0 {
		e.Detail += ", while " + strings.Join(running, ", ") + " ran"
	}
	e.Report = report
	return e
}

func checkSteps(steps []Step) error {
	at := make(map[string]int, len(steps))
	for i, s := range steps {
		if _, twice := at[s.Name]; twice || s.Name == "" || s.Run == nil {
			return fmt.Errorf("warm-up: step %q: needs a name of its own and something to run", s.Name)
		}
		at[s.Name] = i
	}
	state := make([]int, len(steps)) // 0 not looked at, 1 on the way, 2 fine
	var visit func(int) error
	visit = func(i int) error {
		if state[i] == 1 {
			return fmt.Errorf("warm-up: step %q: comes after itself", steps[i].Name)
		}
		if state[i] == 2 {
			return nil
		}
		state[i] = 1
		for _, name := range steps[i].After {
			j, ok := at[name]
			if !ok {
				return fmt.Errorf("warm-up: step %q: after %q, which there is not", steps[i].Name, name)
			}
			if err := visit(j); err != nil {
				return err
			}
		}
		state[i] = 2
		return nil
	}
	for i := range steps {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}
