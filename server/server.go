package server

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"dibs/api"
)

// How long things may take.
const (
	patience = 5 * time.Second  // the line, the records, the office
	botIn    = 2 * time.Second  // a bot, to obey a command
	claimIn  = 30 * time.Second // a whole claim
	checkIn  = time.Second      // one check of /readyz
	stopIn   = claimIn + patience
)

// Server is the way in over HTTP. It is safe for concurrent use and keeps nothing.
type Server struct {
	// set once
	cfg   Config
	keys  keys
	mux   *http.ServeMux
	rules map[string]Role // pattern → who may; "": everybody
	huma  huma.API
	spec  struct{ v31, v30 []byte } // the OpenAPI description as it is served
	stats *stats

	simulating chan struct{} // one simulation at a time: it computes for seconds
	leaving    atomic.Bool
}

// New checks cfg and builds the server. It listens to nothing and starts nothing.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Registerer == nil {
		reg := prometheus.NewRegistry()
		cfg.Registerer, cfg.Gatherer = reg, reg
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux(), rules: map[string]Role{}, stats: newStats(), simulating: make(chan struct{}, 1)}
	var err error
	if s.keys, err = newKeys(cfg.Tokens); err != nil {
		return nil, fmt.Errorf("server: Tokens: %w", err)
	}
	s.cfg.Tokens = nil // nothing behind this line needs the secrets
	if err := cfg.Registerer.Register(s.stats); err != nil {
		return nil, fmt.Errorf("server: Registerer: %w", err)
	}
	s.describe()
	s.callRoutes()
	s.claimRoutes()
	s.botRoutes()
	s.scaleRoutes()
	s.simulateRoutes()
	s.webhookRoutes()
	s.inboundRoutes()
	s.checkpointRoutes()
	s.numberRoutes()
	s.limitRoutes()
	s.opsRoutes()
	if err := s.write(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return s, nil
}

// HTTP is a server with the time-outs that a public socket needs: 5 s for the head
// of a request, 15 s for all of it, a minute for the answer, which covers a claim.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(s.cfg.Log, "", 0),
	}
}

// Leave makes /readyz say that this server is about to go, so that no new requests
// are sent its way; everything is served as before.
func (s *Server) Leave() { s.leaving.Store(true) }

// Run serves on l until ctx ends. Then it takes nothing new, and what runs has 35 s
// to end, which is longer than the longest claim; l is closed.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	web := s.HTTP()
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("server: serve: %w", err)
	case <-ctx.Done():
	}
	s.Leave()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopIn)
	defer cancel()
	err := web.Shutdown(closing)
	if err != nil {
		_ = web.Close()
		err = fmt.Errorf("server: stop: %w", err)
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) && err == nil {
		err = fmt.Errorf("server: serve: %w", e)
	}
	return err
}

// handle adds a plain handler; need "" lets everybody in.
func (s *Server) handle(pattern string, need Role, h http.HandlerFunc) {
	s.rules[pattern] = need
	s.mux.HandleFunc(pattern, h)
}

// register adds an operation of the API that answers with one of the codes when it
// is not done.
func register[I, O any](s *Server, need Role, op huma.Operation, codes []string, h func(context.Context, *I) (*O, error)) {
	s.rules[op.Method+" "+op.Path] = need
	op.Security = []map[string][]string{{"bearer": {}}}
	op.MaxBodyBytes, op.BodyReadTimeout = MaxBody+1, -1 // the body is here already
	op.Responses = s.responses(append(codes, api.CodeUnauthorized))
	huma.Register(s.huma, op, h)
}
