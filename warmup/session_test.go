package warmup

import (
	"context"
	"errors"
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

// vendorDouble is a provider on loopback that speaks real WebSocket.
type vendorDouble struct {
	*httptest.Server
	held   atomic.Int64                         // sessions that it believes to be open
	closes chan websocket.StatusCode            // how they ended; -1: without a goodbye
	serve  func(*websocket.Conn, *http.Request) // nil: echo
}

func newVendorDouble(t *testing.T, serve func(*websocket.Conn, *http.Request)) *vendorDouble {
	v := &vendorDouble{closes: make(chan websocket.StatusCode, 64), serve: serve}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		v.held.Add(1)
		defer v.held.Add(-1)
		if v.serve != nil {
			v.serve(c, r)
		}
		for {
			typ, data, err := c.Read(context.Background())
			if err != nil {
				v.closes <- websocket.CloseStatus(err)
				return
			}
			if c.Write(context.Background(), typ, data) != nil {
				v.closes <- -1
				return
			}
		}
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *vendorDouble) ws() string { return "ws" + strings.TrimPrefix(v.URL, "http") + "/session" }

// free fails t unless the vendor soon holds nothing for us.
func (v *vendorDouble) free(t *testing.T) {
	t.Helper()
	eventually(t, "the vendor is rid of our session", func() bool { return v.held.Load() == 0 })
}

func stt(p Provider) Config {
	p.Name, p.Kind = "acme", STT
	return Config{Providers: []Provider{p}}
}

const stepSTT = StepProvider + STT

func TestSessionIsKeptAndClosed(t *testing.T) {
	noLeaks(t)
	t.Setenv("ACME_KEY", "s3cr3t\n")
	hello := make(chan string, 1)
	v := newVendorDouble(t, func(c *websocket.Conn, r *http.Request) {
		_, text, _ := c.Read(context.Background())
		hello <- r.Header.Get("Authorization") + " " + string(text)
		c.Write(context.Background(), websocket.MessageText, []byte("welcome"))
	})
	w := newWarmer(t, stt(Provider{
		URL: v.ws(), Headers: map[string]string{"authorization": "Token ${ACME_KEY}"}, Hello: "start", Expect: true, Ping: 5 * ms,
	}))
	p := prepare(t, w, Call{})
	if got, want := await(t, hello, "hello"), "Token s3cr3t start"; got != want {
		t.Errorf("the vendor heard %q, want %q", got, want)
	}
	s := p.Sessions[STT]
	if string(s.First) != "welcome" || s.Provider != "acme" || s.Kind != STT || p.Providers[STT] != "acme" || s.Client() != nil {
		t.Errorf("got session %s/%s with first message %q, providers %v", s.Kind, s.Provider, s.First, p.Providers)
	}
	for _, m := range []Message{{false, []byte("text")}, {true, []byte{1, 2}}} {
		if err := s.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		got, err := s.Read(t.Context())
		if err != nil || got.Binary != m.Binary || string(got.Data) != string(m.Data) {
			t.Errorf("echo: got %v, %v, want %v", got, err, m)
		}
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err of a live session: %v", err)
	}
	p.Close()
	p.Close()
	if got := await(t, v.closes, "the goodbye"); got != websocket.StatusNormalClosure {
		t.Errorf("closed with %d, want 1000", got)
	}
	v.free(t)
	await(t, s.Done(), "Done")
	if _, err := s.Read(t.Context()); !errors.Is(err, ErrClosed) || !errors.Is(s.Err(), ErrClosed) {
		t.Errorf("after Close: Read says %v, Err %v", err, s.Err())
	}
	if err := s.Write(t.Context(), Message{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: Write says %v", err)
	}
}

// A vendor that never answers a goodbye does not hold up the end of a call.
func TestSessionCloseDoesNotWaitForTheDeaf(t *testing.T) {
	noLeaks(t)
	release := make(chan struct{})
	v := newVendorDouble(t, func(*websocket.Conn, *http.Request) { <-release })
	p := prepare(t, newWarmer(t, stt(Provider{URL: v.ws()})), Call{})
	began := time.Now()
	p.Close()
	if took := time.Since(began); took > 4*time.Second { // without our limit it is 5 s and more
		t.Errorf("took %v, want about a second", took)
	}
	close(release)
	v.free(t)
}

func TestSessionDiesDuringTheCall(t *testing.T) {
	for _, tc := range []struct {
		name string
		ping time.Duration
		die  func(*websocket.Conn)
		code Code
		text string
	}{
		{"says goodbye", -1, func(c *websocket.Conn) { c.Close(websocket.StatusInternalError, "oops") }, ProviderClosed, "acme closed the session (1011: oops)"},
		{"hangs up", -1, func(c *websocket.Conn) { c.CloseNow() }, ProviderClosed, "acme closed the session"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			noLeaks(t)
			conns := make(chan *websocket.Conn, 1)
			v := newVendorDouble(t, func(c *websocket.Conn, _ *http.Request) {
				c.Write(context.Background(), websocket.MessageText, []byte("last words"))
				conns <- c
			})
			p := prepare(t, newWarmer(t, stt(Provider{URL: v.ws(), Ping: tc.ping})), Call{})
			s := p.Sessions[STT]
			tc.die(await(t, conns, "session"))
			await(t, s.Done(), "Done")
			wantError(t, coded(t, s.Err()), "", tc.code, false, tc.text)
			if m, err := s.Read(t.Context()); err != nil || string(m.Data) != "last words" {
				t.Errorf("what came before the end: got %q, %v", m.Data, err)
			}
			if _, err := s.Read(t.Context()); !errors.Is(err, s.Err()) {
				t.Errorf("then: got %v, want %v", err, s.Err())
			}
			p.Close()
			v.free(t)
		})
	}
}

// A vendor whose machine is there but whose program is not answers no ping.
func TestSessionNoticesTheDeaf(t *testing.T) {
	noLeaks(t)
	release := make(chan struct{})
	v := newVendorDouble(t, func(*websocket.Conn, *http.Request) { <-release })
	defer close(release)
	p := prepare(t, newWarmer(t, stt(Provider{URL: v.ws(), Ping: 10 * ms, Timeout: 500 * ms})), Call{})
	s := p.Sessions[STT]
	await(t, s.Done(), "Done")
	wantError(t, coded(t, s.Err()), "", ProviderSilent, false, "acme does not answer a ping")
}

func TestSessionThatNobodyReadsStaysOpen(t *testing.T) {
	noLeaks(t)
	const more = 3 * inboxSize
	v := newVendorDouble(t, func(c *websocket.Conn, _ *http.Request) {
		for i := range more {
			c.Write(context.Background(), websocket.MessageText, fmt.Append(nil, i))
		}
	})
	p := prepare(t, newWarmer(t, stt(Provider{URL: v.ws(), Ping: 5 * ms})), Call{})
	s := p.Sessions[STT]
	eventually(t, "loss", func() bool { return s.Dropped() == more-inboxSize })
	if m, err := s.Read(t.Context()); err != nil || string(m.Data) != fmt.Sprint(more-inboxSize) || s.Err() != nil {
		t.Errorf("got %q, %v; want the oldest that is left, %d", m.Data, err, more-inboxSize)
	}
}

func TestHTTPSession(t *testing.T) {
	noLeaks(t)
	t.Setenv("ACME_KEY", "s3cr3t")
	var conns, probes, gets, broken atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/work":
			fmt.Fprint(w, r.Header.Get("X-Key"))
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case broken.Load() > 0:
			w.WriteHeader(int(broken.Load()))
		default:
			probes.Add(1)
			gets.Add(1)
			fmt.Fprint(w, "fine")
		}
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Key")) }))
	t.Cleanup(other.Close)

	w := newWarmer(t, stt(Provider{URL: s.URL + "/health", Headers: map[string]string{"X-Key": "${ACME_KEY}"}, Ping: 5 * ms}))
	p := prepare(t, w, Call{})
	session := p.Sessions[STT]
	eventually(t, "pings", func() bool { return probes.Load() > 3 })
	if got := get(t, session.Client(), s.URL+"/work"); got != "s3cr3t" {
		t.Errorf("the provider got the key %q", got)
	}
	if got := get(t, session.Client(), other.URL); got != "" {
		t.Errorf("somebody else got the key %q", got)
	}
	// Pings and work beside each other may need two.
	if got := conns.Load(); got > 2 {
		t.Errorf("%d connections, want the warm one to be used again", got)
	}
	if _, err := session.Read(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Read: got %v", err)
	}
	if err := session.Write(t.Context(), Message{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Write: got %v", err)
	}
	broken.Store(503)
	await(t, session.Done(), "Done")
	wantError(t, coded(t, session.Err()), "", ProviderRefused, false, "503")

	broken.Store(0)
	again := prepare(t, w, Call{})
	again.Close()
	if _, err := again.Sessions[STT].Client().Get(s.URL + "/work"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: got %v, want ErrClosed", err)
	}
}

func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := readAtMost(resp.Body, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
