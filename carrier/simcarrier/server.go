package simcarrier

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Server is one simulated account. Make it with [New], let [Server.Run] run, and
// use its address or, without a listener, the Server itself as a handler.
type Server struct {
	cfg  Config       // set once, but for Numbers and Lines: mu
	http *http.Client // set once
	mux  *http.ServeMux
	pace pacer

	running chan struct{} // closed when Run has begun

	mu     sync.Mutex
	start  func(*call) // begins a call's life under Run; nil: Run has ended
	calls  []*call     // oldest first
	bySID  map[string]*call
	dials  map[string]int // number → calls made to it, remembered or not
	next   time.Time      // CPS: when the next call may leave the queue
	faults Faults
	stats  Stats // only its counts
}

// New checks cfg and returns its account. Nothing runs yet.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.AccountSID = cmp.Or(cfg.AccountSID, AccountSID)
	cfg.AuthToken = cmp.Or(cfg.AuthToken, AuthToken)
	cfg.CallbackTries = cmp.Or(cfg.CallbackTries, 3)
	cfg.Keep = cmp.Or(cfg.Keep, 100_000)
	if cfg.Profile == (Profile{}) {
		cfg.Profile = DefaultProfile()
	}
	s := &Server{
		cfg:     cfg,
		http:    cfg.Client,
		mux:     http.NewServeMux(),
		running: make(chan struct{}),
		bySID:   map[string]*call{},
		dials:   map[string]int{},
	}
	if s.http == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = nil // what it talks to is on this machine
		t.MaxIdleConnsPerHost = 32
		s.http = &http.Client{Transport: t}
	}
	s.cfg.Numbers = map[string]Profile{}
	maps.Copy(s.cfg.Numbers, cfg.Numbers)
	s.cfg.Lines = map[string]Line{}
	maps.Copy(s.cfg.Lines, cfg.Lines)
	s.routes()
	return s, nil
}

// URL is the address of the API; empty without a listener.
func (s *Server) URL() string {
	if s.cfg.Listener == nil {
		return ""
	}
	return "http://" + s.cfg.Listener.Addr().String()
}

// Run serves until ctx ends and then ends every call. It returns nil when that is
// done, or the listener's error. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	s.mu.Lock()
	s.start = func(c *call) {
		life, stop := context.WithCancelCause(ctx)
		c.stop = stop
		all.Go(func() { s.deliverAll(ctx, c) }) // what is told of a call outlives it
		all.Go(func() {
			defer stop(nil)
			s.live(life, c)
		})
	}
	s.mu.Unlock()
	close(s.running)
	all.Go(func() { s.pace.run(ctx) })

	var err error
	if s.cfg.Listener == nil {
		<-ctx.Done()
	} else {
		err = s.serve(ctx)
	}
	s.mu.Lock()
	s.start = nil
	s.mu.Unlock()
	cancel()
	all.Wait()
	s.http.CloseIdleConnections()
	return err
}

// Running is closed when Run has begun; from then on calls can be made.
func (s *Server) Running() <-chan struct{} { return s.running }

// closing is how long a request that is being answered may go on after the end.
const closing = time.Second

func (s *Server) serve(ctx context.Context) error {
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(s.cfg.Listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if srv.Shutdown(ctx) != nil {
		srv.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP answers the API and the control addresses. It waits for Run.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.running:
	case <-r.Context().Done():
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) routes() {
	api := "/2010-04-01/Accounts/{account}/"
	s.mux.Handle("POST "+api+"Calls.json", s.authorized(s.create))
	s.mux.Handle("GET "+api+"Calls.json", s.authorized(s.list))
	s.mux.Handle("GET "+api+"Calls/{call}", s.authorized(s.fetch))
	s.mux.Handle("POST "+api+"Calls/{call}", s.authorized(s.update))
	s.mux.Handle("/2010-04-01/", http.HandlerFunc(notFound))

	s.mux.HandleFunc("GET /sim/calls", s.simCalls)
	s.mux.HandleFunc("GET /sim/calls/{call}", s.simCall)
	s.mux.HandleFunc("POST /sim/calls/{call}/hangup", s.simHangup)
	s.mux.HandleFunc("GET /sim/stats", s.simStats)
	s.mux.HandleFunc("GET /sim/faults", s.simFaults)
	s.mux.HandleFunc("POST /sim/faults", s.simSetFaults)
	s.mux.HandleFunc("DELETE /sim/faults", s.simSetFaults)
	s.mux.HandleFunc("POST /sim/inbound", s.simInbound)
	s.mux.HandleFunc("POST /sim/numbers", s.simNumbers)
	s.mux.HandleFunc("POST /sim/lines", s.simLines)
}

// SetNumber makes p the callee of a number, or of all that end with these digits.
func (s *Server) SetNumber(number string, p Profile) error {
	if err := (Config{Numbers: map[string]Profile{number: p}}).Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Numbers[number] = p
	return nil
}

// SetLine says where inbound calls to one of our numbers are announced.
func (s *Server) SetLine(number string, l Line) error {
	if err := (Config{Lines: map[string]Line{number: l}}).Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Lines[number] = l
	return nil
}

// sleep waits for d; false: ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
