// Command bench measures the numbers Dibs holds itself to, each next to a
// reference in the same run: what counts is the ratio, not the machine. It prints a
// row a figure and writes bench/results.json. A bar that does not hold is shown, and
// is the exit code.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// Row is one figure.
type Row struct {
	Name      string  `json:"name"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit"`
	Reference float64 `json:"reference,omitempty"` // measured in the same run, in the same unit
	Against   string  `json:"against,omitempty"`   // what the reference is
	Ratio     float64 `json:"ratio,omitempty"`     // value over reference
	Bar       string  `json:"bar,omitempty"`       // what must hold; empty: only reported
	Holds     *bool   `json:"holds,omitempty"`
}

// atMost says that the ratio, or without a reference the value, must not be over bar.
func (r Row) atMost(bar float64) Row {
	got, what := r.Value, "value"
	if r.Reference > 0 {
		got, what = r.Ratio, "ratio"
	}
	holds := got <= bar
	r.Bar, r.Holds = fmt.Sprintf("%s <= %g", what, bar), &holds
	return r
}

// against sets the reference.
func (r Row) against(what string, ref float64) Row {
	r.Against, r.Reference = what, ref
	if ref > 0 {
		r.Ratio = r.Value / ref
	}
	return r
}

type measure struct {
	name string
	run  func(ctx context.Context) ([]Row, error)
}

// Results is what bench/results.json holds.
type Results struct {
	At      time.Time `json:"at"`
	Machine string    `json:"machine"`
	Go      string    `json:"go"`
	Rows    []Row     `json:"rows"`
}

func main() {
	only := flag.String("only", ".", "measure only what matches this pattern")
	out := flag.String("out", filepath.Join("bench", "results.json"), "where the results go; empty: nowhere")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: -only:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	res := Results{At: time.Now().UTC().Truncate(time.Second), Machine: fmt.Sprintf("%d cores, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH), Go: runtime.Version()}
	failed := false
	fmt.Printf("%-44s %12s %-8s %12s %7s  %s\n", "figure", "value", "unit", "reference", "ratio", "bar")
	for _, m := range measures() {
		if !pattern.MatchString(m.name) {
			continue
		}
		rows, err := m.run(ctx)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", m.name, err)
			failed = true
			continue
		}
		for _, r := range rows {
			r.print()
			failed = failed || r.Holds != nil && !*r.Holds
		}
		res.Rows = append(res.Rows, rows...)
	}
	if *out != "" {
		data, err := json.MarshalIndent(res, "", " ")
		if err == nil {
			err = os.WriteFile(*out, append(data, '\n'), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func (r Row) print() {
	ref, ratio, bar := "", "", r.Bar
	if r.Reference > 0 {
		ref, ratio = fmt.Sprintf("%.4g", r.Reference), fmt.Sprintf("%.2f", r.Ratio)
	}
	if r.Holds != nil {
		bar += map[bool]string{true: "  holds", false: "  DOES NOT HOLD"}[*r.Holds]
	}
	fmt.Printf("%-44s %12.4g %-8s %12s %7s  %s\n", r.Name, r.Value, r.Unit, ref, ratio, bar)
}

func measures() []measure {
	return append([]measure{
		{"busy", busyReplies},
		{"load", hundredThousand},
		{"admit", inboundAdmission},
	}, goBenchmarks()...)
}
