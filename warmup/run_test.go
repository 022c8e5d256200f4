package warmup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// takes is a step that works for d, or until it is told to stop.
func takes(name string, d time.Duration, after ...string) Step {
	return Step{Name: name, After: after, Run: func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
}

func fails(name string, d time.Duration, err error, after ...string) Step {
	s := takes(name, d, after...)
	work := s.Run
	s.Run = func(ctx context.Context) error {
		if err := work(ctx); err != nil {
			return err
		}
		return err
	}
	return s
}

const ms = time.Millisecond

func TestRun(t *testing.T) {
	own := &Error{Code: ProviderRefused, Provider: "acme", Detail: "acme says no"}
	budgeted := takes("slow", time.Minute)
	budgeted.Budget = 300 * ms
	for _, tc := range []struct {
		name   string
		budget time.Duration
		steps  []Step
		want   Report
		code   Code // "": no error
		text   string
	}{
		{
			name: "nothing to do",
			want: Report{Steps: []Took{}},
		},
		{
			name:  "beside each other, and after each other",
			steps: []Step{takes("greeting", 400*ms, "flow"), takes("flow", 100*ms), takes("stt", 250*ms)},
			want: Report{500 * ms, []Took{
				{"greeting", 100 * ms, 400 * ms, OutcomeDone},
				{"flow", 0, 100 * ms, OutcomeDone},
				{"stt", 0, 250 * ms, OutcomeDone},
			}},
		},
		{
			name:  "the first failure ends the rest",
			steps: []Step{takes("flow", 100*ms), fails("stt", 200*ms, own), takes("greeting", time.Minute, "flow"), takes("last", ms, "greeting")},
			want: Report{200 * ms, []Took{
				{"flow", 0, 100 * ms, OutcomeDone},
				{"stt", 0, 200 * ms, OutcomeFailed},
				{"greeting", 100 * ms, 100 * ms, OutcomeAborted},
				{"last", 0, 0, OutcomeSkipped},
			}},
			code: ProviderRefused,
			text: "warm-up: stt: provider_refused: acme says no",
		},
		{
			name:  "what comes after a failure never begins",
			steps: []Step{fails("flow", 100*ms, own), takes("greeting", ms, "flow")},
			want:  Report{100 * ms, []Took{{"flow", 0, 100 * ms, OutcomeFailed}, {"greeting", 0, 0, OutcomeSkipped}}},
			code:  ProviderRefused,
			text:  "warm-up: flow: provider_refused: acme says no",
		},
		{
			name:  "a step's budget",
			steps: []Step{budgeted, takes("other", time.Second)},
			want:  Report{300 * ms, []Took{{"slow", 0, 300 * ms, OutcomeFailed}, {"other", 0, 300 * ms, OutcomeAborted}}},
			code:  TimedOut,
			text:  "warm-up: slow: warmup_timeout: not done within 300ms",
		},
		{
			name:  "the whole budget",
			steps: []Step{takes("flow", 100*ms), takes("stt", time.Minute), takes("greeting", time.Minute, "flow")},
			want: Report{8 * time.Second, []Took{
				{"flow", 0, 100 * ms, OutcomeDone},
				{"stt", 0, 8 * time.Second, OutcomeAborted},
				{"greeting", 100 * ms, 7900 * ms, OutcomeAborted},
			}},
			code: TimedOut,
			text: "warm-up: stt: warmup_timeout: 8s are over, while stt, greeting ran",
		},
		{
			name:   "a budget of one's own",
			budget: time.Second,
			steps:  []Step{takes("stt", time.Minute)},
			want:   Report{time.Second, []Took{{"stt", 0, time.Second, OutcomeAborted}}},
			code:   TimedOut,
			text:   "1s are over",
		},
		{
			name:  "any error",
			steps: []Step{fails("stt", ms, errors.New("boom"))},
			want:  Report{ms, []Took{{"stt", 0, ms, OutcomeFailed}}},
			code:  StepFailed,
			text:  "warm-up: stt: step_failed: boom",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := Run(t.Context(), tc.budget, tc.steps)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("Report (-want +got):\n%s", diff)
				}
				if tc.code == "" {
					if err != nil {
						t.Errorf("got error %v", err)
					}
					return
				}
				e := coded(t, err)
				if e.Code != tc.code || !strings.Contains(e.Error(), tc.text) {
					t.Errorf("got code %q, text %q; want %q, text with %q", e.Code, e, tc.code, tc.text)
				}
				if diff := cmp.Diff(tc.want, e.Report); diff != "" {
					t.Errorf("Report of the error (-want +got):\n%s", diff)
				}
			})
		})
	}
	if own.Step != "" || own.Report.Total != 0 {
		t.Error("Run wrote into the step's own error")
	}
}

func TestRunEndsWithItsCaller(t *testing.T) {
	hangUp := errors.New("the caller hung up")
	died := &Error{Step: "provider_stt", Code: ProviderClosed, Detail: "acme closed the session"}
	for _, tc := range []struct {
		name   string
		ctx    func(context.Context) (context.Context, func())
		code   Code
		text   string
		is     error
		counts bool
	}{
		{"cancelled", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, cancel
		}, Cancelled, "no longer wanted, while slow ran", context.Canceled, false},
		{"cancelled for a reason", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(hangUp) }
		}, Cancelled, "no longer wanted", hangUp, false},
		{"cancelled with an error of ours", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(died) }
		}, ProviderClosed, "warm-up: provider_stt: provider_closed: acme closed the session", nil, true},
		{"its deadline", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, 500*ms)
			_ = cancel
			return ctx, func() {}
		}, TimedOut, "the time of whoever asked is over, while slow ran", context.DeadlineExceeded, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := tc.ctx(t.Context())
				time.AfterFunc(500*ms, end)
				began := time.Now()
				report, err := Run(ctx, 0, []Step{takes("quick", 100*ms), takes("slow", time.Minute)})
				if got := time.Since(began); got != 500*ms {
					t.Errorf("came back after %v, want 500ms: at once", got)
				}
				e := coded(t, err)
				if e.Code != tc.code || !strings.Contains(e.Error(), tc.text) {
					t.Errorf("got code %q, text %q; want %q, text with %q", e.Code, e, tc.code, tc.text)
				}
				if tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("%v is not %v", err, tc.is)
				}
				if got := Counts(err); got != tc.counts {
					t.Errorf("Counts: got %v, want %v", got, tc.counts)
				}
				if got, want := report.Millis(), map[string]int64{"quick": 100, "slow": 500}; !cmp.Equal(got, want) {
					t.Errorf("Millis: got %v, want %v", got, want)
				}
			})
		})
	}
}

// The work was done, so an end that comes as late as that is not looked at.
func TestRunDoneIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Run(ctx, 0, []Step{{Name: "last", Run: func(context.Context) error { cancel(); return nil }}}); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestRunRefusesStepsThatCannotBeRun(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		steps      []Step
	}{
		{"no name", `step ""`, []Step{takes("", 0)}},
		{"nothing to run", `step "a"`, []Step{{Name: "a"}}},
		{"one name twice", `step "a"`, []Step{takes("a", 0), takes("a", 0)}},
		{"after nobody", `after "b", which there is not`, []Step{takes("a", 0, "b")}},
		{"after itself", "comes after itself", []Step{takes("a", 0, "a")}},
		{"in a circle", "comes after itself", []Step{takes("a", 0, "b"), takes("b", 0, "c"), takes("c", 0, "a")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Run(t.Context(), 0, tc.steps)
			if _, ours := errors.AsType[*Error](err); err == nil || ours || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, want a plain error with %q", err, tc.text)
			}
		})
	}
}

// Whatever depends on whatever, takes how long, and fails or not: steps begin
// only after what they come after, as early as they can, and all have ended when
// Run returns.
func TestRunAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
			n := rapid.IntRange(1, 8).Draw(rt, "steps")
			began, ended := make([]time.Duration, n), make([]time.Duration, n)
			length, broken := make([]time.Duration, n), make([]bool, n)
			after := make([][]int, n)
			start := time.Now()
			var steps []Step
			for i := range n {
				length[i] = time.Duration(rapid.IntRange(0, 1500).Draw(rt, "ms")) * ms
				broken[i] = rapid.IntRange(0, 9).Draw(rt, "broken") == 0
				began[i], ended[i] = -1, -1
				if i > 0 {
					after[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, i, rapid.ID).Draw(rt, "after")
				}
				s := Step{Name: fmt.Sprint(i)}
				for _, j := range after[i] {
					s.After = append(s.After, fmt.Sprint(j))
				}
				s.Run = func(ctx context.Context) error {
					began[i] = time.Since(start)
					defer func() { ended[i] = time.Since(start) }()
					select {
					case <-time.After(length[i]):
					case <-ctx.Done():
						return ctx.Err()
					}
					if broken[i] {
						return errors.New("broken")
					}
					return nil
				}
				steps = append(steps, s)
			}
			report, err := Run(context.Background(), 8*time.Second, steps)
			all := true
			for i, took := range report.Steps {
				all = all && took.Outcome == OutcomeDone
				if (took.Outcome == OutcomeSkipped) != (began[i] == -1) {
					rt.Fatalf("step %d: %s, began %v", i, took.Outcome, began[i])
				}
				if began[i] == -1 {
					continue
				}
				if ended[i] == -1 {
					rt.Fatalf("step %d still runs", i)
				}
				earliest := time.Duration(0)
				for _, j := range after[i] {
					if report.Steps[j].Outcome != OutcomeDone {
						rt.Fatalf("step %d began after %d, which is %s", i, j, report.Steps[j].Outcome)
					}
					earliest = max(earliest, ended[j])
				}
				if began[i] != earliest || took.Began != began[i] || took.Took != ended[i]-began[i] {
					rt.Fatalf("step %d: began at %v for %v, want at %v; report %+v", i, began[i], ended[i]-began[i], earliest, took)
				}
			}
			if all != (err == nil) {
				rt.Fatalf("error %v with %+v", err, report)
			}
			if e, ok := errors.AsType[*Error](err); ok && e.Code == StepFailed {
				first := slices.IndexFunc(report.Steps, func(s Took) bool { return s.Outcome == OutcomeFailed })
				if first == -1 || !broken[first] {
					rt.Fatalf("%v without a broken step: %+v", err, report)
				}
			}
			if last := slices.Max(append(ended, 0)); report.Total != last {
				rt.Fatalf("Total: got %v, the last step ended at %v", report.Total, last)
			}
		})
	})
}

func TestCounts(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"success", nil, false},
		{"the bot's", &Error{Code: ProviderRefused}, true},
		{"the call's", &Error{Code: FlowNotFound, Permanent: true}, false},
		{"wrapped", fmt.Errorf("claim: %w", &Error{Code: FlowNotFound, Permanent: true}), false},
		{"withdrawn", &Error{Code: Cancelled}, false},
		{"bare", context.Canceled, false},
		{"budget", &Error{Code: TimedOut, Err: context.DeadlineExceeded}, true},
		{"unknown", errors.New("boom"), true},
	} {
		if got := Counts(tc.err); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}
