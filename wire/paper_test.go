package wire_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"dibs/wire"
)

// TestPaper holds docs/PROTOCOL.md against the structs: every field that
// travels stands in the table of its message, and nothing else does.
func TestPaper(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "docs", "PROTOCOL.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, msg := range []any{wire.ClaimRequest{}, wire.Reply{}, wire.Control{}, wire.Beat{}, wire.Command{}, wire.Answer{}} {
		typ := reflect.TypeOf(msg)
		t.Run(typ.Name(), func(t *testing.T) {
			want := slices.Sorted(slices.Values(fields(typ, "")))
			if diff := gocmp.Diff(want, documented(string(data), typ.Name())); diff != "" {
				t.Errorf("(-struct +paper):\n%s", diff)
			}
		})
	}
}

// TestPaperExamples reads every JSON example of the paper as its message.
func TestPaperExamples(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "docs", "PROTOCOL.md"))
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```json\n(.*?)```")
	for kind, run := range recodings {
		t.Run(kind, func(t *testing.T) {
			m := example.FindStringSubmatch(section(string(data), kind))
			if m == nil {
				t.Fatal("no example")
			}
			got, err := run([]byte(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(generic(t, []byte(m[1])), generic(t, got)); diff != "" {
				t.Errorf("an example says what the message does not (-paper +message):\n%s", diff)
			}
		})
	}
}

// fields are the names of what travels of a struct, with dots and [].
func fields(typ reflect.Type, prefix string) (names []string) {
	for f := range typ.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		name, ft := prefix+tag, f.Type
		switch {
		case ft == reflect.TypeFor[json.RawMessage]():
		case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct:
			name, ft = name+"[]", ft.Elem()
		case ft.Kind() == reflect.Pointer:
			ft = ft.Elem()
		}
		if ft.Kind() == reflect.Struct {
			names = append(names, fields(ft, name+".")...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// documented are the fields in the last table below a heading.
func documented(paper, heading string) []string {
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	_, table, _ := strings.Cut(section(paper, heading), "| field |")
	var names []string
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return names
}

// section is what stands below a heading of the third order.
func section(paper, heading string) string {
	_, s, _ := strings.Cut(paper, "\n### "+heading+"\n")
	s, _, _ = strings.Cut(s, "\n### ")
	s, _, _ = strings.Cut(s, "\n## ")
	return s
}
