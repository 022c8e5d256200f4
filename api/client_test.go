package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dibs/api"
)

// serve is a client of a server that answers with h.
func serve(t *testing.T, h http.HandlerFunc) *api.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := api.NewClient(api.ClientConfig{BaseURL: srv.URL + "/prefix/", Token: "s3cret", HTTP: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRequests holds what each method sends.
func TestRequests(t *testing.T) {
	var got string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)
		if r.Header.Get("Authorization") != "Bearer s3cret" || len(body) > 0 && r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: headers %v", got, r.Header)
		}
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			got += " key " + key
			w.Header().Set("Idempotency-Replayed", "true")
		}
		_, _ = io.WriteString(w, "{}")
	})
	ctx := t.Context()
	for want, send := range map[string]func() error{
		`POST /prefix/v1/calls {"to":"+4915112345678"} key k`: func() error {
			_, replayed, err := c.PlaceCall(ctx, api.PlaceCall{To: "+4915112345678"}, "k")
			if !replayed {
				t.Error("the replay is not told")
			}
			return err
		},
		"GET /prefix/v1/calls/a%2Fb?reveal=true ": func() error { _, err := c.Call(ctx, "a/b", true); return err },
		"GET /prefix/v1/calls?campaign=c&cursor=x+y&limit=2&org=acme&state=live ": func() error {
			_, err := c.Calls(ctx, api.ListQuery{State: "live", Org: "acme", Campaign: "c", Limit: 2, Cursor: "x y"}, false)
			return err
		},
		"GET /prefix/v1/calls?reveal=true ":                       func() error { _, err := c.Calls(ctx, api.ListQuery{}, true); return err },
		`DELETE /prefix/v1/calls/x {"reason":"why"}`:              func() error { _, err := c.CancelCall(ctx, "x", "why"); return err },
		`POST /prefix/v1/claims {"call_id":"x"}`:                  func() error { _, err := c.Claim(ctx, api.Claim{CallID: "x"}); return err },
		`DELETE /prefix/v1/claims/x {"bot_id":"b"}`:               func() error { return c.Release(ctx, "x", api.Release{Bot: "b"}) },
		"GET /prefix/v1/bots?region=eu&state=idle ":               func() error { _, err := c.Bots(ctx, "eu", "idle"); return err },
		"GET /prefix/v1/bots ":                                    func() error { _, err := c.Bots(ctx, "", ""); return err },
		"GET /prefix/v1/bots/b ":                                  func() error { _, err := c.Bot(ctx, "b"); return err },
		`POST /prefix/v1/bots/b/cordon {"reason":"r"}`:            func() error { _, err := c.CordonBot(ctx, "b", "r"); return err },
		`POST /prefix/v1/bots/b/uncordon {}`:                      func() error { _, err := c.UncordonBot(ctx, "b", ""); return err },
		`POST /prefix/v1/bots/..%2F..%2Fx/drain {"reason":"off"}`: func() error { _, err := c.DrainBot(ctx, "../../x", "off"); return err },
	} {
		if err := send(); err != nil || got != want {
			t.Errorf("sent %q (%v), want %q", got, err, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		code   string // of the problem; "": another error
		text   string
	}{
		{"a problem", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			_, _ = io.WriteString(w, `{"code":"no_idle_bot","status":1,"detail":"none","retry_after_ms":5000,"attempts":[{"phase":"pool","answer":"busy","ms":3}],"new_field":1}`)
		}, "no_idle_bot", "no_idle_bot: none"},
		{"a proxy's page", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			_, _ = io.WriteString(w, "<html>Bad gateway</html>")
		}, "http_502", "http_502: not an answer of Dibs; is the address right?"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.invalid/", http.StatusTemporaryRedirect)
		}, "http_307", "not an answer"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "", "GET /v1/calls/x: answer: invalid character"},
		{"without end", func(w http.ResponseWriter, _ *http.Request) {
			for range api.MaxAnswer/1024 + 1 {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		}, "", "answer of more than"},
		{"cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, "", "answer: unexpected EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := serve(t, tt.answer).Call(t.Context(), "x", false)
			p, ok := errors.AsType[*api.Problem](err)
			if ok != (tt.code != "") || ok && p.Code != tt.code || err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, want %q saying %q", err, tt.code, tt.text)
			}
			if ok && p.Status < 300 {
				t.Errorf("status %d, want that of the answer", p.Status)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error tells the token: %v", err)
			}
		})
	}
}

func TestClientTimeOut(t *testing.T) {
	hold := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer srv.Close()
	defer close(hold)
	c, err := api.NewClient(api.ClientConfig{BaseURL: srv.URL, Timeout: 50 * time.Millisecond, HTTP: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Bot(t.Context(), "x"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("%v, want the time-out by its name", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Bot(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want cancelled", err)
	}
}

func TestClientConfig(t *testing.T) {
	for want, cfg := range map[string]api.ClientConfig{
		"BaseURL": {BaseURL: "voice.example.com"},
		"Timeout": {BaseURL: "https://voice.example.com", Timeout: -1},
		"Token":   {BaseURL: "https://voice.example.com", Token: "s3cret\r\nX: y"},
	} {
		if _, err := api.NewClient(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, bad := range []string{"", "ftp://x", "https://", "https://u:p@x", "https://x?q=1", "https://x#f", ":"} {
		if _, err := api.NewClient(api.ClientConfig{BaseURL: bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	c, err := api.NewClient(api.ClientConfig{BaseURL: "https://voice.example.com/", Token: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(s, "s3cret") || !strings.Contains(s, "voice.example.com") {
		t.Errorf("printed: %s", s)
	}
}
