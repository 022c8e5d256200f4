package warmup

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

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
	z.Write(bytes.Repeat([]byte(" "), 1<<20))
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
