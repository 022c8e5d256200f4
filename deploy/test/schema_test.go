package deploytest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	// Only its files are read: the definitions and the list of triggers. Compiling its
	// types would take minutes.
	_ "github.com/kedacore/keda/v2/version"
	"sigs.k8s.io/yaml"
)

// keda is where KEDA's module is.
var keda = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2").Output()
	dir := strings.TrimSpace(string(out))
	if err == nil && dir == "" {
		err = fmt.Errorf("the module is not there; go mod download")
	}
	return dir, err
})

// readKEDA reads YAML or JSON of KEDA's module into v.
func readKEDA(t *testing.T, name string, v any) {
	t.Helper()
	dir, err := keda()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

// definition is the schema of one kind, from its CustomResourceDefinition.
func definition(t *testing.T, plural string) schema {
	t.Helper()
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	readKEDA(t, "config/crd/bases/keda.sh_"+plural+".yaml", &crd)
	for _, v := range crd.Spec.Versions {
		if v.Name == "v1alpha1" {
			return v.Schema.OpenAPIV3Schema
		}
	}
	t.Fatalf("%s has no v1alpha1", plural)
	return nil
}

// schema is a structural schema of Kubernetes, as far as KEDA uses it. A word that
// is not understood is a complaint, so nothing passes for not having been looked at.
type schema map[string]any

// minMax is KEDA's one rule in CEL; manifests_test.go says the same in Go.
const minMax = "minReplicaCount must be less than or equal to maxReplicaCount"

func (s schema) sub(v any) schema {
	m, _ := v.(map[string]any)
	return m
}

// check complains of what value at path must not be. Numbers are float64.
func (s schema) check(path string, value any) (complaints []string) {
	bad := func(format string, args ...any) {
		complaints = append(complaints, path+": "+fmt.Sprintf(format, args...))
	}
	either := s["x-kubernetes-int-or-string"] == true
	for word, want := range s {
		switch word {
		case "description", "format", "default", "properties", "additionalProperties", "items", "required", "x-kubernetes-list-type", "x-kubernetes-int-or-string":
		case "anyOf":
			if !either {
				bad("anyOf is not understood here")
			}
		case "x-kubernetes-validations":
			for _, rule := range want.([]any) {
				if m := s.sub(rule)["message"]; m != minMax {
					bad("rule %q is not understood", m)
				}
			}
		case "type":
			if kind := kindOf(value); kind != want && !(kind == "integer" && want == "number") {
				bad("%s, want %s", kind, want)
				return complaints
			}
		case "enum":
			if !slices.Contains(want.([]any), value) {
				bad("%v, want one of %v", value, want)
			}
		case "minimum":
			if n, ok := value.(float64); ok && n < want.(float64) {
				bad("%v, want at least %v", n, want)
			}
		case "minLength", "minItems":
			if n := length(value); n < want.(float64) {
				bad("%v long, want at least %v", n, want)
			}
		case "pattern":
			if text, ok := value.(string); ok && !regexp.MustCompile(want.(string)).MatchString(text) {
				bad("%q, want %s", text, want)
			}
		default:
			bad("the schema's %q is not understood", word)
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range list(s["required"]) {
			if _, ok := value[name.(string)]; !ok {
				bad("%s is missing", name)
			}
		}
		for name, v := range value {
			if field, ok := s.sub(s["properties"])[name]; ok {
				complaints = append(complaints, s.sub(field).check(path+"."+name, v)...)
			} else if more, ok := s["additionalProperties"]; ok {
				complaints = append(complaints, s.sub(more).check(path+"."+name, v)...)
			} else {
				bad("unknown field %q", name)
			}
		}
	case []any:
		for i, v := range value {
			complaints = append(complaints, s.sub(s["items"]).check(fmt.Sprintf("%s[%d]", path, i), v)...)
		}
	}
	return complaints
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func length(v any) float64 {
	switch v := v.(type) {
	case string:
		return float64(len(v))
	case []any:
		return float64(len(v))
	}
	return 0
}

// scaler is what KEDA says of one kind of trigger.
type scaler struct {
	Type       string
	Parameters []struct {
		Name          string
		Optional      bool
		Default       string
		AllowedValue  []string
		Metadata      bool `json:"metadataVariableReadable"`
		Authenticated bool `json:"triggerAuthenticationVariableReadable"`
	}
}

func scalers(t *testing.T) map[string]scaler {
	t.Helper()
	var all struct{ Scalers []scaler }
	readKEDA(t, "schema/generated/scalers-schema.json", &all)
	byType := map[string]scaler{}
	for _, s := range all.Scalers {
		byType[s.Type] = s
	}
	return byType
}

// check complains of a trigger's metadata, which the definition takes as any text.
func (s scaler) check(metadata map[string]string) (complaints []string) {
	known := map[string]bool{}
	for _, p := range s.Parameters {
		if !p.Metadata {
			continue
		}
		known[p.Name] = true
		value, ok := metadata[p.Name]
		if !ok && !p.Optional && p.Default == "" {
			complaints = append(complaints, p.Name+" is missing")
		}
		if ok && p.AllowedValue != nil && !slices.Contains(p.AllowedValue, value) {
			complaints = append(complaints, fmt.Sprintf("%s: %q, want one of %v", p.Name, value, p.AllowedValue))
		}
	}
	for name := range metadata {
		if !known[name] {
			complaints = append(complaints, fmt.Sprintf("%s has no %q", s.Type, name))
		}
	}
	return complaints
}

func TestSchemaChecks(t *testing.T) {
	s := schema{}
	if err := json.Unmarshal([]byte(`{"type": "object", "required": ["n"], "properties": {
		"n": {"type": "integer", "minimum": 1}, "f": {"type": "number"}, "b": {"type": "boolean"}, "e": {"type": "string", "enum": ["x", "y"]},
		"l": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 2, "pattern": "^a"}},
		"m": {"type": "object", "additionalProperties": {"type": "string"}}, "o": {"type": "object"},
		"q": {"x-kubernetes-int-or-string": true, "anyOf": [], "pattern": "^[0-9]+$"},
		"odd": {"maximum": 5}, "rule": {"x-kubernetes-validations": [{"message": "be nice"}]}, "any": {"anyOf": []}}}`), &s); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ value, want string }{
		"fine":            {`{"n": 1, "f": 0.5, "b": true, "e": "y", "l": ["ab"], "m": {"k": "v"}, "q": 7}`, ""},
		"whole number":    {`{"n": 1, "f": 2, "q": "7"}`, ""},
		"missing":         {`{}`, "it: n is missing"},
		"too small":       {`{"n": 0}`, "it.n: 0, want at least 1"},
		"not whole":       {`{"n": 1.5}`, "it.n: number, want integer"},
		"null":            {`{"n": null}`, "it.n: null, want integer"},
		"quoted":          {`{"n": "1"}`, "it.n: string, want integer"},
		"not quoted":      {`{"n": 1, "m": {"k": 0.7}}`, "it.m.k: number, want string"},
		"unknown":         {`{"n": 1, "nn": 2}`, `it: unknown field "nn"`},
		"unknown, inside": {`{"n": 1, "o": {"x": 2}}`, `it.o: unknown field "x"`},
		"enum":            {`{"n": 1, "e": "z"}`, "it.e: z, want one of [x y]"},
		"empty":           {`{"n": 1, "l": []}`, "it.l: 0 long, want at least 1"},
		"in a list":       {`{"n": 1, "l": ["ab", "a"]}`, "it.l[1]: 1 long, want at least 2"},
		"pattern":         {`{"n": 1, "q": "x"}`, `it.q: "x", want ^[0-9]+$`},
		"a new word":      {`{"n": 1, "odd": 3}`, `it.odd: the schema's "maximum" is not understood`},
		"a new rule":      {`{"n": 1, "rule": 3}`, `it.rule: rule "be nice" is not understood`},
		"alternatives":    {`{"n": 1, "any": 3}`, "it.any: anyOf is not understood here"},
	} {
		t.Run(name, func(t *testing.T) {
			var v any
			if err := json.Unmarshal([]byte(tt.value), &v); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.check("it", v), "; "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
