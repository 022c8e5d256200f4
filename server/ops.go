package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dibs/api"
)

// opsRoutes are for operators and probes, and need no token.
func (s *Server) opsRoutes() {
	s.handle("GET /livez", "", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	s.handle("GET /readyz", "", s.readyz)
	metrics := promhttp.HandlerFor(s.cfg.Gatherer, promhttp.HandlerOpts{})
	s.handle("GET /metrics", "", metrics.ServeHTTP)
	s.handle("GET /openapi.json", "", func(w http.ResponseWriter, r *http.Request) { serveBytes("application/json", s.spec.v31)(w, r) })
	s.handle("GET /openapi-3.0.json", "", func(w http.ResponseWriter, r *http.Request) { serveBytes("application/json", s.spec.v30)(w, r) })
	s.handle("GET /problems/{code}", "", s.explain)
}

// explain is what the type of a problem leads to.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	c := api.CodeOf(r.PathValue("code"))
	if c.Code != r.PathValue("code") {
		s.deny(w, r, api.NewProblem(api.CodeNotFound, ""))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintf(w, "%s (%d)\n%s.\n\n%s\n", c.Code, c.Status, c.Title, c.Advice)
}

// checked is one check's answer.
type checked struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Why   string `json:"why,omitempty"`
	MS    int64  `json:"ms"`
}

// readyz says whether requests should be sent here, and why not.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	var out struct {
		Ready   bool      `json:"ready"`
		Reasons []checked `json:"reasons,omitempty"` // why not
		Checks  []checked `json:"checks,omitempty"`  // verbose: all
	}
	all := s.checks(r.Context())
	out.Ready = true
	for _, c := range all {
		if !c.OK {
			out.Ready = false
			out.Reasons = append(out.Reasons, c)
		}
	}
	if r.URL.Query().Has("verbose") {
		out.Checks = all
	}
	w.Header().Set("Content-Type", "application/json")
	if !out.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(out)
}

// checks asks everything at once, and waits for nobody longer than a second.
func (s *Server) checks(ctx context.Context) []checked {
	checks := map[string]func(context.Context) error{
		"nats": func(context.Context) error {
			if !s.cfg.NC.IsConnected() {
				return errors.New(s.cfg.NC.Status().String())
			}
			return nil
		},
		"stopping": func(context.Context) error {
			if s.leaving.Load() {
				return errors.New("this server is about to leave")
			}
			return nil
		},
	}
	maps.Copy(checks, s.cfg.Checks)
	ctx, cancel := context.WithTimeoutCause(ctx, checkIn, fmt.Errorf("no answer within %v", checkIn))
	defer cancel()
	out := make([]checked, len(checks))
	var wg sync.WaitGroup
	for i, name := range slices.Sorted(maps.Keys(checks)) {
		wg.Go(func() {
			begun := time.Now()
			err := checks[name](ctx)
			out[i] = checked{Check: name, OK: err == nil, MS: time.Since(begun).Milliseconds()}
			if err != nil {
				out[i].Why = short(err.Error())
			}
		})
	}
	wg.Wait()
	return out
}
