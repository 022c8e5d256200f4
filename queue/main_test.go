package queue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/internal/natstest"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

func openLine(t testing.TB, js jetstream.JetStream, cfg Config) *Line {
	t.Helper()
	l, err := Open(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// key is the place of the i-th call.
func key(i int) Key {
	return Key{Region: "eu-west", Class: "api", Org: fmt.Sprintf("org%d", i%7), Call: fmt.Sprintf("call_%d", i)}
}

func put(t testing.TB, l *Line, keys ...Key) {
	t.Helper()
	for _, k := range keys {
		if _, err := l.Put(t.Context(), k, fmt.Appendf(nil, `{"v":1,"call_id":%q}`, k.Call)); err != nil {
			t.Fatal(err)
		}
	}
}

func keys(n int) []Key {
	var ks []Key
	for i := range n {
		ks = append(ks, key(i))
	}
	return ks
}

// term is a running office that collects what it is handed.
type term struct {
	*Office
	items chan *Item
	ended chan error
}

func takeOffice(t testing.TB, l *Line) *term {
	t.Helper()
	o, err := l.TakeOffice(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return running(t, o)
}

// running reads the line for the rest of the test.
func running(t testing.TB, o *Office) *term {
	tm := &term{Office: o, items: make(chan *Item, 1000), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tm.ended <- o.Run(ctx, func(items []*Item, _ uint64) {
			for _, it := range items {
				tm.items <- it
			}
		})
	}()
	t.Cleanup(func() { stop(); <-done })
	return tm
}

// next is the next item, which must come within d.
func (tm *term) next(t testing.TB, d time.Duration) *Item {
	t.Helper()
	select {
	case it := <-tm.items:
		return it
	case err := <-tm.ended:
		t.Fatalf("the office ended: %v", err)
	case <-time.After(d):
		t.Fatalf("no item within %v", d)
	}
	return nil
}

// all collects n items.
func (tm *term) all(t testing.TB, n int) []*Item {
	t.Helper()
	var items []*Item
	for range n {
		items = append(items, tm.next(t, time.Minute))
	}
	return items
}

// quiet checks that nothing comes for d.
func (tm *term) quiet(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case it := <-tm.items:
		t.Errorf("handed over %v (delivery %d), want nothing for %v", it.Key, it.Deliveries, d)
	case err := <-tm.ended:
		t.Fatalf("the office ended: %v", err)
	case <-time.After(d):
	}
}

func waitingKeys(t testing.TB, l *Line) []Key {
	t.Helper()
	p, err := l.List(t.Context(), Filter{}, MaxPage, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ks []Key
	for _, w := range p.Waiting {
		ks = append(ks, w.Key)
	}
	return ks
}

func checkWaiting(t testing.TB, l *Line, want ...Key) {
	t.Helper()
	if got := waitingKeys(t, l); !slices.Equal(got, want) {
		t.Errorf("in line: %v, want %v", got, want)
	}
}

func checkErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// deaf is a way to the broker on which the client can be made deaf: what it sends
// arrives, what the broker says is lost.
type deaf struct {
	b   *natstest.Broker
	now atomic.Bool
}

func (d *deaf) InProcessConn() (net.Conn, error) {
	c, err := d.b.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &deafConn{Conn: c, now: &d.now}, nil
}

type deafConn struct {
	net.Conn
	now *atomic.Bool
}

func (c *deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.now.Load() {
			return n, err
		}
	}
}

func viaLink(l *natstest.Link) nats.Option { return nats.InProcessServer(l) }

func (d *deaf) jetStream(t testing.TB, opts ...nats.Option) jetstream.JetStream {
	return d.b.JetStream(t, append(opts, nats.InProcessServer(d))...)
}
