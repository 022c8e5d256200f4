package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"dibs/simulate"
)

// simulateCommand says what settings would do, without a bot or a phone.
type simulateCommand struct {
	Scenario string `arg:"" optional:"" help:"A JSON file, or the name of a scenario that comes with the program. Without it these are listed."`
	Output   string `short:"o" enum:"table,json" default:"table" help:"table or json."`
}

// Run writes the report to out and complaints to errs, and is the exit code: 0, 1
// when the file cannot be read, 2 when it is no scenario or there is none of that
// name.
func (c *simulateCommand) Run(out, errs io.Writer) int {
	if c.Scenario == "" {
		return c.write(out, errs, simulate.Names(), func(w io.Writer) { fmt.Fprintln(w, strings.Join(simulate.Names(), "\n")) })
	}
	report, code, err := c.report()
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintf(errs, "dibs simulate: %s: %s\n", c.Scenario, strings.TrimPrefix(line, "simulate: "))
		}
		return code
	}
	return c.write(out, errs, report, func(w io.Writer) { simulated(w, report) })
}

func (c *simulateCommand) report() (report *simulate.Report, code int, err error) {
	data, err := os.ReadFile(c.Scenario)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(c.Scenario, `./\`) {
		data, err = simulate.Shipped(c.Scenario)
		if err != nil {
			return nil, 2, err
		}
	}
	if err != nil {
		if wrong, ok := errors.AsType[*fs.PathError](err); ok {
			err = wrong.Err // the name stands before it
		}
		return nil, 1, err
	}
	s, err := simulate.Parse(data)
	if err != nil {
		return nil, 2, err
	}
	if report, err = simulate.Run(s); err != nil {
		return nil, 2, err
	}
	return report, 0, nil
}

// write writes v as JSON, or as table does.
func (c *simulateCommand) write(out, errs io.Writer, v any, table func(io.Writer)) int {
	if c.Output != "json" {
		table(out)
		return 0
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		fmt.Fprintf(errs, "dibs simulate: %v\n", err)
		return 1
	}
	return 0
}

// simulated is a report for people: the policies, then who waited how long.
func simulated(w io.Writer, r *simulate.Report) {
	if r.About != "" {
		fmt.Fprintf(w, "%s\n\n", r.About)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tpeak demand\tpeak bots\tbots used\tidle bot-min\tdone\trefused\twaiting\t")
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d of %d\t%s\t%d\t\n",
			x.Policy, x.PeakDemand, x.PeakBots, x.Used, x.Idle, x.Done, x.Placed, reasons(x.Refused), x.Waiting)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "org\tpolicy\twait p50\tp95\tlongest\tdone\trefused\t")
	for _, x := range r.Results {
		for _, o := range x.Orgs {
			fmt.Fprintf(t, "%s\t%s\t%d s\t%d s\t%d s\t%d of %d\t%d\t\n", o.Org, x.Policy, o.P50, o.P95, o.Longest, o.Done, o.Placed, o.Refused)
		}
	}
	_ = t.Flush()
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "\nwarning: %s", warning)
	}
	if r.Warnings != nil {
		fmt.Fprintln(w)
	}
}

// reasons is "no_idle_bot 3, org_ceiling 1", or "0".
func reasons(refused map[string]int) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, refused[reason]))
	}
	if parts == nil {
		return "0"
	}
	return strings.Join(parts, ", ")
}
