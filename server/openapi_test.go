package server_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

const golden = "../docs/openapi.json"

// TestOpenAPI holds docs/openapi.json to what the server really takes and answers.
func TestOpenAPI(t *testing.T) {
	w := newWorld(t)
	got, err := w.srv.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is not what the server says; go test ./server -run TestOpenAPI -update:\n%s", golden, d)
	}
	served := w.ask("GET", "/openapi.json", nil, as("")...)
	var compact bytes.Buffer
	if err := json.Compact(&compact, got); err != nil {
		t.Fatal(err)
	}
	if served.status != 200 || !bytes.Equal(bytes.TrimSpace(served.body), compact.Bytes()) {
		t.Errorf("/openapi.json: status %d, %d bytes, want the same in %d bytes", served.status, len(served.body), compact.Len())
	}
	for _, path := range []string{"/openapi.json", "/openapi-3.0.json"} {
		doc := read[struct {
			OpenAPI string
			Paths   map[string]map[string]any
		}](t, w.ask("GET", path, nil, as("")...), 200)
		if want := map[string]string{"/openapi.json": "3.1.0", "/openapi-3.0.json": "3.0.3"}[path]; doc.OpenAPI != want {
			t.Errorf("%s: version %s, want %s", path, doc.OpenAPI, want)
		}
		if n := len(doc.Paths); n != 25 {
			t.Errorf("%s: %d paths, want 25", path, n)
		}
	}
}
