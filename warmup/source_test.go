package warmup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a directory of files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFlowFromDir(t *testing.T) {
	noLeaks(t)
	outside := write(t, map[string]string{"secret.json": `{"id": "secret"}`})
	dir := write(t, map[string]string{
		"recall.json":   `{"id": "recall", "version": "7", "params": {"a": "b"}}`,
		"nameless.json": `{"version": "7"}`,
		"other.json":    `{"id": "recall"}`,
		"bad.json":      `{"greeting": {"text": 1}}`,
		"big.json":      strings.Repeat(" ", MaxFlow) + `{}`,
	})
	if err := os.Symlink(filepath.Join(outside, "secret.json"), filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	// As Kubernetes mounts a ConfigMap: links, but inside.
	if err := os.Symlink("recall.json", filepath.Join(dir, "..recall.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..recall.json", filepath.Join(dir, "mounted.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name      string
		ref       FlowRef
		code      Code
		permanent bool
		text      string
	}{
		{"there", FlowRef{ID: "recall"}, "", false, ""},
		{"in the version asked for", FlowRef{ID: "recall", Version: "7"}, "", false, ""},
		{"without an id of its own", FlowRef{ID: "nameless"}, "", false, ""},
		{"in another version", FlowRef{ID: "recall", Version: "8"}, FlowNotFound, true, `version "8" was asked for, "7" is there`},
		{"not there", FlowRef{ID: "nobody"}, FlowNotFound, true, "no flow of that id"},
		{"up and out", FlowRef{ID: "../" + filepath.Base(outside) + "/secret"}, FlowNotFound, true, "not the id of a flow"},
		{"absolute", FlowRef{ID: filepath.Join(outside, "secret")}, FlowNotFound, true, "not the id of a flow"},
		{"hidden", FlowRef{ID: ".recall"}, FlowNotFound, true, "not the id of a flow"},
		{"with a zero", FlowRef{ID: "recall\x00"}, FlowNotFound, true, "not the id of a flow"},
		{"linked outside", FlowRef{ID: "link"}, FlowUnavailable, false, "escapes"},
		{"a directory", FlowRef{ID: "dir"}, FlowUnavailable, false, "not a file"},
		{"another's file", FlowRef{ID: "other"}, FlowMalformed, true, `id: is "recall" where "other" was asked for`},
		{"linked inside", FlowRef{ID: "mounted"}, FlowMalformed, true, `id: is "recall"`},
		{"malformed", FlowRef{ID: "bad"}, FlowMalformed, true, "greeting.text: a number"},
		{"too large", FlowRef{ID: "big"}, FlowTooLarge, true, "262144"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWarmer(t, Config{Flows: Flows{Dir: dir}})
			if tc.code == "" {
				p := prepare(t, w, Call{Flow: tc.ref})
				if p.Flow.ID != tc.ref.ID || p.Flow.Version != "7" {
					t.Errorf("got %+v", p.Flow)
				}
				if got := w.Cached(); !slices.Equal(got, []string{tc.ref.ID}) {
					t.Errorf("Cached: got %v", got)
				}
				return
			}
			e := prepareFails(t, w, Call{Flow: tc.ref})
			wantError(t, e, StepFlow, tc.code, tc.permanent, tc.text)
			if strings.Contains(e.Error(), outside) || strings.Contains(e.Error(), dir) {
				t.Errorf("the error tells a path: %v", e)
			}
			if got := w.Cached(); len(got) != 0 {
				t.Errorf("Cached: got %v, want nothing", got)
			}
		})
	}
}

func TestFlowFromElsewhere(t *testing.T) {
	noLeaks(t)
	t.Run("inline wins", func(t *testing.T) {
		p := prepare(t, newWarmer(t, Config{}), Call{Flow: FlowRef{ID: "a", URL: "http://127.0.0.1:1/", Inline: []byte(`{"params": {"x": "y"}}`)}})
		if p.Flow.ID != "a" || p.Params["x"] != "y" {
			t.Errorf("got %+v with params %v", p.Flow, p.Params)
		}
		p.Params["x"] = "mine"
		if p.Flow.Params["x"] != "y" {
			t.Error("Params are the flow's own, which calls share")
		}
	})
	t.Run("inline malformed", func(t *testing.T) {
		wantError(t, prepareFails(t, newWarmer(t, Config{}), Call{Flow: FlowRef{Inline: []byte(`{"x":1}`)}}), StepFlow, FlowMalformed, true, "x: there is no such field")
	})
	t.Run("none", func(t *testing.T) {
		if p := prepare(t, newWarmer(t, Config{}), Call{}); p.Flow == nil || len(p.Greeting) != 0 {
			t.Errorf("got flow %v, %d bytes of greeting", p.Flow, len(p.Greeting))
		}
	})
	t.Run("no source", func(t *testing.T) {
		wantError(t, prepareFails(t, newWarmer(t, Config{}), Call{Flow: FlowRef{ID: "a"}}), StepFlow, FlowUnavailable, false, "no source")
	})
	fetch := func(_ context.Context, id string) ([]byte, error) {
		switch id {
		case "kv":
			return []byte(`{"version": "kv"}`), nil
		case "broken":
			return nil, errors.New("no quorum")
		}
		return nil, fmt.Errorf("key: %w", fs.ErrNotExist)
	}
	w := newWarmer(t, Config{Flows: Flows{Fetch: fetch, Dir: write(t, map[string]string{"kv.json": `{"version": "dir"}`, "dir.json": `{"version": "dir"}`})}})
	for id, want := range map[string]string{"kv": "kv", "dir": "dir"} {
		if p := prepare(t, w, Call{Flow: FlowRef{ID: id}}); p.Flow.Version != want {
			t.Errorf("%s: got version %q, want %q", id, p.Flow.Version, want)
		}
	}
	wantError(t, prepareFails(t, w, Call{Flow: FlowRef{ID: "broken"}}), StepFlow, FlowUnavailable, false, "no quorum")
	wantError(t, prepareFails(t, w, Call{Flow: FlowRef{ID: "neither"}}), StepFlow, FlowNotFound, true, "")
}

func TestFlowCacheIsBounded(t *testing.T) {
	noLeaks(t)
	s := newFlowServer(t)
	s.answer(document(`{}`, ""))
	w := newWarmer(t, Config{Flows: Flows{Template: s.URL + "/{id}", Cache: 2}})
	for _, id := range []string{"a", "b", "a", "c"} {
		prepare(t, w, Call{Flow: FlowRef{ID: id}})
	}
	if got, want := w.Cached(), []string{"c", "a"}; !slices.Equal(got, want) {
		t.Errorf("Cached: got %v, want %v", got, want)
	}
	none := newWarmer(t, Config{Flows: Flows{Template: s.URL + "/{id}", Cache: -1}})
	prepare(t, none, Call{Flow: FlowRef{ID: "a"}})
	if got := none.Cached(); len(got) != 0 {
		t.Errorf("Cached without a cache: got %v", got)
	}
}
