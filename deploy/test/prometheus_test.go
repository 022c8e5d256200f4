package deploytest

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// ruleFile is a file of Prometheus rules.
type ruleFile struct {
	Groups []struct {
		Name     string
		Interval string
		Rules    []rule
	}
}

type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	return parseRules(t, text(t, "../prometheus/rules.yaml"))
}

func parseRules(t *testing.T, data []byte) []rule {
	t.Helper()
	var f ruleFile
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

func text(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// promtool runs it in dir, and skips the test where there is none.
func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("DIBS_PROMTOOL") == "1" {
			t.Fatal("DIBS_PROMTOOL=1 and promtool is not there (Debian: apt-get install prometheus)")
		}
		t.Skip("promtool is not there (Debian: apt-get install prometheus)")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return string(out), err
}

func TestRules(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "demand_test.yaml", "alerts_test.yaml"}} {
		if out, err := promtool(t, "../prometheus", args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// The tests of the rules can fail: each of these mistakes is caught by one of them.
func TestRulesCatch(t *testing.T) {
	good := string(text(t, "../prometheus/rules.yaml"))
	for _, r := range rules(t) {
		dir := t.TempDir()
		write(t, dir, good, r)
		if out, err := promtool(t, dir, "test", "rules", "tests.yaml"); err != nil {
			t.Fatalf("nothing is planted, and %s%s fails:\n%s", r.Alert, r.Record, out)
		}
	}
	for name, change := range map[string][2]string{
		"replicas double":              {"max by (region, term) (last_over_time(dibs_demand_units[15s]))", "last_over_time(dibs_demand_units[15s])"},
		"unknown is 0":                 {"(last_over_time(dibs_demand_units[15s])))", "(last_over_time(dibs_demand_units[15s]))) or 0 * sum by (region) (dibs_demand_units offset 30s)"},
		"old samples are believed":     {"last_over_time(dibs_demand_units[15s])", "last_over_time(dibs_demand_units[5m])"},
		"regions in one":               {"sum by (region) (max by (region, term)", "sum(max by (term)"},
		"bots double":                  {"sum by (region) (max by (region, pool) (dibs_bots))", "sum by (region) (dibs_bots)"},
		"unknown only with bots":       {" or (absent(dibs_demand_units) and absent(dibs:bots))", ""},
		"no alert while others know":   {"(dibs:bots unless on (region) dibs:demand_units) or ", ""},
		"no bots, anywhere":            {"unless on (region) (dibs:bots > 0)", "unless on () (dibs:bots > 0)"},
		"stalled without idle bots":    {"          and on (region) (dibs:seats{state=\"idle\"} > 0)\n", ""},
		"stalled while asking":         {"          unless on () (sum(increase(dibs_claim_asks_total[1m])) > 0)\n", ""},
		"stalled only after an ask":    {"unless on () (sum(increase(dibs_claim_asks_total[1m])) > 0)", "and on () (sum(increase(dibs_claim_asks_total[1m])) == 0)"},
		"every old seat is stuck":      {`oldest_seconds{state="warming"}`, "oldest_seconds"},
		"stuck seats are not seen":     {`dibs:seats{state="stuck"}`, `dibs:seats{state="stuk"}`},
		"every outcome is no bot":      {`{outcome="bot_unavailable"}`, ""},
		"limited at the ceiling":       {"> on (region) dibs:wanted_bots + 0.001", ">= on (region) dibs:wanted_bots"},
		"limited at the floor":         {"dibs:demand_units / 0.7 > on (region)", "dibs:demand_units / 0.7 != on (region)"},
		"a gap at once":                {"bots - on (region) dibs:bots > 0\n        for: 5m", "bots - on (region) dibs:bots > 0\n        for: 0s"},
		"wrong calls are lack of bots": {"no_idle_bot|bots_busy", "rejected|no_idle_bot|bots_busy"},
		"busy over asks":               {`{answer="busy"}`, ""},
		"critical is a warning":        {"severity: critical", "severity: warning"},
	} {
		t.Run(name, func(t *testing.T) {
			planted := strings.Replace(good, change[0], change[1], 1)
			if planted == good {
				t.Fatalf("%q is not in the rules", change[0])
			}
			dir := t.TempDir()
			write(t, dir, planted, changed(t, planted))
			if out, err := promtool(t, dir, "test", "rules", "tests.yaml"); err == nil {
				t.Errorf("nothing is wrong with it:\n%s", out)
			}
		})
	}
}

// write puts the rules into dir, and the tests that look at r.
func write(t *testing.T, dir, rules string, r rule) {
	t.Helper()
	for name, data := range map[string][]byte{"rules.yaml": []byte(rules), "tests.yaml": testsOf(t, r)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// changed is the first rule that is not as it stands in the file.
func changed(t *testing.T, planted string) rule {
	t.Helper()
	for i, r := range parseRules(t, []byte(planted)) {
		if good := rules(t)[i]; !reflect.DeepEqual(r, good) {
			return good
		}
	}
	t.Fatal("no rule is changed")
	return rule{}
}

// testsOf are the tests that look at r: all of them takes seconds each time.
func testsOf(t *testing.T, r rule) []byte {
	t.Helper()
	var tests []any
	every := "15s"
	if r.Record == "dibs:demand_units" {
		every = "5s"
	}
	for _, name := range []string{"demand_test.yaml", "alerts_test.yaml"} {
		var f struct{ Tests []map[string]any }
		if err := yaml.Unmarshal(text(t, filepath.Join("../prometheus", name)), &f); err != nil {
			t.Fatal(err)
		}
		for _, test := range f.Tests {
			for _, a := range list(test["alert_rule_test"]) {
				if alert := a.(map[string]any)["alertname"]; alert == r.Alert || r.Record == "dibs:bots" && alert == "DibsCapacityGap" {
					tests = append(tests, test)
					break
				}
			}
			if test["promql_expr_test"] != nil && r.Record == "dibs:demand_units" {
				tests = append(tests, test)
			}
		}
	}
	data, err := yaml.Marshal(map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": every, "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The tests of the rules test what the autoscaler asks.
func TestQueryIsTested(t *testing.T) {
	tests := string(text(t, "../prometheus/demand_test.yaml"))
	if want := "expr: '" + query("eu-west") + "'"; !strings.Contains(tests, want) {
		t.Errorf("no test has %s", want)
	}
	for _, r := range rules(t) {
		if strings.Contains(r.Expr, "vector(0)") {
			t.Errorf("%s%s makes 0 of what is not known", r.Record, r.Alert)
		}
	}
}

var metric = regexp.MustCompile(`\bdibs_[a-z_]+\b`)

// Every metric is one that the product exports.
func TestMetricsAreThere(t *testing.T) {
	exported := map[string]bool{}
	quoted := regexp.MustCompile(`"(dibs_[a-z_]+)"`)
	err := fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "deploy", "node_modules"}, d.Name()):
			return fs.SkipDir
		}
		if filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			for _, m := range quoted.FindAllStringSubmatch(string(text(t, filepath.Join("../..", name))), -1) {
				exported[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, r := range rules(t) {
		for _, name := range metric.FindAllString(r.Expr, -1) {
			used[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !exported[name] {
			t.Errorf("nobody exports %s", name)
		}
	}
	if len(exported) < 10 || len(used) < 5 {
		t.Errorf("%d metrics in the sources, %d in the rules: this looks at nothing", len(exported), len(used))
	}
}

// Every alert has a section whose first line is a command to copy, one that there is.
func TestRunbooks(t *testing.T) {
	book := string(text(t, "../../docs/RUNBOOKS.md"))
	cli := string(text(t, "../../cmd/dibs/cli.go"))
	first := regexp.MustCompile("^```sh\n((?:curl|kubectl) .*|dibs ([a-z]+) ([a-z]+).*)\n```\n")
	var names []string
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		names = append(names, r.Alert)
		_, section, ok := strings.Cut(book, "\n## "+r.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		m := first.FindStringSubmatch(strings.TrimLeft(section, "\n"))
		if !ok || m == nil {
			t.Errorf("docs/RUNBOOKS.md: section %s must begin with a command", r.Alert)
		} else if verb := regexp.MustCompile(`(?im)^\t` + m[3] + `\s.*`); m[2] != "" && (!strings.Contains(cli, "type "+m[2]+"Command struct") || !verb.MatchString(cli)) {
			t.Errorf("docs/RUNBOOKS.md: section %s: there is no dibs %s %s", r.Alert, m[2], m[3])
		}
		if want := "docs/RUNBOOKS.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want || r.Annotations["summary"] == "" {
			t.Errorf("%s: annotations %v, want a summary and %s", r.Alert, r.Annotations, want)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^## (Dibs\w+)$`).FindAllStringSubmatch(book, -1) {
		if !slices.Contains(names, m[1]) {
			t.Errorf("docs/RUNBOOKS.md: there is no alert %s", m[1])
		}
	}
}
