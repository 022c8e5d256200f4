package twilio_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/carrier"
	"dibs/carrier/twilio"
)

func dial() carrier.Dial {
	return carrier.Dial{
		Attempt: "att_1", To: "+14155550123", From: from,
		Media:     carrier.Media{URL: "wss://bot.example.com/m/bot_1/secret-media-token"},
		StatusURL: "https://voice.example.com/s/att_1",
	}
}

func TestVerdicts(t *testing.T) {
	const sid = `"sid":"CA0123456789abcdef0123456789abcdef"`
	for _, test := range []struct {
		name   string
		status int
		header string // Retry-After
		body   string
		want   carrier.Error
	}{
		{"created", 201, "", `{` + sid + `,"status":"queued"}`, carrier.Error{}},
		{"ok instead of created", 200, "", `{` + sid + `,"status":"queued"}`, carrier.Error{}},
		{"a status of a later version", 201, "", `{` + sid + `,"status":"thinking"}`, carrier.Error{}},
		{"created, no id", 201, "", `{}`, carrier.Error{Verdict: carrier.Unknown}},
		{"created, odd id", 201, "", `{"sid":"../../x"}`, carrier.Error{Verdict: carrier.Unknown}},
		{"created, empty", 201, "", ``, carrier.Error{Verdict: carrier.Unknown, Status: 201}},
		{"created, half", 201, "", `{` + sid, carrier.Error{Verdict: carrier.Unknown, Status: 201}},
		{"created, a page", 201, "", `<html>`, carrier.Error{Verdict: carrier.Unknown, Status: 201}},
		{"created, too long", 201, "", `{` + sid + `,"x":"` + strings.Repeat("x", 2<<20) + `"}`, carrier.Error{Verdict: carrier.Unknown, Status: 201}},
		{"429", 429, "", `{"code":20429}`, carrier.Error{Verdict: carrier.RateLimited, Status: 429, Code: 20429}},
		{"429, when", 429, "7", `{"code":20429}`, carrier.Error{Verdict: carrier.RateLimited, Status: 429, Code: 20429, RetryAfter: 7 * time.Second}},
		{"429, absurd when", 429, "99999999999", ``, carrier.Error{Verdict: carrier.RateLimited, Status: 429, RetryAfter: time.Hour}},
		{"429, past", 429, "Mon, 01 Jan 2001 00:00:00 GMT", ``, carrier.Error{Verdict: carrier.RateLimited, Status: 429}},
		{"429 of a proxy", 429, "", `slow down`, carrier.Error{Verdict: carrier.RateLimited, Status: 429}},
		{"20429 under another status", 400, "", `{"code":20429}`, carrier.Error{Verdict: carrier.RateLimited, Status: 400, Code: 20429}},
		{"400", 400, "", `{"code":21211}`, carrier.Error{Verdict: carrier.Refused, Status: 400, Code: 21211}},
		{"401", 401, "", `{"code":20003}`, carrier.Error{Verdict: carrier.Refused, Status: 401, Code: 20003}},
		{"404", 404, "", `nothing here`, carrier.Error{Verdict: carrier.Refused, Status: 404}},
		{"500", 500, "", `{"code":20500}`, carrier.Error{Verdict: carrier.Unknown, Status: 500, Code: 20500}},
		{"502 of a proxy", 502, "", `<html>`, carrier.Error{Verdict: carrier.Unknown, Status: 502}},
		{"503", 503, "3", ``, carrier.Error{Verdict: carrier.Unknown, Status: 503}},
		{"302", 302, "", ``, carrier.Error{Verdict: carrier.Unknown, Status: 302}},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Location", "/elsewhere")
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}))
			defer srv.Close()
			_, err := client(t, twilio.Config{BaseURL: srv.URL}).Place(t.Context(), dial())
			if test.want.Verdict == "" {
				if err != nil {
					t.Fatalf("got %v, want success", err)
				}
				return
			}
			e, ok := errors.AsType[*carrier.Error](err)
			if !ok {
				t.Fatalf("got %v, want a *carrier.Error", err)
			}
			got := carrier.Error{Verdict: e.Verdict, Status: e.Status, Code: e.Code, RetryAfter: e.RetryAfter}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// wire is a server that speaks no HTTP unless told to: it counts connections and
// the bytes of requests, and does with each connection what a test wants.
func wire(t *testing.T, serve func(n int, conn net.Conn, req *http.Request)) (url string, requests *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	requests = new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					serve(int(requests.Add(1)), conn, req)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String(), requests
}

const created = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 58\r\n\r\n" +
	`{"sid":"CA0123456789abcdef0123456789abcdef","status":"qu"}`

// A create is on the wire once, whatever the connection does: net/http would
// otherwise repeat some requests by itself when a kept connection turns out dead.
func TestNeverSentTwice(t *testing.T) {
	keep := &http.Transport{}
	t.Cleanup(keep.CloseIdleConnections)
	for _, test := range []struct {
		name   string
		client *http.Client
	}{
		{"our transport", nil},
		{"a transport that keeps connections", &http.Client{Transport: keep}},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, requests := wire(t, func(n int, conn net.Conn, _ *http.Request) {
				if n == 1 {
					io.WriteString(conn, created) // and keep the connection
					return
				}
				if tcp, ok := conn.(*net.TCPConn); ok {
					tcp.SetLinger(0)
				}
				conn.Close()
			})
			c := client(t, twilio.Config{BaseURL: url, Client: test.client})
			if _, err := c.Place(t.Context(), dial()); err != nil {
				t.Fatalf("first: %v", err)
			}
			for i := range 20 {
				_, err := c.Place(t.Context(), dial())
				if carrier.VerdictOf(err) != carrier.Unknown {
					t.Fatalf("dial %d: got %v, want unknown", i+2, err)
				}
				if got := requests.Load(); got != int64(i+2) {
					t.Fatalf("dial %d: %d requests on the wire, want %d", i+2, got, i+2)
				}
			}
		})
	}
}

// What net/http needs to repeat a request by itself: a body it can rewind, or a
// key that says the request may be repeated.
func TestCannotBeRewound(t *testing.T) {
	rt := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Body == nil || r.Body == http.NoBody || r.GetBody != nil || r.ContentLength <= 0 {
			t.Errorf("body %T, length %d: it can be sent again", r.Body, r.ContentLength)
		}
		if r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != "" {
			t.Error("a key allows net/http to send it again")
		}
		return nil, errors.New("enough")
	})
	client(t, twilio.Config{Client: &http.Client{Transport: rt}}).Place(t.Context(), dial())
}

func TestRedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var there atomic.Int64
		target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { there.Add(1) }))
		url, _ := wire(t, func(_ int, conn net.Conn, _ *http.Request) {
			fmt.Fprintf(conn, "HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, target.URL)
		})
		_, err := client(t, twilio.Config{BaseURL: url}).Place(t.Context(), dial())
		if carrier.VerdictOf(err) != carrier.Unknown || there.Load() != 0 {
			t.Errorf("%d: got %v and %d requests elsewhere, want unknown and none", status, err, there.Load())
		}
		target.Close()
	}
}

func TestNoConnection(t *testing.T) {
	full := func() string { // the handshake of TLS fails before anything of the request is sent
		url, _ := wire(t, func(int, net.Conn, *http.Request) {})
		return strings.Replace(url, "http://", "https://", 1)
	}
	for name, base := range map[string]string{
		"refused":  deadAddress(t),
		"no host":  "http://nowhere.invalid",
		"not TLS":  full(),
		"bad port": "http://127.0.0.1:0",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client(t, twilio.Config{BaseURL: base}).Place(t.Context(), dial())
			if carrier.VerdictOf(err) != carrier.NotPlaced {
				t.Errorf("got %v, want not placed", err)
			}
		})
	}
	t.Run("a connection, then silence", func(t *testing.T) {
		url, requests := wire(t, func(int, net.Conn, *http.Request) {})
		_, err := client(t, twilio.Config{BaseURL: url, Timeout: time.Second}).Place(t.Context(), dial())
		if carrier.VerdictOf(err) != carrier.Unknown {
			t.Errorf("got %v, want unknown", err)
		}
		if requests.Load() != 1 {
			t.Errorf("%d requests on the wire, want 1", requests.Load())
		}
	})
}

// A transport that tells nothing of its connections proves nothing by failing.
func TestSilentTransport(t *testing.T) {
	for _, test := range []struct {
		err  error
		want carrier.Verdict
	}{
		{errors.New("something"), carrier.Unknown},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, carrier.Unknown},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, carrier.NotPlaced},
		{&net.DNSError{Err: "no such host"}, carrier.NotPlaced},
	} {
		rt := roundTripper(func(*http.Request) (*http.Response, error) { return nil, test.err })
		_, err := client(t, twilio.Config{Client: &http.Client{Transport: rt}}).Place(t.Context(), dial())
		if got := carrier.VerdictOf(err); got != test.want {
			t.Errorf("%v: got %s, want %s", test.err, got, test.want)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestErrorsGiveNothingAway(t *testing.T) {
	const private = `{"code":21211,"message":"The 'To' number +1 (415) 555-0123 of +15005550006 is invalid, see https://bot.example.com/m/bot_1/secret-media-token and the-auth-token\n\n` +
		`and very much more of it, again and again and again and again and again and again and again and again"}`
	url, _ := wire(t, func(_ int, conn net.Conn, _ *http.Request) {
		fmt.Fprintf(conn, "HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s", len(private), private)
	})
	c := client(t, twilio.Config{BaseURL: url})
	_, placed := c.Place(t.Context(), dial())
	_, found := c.Find(t.Context(), carrier.Query{To: "+14155550123", StartedSince: time.Now()})
	_, refused := client(t, twilio.Config{BaseURL: deadAddress(t)}).Find(t.Context(), carrier.Query{To: "+14155550123", StartedSince: time.Now()})
	for _, err := range []error{placed, found, refused} {
		for _, secret := range []string{"555", "4155550123", "5005550006", "secret", "the-auth-token", "\n"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q is in %q", secret, err)
			}
		}
	}
	if !strings.Contains(placed.Error(), "21211") || !strings.Contains(placed.Error(), "…06") {
		t.Errorf("%q does not say what is wrong", placed)
	}
	for _, v := range []any{c, twilio.Config{AccountSID: account, AuthToken: token}} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if got := fmt.Sprintf(format, v); strings.Contains(got, token) {
				t.Errorf("%s prints the token: %s", format, got)
			}
		}
	}
}

func TestPlaceSends(t *testing.T) {
	type sent struct {
		path, user, pass string
		form             map[string][]string
	}
	got := make(chan sent, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		r.ParseForm()
		got <- sent{r.URL.Path, user, pass, r.PostForm}
		w.WriteHeader(201)
		json.NewEncoder(w).Encode(map[string]string{"sid": "CA0123456789abcdef0123456789abcdef", "status": "queued"})
	}))
	defer srv.Close()
	c := client(t, twilio.Config{BaseURL: srv.URL + "/", KeySID: "SKkey", KeySecret: "key-secret"})
	d := dial()
	d.Ring, d.MaxCall = 20*time.Second+time.Millisecond, 10*time.Minute
	d.NextURL = "https://voice.example.com/next?call=1&x=2"
	d.Media.Params = map[string]string{"claim": "a<b"}
	p, err := c.Place(t.Context(), d)
	if err != nil || p.ID != "CA0123456789abcdef0123456789abcdef" || p.Status != carrier.Queued {
		t.Fatalf("got %+v, %v", p, err)
	}
	s := <-got
	if s.path != "/2010-04-01/Accounts/"+account+"/Calls.json" || s.user != "SKkey" || s.pass != "key-secret" {
		t.Errorf("got %s by %s", s.path, s.user)
	}
	for name, want := range map[string]string{
		"To": d.To, "From": d.From, "Timeout": "21", "TimeLimit": "600",
		"StatusCallback": d.StatusURL, "StatusCallbackMethod": "POST",
		"Twiml": `<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
			`<Response><Connect><Stream url="wss://bot.example.com/m/bot_1/secret-media-token"><Parameter name="claim" value="a&lt;b"></Parameter></Stream></Connect>` +
			`<Redirect method="POST">https://voice.example.com/next?call=1&amp;x=2</Redirect></Response>`,
	} {
		if v := s.form[name]; len(v) != 1 || v[0] != want {
			t.Errorf("%s: got %q, want %q", name, v, want)
		}
	}
	if v := s.form["StatusCallbackEvent"]; strings.Join(v, " ") != "initiated ringing answered completed" {
		t.Errorf("events: got %q", v)
	}
}
