package events

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/internal/natstest"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

func openLog(t testing.TB, js jetstream.JetStream, cfg Config) *Log {
	t.Helper()
	l, err := Open(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func publish(t testing.TB, l *Log, e Event) {
	t.Helper()
	if err := l.Publish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

func checkErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// run publishes what is emitted until the returned function is called, which
// waits for its end.
func run(t testing.TB, l *Log) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v, want nil", err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return stop
}

// types are those of all stored events, oldest first.
func types(t testing.TB, l *Log) []string {
	t.Helper()
	p, err := l.Since(t.Context(), time.Time{}, nil, 0, MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	return typesOf(p.Events)
}

func typesOf(es []Event) []string {
	var got []string
	for _, e := range es {
		got = append(got, e.Type)
	}
	return got
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
