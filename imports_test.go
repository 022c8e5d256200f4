package dibs_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The layers. A package may import what stands in its row of mayImport and
// nothing else of this module; a package without a row fails, because a new one
// needs a place.
//
//	L3  backend bot edge           assembly; bot is the Go SDK
//	L2  dispatch server            the elected brain; API, webhooks, console, metrics
//	L1  one conversation each, both ends; they never import each other
//	L0  pure: the standard library only; simulate runs the others of it
var (
	l0 = []string{"wire", "call", "admission", "demand", "api", "simulate"}
	l1 = []string{"pool", "claim", "warmup", "breaker", "queue", "capacity", "cdr", "events", "settings", "media", "edge", "kube", "carrier", "carrier/twilio", "carrier/simcarrier"}
)

var mayImport = map[string][]string{
	"wire":      {},
	"call":      {},
	"admission": {"call"},
	"demand":    {},
	"api":       {"call"},
	"simulate":  {"call", "admission", "demand"},

	"pool":                {"wire", "call"},
	"claim":               {"wire", "call"},
	"queue":               {"wire", "call"},
	"capacity":            {"wire", "call"},
	"cdr":                 {"wire", "call"},
	"events":              {"wire", "call"},
	"settings":            {"wire", "call", "api", "admission"},
	"warmup":              {"internal/audio"},
	"media":               {"internal/audio"},
	"breaker":             {},
	"edge":                {},
	"kube":                {},
	"carrier":             {},
	"carrier/twilio":      {"carrier"},
	"carrier/simcarrier":  {"carrier", "internal/audio"},
	"carrier/carriertest": {"carrier"},

	"dispatch": join(l0, l1, []string{"internal/leader"}),
	"server":   join(l0, l1, []string{"dispatch"}),

	"bot":     {"wire", "call", "pool", "claim", "capacity", "warmup", "breaker", "media", "internal/audio", "internal/connect"},
	"backend": join(l0, l1, []string{"dispatch", "server", "internal/leader", "internal/connect"}),

	"cmd/backend": {"backend", "internal/connect", "internal/program"},
	"cmd/bot":     {"bot", "internal/connect", "internal/program"},
	"cmd/edge":    {"edge", "internal/connect", "internal/program"},
	"cmd/dibs":    join(l0, l1, []string{"backend", "bot", "dispatch", "server", "internal/natsd", "internal/audio", "internal/connect", "internal/program"}),

	"internal/audio":    {},
	"internal/connect":  {},
	"internal/program":  {"internal/connect"},
	"internal/leader":   {"wire"},
	"internal/natsd":    {},
	"internal/natstest": {"internal/natsd"},

	".": {}, // these guards
}

// anything are the folders that stand above everything: they may import all, and
// nobody imports them.
var anything = []string{"sim", "bench", "examples"}

// helpTests are the packages that any test may import.
var helpTests = []string{"internal/natstest", "internal/natsd", "internal/audio", "carrier/carriertest"}

// testsMayImport are the neighbours that a package's tests need besides: a claim
// is only worth a test with real seats, a carrier with a carrier that rings.
var testsMayImport = map[string][]string{
	"claim":          {"pool"},
	"carrier/twilio": {"carrier/simcarrier"},
}

// onlyIn says where a dependency may be imported in what is built, tests aside.
var onlyIn = map[string][]string{
	"github.com/nats-io/nats-server":   {"internal/natsd", "internal/natstest", "internal/leader", "cmd/dibs"},
	"github.com/sony/gobreaker":        {"breaker"},
	"k8s.io":                           {"kube"},
	"github.com/alecthomas/kong":       {"cmd/backend", "cmd/bot", "cmd/edge", "cmd/dibs", "internal/program"},
	"github.com/danielgtaylor/huma":    {"server"},
	"pgregory.net/rapid":               {},
	"github.com/google/go-cmp":         {},
	"testing":                          {"internal/natstest", "carrier/carriertest"},
	"github.com/stretchr/testify":      {},
	"github.com/nats-io/nats.go/micro": {},
}

func join(lists ...[]string) []string { return slices.Concat(lists...) }

// imports complains of every import that the tables do not allow.
func imports(got tree) (complaints []string) {
	for _, f := range got.files {
		top, _, _ := strings.Cut(f.pkg, "/")
		free := slices.Contains(anything, top)
		row, known := mayImport[f.pkg]
		if !known && !free {
			complaints = append(complaints, fmt.Sprintf("%s: package %s has no row in mayImport", f.name, f.pkg))
			continue
		}
		for _, spec := range f.ast.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				complaints = append(complaints, err.Error())
				continue
			}
			if why := forbidden(f, imp, row, free); why != "" {
				complaints = append(complaints, fmt.Sprintf("%s: %s must not import %s: %s", f.at(spec), f.pkg, imp, why))
			}
		}
	}
	return complaints
}

// forbidden says why a file must not import imp; empty: it may.
func forbidden(f file, imp string, row []string, free bool) string {
	ours, isOurs := strings.CutPrefix(imp, "dibs/")
	if isOurs {
		top, _, _ := strings.Cut(ours, "/")
		switch {
		case free || ours == f.pkg || slices.Contains(row, ours):
			return ""
		case f.test && slices.Contains(join(helpTests, l0, testsMayImport[f.pkg]), ours):
			return ""
		case slices.Contains(anything, top):
			return "it stands above everything"
		}
		return "it is not in its row"
	}
	if f.test {
		return ""
	}
	for dep, where := range onlyIn {
		if (imp == dep || strings.HasPrefix(imp, dep+"/")) && !free && !slices.Contains(where, f.pkg) {
			return "only " + cmp.Or(strings.Join(where, ", "), "tests") + " may"
		}
	}
	if first, _, _ := strings.Cut(imp, "/"); slices.Contains(l0, f.pkg) && strings.Contains(first, ".") {
		return "L0 is the standard library only"
	}
	return ""
}

func TestImports(t *testing.T) { holds(t, imports) }

func TestImportsCatches(t *testing.T) {
	file := func(pkg string, imps ...string) string {
		for i, imp := range imps {
			imps[i] = "import _ \"" + imp + "\""
		}
		return "package " + pkg + "\n" + strings.Join(imps, "\n")
	}
	catches(t, imports, []planted{
		{"what is allowed", map[string]string{
			"wire/a.go": file("wire", "fmt", "encoding/json"), "claim/a.go": file("claim", "dibs/wire", "github.com/nats-io/nats.go"),
			"claim/a_test.go": file("claim_test", "dibs/claim", "dibs/pool", "dibs/admission", "dibs/internal/natstest", "pgregory.net/rapid", "testing"),
			"breaker/a.go":    file("breaker", "github.com/sony/gobreaker/v2"), "internal/natsd/a.go": file("natsd", "github.com/nats-io/nats-server/v2/server"),
			"sim/x/a.go": file("x", "dibs/claim", "dibs/backend"),
		}, nil},
		{"a package without a row", map[string]string{"util/a.go": file("util")}, []string{"util has no row"}},
		{"a neighbour in L1", map[string]string{"claim/a.go": file("claim", "dibs/pool")}, []string{"claim must not import dibs/pool"}},
		{"a neighbour in a test", map[string]string{"queue/a_test.go": file("queue_test", "dibs/pool")}, []string{"queue must not import dibs/pool"}},
		{"upwards", map[string]string{"wire/a.go": file("wire", "dibs/claim")}, []string{"not in its row"}},
		{"the SDK and the backend's side", map[string]string{"bot/a.go": file("bot", "dibs/dispatch")}, []string{"bot must not import dibs/dispatch"}},
		{"from above", map[string]string{"claim/a.go": file("claim", "dibs/sim")}, []string{"above everything"}},
		{"a dependency in L0", map[string]string{"admission/a.go": file("admission", "github.com/rs/zerolog")}, []string{"standard library only"}},
		{"another dependency in L0", map[string]string{"wire/a.go": file("wire", "golang.org/x/sync/errgroup")}, []string{"standard library only"}},
		{"the server outside internal", map[string]string{"claim/a.go": file("claim", "github.com/nats-io/nats-server/v2/server")}, []string{"only internal/natsd"}},
		{"gobreaker outside breaker", map[string]string{"warmup/a.go": file("warmup", "github.com/sony/gobreaker/v2")}, []string{"only breaker may"}},
		{"client-go outside kube", map[string]string{"backend/a.go": file("backend", "k8s.io/client-go/rest")}, []string{"only kube may"}},
		{"test code in the product", map[string]string{"claim/a.go": file("claim", "testing")}, []string{"only internal/natstest"}},
		{"test support in the product", map[string]string{"claim/a.go": file("claim", "dibs/internal/natstest")}, []string{"not in its row"}},
	})
}

// TestTableIsOrdered holds the table itself: what stands in a row has a row, and
// nobody can reach itself.
func TestTableIsOrdered(t *testing.T) {
	for _, pkg := range slices.Sorted(maps.Keys(mayImport)) {
		seen := map[string]bool{}
		var reach func(p string)
		reach = func(p string) {
			row, ok := mayImport[p]
			if !ok {
				t.Errorf("%s is in a row and has none", p)
			}
			for _, q := range row {
				if !seen[q] {
					seen[q] = true
					reach(q)
				}
			}
		}
		reach(pkg)
		if seen[pkg] {
			t.Errorf("%s may import itself through others", pkg)
		}
	}
}
