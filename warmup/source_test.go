package warmup

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
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

// flowServer answers as told, and counts.
type flowServer struct {
	*httptest.Server
	handler  atomic.Pointer[http.HandlerFunc]
	requests atomic.Int64
}

func newFlowServer(t *testing.T) *flowServer {
	s := &flowServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		(*s.handler.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *flowServer) answer(h http.HandlerFunc) { s.handler.Store(&h) }

// document serves doc, with "304" for whoever has it.
func document(doc, etag string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if etag != "" {
			w.Header().Set("ETag", etag)
			if r.Header.Get("If-None-Match") == etag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		fmt.Fprint(w, doc)
	}
}

func says(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// cut sends half an answer and hangs up.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	fmt.Fprint(w, `{"version": "`)
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func TestFlowETag(t *testing.T) {
	noLeaks(t)
	s := newFlowServer(t)
	w := newWarmer(t, Config{Flows: Flows{Template: s.URL + "/flows/{id}.json"}})
	load := func() string {
		return prepare(t, w, Call{Flow: FlowRef{ID: "a"}}).Flow.Version
	}
	s.answer(document(`{"version": "1"}`, `"one"`))
	load()
	var sent atomic.Bool
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		sent.Store(r.Header.Get("If-None-Match") == `"one"` && r.URL.Path == "/flows/a.json")
		w.WriteHeader(http.StatusNotModified)
	})
	if got := load(); got != "1" || !sent.Load() {
		t.Errorf("not modified: got version %q, asked with its ETag: %v", got, sent.Load())
	}
	s.answer(document(`{"version": "2"}`, `"two"`))
	if got := load(); got != "2" {
		t.Errorf("modified: got version %q, want 2", got)
	}
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Mon, 02 Mar 2026 10:00:00 GMT")
		fmt.Fprint(w, `{"version": "3"}`)
	})
	load()
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-Modified-Since") != "Mon, 02 Mar 2026 10:00:00 GMT" {
			w.WriteHeader(http.StatusTeapot)
		}
		w.WriteHeader(http.StatusNotModified)
	})
	if got := load(); got != "3" {
		t.Errorf("no ETag: got version %q, want 3", got)
	}
	if got := s.requests.Load(); got != 5 {
		t.Errorf("got %d requests, want one a call", got)
	}
	if got := w.Cached(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("Cached: got %v", got)
	}
}

func TestFlowFromHTTP(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(bytes.Repeat([]byte(" "), 16<<20))
	z.Close()
	huge := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(packed.Bytes())
	}
	for _, tc := range []struct {
		name      string
		handler   http.HandlerFunc
		code      Code
		permanent bool
		text      string
		stands    bool // a copy stands in
	}{
		{"not found", says(404), FlowNotFound, true, "404", false},
		{"gone", says(410), FlowNotFound, true, "410", false},
		{"unauthorized", says(401), FlowForbidden, false, "401", false},
		{"forbidden", says(403), FlowForbidden, false, "403", false},
		{"malformed", document(`{"params": []}`, ""), FlowMalformed, true, "params: a list", false},
		{"no JSON", document(`<html>`, ""), FlowMalformed, true, "line 1, column 1", false},
		{"another flow", document(`{"id": "b"}`, ""), FlowMalformed, true, `is "b" where "a"`, false},
		{"too large", document(strings.Repeat(" ", MaxFlow+1), ""), FlowTooLarge, true, "limit of 262144", false},
		{"too large when unpacked", huge, FlowTooLarge, true, "limit of 262144", false},
		{"busy", says(429), FlowUnavailable, false, "429", true},
		{"broken", says(500), FlowUnavailable, false, "500", true},
		{"away", says(503), FlowUnavailable, false, "503", true},
		{"cut off", cut, FlowUnavailable, false, "EOF", true},
		{"silent", hang, FlowUnavailable, false, "no answer within 250ms", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			noLeaks(t)
			s := newFlowServer(t)
			w := newWarmer(t, Config{Budget: 2 * patience, Flows: Flows{Template: s.URL + "/{id}", Timeout: patience}})
			timeout := patience // a slow machine is no silent source
			if tc.name == "silent" {
				timeout = 250 * ms
			}
			w.flows.cfg.Timeout = timeout
			call := Call{Flow: FlowRef{ID: "a"}}

			s.answer(tc.handler)
			wantError(t, prepareFails(t, w, call), StepFlow, tc.code, tc.permanent, tc.text)

			s.answer(document(`{"version": "1"}`, `"one"`))
			w.flows.cfg.Timeout = patience
			prepare(t, w, call)
			w.flows.cfg.Timeout = timeout

			s.answer(tc.handler)
			if !tc.stands {
				wantError(t, prepareFails(t, w, call), StepFlow, tc.code, tc.permanent, tc.text)
				s.answer(says(503)) // an answer was believed, so there is no copy any more
				if tc.name != "another flow" {
					wantError(t, prepareFails(t, w, call), StepFlow, FlowUnavailable, false, "503")
				}
				if got := w.flows.stale.Load(); got != 0 {
					t.Errorf("stale: got %d, want 0", got)
				}
				return
			}
			if p := prepare(t, w, call); p.Flow.Version != "1" {
				t.Errorf("got version %q, want the copy's", p.Flow.Version)
			}
			if got := w.flows.stale.Load(); got != 1 {
				t.Errorf("stale: got %d, want 1", got)
			}
			// The copy is of version 1: whoever needs another cannot be told it does not exist.
			call.Flow.Version = "2"
			wantError(t, prepareFails(t, w, call), StepFlow, FlowUnavailable, false, `version "2" was asked for, "1" is there`)
			call.Flow.Version = ""

			w.flows.cfg.MaxStale = time.Nanosecond
			wantError(t, prepareFails(t, w, call), StepFlow, tc.code, false, tc.text)
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		noLeaks(t)
		s := newFlowServer(t)
		w := newWarmer(t, Config{Flows: Flows{Template: s.URL + "/{id}"}})
		s.answer(document(`{"version": "1"}`, ""))
		prepare(t, w, Call{Flow: FlowRef{ID: "a"}})
		s.Close()
		if p := prepare(t, w, Call{Flow: FlowRef{ID: "a"}}); p.Flow.Version != "1" {
			t.Errorf("got %+v", p.Flow)
		}
		e := prepareFails(t, w, Call{Flow: FlowRef{ID: "b"}})
		wantError(t, e, StepFlow, FlowUnavailable, false, "connection refused")
		if strings.Contains(e.Error(), s.URL) {
			t.Errorf("the error tells the URL: %v", e)
		}
	})
}

// A call's own URL leads only where the configuration allows, whatever the
// allowed server says.
func TestFlowURLStaysInside(t *testing.T) {
	noLeaks(t)
	inner, allowed := newFlowServer(t), newFlowServer(t)
	inner.answer(document(`{"version": "secret"}`, ""))
	allowed.answer(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/out":
			http.Redirect(w, r, inner.URL, http.StatusFound)
		case "/in":
			http.Redirect(w, r, "/flow", http.StatusFound)
		case "/user":
			http.Redirect(w, r, strings.Replace(allowed.URL, "://", "://me:pw@", 1)+"/flow", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/flow":
			fmt.Fprintf(w, `{"version": "fine", "params": {"key": %q}}`, r.Header.Get("X-Key"))
		}
	})
	host := strings.TrimPrefix(allowed.URL, "http://")
	t.Setenv("FLOW_KEY", "s3cr3t")
	w := newWarmer(t, Config{Flows: Flows{
		Template: inner.URL + "/{id}", Headers: map[string]string{"X-Key": "${FLOW_KEY}"}, Origins: []string{"HTTP://" + host + "/"},
	}})
	for _, tc := range []struct {
		name, url, text string
		permanent       bool
	}{
		{"allowed", allowed.URL + "/flow", "", false},
		{"redirect inside", allowed.URL + "/in", "", false},
		{"redirect outside", allowed.URL + "/out", "redirects elsewhere", false},
		{"redirect with a user", allowed.URL + "/user", "redirects elsewhere", false},
		{"redirect without end", allowed.URL + "/round", "redirects elsewhere", false},
		{"another port", inner.URL + "/flow", "not one from which", true}, // also when it is the template's
		{"another scheme", "https://" + host + "/flow", "not one from which", true},
		{"a user", "http://me:pw@" + host + "/flow", "not one from which", true},
		{"the host as a user", "http://" + host + "@evil.example.com/flow", "not one from which", true},
		{"a name like it", "http://" + host + ".evil.example.com/flow", "not one from which", true},
		{"a file", "file:///etc/passwd", "not one from which", true},
		{"opaque", "http:" + host, "not one from which", true},
		{"no URL", "http://[", "not one from which", true},
		{"relative", "/flow", "not one from which", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := inner.requests.Load()
			call := Call{Flow: FlowRef{URL: tc.url}}
			if tc.text == "" {
				if p := prepare(t, w, call); p.Flow.Version != "fine" || p.Params["key"] != "" {
					t.Errorf("got %+v; the key is for the template's origin only", p.Flow)
				}
			} else {
				e := prepareFails(t, w, call)
				wantError(t, e, StepFlow, FlowForbidden, tc.permanent, tc.text)
				if strings.Contains(e.Error(), "127.0.0.1") || strings.Contains(e.Error(), "pw") {
					t.Errorf("the error tells the URL: %v", e)
				}
			}
			if inner.requests.Load() != before {
				t.Error("somebody else was asked")
			}
		})
	}
	inner.answer(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"params": {"key": %q}}`, r.Header.Get("X-Key"))
	})
	if p := prepare(t, w, Call{Flow: FlowRef{ID: "a"}}); p.Params["key"] != "s3cr3t" {
		t.Errorf("the template's origin got %q as its key", p.Params["key"])
	}
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
