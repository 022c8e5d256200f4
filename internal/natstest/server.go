package natstest

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing/synctest"

	"github.com/nats-io/nats-server/v2/server"
)

// start starts a server and waits until it takes connections.
func start(o *server.Options) (*server.Server, error) {
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	var f fatal
	srv.SetLoggerV2(&f, false, false, false)
	srv.Start()
	if f.err() == nil && srv.ReadyForConnections(readyWithin) {
		return srv, nil
	}
	stop(srv)
	if err := f.err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("not ready within %v", readyWithin)
}

// stop ends a server and waits for its goroutines.
func stop(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// clientURL is where clients of 127.0.0.1:port connect.
func clientURL(port int) string {
	return "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// fatal is a server's logger that keeps the first line on which a real server
// would have exited, and drops the rest.
type fatal struct {
	mu   sync.Mutex
	line string
}

func (f *fatal) Fatalf(format string, v ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.line == "" {
		f.line = fmt.Sprintf(format, v...)
	}
}

func (f *fatal) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.line == "" {
		return nil
	}
	return errors.New(f.line)
}

func (*fatal) Noticef(string, ...any) {}
func (*fatal) Warnf(string, ...any)   {}
func (*fatal) Errorf(string, ...any)  {}
func (*fatal) Debugf(string, ...any)  {}
func (*fatal) Tracef(string, ...any)  {}

// quiet parts the server from its clients, and waits until it has dealt with what
// they had asked. Only inside a bubble.
func quiet(srv *server.Server) {
	conns, err := srv.Connz(&server.ConnzOptions{Limit: 1 << 16})
	if err != nil {
		return // it is ending already
	}
	for _, c := range conns.Conns {
		_ = srv.DisconnectClientByID(c.Cid) // unless it has left meanwhile
	}
	synctest.Wait()
}
