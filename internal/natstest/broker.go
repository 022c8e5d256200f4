package natstest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Limits of a test broker. They are fixed because the server otherwise derives
// them from the machine it happens to run on.
const (
	maxMemory = 1 << 30
	maxStore  = 4 << 30
)

// readyWithin is how long a server may take to start, on a machine busy with
// other tests.
const readyWithin = 30 * time.Second

// Options say what kind of broker a test needs. The zero value is a broker in
// memory with JetStream.
type Options struct {
	// Listen opens a port on 127.0.0.1, chosen at the first start and kept over
	// restarts. Not inside a bubble: sockets do not wait in fake time.
	Listen bool
	// User and Password, when set, are what a client must give; Connect does.
	User, Password string
	// MaxPayload in bytes; 0 is the server's default, 1 MiB.
	MaxPayload int
}

// Broker is one nats-server with JetStream on a directory of its own. Its
// methods may be called from any goroutine of the test.
type Broker struct {
	tb   testing.TB
	opts Options
	dir  string

	mu   sync.Mutex
	srv  *server.Server // nil while stopped
	port int            // kept over restarts; 0 when not listening
}

// Start starts a broker in memory that ends with the test.
func Start(tb testing.TB) *Broker {
	tb.Helper()
	return StartWith(tb, Options{})
}

// StartWith starts a broker as opts say. It ends with the test.
func StartWith(tb testing.TB, opts Options) *Broker {
	tb.Helper()
	b := &Broker{tb: tb, opts: opts, dir: tb.TempDir()}
	tb.Cleanup(b.Stop)
	b.Restart()
	return b
}

// Stop ends the server as an operator would; clients notice at once. A broker
// that is stopped already stays so.
func (b *Broker) Stop() {
	b.mu.Lock()
	srv := b.srv
	b.srv = nil
	b.mu.Unlock()
	if srv == nil {
		return
	}
	if inBubble(b.tb) {
		// A server that has pending pull requests sleeps as it shuts down, with a lock that
		// the making of a consumer waits for. Whoever waits for a lock keeps fake time from
		// passing, so nobody may ask for anything any more.
		quiet(srv)
	}
	stop(srv)
}

// Restart stops the server if it runs and starts a fresh one on the same
// directory and, when listening, the same port. Clients reconnect by themselves.
func (b *Broker) Restart() {
	b.tb.Helper()
	b.Stop()
	o := &server.Options{
		ServerName: "test", DontListen: true, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: b.dir, JetStreamMaxMemory: maxMemory, JetStreamMaxStore: maxStore,
		Username: b.opts.User, Password: b.opts.Password, MaxPayload: int32(b.opts.MaxPayload),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opts.Listen {
		o.DontListen, o.Host, o.Port = false, "127.0.0.1", server.RANDOM_PORT
		if b.port != 0 {
			o.Port = b.port
		}
	}
	srv, err := start(o)
	if err != nil {
		b.tb.Fatalf("start the broker: %v", err)
	}
	if b.opts.Listen {
		b.port = srv.Addr().(*net.TCPAddr).Port
	}
	b.srv = srv
}

// URL is where clients in other processes connect. It fails the test when the
// broker does not listen.
func (b *Broker) URL() string {
	b.tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.port == 0 {
		b.tb.Fatal("a broker in memory has no URL; start it with Options{Listen: true}")
	}
	return clientURL(b.port)
}

// InProcessConn is a client's way in without a socket. It makes a Broker a
// [nats.InProcessConnProvider] that outlives restarts.
func (b *Broker) InProcessConn() (net.Conn, error) {
	b.mu.Lock()
	srv := b.srv
	b.mu.Unlock()
	if srv == nil {
		return nil, errors.New("the broker is stopped")
	}
	return srv.InProcessConn()
}

// Connect gives a connection that reconnects for ever, every 50 ms or so, and is
// closed when the test tb ends. It goes through memory even when the broker
// listens, unless opts say otherwise. Options given here win.
func (b *Broker) Connect(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return connect(tb, nats.DefaultURL, append([]nats.Option{
		nats.InProcessServer(b), nats.UserInfo(b.opts.User, b.opts.Password),
	}, opts...))
}

// JetStream gives a JetStream context on a connection of its own.
func (b *Broker) JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return JetStream(tb, b.Connect(tb, opts...))
}

// JetStream gives a JetStream context on nc that waits 30 s where a caller's
// context has no deadline.
func JetStream(tb testing.TB, nc *nats.Conn) jetstream.JetStream {
	tb.Helper()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(30*time.Second))
	if err != nil {
		tb.Fatalf("jetstream: %v", err)
	}
	return js
}

// connect dials addr with the defaults of this package and closes the connection
// when the test ends.
func connect(tb testing.TB, addr string, opts []nats.Option) *nats.Conn {
	tb.Helper()
	nc, err := nats.Connect(addr, append([]nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond),
		nats.Timeout(10 * time.Second),
		nats.Name(tb.Name()),
		// Printed to the standard error otherwise, where they only puzzle.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)...)
	if err != nil {
		tb.Fatalf("connect to the broker: %v", err)
	}
	tb.Cleanup(nc.Close)
	return nc
}
