package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// figure is a metric that a package's own benchmark reports, and what becomes of it.
type figure struct {
	pkg, bench, flags  string
	metric, ref        string // names of ReportMetric; ref may be empty
	name, unit, refers string
	bar                float64 // on the ratio when there is a reference; 0: none
	value              bool    // the bar is on the value all the same
}

var figures = []figure{
	{pkg: "./claim", bench: "Assign/^10_", flags: "-benchtime=40x", metric: "claim_p50_us", ref: "raw_p50_us", name: "claim p50, 10 idle seats", unit: "us", refers: "raw request-reply p50"},
	{pkg: "./claim", bench: "Assign/^100_", flags: "-benchtime=40x", metric: "claim_p50_us", ref: "raw_p50_us", name: "claim p50, 100 idle seats", unit: "us", refers: "raw request-reply p50", bar: 2},
	{pkg: "./claim", bench: "Assign/^1000_", flags: "-benchtime=40x", metric: "claim_p50_us", ref: "raw_p50_us", name: "claim p50, 1,000 idle seats", unit: "us", refers: "raw request-reply p50"},
	{pkg: "./claim", bench: "Assign/^10000_", flags: "-benchtime=40x", metric: "claim_p50_us", ref: "raw_p50_us", name: "claim p50, 10,000 idle seats", unit: "us", refers: "raw request-reply p50"},
	{pkg: "./admission", bench: "TenSlots", flags: "-benchtime=10x", metric: "tick_ms", ref: "scan_ms", name: "ten slots, 200 orgs, 100,000 waiting", unit: "ms", refers: "scanning all for each slot", bar: 5, value: true},
	{pkg: "./admission", bench: "TenSlots", flags: "-benchtime=10x", metric: "blocked_ms", name: "the same, nobody can go", unit: "ms", bar: 5, value: true},
	{pkg: "./admission", bench: "Enqueue", flags: "-benchtime=3x", metric: "B/call", name: "memory of admission a waiting call", unit: "bytes"},
	{pkg: "./media", bench: "FirstFrame", flags: "-benchtime=5x", metric: "first_frame_p95_ms", ref: "echo_p95_ms", name: "first greeting frame after start, p95, 50 streams", unit: "ms", refers: "raw websocket echo", bar: 40, value: true},
	{pkg: "./queue", bench: "Put$", flags: "-benchtime=5000x", metric: "×raw", name: "put through the library over raw publish, p50", unit: "ratio", bar: 1.3, value: true},
	{pkg: "./sim/crash", bench: "Office", flags: "-benchtime=8x", metric: "killed_p50_s", name: "next dial after the one in office is killed, p50", unit: "s", bar: 2, value: true},
	{pkg: "./sim/crash", bench: "Office", flags: "-benchtime=8x", metric: "killed_max_s", name: "the same, worst of 8", unit: "s"},
	{pkg: "./sim/crash", bench: "Office", flags: "-benchtime=8x", metric: "paused_p50_s", name: "next dial after the one in office is paused, p50", unit: "s", bar: 4, value: true},
	{pkg: "./sim/crash", bench: "Office", flags: "-benchtime=8x", metric: "paused_max_s", name: "the same, worst of 8", unit: "s"},
	{pkg: "./sim/crash", bench: "Waiting", flags: "-benchtime=3x", metric: "read_s", name: "100,000 queued calls are known after", unit: "s"},
	{pkg: "./sim/crash", bench: "Waiting", flags: "-benchtime=3x", metric: "B/call", name: "memory of the dispatcher a queued call", unit: "bytes", bar: 2048, value: true},
	{pkg: "./sim/inbound", bench: "Inbound", flags: "-benchtime=20x", metric: "twiml_p95_ms", ref: "refused_p95_ms", name: "inbound webhook to instruction, p95, 50 at once", unit: "ms", refers: "the refusal of a foreign number", bar: 50, value: true},
	{pkg: "./sim/inbound", bench: "Rescue", flags: "-benchtime=20x", metric: "silence_p95_ms", name: "silence of a caller whose bot dies, p95", unit: "ms", bar: 3000, value: true},
}

// goBenchmarks are the packages' own benchmarks, a measure a package.
func goBenchmarks() (ms []measure) {
	for _, f := range figures {
		name := strings.TrimPrefix(f.pkg, "./")
		if !slices.ContainsFunc(ms, func(m measure) bool { return m.name == name }) {
			ms = append(ms, measure{name, func(ctx context.Context) ([]Row, error) { return benchmarks(ctx, f.pkg) }})
		}
	}
	return ms
}

// benchmarks runs one package's and reads their metrics.
func benchmarks(ctx context.Context, pkg string) (rows []Row, err error) {
	type run struct{ bench, flags string }
	done := map[run]map[string]float64{}
	for _, f := range figures {
		if f.pkg != pkg {
			continue
		}
		k := run{f.bench, f.flags}
		metrics, ok := done[k]
		if !ok {
			args := append([]string{"test", "-run", "^$", "-bench", f.bench, "-timeout", "10m"}, strings.Fields(f.flags)...)
			out, err := exec.CommandContext(ctx, "go", append(args, f.pkg)...).CombinedOutput()
			if err != nil {
				return rows, fmt.Errorf("%s: %w\n%s", f.bench, err, out)
			}
			metrics = parseMetrics(out)
			done[k] = metrics
		}
		v, ok := metrics[f.metric]
		if !ok {
			return rows, fmt.Errorf("%s: no metric %s", f.bench, f.metric)
		}
		r := Row{Name: f.name, Value: v, Unit: f.unit}
		switch {
		case f.bar > 0 && f.value:
			r = r.atMost(f.bar).against(f.refers, metrics[f.ref])
		case f.ref != "":
			if r = r.against(f.refers, metrics[f.ref]); f.bar > 0 {
				r = r.atMost(f.bar)
			}
		case f.bar > 0:
			r = r.atMost(f.bar)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// parseMetrics reads the lines of a benchmark: a number, then its unit, in pairs.
func parseMetrics(out []byte) map[string]float64 {
	m := map[string]float64{}
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				m[fields[i+1]] = v
			}
		}
	}
	return m
}
