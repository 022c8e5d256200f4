package warmup

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestProviderThatDoesNotOpen(t *testing.T) {
	refuse := func(status int, header ...string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, "your key s3cr3t is wrong")
		})
	}
	elsewhere := newVendorDouble(t, nil)
	for _, tc := range []struct {
		name       string
		door       http.Handler // for the handshake
		code       Code
		text       string
		retryAfter time.Duration
	}{
		{"unauthorized", refuse(401), ProviderRefused, "acme says HTTP 401 Unauthorized", 0},
		{"rate limited", refuse(429, "Retry-After", "7"), ProviderRateLimited, "acme says HTTP 429", 7 * time.Second},
		{"rate limited, not until when", refuse(429), ProviderRateLimited, "429", 0},
		{"broken", refuse(503), ProviderRefused, "503", 0},
		{"no WebSocket", refuse(200), ProviderRefused, "HTTP 200 OK", 0},
		{"elsewhere", refuse(307, "Location", elsewhere.URL), ProviderRefused, "307", 0},
		{"hangs up", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), ProviderClosed, "acme closed the connection during the handshake", 0},
	} {
		for _, kind := range []string{"ws", "http"} {
			t.Run(tc.name+" "+kind, func(t *testing.T) {
				if kind == "http" && tc.name == "no WebSocket" {
					t.Skip("which is fine then")
				}
				noLeaks(t)
				s := httptest.NewServer(tc.door)
				t.Cleanup(s.Close)
				t.Setenv("ACME_KEY", "s3cr3t")
				w := newWarmer(t, stt(Provider{URL: kind + strings.TrimPrefix(s.URL, "http") + "/${ACME_KEY}", Headers: map[string]string{"X-Key": "${ACME_KEY}"}}))
				e := prepareFails(t, w, Call{})
				text := tc.text
				if kind == "http" {
					text = strings.Replace(text, "handshake", "first request", 1)
				}
				wantError(t, e, stepSTT, tc.code, false, text)
				if e.Provider != "acme" || e.RetryAfter != tc.retryAfter {
					t.Errorf("got provider %q, retry after %v", e.Provider, e.RetryAfter)
				}
				if strings.Contains(e.Error(), "s3cr3t") {
					t.Errorf("the error tells the key: %v", e)
				}
			})
		}
	}
	if elsewhere.held.Load() != 0 || len(elsewhere.closes) != 0 {
		t.Error("a redirect was followed, with the key")
	}
	for _, kind := range []string{"ws", "http"} {
		t.Run("nobody there "+kind, func(t *testing.T) {
			noLeaks(t)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			e := prepareFails(t, newWarmer(t, stt(Provider{URL: kind + "://" + l.Addr().String() + "/s3cr3t"})), Call{})
			wantError(t, e, stepSTT, ProviderRefused, false, "connection refused")
			if strings.Contains(e.Error(), "s3cr3t") {
				t.Errorf("the error tells the URL: %v", e)
			}
		})
		t.Run("silent at the handshake "+kind, func(t *testing.T) {
			noLeaks(t)
			l := silentListener(t)
			w := newWarmer(t, stt(Provider{URL: kind + "://" + l.Addr().String(), Timeout: 50 * ms}))
			wantError(t, prepareFails(t, w, Call{}), stepSTT, ProviderSilent, false, "acme does not answer within 50ms")
		})
	}
}

// silentListener takes connections and says nothing.
func silentListener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l
}

// The vendor has opened the session, and only its word to us is missing: it must
// learn at once that we are gone.
func TestProviderOpensAndThen(t *testing.T) {
	for _, tc := range []struct {
		name  string
		serve func(*websocket.Conn, *http.Request)
		code  Code
		text  string
	}{
		{"says nothing", func(*websocket.Conn, *http.Request) {}, ProviderSilent, "acme does not answer within 100ms"},
		{"says goodbye", func(c *websocket.Conn, _ *http.Request) {
			c.Close(websocket.StatusPolicyViolation, "quota\nexceeded")
		}, ProviderClosed, "during the first message (1008: quota exceeded)"},
		{"hangs up", func(c *websocket.Conn, _ *http.Request) { c.CloseNow() }, ProviderClosed, "acme closed the connection"},
		{"says too much", func(c *websocket.Conn, _ *http.Request) {
			c.Write(context.Background(), websocket.MessageText, make([]byte, maxInbox+1))
		}, ProviderRefused, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			noLeaks(t)
			v := newVendorDouble(t, tc.serve)
			timeout := patience
			if tc.code == ProviderSilent {
				timeout = 100 * ms
			}
			w := newWarmer(t, stt(Provider{URL: v.ws(), Expect: true, Timeout: timeout}))
			wantError(t, prepareFails(t, w, Call{}), stepSTT, tc.code, false, tc.text)
			v.free(t)
		})
	}
}

func TestProviderClosesMidWarmup(t *testing.T) {
	noLeaks(t)
	speaking := make(chan struct{}, 1)
	var first atomic.Pointer[websocket.Conn]
	v := newVendorDouble(t, func(c *websocket.Conn, _ *http.Request) { first.CompareAndSwap(nil, c) })
	cfg := stt(Provider{URL: v.ws()})
	cfg.Voice = voiceFunc(func(ctx context.Context, _, _, _ string) ([]int16, int, error) {
		speaking <- struct{}{}
		<-ctx.Done()
		return nil, 0, ctx.Err()
	})
	cfg.Budget, cfg.GreetingBudget = patience, patience
	cfg.Providers = append(cfg.Providers, Provider{Name: "brain", Kind: LLM, URL: v.ws()})
	w := newWarmer(t, cfg)
	go func() {
		<-speaking
		eventually(t, "both sessions", func() bool { return v.held.Load() == 2 })
		first.Load().Close(websocket.StatusGoingAway, "maintenance")
	}()
	e := prepareFails(t, w, Call{Greeting: Greeting{Text: "hello"}})
	if e.Step != stepSTT && e.Step != StepProvider+LLM {
		t.Errorf("got step %q", e.Step)
	}
	wantError(t, e, e.Step, ProviderClosed, false, "closed the session (1001: maintenance)")
	if e.Report.Total == 0 || len(e.Report.Steps) != 4 {
		t.Errorf("got report %+v", e.Report)
	}
	v.free(t)
}

func TestChoiceOfProviders(t *testing.T) {
	noLeaks(t)
	v := newVendorDouble(t, nil)
	door := func(kind, name string) Provider { return Provider{Kind: kind, Name: name, URL: v.ws()} }
	w := newWarmer(t, Config{Providers: []Provider{door(STT, "first"), door(STT, "second"), door(STT, "third"), door(LLM, "brain")}})
	flow := FlowRef{Inline: []byte(`{"providers": {"stt": "second", "tts": "singer"}}`)}
	for _, tc := range []struct {
		name string
		call Call
		want map[string]string
	}{
		{"the first configured", Call{}, map[string]string{STT: "first", LLM: "brain"}},
		{"the flow's", Call{Flow: flow}, map[string]string{STT: "second", LLM: "brain", TTS: "singer"}},
		{"the call's", Call{Flow: flow, Providers: map[string]string{STT: "third", TTS: "choir"}}, map[string]string{STT: "third", LLM: "brain", TTS: "choir"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := prepare(t, w, tc.call)
			for _, kind := range kinds {
				if p.Providers[kind] != tc.want[kind] {
					t.Errorf("%s: got %q, want %q", kind, p.Providers[kind], tc.want[kind])
				}
				if s := p.Sessions[kind]; (s != nil) != (kind != TTS) || s != nil && s.Provider != tc.want[kind] {
					t.Errorf("%s: got session %v", kind, s)
				}
			}
		})
	}
	for name, call := range map[string]Call{
		"the call's": {Providers: map[string]string{STT: "nobody"}},
		"the flow's": {Flow: FlowRef{Inline: []byte(`{"providers": {"stt": "nobody"}}`)}},
	} {
		e := prepareFails(t, w, call)
		wantError(t, e, stepSTT, ProviderUnknown, true, `no stt provider "nobody" is configured`)
		if Counts(e) {
			t.Errorf("%s: counts", name)
		}
	}
	w.Close()
	eventually(t, "the end of all sessions", func() bool { return v.held.Load() <= 5 })
}
