package media

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"dibs/internal/audio"
)

// Whatever is wrong with a request, the answer is one and the token unharmed.
func TestToken(t *testing.T) {
	s, url := serve(t, Config{})
	path, ended := open(t, s, Call{ID: "call"})
	used, usedEnded := open(t, s, Call{ID: "used"})
	gone, goneEnded := open(t, s, Call{ID: "gone"})
	dial(t, url+used)
	s.Close("gone")
	s.Close("gone")
	s.Close("never heard of")
	if got := wait(t, goneEnded, "report"); got.Reason != Withdrawn || got.Connected {
		t.Errorf("report %+v, want withdrawn", got)
	}

	ask := func(method, path string, change func(http.Header)) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Sec-WebSocket-Version", "13")
		r.Header.Set("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
		if change != nil {
			change(r.Header)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	set := func(k, v string) func(http.Header) { return func(h http.Header) { h.Set(k, v) } }
	token := strings.TrimPrefix(path, "/m/bot-1/")
	for _, tc := range []struct {
		name, method, path string
		change             func(http.Header)
	}{
		{"wrong", "GET", path[:len(path)-1] + "0", nil}, // 0 is not in the alphabet
		{"too short", "GET", path[:len(path)-1], nil},
		{"none", "GET", "/m/bot-1/", nil},
		{"used", "GET", used, nil},
		{"withdrawn", "GET", gone, nil},
		{"another bot's", "GET", "/m/bot-2/" + token, nil},
		{"elsewhere", "GET", "/" + token, nil},
		{"more path", "GET", path + "/", nil},
		{"query", "GET", path + "?a=b", nil},
		{"empty query", "GET", path + "?", nil},
		{"POST", "POST", path, nil},
		{"no upgrade", "GET", path, func(h http.Header) { h.Del("Upgrade") }},
		{"another upgrade", "GET", path, set("Upgrade", "h2c")},
		{"no connection header", "GET", path, set("Connection", "keep-alive")},
		{"old version", "GET", path, set("Sec-WebSocket-Version", "8")},
		{"short key", "GET", path, set("Sec-WebSocket-Key", "AAAA")},
		{"no key", "GET", path, func(h http.Header) { h.Del("Sec-WebSocket-Key") }},
		{"two keys", "GET", path, func(h http.Header) { h.Add("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, body := ask(tc.method, tc.path, tc.change)
			if code != http.StatusNotFound || body != "404 page not found\n" {
				t.Errorf("%d %q, want the plain 404", code, body)
			}
		})
	}

	if len(ended) != 0 || len(usedEnded) != 0 {
		t.Fatal("a stray request ended a call")
	}
	dial(t, url+path).say(`{"event":"stop"}`) // none of them has used it up
	if got := wait(t, ended, "report"); got.Reason != Stopped {
		t.Errorf("report %+v, want stopped", got)
	}
	if other, _ := open(t, s, Call{ID: "call"}); other == path { // the ID is free again
		t.Error("a token was made twice")
	}
}

// Of many connections with one token, one is let in.
func TestTokenRace(t *testing.T) {
	s, url := serve(t, Config{})
	path, _ := open(t, s, Call{ID: "call"})
	var in, out atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			conn, resp, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1)+path, nil)
			switch {
			case err == nil:
				in.Add(1)
				conn.CloseNow()
			case resp != nil && resp.StatusCode == http.StatusNotFound:
				out.Add(1)
			}
		})
	}
	wg.Wait()
	if in.Load() != 1 || out.Load() != 15 {
		t.Errorf("%d let in and %d refused, want 1 and 15", in.Load(), out.Load())
	}
}

// Half an HTTP request is cut off, and the token still good.
func TestHalfRequest(t *testing.T) {
	s, url := serve(t, Config{Handshake: 300 * time.Millisecond})
	path, ended := open(t, s, Call{ID: "call"})
	for _, half := range []string{"", "GET " + path, "GET " + path + " HTTP/1.1\r\nHost: bot\r\nUpgrade: websocket\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, half)
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
			t.Errorf("after %q the connection stays", half)
		}
	}
	if len(ended) != 0 || s.Stats().Waiting != 1 {
		t.Error("half a request has touched the call")
	}
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

// raw upgrades by hand, for what no WebSocket library sends.
func raw(t *testing.T, url, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: bot\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v %v", resp, err)
	}
	return conn
}

// frame is a masked text frame of a client, with a mask of noughts.
func frame(s string) string {
	return "\x81" + string([]byte{0x80 | 126, byte(len(s) >> 8), byte(len(s))}) + "\x00\x00\x00\x00" + s
}

// Peers that no library would make: each ends its own call, in time.
func TestRawPeers(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		send string
		talk func(context.Context, *Stream) error // nil: we close
		want Reason
	}{
		{name: "unmasked", send: "\x81\x02{}", want: Malformed},
		{name: "reserved bits", send: "\xf1\x80\x00\x00\x00\x00", want: Malformed},
		{name: "unknown opcode", send: "\x83\x80\x00\x00\x00\x00", want: Malformed},
		{name: "half a frame, then silence", cfg: Config{Idle: 50 * time.Millisecond}, send: "\x81\xfe\x01\x00\x00\x00\x00\x00{", want: TimeoutIdle},
		{
			name: "takes nothing", cfg: Config{Write: 500 * time.Millisecond}, want: WriteTimeout,
			talk: func(ctx context.Context, st *Stream) error {
				for {
					if err := st.Send(ctx, audio.Silence(audio.Rate)); err != nil {
						return err
					}
				}
			},
		},
		{
			// Our closing must not wait for the gigabyte, nor for an answer.
			name: "announces a gigabyte as we hang up", send: "\x81\xff\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00{", want: HungUp,
			talk: func(context.Context, *Stream) error { return nil },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, url := serve(t, tc.cfg)
			first := make(chan time.Duration, 1)
			path, ended := open(t, s, Call{
				ID: "call", Greeting: audio.Silence(audio.FrameBytes), Talk: tc.talk,
				FirstAudio: func(d time.Duration) { first <- d },
			})
			conn := raw(t, url, path)
			io.WriteString(conn, frame(startMessage)+tc.send)
			wait(t, first, "first audio")
			got := wait(t, ended, "report")
			if got.Reason != tc.want {
				t.Errorf("report %+v, want reason %s", got, tc.want)
			}
			if len(ended) != 0 {
				t.Error("ended twice")
			}
		})
	}
}
