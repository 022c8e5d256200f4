package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/call"
	"dibs/wire"
)

// MaxBody is how many bytes of a request's body are taken.
const MaxBody = 128 << 10

// visit is one request as it is logged and counted. Owned by the goroutine that
// serves it.
type visit struct {
	id     string
	begun  time.Time
	header http.Header
	path   string // as it came, for problems
	route  string // the pattern that fits; "": none
	who    Token
	code   string // of the problem that was answered; "": none
	err    error  // why it was our fault, for the log only
}

type visitKey struct{}

// visitOf is the visit that ctx belongs to, nil outside of one.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// Handler is everything: the API, webhooks, health and metrics.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.front) }

// front is what every request goes through.
func (s *Server) front(w http.ResponseWriter, r *http.Request) {
	v := &visit{id: requestID(r), begun: time.Now(), header: r.Header, path: r.URL.EscapedPath()}
	a := &answer{ResponseWriter: w}
	for name, value := range map[string]string{
		"X-Request-Id": v.id, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
	} {
		a.Header().Set(name, value)
	}
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	defer s.done(a, r, v)
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		v.err, v.code = fmt.Errorf("panic: %v\n%s", p, debug.Stack()), api.CodeInternal
		if a.status != 0 || p == http.ErrAbortHandler {
			a.status = http.StatusInternalServerError // for the log; what was sent was sent
			panic(http.ErrAbortHandler)               // half an answer must not look like a whole one
		}
		s.deny(a, r, api.NewProblem(api.CodeInternal, ""))
	}()
	s.enter(a, r, v)
}

// enter finds the route, asks for the token, and reads the body.
func (s *Server) enter(a *answer, r *http.Request, v *visit) {
	h, pattern := s.mux.Handler(r)
	if pattern == "" {
		s.nowhere(a, r, h)
		return
	}
	v.route = pattern
	need, known := s.rules[pattern]
	if !known && strings.HasPrefix(r.URL.Path, "/v1/") {
		need = Admin // somebody forgot to say
	}
	if need != "" {
		var p *api.Problem
		if v.who, p = s.admit(r, need); p != nil {
			s.deny(a, r, p)
			return
		}
	}
	if p := slurp(a, r); p != nil {
		s.deny(a, r, p)
		return
	}
	s.mux.ServeHTTP(a, r)
}

// slurp reads the body, so that handlers have it whole, or not at all, and then
// lifts the read deadline: the server's own would end the request's context while a
// handler still waits for a bot.
func slurp(a *answer, r *http.Request) *api.Problem {
	if r.ContentLength > MaxBody {
		a.Header().Set("Connection", "close")
		return api.NewProblem(api.CodeBodyTooLarge, fmt.Sprintf("%d bytes, at most %d", r.ContentLength, MaxBody))
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if len(data) > MaxBody {
		a.Header().Set("Connection", "close")
		return api.NewProblem(api.CodeBodyTooLarge, fmt.Sprintf("more than %d bytes", MaxBody))
	}
	if err != nil {
		a.Header().Set("Connection", "close")
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			return api.NewProblem(api.CodeBodyTimeout, "")
		}
		return api.NewProblem(api.CodeBodyUnreadable, "")
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	_ = http.NewResponseController(a).SetReadDeadline(time.Time{}) // a test's recorder has none
	return nil
}

// nowhere answers in our way what the mux would answer in its own.
func (s *Server) nowhere(a *answer, r *http.Request, h http.Handler) {
	probe := &answer{ResponseWriter: discard{http.Header{}}}
	h.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		s.deny(a, r, api.NewProblem(api.CodeNotFound, ""))
		return
	}
	a.Header().Set("Allow", probe.Header().Get("Allow"))
	s.deny(a, r, api.NewProblem(api.CodeMethod, ""))
}

// done counts and logs. Nothing of the request itself is in the line but its route,
// which is ours, and ids, which are tokens.
func (s *Server) done(a *answer, r *http.Request, v *visit) {
	took := time.Since(v.begun)
	s.stats.request(v, a.status, took)
	var e *zerolog.Event
	switch {
	case a.status >= 500 && v.err != nil:
		e = s.cfg.Log.Error().Str("err", numbers.ReplaceAllStringFunc(v.err.Error(), call.MaskNumber))
	case v.who.Name == "" && a.status < 400: // probes and scrapes
		e = s.cfg.Log.Debug()
	default:
		e = s.cfg.Log.Info()
	}
	for _, name := range []string{"id", "call_id", "attempt"} {
		if id := r.PathValue(name); wire.CheckToken(id) == nil {
			e = e.Str(name, id)
		}
	}
	e.Str("request", v.id).Str("route", v.route).Str("token", v.who.Name).Int("status", a.status).Str("code", v.code).
		Int64("bytes", a.bytes).Dur("took_ms", took).Msg("served")
}

// numbers are what must not be logged, wherever an error has it from.
var numbers = regexp.MustCompile(`\+[1-9][0-9]{6,14}`)

// requestID is the caller's own, when it is fit to be logged, or a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); len(id) <= 64 && wire.CheckToken(id) == nil {
		return id
	}
	return strings.ToLower(rand.Text()[:16])
}

// answer is a response that remembers what was said.
type answer struct {
	http.ResponseWriter
	status int // 0: nothing was said yet
	bytes  int64
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(data []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(data)
	a.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// discard takes an answer that nobody is to see.
type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (d discard) WriteHeader(int)                {}
func (d discard) Write(data []byte) (int, error) { return len(data), nil }
