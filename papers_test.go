package dibs_test

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// How long a paper may be before nobody reads it.
const (
	longestMakefile     = 60
	longestArchitecture = 150
)

// text is a file of the tree, empty when there is none.
func (got tree) text(name string) string {
	data, err := fs.ReadFile(got.plain, name)
	if err != nil {
		return ""
	}
	return string(data)
}

var (
	target  = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	command = regexp.MustCompile(`(?m)(?:^|[\x60 ])make ([a-z][a-z-]*)`)
	fenced  = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```|`(make [^`]+)`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	host    = regexp.MustCompile(`"resolved"\s*:`)
)

// papers complains of what the papers say and the tree does not have, and of
// papers that grew too long.
func papers(got tree) (complaints []string) {
	for name, most := range map[string]int{"Makefile": longestMakefile, "ARCHITECTURE.md": longestArchitecture} {
		if n := strings.Count(got.text(name), "\n"); n > most {
			complaints = append(complaints, fmt.Sprintf("%s: %d lines, at most %d", name, n, most))
		}
	}
	var targets []string
	for _, m := range target.FindAllStringSubmatch(got.text("Makefile"), -1) {
		targets = append(targets, m[1])
	}
	_ = fs.WalkDir(got.plain, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(got.plain, name):
			return fs.SkipDir
		case path.Base(name) == "package-lock.json" && host.MatchString(got.text(name)):
			complaints = append(complaints, name+": names the registry that it was made with")
		case path.Ext(name) == ".md":
			complaints = append(complaints, got.paper(name, targets)...)
		}
		return nil
	})
	return complaints
}

// paper complains of one Markdown file: commands that make does not know, and
// links to files that are not there.
func (got tree) paper(name string, targets []string) (complaints []string) {
	text := got.text(name)
	for _, code := range fenced.FindAllString(text, -1) {
		for _, m := range command.FindAllStringSubmatch(code, -1) {
			if !slices.Contains(targets, m[1]) {
				complaints = append(complaints, fmt.Sprintf("%s: make %s is not in the Makefile", name, m[1]))
			}
		}
	}
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		to, _, _ := strings.Cut(m[1], "#")
		if to == "" || strings.Contains(to, ":") {
			continue
		}
		if _, err := fs.Stat(got.plain, path.Join(path.Dir(name), to)); err != nil {
			complaints = append(complaints, fmt.Sprintf("%s: links to %s, which is not there", name, m[1]))
		}
	}
	return complaints
}

func TestPapers(t *testing.T) { holds(t, papers) }

func TestPapersCatches(t *testing.T) {
	const makefile = "GO ?= go\n.PHONY: test\nhelp: ## this\n\techo\ntest: ## that\n"
	catches(t, papers, []planted{
		{"all is there", map[string]string{"Makefile": makefile, "README.md": "```\nmake test\n```\nand `make help`, see [more](docs/A.md#top), make sure", "docs/A.md": "[back](../README.md) [far](https://example.com/x)"}, nil},
		{"no papers yet", map[string]string{"Makefile": makefile}, nil},
		{"a command that is gone", map[string]string{"Makefile": makefile, "README.md": "```sh\ncd x && make demo\n```\n"}, []string{"make demo is not in the Makefile"}},
		{"a command in a sentence", map[string]string{"Makefile": makefile, "docs/A.md": "run `make lint` first"}, []string{"make lint is not in the Makefile"}},
		{"a link to nothing", map[string]string{"Makefile": makefile, "docs/A.md": "[x](README.md)"}, []string{"docs/A.md: links to README.md"}},
		{"a long Makefile", map[string]string{"Makefile": strings.Repeat("\n", longestMakefile+1)}, []string{"Makefile: 61 lines"}},
		{"a long architecture", map[string]string{"ARCHITECTURE.md": strings.Repeat("\n", longestArchitecture+1)}, []string{"ARCHITECTURE.md: 151 lines"}},
		{"a lock file with addresses", map[string]string{"examples/x/package-lock.json": `{"packages": {"y": {"resolved": "https://registry.example/y"}}}`}, []string{"names the registry"}},
	})
}
