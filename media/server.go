package media

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Config of a [Server]. The zero value of a field means its default.
type Config struct {
	Bot        string         // the bot's id, as in the path; letters, digits, - and _; required
	Handshake  time.Duration  // from the upgrade to start, and for an HTTP request's head; 10 s
	Write      time.Duration  // how long the carrier may take nothing; 5 s
	Idle       time.Duration  // how long it may send no message; 30 s
	MaxMessage int64          // largest message from it, in bytes; 64 KiB
	Log        zerolog.Logger // one line as a call connects and as it ends; the zero value is silent
}

// Validate reports the first field that cannot be used.
func (c Config) Validate() error {
	if !isToken(c.Bot) {
		return fmt.Errorf("media: Bot: %q is not made of letters, digits, - and _", c.Bot)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Handshake", int64(c.Handshake)},
		{"Write", int64(c.Write)},
		{"Idle", int64(c.Idle)},
		{"MaxMessage", c.MaxMessage},
	} {
		if f.value < 0 {
			return fmt.Errorf("media: %s: negative", f.name)
		}
	}
	return nil
}

func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) < 0
}

// defaultMaxCall is how long carriers let a call last of themselves.
const defaultMaxCall = 4 * time.Hour

// Call is one call whose media is awaited. The functions may be nil. They hold up
// the call they belong to while they run, and no other.
type Call struct {
	ID       string        // unique among the calls that are open; required
	Greeting []byte        // µ-law, 8 kHz, said as soon as the stream starts; may be empty; not to be changed
	MaxCall  time.Duration // from start; the call ends when it is reached; 0: 4 h

	// Talk runs once the stream has started and the greeting was handed to the
	// carrier. Its context ends with the call. The call ends as it returns, at
	// once: what is sent but not played is lost, so wait for a mark first. Nil:
	// listen until the end.
	Talk func(ctx context.Context, s *Stream) error

	Connected  func()              // the carrier came; whatever happens now, Ended follows
	FirstAudio func(time.Duration) // the first sound was written, so long after start
	Ended      func(Report)        // it is over, and the ID free again; called exactly once
}

// ErrClosed is Open's answer after Shutdown.
var ErrClosed = errors.New("media: shut down")

// Server lets carriers in and speaks with them. It is an [http.Handler] and safe
// for concurrent use; use [New].
type Server struct {
	cfg    Config // defaults filled in
	totals totals

	mu     sync.Mutex
	calls  map[string]*call // call ID → call, from Open to just before Ended
	closed bool
}

// call is a Call in the server's hands.
type call struct {
	Call
	token string        // "" once used
	over  chan struct{} // closed when Ended has returned

	stream *Stream // nil until the token was used
}

// New makes a server; there is nothing to run or to close.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Handshake = cmp.Or(cfg.Handshake, 10*time.Second)
	cfg.Write = cmp.Or(cfg.Write, 5*time.Second)
	cfg.Idle = cmp.Or(cfg.Idle, 30*time.Second)
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, 64<<10)
	cfg.Log = cfg.Log.With().Str("bot", cfg.Bot).Logger()
	return &Server{cfg: cfg, calls: map[string]*call{}}, nil
}

// HTTP is a server for h (nil: for s alone) on which half a request holds nothing
// for longer than Config.Handshake.
func (s *Server) HTTP(h http.Handler) *http.Server {
	if h == nil {
		h = s
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.cfg.Handshake,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// Open awaits the media of c at the path that it returns, /m/<bot>/<token>, for
// one connection and until Close. The path is a secret.
func (s *Server) Open(c Call) (path string, err error) {
	if c.ID == "" {
		return "", errors.New("media: open: call without an id")
	}
	if c.MaxCall < 0 {
		return "", errors.New("media: open: negative MaxCall")
	}
	c.MaxCall = cmp.Or(c.MaxCall, defaultMaxCall)
	token := rand.Text() // 130 bits in letters and digits
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", ErrClosed
	}
	if s.calls[c.ID] != nil {
		return "", fmt.Errorf("media: open: call %s is open already", c.ID)
	}
	s.calls[c.ID] = &call{Call: c, token: token, over: make(chan struct{})}
	return "/m/" + s.cfg.Bot + "/" + token, nil
}

// Close withdraws the call's token if nobody has used it, and then calls Ended
// itself (so hold no lock that Ended takes); else it ends the stream and does not
// wait. A call that is not open is none of its business.
func (s *Server) Close(callID string) {
	s.mu.Lock()
	c := s.calls[callID]
	if c == nil {
		s.mu.Unlock()
		return
	}
	stream := c.stream
	if stream == nil {
		delete(s.calls, callID)
	}
	s.mu.Unlock()

	if stream != nil {
		stream.end(HungUp, nil)
		return
	}
	s.finish(c, Report{CallID: c.ID, Reason: Withdrawn})
}

// Shutdown refuses further calls, ends those that are open, and returns when all
// have ended or with ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var open []*call
	for _, c := range s.calls {
		open = append(open, c)
	}
	s.mu.Unlock()

	for _, c := range open {
		s.Close(c.ID)
	}
	for _, c := range open {
		select {
		case <-c.over:
		case <-ctx.Done():
			return fmt.Errorf("media: shutdown: %w", context.Cause(ctx))
		}
	}
	return nil
}

// ServeHTTP lets a carrier in at /m/<bot>/<token>, and returns when the call is
// over. Whatever is wrong with a request, the answer is the same 404.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := s.token(r)
	if !ok || !canUpgrade(r) {
		http.NotFound(w, r)
		return
	}
	// The request's context lives until this function returns, as ever.
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	c := s.take(token, newStream(ctx.Done(), cancel, &s.totals))
	if c == nil {
		http.NotFound(w, r)
		return
	}
	report := s.serve(ctx, c, w, r)
	s.mu.Lock()
	delete(s.calls, c.ID)
	s.mu.Unlock()
	s.finish(c, report)
}

// token is the part of the path that it is in.
func (s *Server) token(r *http.Request) (string, bool) {
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		return "", false
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/m/"+s.cfg.Bot+"/")
	return rest, ok && isToken(rest)
}

// canUpgrade checks all that an upgrade needs before the token is looked at: a
// stray request must not use it up, nor learn from another error that it is right.
func canUpgrade(r *http.Request) bool {
	keys := r.Header.Values("Sec-WebSocket-Key")
	if len(keys) != 1 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0]))
	return err == nil && len(key) == 16 &&
		r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor >= 1 &&
		r.Header.Get("Sec-WebSocket-Version") == "13" &&
		listed(r.Header, "Connection", "upgrade") && listed(r.Header, "Upgrade", "websocket")
}

func listed(h http.Header, name, want string) bool {
	for _, line := range h.Values(name) {
		for v := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(v), want) {
				return true
			}
		}
	}
	return false
}

// take uses the token up for stream. Every open token is compared, each in
// constant time, so that how long it takes tells nothing.
func (s *Server) take(token string, stream *Stream) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *call
	for _, c := range s.calls {
		if subtle.ConstantTimeCompare([]byte(c.token), []byte(token)) == 1 {
			found = c
		}
	}
	if found != nil {
		found.token, found.stream = "", stream
	}
	return found
}

func (s *Server) finish(c *call, r Report) {
	defer close(c.over)
	s.totals.ended(r.Reason)
	line := s.cfg.Log.Info()
	if r.Err != nil {
		line = s.cfg.Log.Warn().Err(r.Err)
	}
	line.Str("call", r.CallID).Str("reason", string(r.Reason)).Dur("first_audio", r.FirstAudio).Dur("length", r.Length).
		Int64("frames_in", r.FramesIn).Int64("frames_out", r.FramesOut).Msg("media ended")
	if c.Ended != nil {
		c.Ended(r)
	}
}
