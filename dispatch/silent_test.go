package dispatch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dibs/pool"
	"dibs/wire"
)

// What a media server's answer says of the bot behind it. Whatever speaks is there; a
// name that cannot be looked up today proves nothing.
func TestReach(t *testing.T) {
	dial := func(err error) func(*http.Transport) {
		return func(tr *http.Transport) {
			tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, err }
		}
	}
	for _, tt := range []struct {
		name   string
		status int // of a server that answers
		client func(*http.Transport)
		want   presence
	}{
		{name: "no such page", status: 404, want: present},
		{name: "led elsewhere", status: 302, want: present},
		{name: "out of order", status: 500, want: present},
		{name: "a proxy that does not reach it", status: 502, want: absent},
		{name: "a proxy that knows of nobody", status: 503, want: absent},
		{name: "a proxy that waited", status: 504, want: absent},
		{name: "nobody listens", client: dial(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), want: absent},
		{name: "no way to the host", client: dial(&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}), want: absent},
		{name: "its name is gone", client: dial(&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}), want: absent},
		{name: "no names today", client: dial(&net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}), want: unsure},
		{name: "it speaks something else", client: dial(errors.New("tls: not what we expected")), want: present},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := ""
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.Method + " " + r.URL.Path
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(tt.status)
			}))
			defer srv.Close()
			tr := &http.Transport{DisableKeepAlives: true}
			if tt.client != nil {
				tt.client(tr)
			}
			d := &Dispatcher{cfg: Config{Media: mediaClient(&http.Client{Transport: tr})}}
			b := pool.Bot{Beat: wire.Beat{BotID: "bot_1", MediaURL: "ws" + strings.TrimPrefix(srv.URL, "http")}}
			if got := d.reach(t.Context(), b); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if tt.client == nil && asked != "GET /m/bot_1/" {
				t.Errorf("it was asked %q", asked)
			}
		})
	}
}

// A media server that takes a connection and says nothing is absent, after a while; one
// of which the address is no use, or that we gave up to ask, is a matter of doubt.
func TestReachNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, _ := net.Pipe()
			return near, nil
		}}
		d := &Dispatcher{cfg: Config{Media: mediaClient(&http.Client{Transport: tr})}}
		bot := func(media string) pool.Bot { return pool.Bot{Beat: wire.Beat{BotID: "bot_1", MediaURL: media}} }
		begun := time.Now()
		if got := d.reach(t.Context(), bot("ws://bot.example.com")); got != absent || time.Since(begun) != reachIn {
			t.Errorf("silence: got %v after %v", got, time.Since(begun))
		}
		short, cancel := context.WithTimeout(t.Context(), reachIn/2)
		defer cancel()
		if got := d.reach(short, bot("ws://bot.example.com")); got != unsure {
			t.Errorf("given up: got %v", got)
		}
		for _, media := range []string{"", "bot.example.com", "http://bot.example.com", "wss://", "wss://bot.example.com:x", "\x00"} {
			if got := d.reach(t.Context(), bot(media)); got != unsure {
				t.Errorf("%q: got %v, want unsure", media, got)
			}
		}
	})
}
