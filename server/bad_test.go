package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
	"dibs/server"
)

// TestBadRequests is what people and programs send by mistake or on purpose. Nothing
// of it may reach whoever keeps the calls.
func TestBadRequests(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name  string
		body  any
		code  string
		paths []string // of the errors, in order; nil: none
	}{
		{"no number", body("to", nil), api.CodeInvalidNumber, []string{"to"}},
		{"a number with spaces", body("to", "+49 151 12345678"), api.CodeInvalidNumber, []string{"to"}},
		{"a national number", body("to", "015112345678"), api.CodeInvalidNumber, []string{"to"}},
		{"a number that goes on", body("to", to+"\n"), api.CodeInvalidNumber, []string{"to"}},
		{"a number as a number", body("to", 4915112345678), api.CodeInvalidNumber, []string{"to"}},
		{"two bad numbers", body("to", "1", "from", "2"), api.CodeInvalidNumber, []string{"from", "to"}},
		{"no org", body("org_id", nil), api.CodeInvalidField, []string{"org_id"}},
		{"an org with a dot", body("org_id", "a.b"), api.CodeInvalidField, []string{"org_id"}},
		{"an org like a path", body("org_id", "../../etc/passwd"), api.CodeInvalidField, []string{"org_id"}},
		{"an org like a wildcard", body("org_id", "*"), api.CodeInvalidField, []string{"org_id"}},
		{"a region like a wildcard", body("region", ">"), api.CodeInvalidField, []string{"region"}},
		{"a long org", body("org_id", strings.Repeat("a", 129)), api.CodeInvalidField, []string{"org_id"}},
		{"an unknown field", body("tpo", to), api.CodeUnknownField, []string{"tpo"}},
		{"unknown fields, deeper", body("retry", map[string]any{"max": 3, "if": []string{}}, "flow", map[string]any{"name": "x"}), api.CodeUnknownField, []string{"flow.name", "retry.if", "retry.max"}},
		{"a field in another case", body("Org_ID", "acme"), api.CodeUnknownField, []string{"Org_ID"}},
		{"what only the server may say", body("request_hash", "x", "queued_at", "2026-01-01T00:00:00Z", "call_id", "call_mine"), api.CodeUnknownField, []string{"call_id", "queued_at", "request_hash"}},
		{"inbound", body("class", "inbound"), api.CodeInvalidClass, []string{"class"}},
		{"a class of its own", body("class", "vip"), api.CodeInvalidClass, []string{"class"}},
		{"a campaign without its name", body("class", "campaign"), api.CodeInvalidField, []string{"campaign_id"}},
		{"a time without a zone", body("not_before", "2026-01-01T10:00:00"), api.CodeInvalidWindow, []string{"not_before"}},
		{"a window that ends before it begins", body("not_before", "2998-01-01T10:00:00Z", "not_after", "2998-01-01T09:00:00Z"), api.CodeInvalidWindow, []string{"not_after"}},
		{"the year 12000", body("not_after", "12000-01-01T09:00:00Z"), api.CodeInvalidWindow, []string{"not_after"}},
		{"the year 9999", body("not_after", "9999-01-01T09:00:00Z"), api.CodeInvalidWindow, []string{"not_after"}},
		{"a day that is none", body("hours", map[string]any{"monday": [][]string{{"09:00", "10:00"}}}), api.CodeInvalidHours, []string{"hours"}},
		{"an hour that is none", body("hours", map[string]any{"mon": [][]string{{"9", "25:00"}}}), api.CodeInvalidHours, []string{"hours.mon[0][0]", "hours.mon[0][1]"}},
		{"three hours", body("hours", map[string]any{"mon": [][]string{{"09:00", "10:00", "11:00"}}}), api.CodeInvalidHours, []string{"hours.mon[0]"}},
		{"hours over midnight", body("hours", map[string]any{"mon": [][]string{{"22:00", "06:00"}}}), api.CodeInvalidHours, []string{"hours"}},
		{"a zone that is none", body("tz", "Mars/Olympus"), api.CodeInvalidHours, []string{"tz"}},
		{"a zone like a path", body("tz", "../../etc/passwd"), api.CodeInvalidHours, []string{"tz"}},
		{"hours and a number of many zones", body("to", "+12125550123", "hours", map[string]any{"mon": [][]string{{"09:00", "10:00"}}}), api.CodeInvalidHours, []string{"tz"}},
		{"a retry of what succeeded", body("retry", map[string]any{"on": []string{"completed"}}), api.CodeInvalidRetry, []string{"retry.on"}},
		{"100 tries", body("retry", map[string]any{"max_attempts": 100}), api.CodeInvalidRetry, []string{"retry.max_attempts"}},
		{"half a try", body("retry", map[string]any{"max_attempts": 1.5}), api.CodeInvalidRetry, []string{"retry.max_attempts"}},
		{"a negative pause", body("retry", map[string]any{"backoff_ms": []int{-1}}), api.CodeInvalidRetry, []string{"retry.backoff_ms"}},
		{"huge metadata", body("metadata", map[string]any{"x": strings.Repeat("a", 8<<10)}), api.CodeInvalidMetadata, []string{"metadata"}},
		{"metadata that is no object", body("metadata", []int{1}), api.CodeInvalidMetadata, []string{"metadata"}},
		{"a callback to a file", body("callback_url", "file:///etc/passwd"), api.CodeInvalidCallbackURL, []string{"callback_url"}},
		{"a callback to nowhere", body("callback_url", "/done"), api.CodeInvalidCallbackURL, []string{"callback_url"}},
		{"ringing for an hour", body("ring_ms", 3600000), api.CodeInvalidField, []string{"ring_ms"}},
		{"more milliseconds than there are", body("max_call_ms", 1e18), api.CodeInvalidField, []string{"max_call_ms"}},
		{"a provider with a star", body("needs", map[string]any{"stt": []string{"*"}}), api.CodeInvalidField, []string{"needs.stt"}},
		{"a word for a truth", body("no_wait", "yes"), api.CodeInvalidField, []string{"no_wait"}},
		{"two things wrong", body("to", "1", "class", "vip"), api.CodeInvalidField, []string{"class", "to"}},
		{"a flow of 70 KiB", body("flow", map[string]any{"inline": strings.Repeat("a", 70<<10)}), api.CodeInvalidField, []string{""}},

		{"no JSON", "to=" + to, api.CodeMalformedJSON, nil},
		{"half of it", `{"to":"` + to + `","org_id":`, api.CodeMalformedJSON, nil},
		{"two of it", `{"to":"` + to + `","org_id":"acme"} {}`, api.CodeMalformedJSON, nil},
		{"no UTF-8", "{\"to\":\"" + to + "\",\"org_id\":\"acme\",\"pool\":\"\xff\"}", api.CodeMalformedJSON, nil},
		{"very deep", strings.Repeat("[", 60000) + strings.Repeat("]", 60000), api.CodeMalformedJSON, nil},
		{"a list", `[]`, api.CodeInvalidField, []string{""}},
		{"null", `null`, api.CodeInvalidField, []string{""}},
		{"a number with an exponent", `{"to":"` + to + `","org_id":"acme","ring_ms":3e4}`, api.CodeInvalidField, []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.ask("POST", "/v1/calls", tt.body)
			p := denied(t, r, tt.code)
			var paths []string
			for _, e := range p.Errors {
				paths = append(paths, e.Path)
				if e.Detail == "" {
					t.Errorf("%s: nothing is said", e.Path)
				}
			}
			if d := cmp.Diff(tt.paths, paths); d != "" {
				t.Errorf("paths (-want +got):\n%s", d)
			}
			if strings.Contains(string(r.body), "15112345678") || strings.Contains(string(r.body), "Go ") || len(r.body) > 4096 {
				t.Errorf("the problem says too much: %.500s", r.body)
			}
		})
	}
	if puts, _, _ := w.calls.counts(); puts != 0 {
		t.Errorf("%d puts, want none", puts)
	}
	if s := w.log.String(); strings.Contains(s, "15112345678") || strings.Contains(s, operator) {
		t.Errorf("the log holds a number or a token:\n%s", s)
	}
}

func TestManyErrors(t *testing.T) {
	w := newWorld(t)
	b := body()
	for i := range 100 {
		b[fmt.Sprintf("f%03d%s", i, strings.Repeat("x", 300))] = i
	}
	p := denied(t, w.ask("POST", "/v1/calls", b), api.CodeUnknownField)
	if len(p.Errors) != api.MaxFieldProblems || len(p.Errors[0].Path) > 200 || !strings.HasPrefix(p.Errors[0].Path, "f000") {
		t.Errorf("%d errors, the first %q: want the first 20 by name, none longer than 200 bytes", len(p.Errors), p.Errors[0].Path)
	}
}

func TestBadHeaders(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name string
		head []string
		code string
	}{
		{"text", []string{"Content-Type", "text/plain"}, api.CodeMediaType},
		{"a form", []string{"Content-Type", "application/x-www-form-urlencoded"}, api.CodeMediaType},
		{"a long key", []string{"Idempotency-Key", strings.Repeat("k", 256)}, api.CodeBadKey},
		{"a key in another alphabet", []string{"Idempotency-Key", "schlüssel"}, api.CodeBadKey},
	} {
		t.Run(tt.name, func(t *testing.T) { denied(t, w.ask("POST", "/v1/calls", body(), tt.head...), tt.code) })
	}
	if got := w.ask("POST", "/v1/calls", body(), "Content-Type", "application/json; charset=utf-8"); got.status != 202 {
		t.Errorf("JSON with a charset: status %d, want 202", got.status)
	}
	for name, values := range map[string][]string{"an empty key": {""}, "two keys": {"a", "b"}} {
		r := request(t, "POST", "/v1/calls", strings.NewReader(`{"to":"`+to+`","org_id":"acme"}`))
		r.Header["Idempotency-Key"] = values
		if got := serve(w, r); got.Code != 400 || !strings.Contains(got.Body.String(), api.CodeBadKey) {
			t.Errorf("%s: %d %s, want %s", name, got.Code, got.Body, api.CodeBadKey)
		}
	}
	if got := denied(t, w.ask("POST", "/v1/calls", ""), api.CodeBodyMissing); len(got.Errors) != 0 {
		t.Errorf("no body: %+v", got)
	}
}

// request is one as operator, for a handler that is called directly.
func request(t *testing.T, method, path string, body io.Reader) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), method, path, body)
	r.Header.Set("Authorization", "Bearer "+operator)
	r.Header.Set("Content-Type", "application/json")
	return r
}

func serve(w *world, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.srv.Handler().ServeHTTP(rec, r)
	return rec
}

// counted counts what is read of it.
type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

func TestLargeBodies(t *testing.T) {
	w := newWorld(t)
	huge := bytes.Repeat([]byte(" "), 5<<20)
	for _, tt := range []struct {
		name   string
		length int64
		most   int // bytes that may be read
	}{
		{"announced", 5 << 20, 0},
		{"not announced", -1, server.MaxBody + 1<<10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := &counted{r: bytes.NewReader(huge)}
			r := request(t, "POST", "/v1/calls", src)
			r.ContentLength = tt.length
			got := serve(w, r)
			if got.Code != 413 || !strings.Contains(got.Body.String(), api.CodeBodyTooLarge) || got.Header().Get("Connection") != "close" {
				t.Errorf("%d %s %v, want 413 and the connection's end", got.Code, got.Body, got.Header())
			}
			if src.n > tt.most {
				t.Errorf("%d bytes were read, want at most %d", src.n, tt.most)
			}
		})
	}
	denied(t, w.ask("POST", "/v1/calls", string(huge)), api.CodeBodyTooLarge) // over a real connection, to its end
	denied(t, w.ask("POST", "/v1/calls", string(huge), as("wrong-token-000000")...), api.CodeUnauthorized)
	denied(t, w.ask("POST", "/v1/carriers/twilio/status/x-1", string(huge)), api.CodeBodyTooLarge)
	// Just so much is taken, and is JSON.
	b := `{"to":"` + to + `","org_id":"acme"`
	denied(t, w.ask("POST", "/v1/calls", b+strings.Repeat(" ", server.MaxBody-len(b)+1)), api.CodeBodyTooLarge)
	read[api.Call](t, w.ask("POST", "/v1/calls", b+strings.Repeat(" ", server.MaxBody-len(b)-1)+"}"), 202)
}

func TestNoSuchPath(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/callz", "/v1/calls/a/b", "/v1/carriers/twilio/status/", "/docs", "/schemas/Call.json", "/openapi.yaml", "/favicon.ico"} {
		denied(t, w.ask("GET", path, nil), api.CodeNotFound)
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"PUT", "/v1/calls", "GET, HEAD, POST"},
		{"PATCH", "/v1/calls/x", "DELETE, GET, HEAD"},
		{"GET", "/v1/claims", "POST"},
		{"GET", "/v1/carriers/twilio/status/x-1", "POST"},
		{"POST", "/readyz", "GET, HEAD"},
		{"OPTIONS", "/v1/calls", "GET, HEAD, POST"},
	} {
		r := w.ask(tt.method, tt.path, nil)
		if denied(t, r, api.CodeMethod); r.header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: Allow %q, want %q", tt.method, tt.path, r.header.Get("Allow"), tt.allow)
		}
	}
	// Hostile ids are ids that nobody has; they reach nobody.
	w.calls.set(func(l *ledger) {
		l.onGet = func(id string) error { t.Errorf("asked for %q", id); return api.ErrNotFound }
	})
	for _, id := range []string{"%2e%2e", "%2e%2e%2fv1%2fbots", "a.b", "*", "%3E", "%00", "%0d%0aX-Evil:1", "%F0%9F%93%9E", "a%20b", strings.Repeat("a", 129), "%2B4915112345678"} {
		for _, op := range []string{"GET /v1/calls/", "DELETE /v1/calls/", "DELETE /v1/claims/", "GET /v1/bots/"} {
			method, path, _ := strings.Cut(op, " ")
			if r := w.ask(method, path+id, nil); r.status != 404 || r.header.Get("X-Evil") != "" {
				t.Errorf("%s %s%s: status %d, want 404", method, path, id, r.status)
			}
		}
		if r := w.ask("POST", "/v1/bots/"+id+"/drain", nil); r.status != 404 {
			t.Errorf("drain %s: status %d, want 404", id, r.status)
		}
	}
	if s := w.log.String(); strings.Contains(s, "15112345678") || strings.Contains(s, "X-Evil") {
		t.Errorf("the log holds what was asked for:\n%s", s)
	}
}
