package natstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is a meshed group of nats-servers with JetStream on loopback ports,
// each with a directory and ports of its own that it keeps over restarts. Its
// methods may be called from any goroutine of the test.
type Cluster struct {
	tb     testing.TB
	dirs   []string
	ports  []int // for clients
	routes []int // for each other

	mu    sync.Mutex
	nodes []*server.Server // nil while stopped
}

// StartCluster starts n nodes (3 for most tests) and waits until JetStream has
// elected a leader and every node follows it, which takes a second or two. The
// nodes end with the test. Not inside a bubble.
func StartCluster(tb testing.TB, n int) *Cluster {
	tb.Helper()
	ports := FreePorts(tb, 2*n)
	c := &Cluster{tb: tb, ports: ports[:n], routes: ports[n:], nodes: make([]*server.Server, n)}
	for range n {
		c.dirs = append(c.dirs, tb.TempDir())
	}
	tb.Cleanup(func() {
		for i := range n {
			c.StopNode(i)
		}
	})
	for i := range n {
		c.startNode(i)
	}
	c.waitReady()
	c.waitPlaced()
	return c
}

// waitPlaced waits until a stream can be placed on every node: their leader may have
// been elected, and be followed, before it has heard of all of them.
func (c *Cluster) waitPlaced() {
	c.tb.Helper()
	nc, err := nats.Connect(c.URL(0))
	if err != nil {
		c.tb.Fatalf("connect to the cluster: %v", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.tb.Fatalf("jetstream: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	cfg := jetstream.StreamConfig{Name: "READY", Subjects: []string{"natstest.ready"}, Replicas: min(len(c.nodes), 5)}
	for {
		if _, err = js.CreateStream(ctx, cfg); err == nil {
			err = js.DeleteStream(ctx, cfg.Name)
		}
		if err == nil {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			c.tb.Fatalf("no stream on all nodes within %v: %v", readyWithin, err)
		}
	}
}

// StopNode ends node i; its clients go to another node they know. A node that is
// stopped already stays so.
func (c *Cluster) StopNode(i int) {
	c.mu.Lock()
	srv := c.nodes[i]
	c.nodes[i] = nil
	c.mu.Unlock()
	if srv != nil {
		stop(srv)
	}
}

// RestartNode starts node i again, on the same directory and ports, and waits
// until it follows the leader.
func (c *Cluster) RestartNode(i int) {
	c.tb.Helper()
	c.StopNode(i)
	c.startNode(i)
	c.waitReady()
}

// URL is where clients of node i connect.
func (c *Cluster) URL(i int) string { return clientURL(c.ports[i]) }

// Connect gives a connection to node i that reconnects for ever, to any node,
// and is closed when the test tb ends. Options given here win.
func (c *Cluster) Connect(tb testing.TB, i int, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return connect(tb, c.URL(i), opts)
}

func (c *Cluster) startNode(i int) {
	c.tb.Helper()
	var mesh []*url.URL
	for j, p := range c.routes {
		if j != i {
			mesh = append(mesh, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", fmt.Sprint(p))})
		}
	}
	srv, err := start(&server.Options{
		ServerName: fmt.Sprintf("node%d", i), NoLog: true, NoSigs: true,
		Host: "127.0.0.1", Port: c.ports[i],
		JetStream: true, StoreDir: c.dirs[i], JetStreamMaxMemory: maxMemory, JetStreamMaxStore: maxStore,
		Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: c.routes[i]},
		Routes:  mesh,
	})
	if err != nil {
		c.tb.Fatalf("start node %d: %v", i, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i] = srv
}

// waitReady waits until the running nodes have a JetStream leader and follow it.
func (c *Cluster) waitReady() {
	c.tb.Helper()
	c.mu.Lock()
	up := slices.DeleteFunc(slices.Clone(c.nodes), func(s *server.Server) bool { return s == nil })
	c.mu.Unlock()
	deadline := time.After(readyWithin)
	for {
		if slices.ContainsFunc(up, (*server.Server).JetStreamIsLeader) && !slices.ContainsFunc(up, notCurrent) {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			var state []string
			for _, s := range up {
				state = append(state, fmt.Sprintf("%s: leader %v, current %v", s.Name(), s.JetStreamIsLeader(), s.JetStreamIsCurrent()))
			}
			c.tb.Fatalf("no JetStream leader that all nodes follow within %v: %s", readyWithin, strings.Join(state, "; "))
		}
	}
}

func notCurrent(s *server.Server) bool { return !s.JetStreamIsCurrent() }

// FreePorts finds n ports of loopback that nobody has, for servers that must know
// theirs before they start, and keeps them from other tests, in this process or
// another, until tb ends. They are none of those that the system gives to outgoing
// connections or to whoever asks for any port: a process of another test could have
// such a one a moment later.
func FreePorts(tb testing.TB, n int) []int {
	tb.Helper()
	const from, span = 10_000, 22_000
	var ports []int
	for range 100 * n {
		port := from + rand.IntN(span)
		if slices.Contains(ports, port) || !reserve(tb, port) {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	tb.Fatalf("no %d free ports on loopback", n)
	return nil
}

// reserve takes the same port of another address of loopback, where nobody serves
// anything: it is only so that whoever else wants the port sees that it is taken. A
// system without that address goes without.
func reserve(tb testing.TB, port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.7.7.7:%d", port))
	if err == nil {
		tb.Cleanup(func() { _ = l.Close() })
	}
	return !errors.Is(err, syscall.EADDRINUSE)
}
