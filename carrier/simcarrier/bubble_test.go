package simcarrier_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"dibs/carrier/simcarrier"
)

// pipes is a network in memory: what is dialled is served by whoever has that host.
type pipes struct{ listeners map[string]*pipeListener }

type pipeListener struct {
	host  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) listen(host string) *pipeListener {
	l := &pipeListener{host: host, conns: make(chan net.Conn), done: make(chan struct{})}
	p.listeners[host] = l
	return l
}

func (p *pipes) dial(ctx context.Context, _, address string) (net.Conn, error) {
	l, ok := p.listeners[strings.Split(address, ":")[0]]
	if !ok {
		return nil, &net.OpError{Op: "dial", Err: net.UnknownNetworkError(address)}
	}
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return pipeAddr(l.host) }

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

// Five minutes on the phone in fake time: every frame is sent, none twice, nothing
// drifts, and the books have exact times.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &pipes{listeners: map[string]*pipeListener{}}
		var mu sync.Mutex
		var frames, told []string
		var first, last time.Time
		hello := greeting(t, "4711")
		mux := http.NewServeMux()
		mux.HandleFunc("POST /s", func(w http.ResponseWriter, r *http.Request) {
			r.ParseForm()
			mu.Lock()
			defer mu.Unlock()
			told = append(told, r.PostForm.Get("CallStatus")+" "+time.Now().Format("15:04:05"))
		})
		mux.HandleFunc("GET /m/token", func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.CloseNow()
			for {
				_, b, err := c.Read(context.Background())
				if err != nil {
					return
				}
				text := string(b)
				mu.Lock()
				switch {
				case strings.Contains(text, `"event":"start"`):
					_, sid, _ := strings.Cut(text, `"streamSid":"`)
					sid, _, _ = strings.Cut(sid, `"`)
					time.AfterFunc(250*time.Millisecond, func() { sendAudio(c, sid, hello) })
				case strings.Contains(text, `"event":"media"`):
					if last = time.Now(); len(frames) == 0 {
						first = last
					}
					frames = append(frames, text)
				}
				mu.Unlock()
			}
		})
		srv := &http.Server{Handler: mux}
		l := network.listen("dibs")
		go srv.Serve(l)

		transport := &http.Transport{DialContext: network.dial}
		s, err := simcarrier.New(simcarrier.Config{
			Client: &http.Client{Transport: transport}, Insecure: true,
			Profile: simcarrier.Profile{Queue: time.Minute, Ring: simcarrier.Range{Min: 10 * time.Second}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()

		form := url.Values{
			"To": {to}, "From": {from}, "TimeLimit": {"300"}, "StatusCallback": {"http://dibs/s"},
			"StatusCallbackEvent": {"initiated ringing answered completed"},
			"Twiml":               {`<Response><Connect><Stream url="ws://localhost/m/token"/></Connect></Response>`},
		}
		network.listeners["localhost"] = l
		req := httptest.NewRequest("POST", api+"/Calls.json", strings.NewReader(form.Encode()))
		req.SetBasicAuth(simcarrier.AccountSID, simcarrier.AuthToken)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code != 201 {
			t.Fatalf("create: %d %s", w.Code, w.Body)
		}

		time.Sleep(10 * time.Minute)
		c := s.Calls()[0]
		if c.Status != "completed" || c.EndedBy != "limit" || c.Ended.Sub(c.Answered) != 5*time.Minute || c.Answered.Sub(c.Created) != 70*time.Second {
			t.Errorf("got %+v, want five minutes from 70 s on", c)
		}
		if c.Heard.Tag != "4711" || c.Heard.FirstAudio != 250*time.Millisecond || c.Heard.Bytes != len(hello) {
			t.Errorf("heard %+v, want 4711 after 250 ms", c.Heard)
		}
		mu.Lock()
		// The frame that is due at the very end may or may not be sent.
		if n := len(frames); n < 300*50-1 || n > 300*50+1 {
			t.Errorf("%d frames in five minutes, want %d", n, 300*50)
		}
		if d := last.Sub(first); d < 5*time.Minute-100*time.Millisecond || d > 5*time.Minute {
			t.Errorf("from first to last frame %v, want five minutes", d)
		}
		if got := strings.Join(told, ", "); got != "initiated 00:01:00, ringing 00:01:00, in-progress 00:01:10, completed 00:06:10" {
			t.Errorf("told %s", got)
		}
		mu.Unlock()
		if st := s.Stats(); st.Missed != 0 || st.LateMaxUS > 20_000 {
			t.Errorf("stats %+v, want no frame missed or later than 20 ms", st)
		}

		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		transport.CloseIdleConnections()
		srv.Close()
		l.Close()
	})
}
