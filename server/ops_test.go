package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"dibs/api"
	"dibs/server"
)

func registry() *prometheus.Registry { return prometheus.NewRegistry() }

type readiness struct {
	Ready   bool
	Reasons []struct{ Check, Why string }
	Checks  []struct {
		Check string
		OK    bool
	}
}

func TestHealth(t *testing.T) {
	var sick error
	w := newWorld(t, func(c *server.Config) {
		c.Checks = map[string]func(context.Context) error{
			"line": func(context.Context) error { return sick },
			"slow": func(ctx context.Context) error {
				if sick == nil {
					return nil
				}
				<-ctx.Done()
				return context.Cause(ctx)
			},
		}
	})
	open := []string{"Authorization", ""}
	if r := w.ask("GET", "/livez", nil, open...); r.status != 200 || string(r.body) != "ok\n" {
		t.Errorf("livez: %d %s", r.status, r.body)
	}
	if got := w.ask("GET", "/readyz", nil, open...); strings.TrimSpace(string(got.body)) != `{"ready":true}` || got.status != 200 {
		t.Errorf("readyz: %d %s", got.status, got.body)
	}
	got := read[readiness](t, w.ask("GET", "/readyz?verbose", nil, open...), 200)
	if len(got.Checks) != 4 || got.Checks[0].Check != "line" || !got.Checks[1].OK {
		t.Errorf("verbose: %+v, want four checks by name", got)
	}
	sick = errors.New("stream DIBS_LINE: no leader")
	got = read[readiness](t, w.ask("GET", "/readyz", nil, open...), 503)
	if got.Ready || len(got.Reasons) != 2 || got.Reasons[0].Why != sick.Error() || got.Reasons[1].Why != "no answer within 1s" {
		t.Errorf("sick: %+v, want both reasons", got)
	}
	sick = nil
	w.srv.Leave()
	if got = read[readiness](t, w.ask("GET", "/readyz", nil, open...), 503); len(got.Reasons) != 1 || got.Reasons[0].Check != "stopping" {
		t.Errorf("leaving: %+v", got)
	}
	w.broker.Stop()
	eventually(t, "the loss of NATS", func() bool { return !w.nc.IsConnected() })
	if got = read[readiness](t, w.ask("GET", "/readyz", nil, open...), 503); len(got.Reasons) != 2 || got.Reasons[0].Check != "nats" || got.Reasons[0].Why == "" {
		t.Errorf("without NATS: %+v", got)
	}
	if r := w.ask("GET", "/livez", nil, open...); r.status != 200 {
		t.Errorf("livez without NATS: %d, want 200: a restart would not help", r.status)
	}
}

func TestMetrics(t *testing.T) {
	reg := registry()
	w := newWorld(t, func(c *server.Config) { c.Registerer, c.Gatherer = reg, reg })
	read[api.Call](t, w.ask("POST", "/v1/calls", body()), 202)
	w.ask("POST", "/v1/calls", body("to", "1"))
	for i := range 50 { // what is asked for must not make labels
		w.ask("GET", fmt.Sprintf("/v1/calls/id%d", i), nil)
		w.ask("GET", fmt.Sprintf("/nowhere/%d", i), nil)
		w.ask("BREW", fmt.Sprintf("/v1/calls/%d", i), nil)
	}
	want := `
# HELP dibs_http_requests_total Requests by route and status.
# TYPE dibs_http_requests_total counter
dibs_http_requests_total{route="GET /v1/calls/{id}",status="404"} 50
dibs_http_requests_total{route="POST /v1/calls",status="202"} 1
dibs_http_requests_total{route="POST /v1/calls",status="422"} 1
dibs_http_requests_total{route="none",status="404"} 50
dibs_http_requests_total{route="none",status="405"} 50
# HELP dibs_http_problems_total Problems answered, by code.
# TYPE dibs_http_problems_total counter
dibs_http_problems_total{code="call_not_found"} 50
dibs_http_problems_total{code="invalid_number"} 1
dibs_http_problems_total{code="method_not_allowed"} 50
dibs_http_problems_total{code="not_found"} 50
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "dibs_http_requests_total", "dibs_http_problems_total"); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	if got := w.ask("GET", "/metrics", nil, "Authorization", ""); got.status != 200 || !strings.Contains(string(got.body), "dibs_http_request_duration_seconds_bucket") {
		t.Errorf("/metrics: %d, %d bytes", got.status, len(got.body))
	}
}

func TestProblemPages(t *testing.T) {
	w := newWorld(t)
	paper, err := os.ReadFile("../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range api.Codes() {
		r := w.ask("GET", "/problems/"+c.Code, nil, "Authorization", "")
		if want := fmt.Sprintf("%s (%d)\n%s.\n\n%s\n", c.Code, c.Status, c.Title, c.Advice); r.status != 200 || string(r.body) != want {
			t.Errorf("%s: %d %q, want %q", c.Code, r.status, r.body, want)
		}
		if !strings.Contains(string(paper), fmt.Sprintf("| `%s` | %d |", c.Code, c.Status)) {
			t.Errorf("docs/API.md does not list %s with %d", c.Code, c.Status)
		}
	}
	denied(t, w.ask("GET", "/problems/unheard_of", nil), api.CodeNotFound)
}

func TestRequestID(t *testing.T) {
	w := newWorld(t)
	if got := w.ask("GET", "/v1/calls/x", nil, "X-Request-Id", "trace-4711"); denied(t, got, api.CodeCallNotFound).RequestID != "trace-4711" {
		t.Errorf("request id %q, want the caller's", got.header.Get("X-Request-Id"))
	}
	if !strings.Contains(w.log.String(), `"request":"trace-4711","route":"GET /v1/calls/{id}"`) {
		t.Errorf("the log lacks the request:\n%s", w.log)
	}
	for _, bad := range []string{"+4915112345678", "a b", strings.Repeat("x", 65)} {
		if got := w.ask("GET", "/livez", nil, "X-Request-Id", bad).header.Get("X-Request-Id"); got == bad || got == "" {
			t.Errorf("request id %q for %q, want one of our own", got, bad)
		}
	}
	h := w.ask("GET", "/v1/calls", nil).header
	if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", h)
	}
}

func TestPanics(t *testing.T) {
	w := newWorld(t)
	w.srv.Mux().HandleFunc("GET /boom", func(http.ResponseWriter, *http.Request) { panic("secret " + to) })
	w.srv.Mux().HandleFunc("GET /half", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("half"))
		panic("in the middle")
	})
	r := w.ask("GET", "/boom", nil)
	if denied(t, r, api.CodeInternal); strings.Contains(string(r.body), "secret") {
		t.Errorf("the problem tells the panic: %s", r.body)
	}
	if s := w.log.String(); !strings.Contains(s, "ops_test.go") || strings.Contains(s, to) {
		t.Errorf("the log lacks the stack, or holds the number:\n%s", s)
	}
	resp, err := w.http.Client().Get(w.http.URL + "/half")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("half an answer looks like a whole one")
	}
	eventually(t, "the second panic's line", func() bool { return strings.Contains(w.log.String(), "panic: in the middle") })
	if r := w.ask("GET", "/livez", nil); r.status != 200 {
		t.Errorf("afterwards: %d", r.status)
	}
}

// TestSlowBody is a request whose body does not come.
func TestSlowBody(t *testing.T) {
	w := newWorld(t)
	web := w.srv.HTTP()
	if web.ReadHeaderTimeout == 0 || web.ReadTimeout == 0 || web.WriteTimeout <= 30*time.Second || web.IdleTimeout == 0 || web.MaxHeaderBytes == 0 {
		t.Errorf("a time-out or limit is missing: %+v", web)
	}
	web.ReadTimeout = 200 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	defer func() { _ = web.Close(); <-served }()
	for want, head := range map[int]string{408: "Content-Length: 100\r\n", 400: "Transfer-Encoding: chunked\r\n"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		part := `{"to":`
		if want == 400 {
			part = "no chunk\r\n"
		}
		_, _ = fmt.Fprintf(c, "POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s\r\n%s", operator, head, part)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("status %d, want %d", resp.StatusCode, want)
		}
		_ = resp.Body.Close()
		_ = c.Close()
	}
}

func TestRun(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in, out := make(chan struct{}), make(chan struct{})
	w.srv.Mux().HandleFunc("GET /long", func(w http.ResponseWriter, _ *http.Request) {
		close(in)
		<-out
		_, _ = w.Write([]byte("done"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.srv.Run(ctx, l) }()
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	said := make(chan string, 1)
	go func() {
		resp, err := hc.Get("http://" + l.Addr().String() + "/long")
		if err != nil {
			said <- err.Error()
			return
		}
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		said <- string(data)
	}()
	<-in
	cancel() // what runs ends first
	eventually(t, "no new connections", func() bool {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	close(out)
	if got := <-said; got != "done" {
		t.Errorf("the request that ran: %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := w.srv.Run(t.Context(), l); err == nil {
		t.Error("on a closed listener: no error")
	}
}
