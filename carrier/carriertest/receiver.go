package carriertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"dibs/carrier"
)

// Receiver is our side of the webhooks and of the media: a server on loopback.
type Receiver struct {
	srv *httptest.Server

	mu     sync.Mutex
	read   func(*http.Request) (carrier.Event, error)
	voice  carrier.Voice // nil: this carrier asks nothing
	events []carrier.Event
	errs   []error
	media  [][]byte // first messages of every socket
	left   int      // sockets that the carrier has closed
	asked  []carrier.Question
	change chan struct{}
}

// StatusPath is where status webhooks go; the attempt id follows.
const StatusPath = "/v1/carriers/test/status/"

const (
	mediaPath = "/m/bot/"
	nextPath  = "/v1/carriers/test/next/"
)

// NewReceiver starts one; it ends with the test.
func NewReceiver(t *testing.T) *Receiver {
	t.Helper()
	r := &Receiver{change: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+StatusPath, r.status)
	mux.HandleFunc("POST "+nextPath, r.next)
	mux.HandleFunc("GET "+mediaPath, r.socket)
	r.srv = httptest.NewServer(mux)
	t.Cleanup(r.srv.Close)
	return r
}

// URL is the address that webhooks are signed for.
func (r *Receiver) URL() string { return r.srv.URL }

// StatusURL is where an attempt's events go.
func (r *Receiver) StatusURL(attempt string) string { return r.srv.URL + StatusPath + attempt }

// NextURL is where the carrier may ask how to go on; it is told to end the call.
func (r *Receiver) NextURL(attempt string) string { return r.srv.URL + nextPath + attempt }

// MediaURL is a media socket (ws, loopback) with a token.
func (r *Receiver) MediaURL(token string) string {
	return "ws" + strings.TrimPrefix(r.srv.URL, "http") + mediaPath + token
}

// Read says who reads the webhooks: the carrier under test.
func (r *Receiver) Read(c carrier.Carrier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = c.Event
	r.voice, _ = c.(carrier.Voice)
}

func (r *Receiver) next(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	voice := r.voice
	r.mu.Unlock()
	q, err := voice.Asked(req)
	if err != nil {
		r.note(func() { r.errs = append(r.errs, err) })
		w.WriteHeader(http.StatusForbidden)
		return
	}
	r.note(func() { r.asked = append(r.asked, q) })
	kind, body, err := voice.Instruct(carrier.Instruction{})
	if err != nil {
		r.note(func() { r.errs = append(r.errs, err) })
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body)
}

func (r *Receiver) status(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	read := r.read
	r.mu.Unlock()
	e, err := read(req)
	r.note(func() {
		if err != nil {
			r.errs = append(r.errs, err)
			return
		}
		r.events = append(r.events, e)
	})
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// socket notes the first messages and holds the socket until the carrier closes it.
func (r *Receiver) socket(w http.ResponseWriter, req *http.Request) {
	conn, err := websocket.Accept(w, req, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	for n := 0; ; n++ {
		_, b, err := conn.Read(ctx)
		if err != nil {
			r.note(func() { r.left++ })
			return
		}
		if n < 5 {
			r.note(func() { r.media = append(r.media, b) })
		}
	}
}

// note changes what is known and wakes who waits for it.
func (r *Receiver) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.change)
	r.change = make(chan struct{})
}

// wait waits until ok, which is asked with the receiver's lock held.
func (r *Receiver) wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for {
		r.mu.Lock()
		done, change := ok(), r.change
		known := fmt.Sprintf("events %v, errors %v", r.events, r.errs)
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-change:
		case <-limit.C:
			t.Fatalf("waited %v in vain for %s; have %s", Patience, what, known)
		}
	}
}

// Events are an attempt's events until one of status has come, in their own order.
func (r *Receiver) Events(t *testing.T, attempt string, until carrier.Status) []carrier.Event {
	t.Helper()
	var got []carrier.Event
	r.wait(t, fmt.Sprintf("%s of %s", until, attempt), func() bool {
		got = got[:0]
		for _, e := range r.events {
			if e.Attempt == attempt {
				got = append(got, e)
			}
		}
		return slices.ContainsFunc(got, func(e carrier.Event) bool { return e.Status == until })
	})
	slices.SortStableFunc(got, func(a, b carrier.Event) int { return a.Seq - b.Seq })
	return got
}

// body makes a request's body readable once more.
func body(req *http.Request) []byte {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		panic(err) // it is memory
	}
	req.Body = io.NopCloser(strings.NewReader(string(b)))
	return b
}
