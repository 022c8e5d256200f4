package dibs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var named = regexp.MustCompile(`([a-z]+(?:/[a-z]+)*)\.(Test[A-Za-z0-9]+)`)

// reports complains of tests that docs/FIELD-REPORTS.md names and nobody has.
func reports(got tree) (complaints []string) {
	for _, m := range named.FindAllStringSubmatch(got.text("docs/FIELD-REPORTS.md"), -1) {
		there := false
		for _, f := range got.files {
			there = there || f.test && f.pkg == m[1] && strings.Contains(f.src, "\nfunc "+m[2]+"(")
		}
		if !there {
			complaints = append(complaints, fmt.Sprintf("docs/FIELD-REPORTS.md: no test %s in %s", m[2], m[1]))
		}
	}
	return complaints
}

func TestReports(t *testing.T) { holds(t, reports) }

func TestReportsCatches(t *testing.T) {
	catches(t, reports, []planted{
		{"named and there", map[string]string{"a/b/x_test.go": "package b\n\nfunc TestX() {}", "docs/FIELD-REPORTS.md": "| a/b.TestX |"}, nil},
		{"named and gone", map[string]string{"a/b/x_test.go": "package b\n\nfunc TestXY() {}", "docs/FIELD-REPORTS.md": "| a/b.TestX, c.TestXY |"}, []string{"TestX in a/b", "TestXY in c"}},
	})
}
