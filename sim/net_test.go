package sim

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// network is a loopback in memory, so that everything that talks HTTP can live in
// fake time. An address that nobody listens on refuses, as a real one does.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	mute      map[string]bool // who accepts and does not answer
	ports     int
}

func newNetwork() *network {
	return &network{listeners: map[string]*listener{}, mute: map[string]bool{}}
}

// listen gives a listener on a port of its own.
func (n *network) listen() *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports++
	l := &listener{n: n, addr: fmt.Sprintf("127.0.0.1:%d", 7000+n.ports), conns: make(chan net.Conn), done: make(chan struct{})}
	n.listeners[l.addr] = l
	return l
}

func (n *network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l, mute := n.listeners[addr], n.mute[addr]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	near, far := net.Pipe()
	if mute {
		return near, nil
	}
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// client is an HTTP client on this network, one connection a request.
func (n *network) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.dial, DisableKeepAlives: true}}
}

// refuse lets an address refuse connections, until the function that it returns is called.
func (n *network) refuse(addr string) (mend func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[addr]
	delete(n.listeners, addr)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.listeners[addr] = l
	}
}

// freeze lets an address accept connections and say nothing on them, as one of a
// process that is stopped, or no longer does.
func (n *network) freeze(addr string, yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mute[addr] = yes
}

// listener is one address of a network.
type listener struct {
	n     *network
	addr  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr  { return l }
func (l *listener) Network() string { return "tcp" }
func (l *listener) String() string  { return l.addr }
