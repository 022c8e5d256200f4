package natsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// stopTimeout is how long a server that shuts down is waited for.
const stopTimeout = 10 * time.Second

// errNotRunning is what a client in this process gets before and after.
var errNotRunning = errors.New("natsd: the server is not running")

// Server is one nats-server. Make it with [New]; its methods may be called from
// any goroutine.
type Server struct {
	cfg   Config
	opts  *server.Options
	ready chan struct{}

	mu  sync.Mutex
	srv *server.Server // nil unless ready and running
}

// New gives a server that does nothing until it is [Server.Run]. The error names
// the field of cfg that cannot be used.
func New(cfg Config) (*Server, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, opts: opts, ready: make(chan struct{})}, nil
}

// Ready is closed when the server takes connections. It stays open when Run
// fails before, so wait for both.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// URL is where clients on this machine connect: "nats://127.0.0.1:4222", without
// the password. Empty when the server does not listen or is not running.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil || s.opts.DontListen {
		return ""
	}
	addr := s.srv.Addr().(*net.TCPAddr)
	host := s.opts.Host
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(addr.Port))
}

// InProcess connects clients of this process through memory, also when the
// server listens: nats.Connect("", nats.InProcessServer(s.InProcess())).
func (s *Server) InProcess() nats.InProcessConnProvider { return inProcess{s} }

type inProcess struct{ s *Server }

func (p inProcess) InProcessConn() (net.Conn, error) {
	p.s.mu.Lock()
	srv := p.s.srv
	p.s.mu.Unlock()
	if srv == nil {
		return nil, errNotRunning
	}
	return srv.InProcessConn()
}

// Run runs the server until ctx ends, which is no error. It is called once.
func (s *Server) Run(ctx context.Context) error {
	unlock, err := lockDir(s.opts.StoreDir)
	if err != nil {
		return fmt.Errorf("natsd: store directory %s: %w", s.opts.StoreDir, err)
	}
	defer unlock()
	if err := s.tryPorts(); err != nil {
		return fmt.Errorf("natsd: %w", err)
	}
	srv, err := server.NewServer(s.opts)
	if err != nil {
		return fmt.Errorf("natsd: %w", err)
	}
	lines := &log{to: s.cfg.Logger, fatal: make(chan error, 1)}
	srv.SetLoggerV2(lines, false, false, false)
	started := make(chan struct{})
	go func() {
		defer close(started)
		srv.Start() // reads the whole store
	}()
	defer stop(srv, started, s.cfg.Logger)
	if err := s.awaitReady(ctx, srv, started, lines.fatal); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("natsd: %w", err)
	}

	s.mu.Lock()
	s.srv = srv
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.srv = nil
		s.mu.Unlock()
	}()
	close(s.ready)
	select {
	case <-ctx.Done():
		return nil
	case err := <-lines.fatal:
		return fmt.Errorf("natsd: %w", err)
	}
}

// awaitReady waits until srv takes connections.
func (s *Server) awaitReady(ctx context.Context, srv *server.Server, started <-chan struct{}, fatal <-chan error) error {
	limit := cmp.Or(s.cfg.StartTimeout, 10*time.Second)
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for ready := false; !ready; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-fatal:
			return err
		case <-deadline.C:
			return fmt.Errorf("not ready within %v; a large store may need a longer StartTimeout", limit)
		case <-started:
			ready = srv.ReadyForConnections(25 * time.Millisecond)
		}
	}
	return nil
}

// stop shuts srv down, once it is done with starting, and waits until nothing of
// it runs.
func stop(srv *server.Server, started <-chan struct{}, to zerolog.Logger) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-started
		srv.Shutdown()
		srv.WaitForShutdown()
	}()
	select {
	case <-done:
	case <-time.After(stopTimeout):
		to.Error().Dur("after", stopTimeout).Msg("the broker does not stop; left behind")
	}
}

// tryPorts says which port is taken, which the server would only log.
func (s *Server) tryPorts() error {
	try := func(what, host string, port int) error {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("%s port %d: %w", what, port, err)
		}
		return l.Close()
	}
	if s.opts.Port > 0 {
		if err := try("client", s.opts.Host, s.opts.Port); err != nil {
			return err
		}
	}
	if c := s.opts.Cluster; c.Port > 0 {
		return try("cluster", c.Host, c.Port)
	}
	return nil
}

// log is the server's logger. A line on which nats-server itself would exit is
// kept as an error.
type log struct {
	to    zerolog.Logger
	fatal chan error // holds the first
}

func (l *log) Fatalf(format string, v ...any) {
	err := fmt.Errorf(format, v...)
	l.to.Error().Msg(err.Error())
	select {
	case l.fatal <- err:
	default:
	}
}

func (l *log) Errorf(format string, v ...any)  { l.to.Error().Msgf(format, v...) }
func (l *log) Warnf(format string, v ...any)   { l.to.Warn().Msgf(format, v...) }
func (l *log) Noticef(format string, v ...any) { l.to.Debug().Msgf(format, v...) }
func (l *log) Debugf(string, ...any)           {}
func (l *log) Tracef(string, ...any)           {}
