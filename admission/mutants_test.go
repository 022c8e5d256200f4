package admission

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var mutants = flag.Bool("mutants", false, "run the tests against every wrong implementation of the list (some minutes)")

// mutant is one wrong implementation: the line from, which stands in the file
// once, replaced by to.
type mutant struct {
	wrong    string // what it does
	file     string
	from, to string
}

// apply is the file with the mistake in it.
func (m mutant) apply() ([]byte, error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(src, []byte(m.from)); n != 1 {
		return nil, fmt.Errorf("%q stands in %s %d times, want once", m.from, m.file, n)
	}
	return bytes.Replace(src, []byte(m.from), []byte(m.to), 1), nil
}

// The list keeps up with the code.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutantList {
		if _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.wrong, err)
		}
	}
}

// With -mutants (make mutants): every wrong implementation is caught by some test.
// The mistake is laid over the file for the compiler; the file stays as it is.
func TestMutants(t *testing.T) {
	if !*mutants {
		t.Skip("only with -mutants")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	killed, next := make([]string, len(mutantList)), make(chan int)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range next {
				killed[i] = mutantList[i].run(t, here)
			}
		})
	}
	for i := range mutantList {
		next <- i
	}
	close(next)
	wg.Wait()

	kills := map[string]int{}
	for i, m := range mutantList {
		t.Logf("%2d %-66s %s", i+1, m.wrong, killed[i])
		if killed[i] == "" {
			t.Errorf("%d survives: %s", i+1, m.wrong)
		}
		for name := range strings.FieldsSeq(killed[i]) {
			kills[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kills)) {
		t.Logf("%-24s kills %d of %d", name, kills[name], len(mutantList))
	}
}

// run names the tests that fail under m.
func (m mutant) run(t *testing.T, here string) string {
	src, err := m.apply()
	if err != nil {
		t.Error(err)
		return ""
	}
	dir := t.TempDir()
	file := filepath.Join(dir, m.file)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(here, m.file): file}})
	if err != nil {
		t.Error(err)
		return ""
	}
	for name, content := range map[string][]byte{file: src, filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Error(err)
			return ""
		}
	}
	// The list itself would notice every change, so it is left out.
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "-timeout", "120s", "-skip", "TestMutants", "-json",
		".", "-rapid.nofailfile", "-rapid.shrinktime=100ms")
	cmd.Dir = here
	out, err := cmd.Output()
	if err == nil {
		return ""
	}
	return failures(out)
}

// failures are the top-level tests that failed in go test's JSON; a run that ended
// otherwise (it did not compile, it hung) has its own word for it.
func failures(out []byte) string {
	failed := map[string]bool{}
	var text strings.Builder
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		text.WriteString(e.Output)
		if e.Action == "fail" && e.Test != "" {
			top, _, _ := strings.Cut(e.Test, "/")
			failed[top] = true
		}
	}
	switch {
	case strings.Contains(text.String(), "[build failed]"):
		return "" // no implementation at all, so nothing was shown
	case strings.Contains(text.String(), "panic: test timed out"):
		failed["time-out"] = true
	case len(failed) == 0:
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(failed)), " ")
}
