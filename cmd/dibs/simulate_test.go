package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSimulate(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := file("good.json", `{"for_s": 60, "platform": {"cap": 1}, "orgs": [{"id": "a"}], "policies": ["raw"], "arrivals": [{"org": "a", "class": "inbound", "count": 2, "talk_s": 9}]}`)
	wrong := file("wrong.json", `{"for_s": 0, "platform": {"cap": 0}, "orgs": [{"id": "a"}], "arrivals": [{"org": "a", "class": "api", "count": 1, "talk_s": 9}]}`)
	tests := map[string]struct {
		command   simulateCommand
		code      int
		out, errs []string
	}{
		"a name":            {simulateCommand{Scenario: "2026-08-25"}, 0, []string{"headroom            5          8          5", "active+4           14         20", "raw          109         50"}, nil},
		"a file":            {simulateCommand{Scenario: good}, 0, []string{"1 of 2  platform_full 1"}, nil},
		"JSON":              {simulateCommand{Scenario: good, Output: "json"}, 0, []string{`"refused": {`, `"platform_full": 1`}, nil},
		"a warning":         {simulateCommand{Scenario: "deadlock"}, 0, []string{"warning: org:walled: reserve: reserve 1 leaves 0 lines"}, nil},
		"nothing":           {simulateCommand{}, 0, []string{"2026-08-25\ndeadlock\n"}, nil},
		"nothing, in JSON":  {simulateCommand{Output: "json"}, 0, []string{`"2026-08-25",`}, nil},
		"no such name":      {simulateCommand{Scenario: "monday"}, 2, nil, []string{`monday: there is no scenario "monday"; there are 2026-08-25, deadlock`}},
		"no such file":      {simulateCommand{Scenario: good + "x"}, 1, nil, []string{"no such file"}},
		"a folder":          {simulateCommand{Scenario: dir}, 1, nil, []string{"is a directory"}},
		"two wrong fields":  {simulateCommand{Scenario: wrong}, 2, nil, []string{"wrong.json: for_s: 0, want 1 to 86400\n", "platform: cap: 0, want at least 1\n"}},
		"not JSON but text": {simulateCommand{Scenario: file("x.json", "for_s: 1")}, 2, nil, []string{"x.json: invalid character"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out, errs strings.Builder
			if code := tt.command.Run(&out, &errs); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.out {
				if !strings.Contains(out.String(), want) {
					t.Errorf("out:\n%s\nwant %q", out.String(), want)
				}
			}
			for _, want := range tt.errs {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("errors:\n%s\nwant %q", errs.String(), want)
				}
			}
			if (tt.out == nil) != (out.Len() == 0) || (tt.errs == nil) != (errs.Len() == 0) {
				t.Errorf("out %q, errors %q", out.String(), errs.String())
			}
		})
	}
}
