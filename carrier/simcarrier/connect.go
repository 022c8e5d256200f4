package simcarrier

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"dibs/internal/audio"
)

// How long the media side waits.
const (
	dialTime  = 10 * time.Second
	writeTime = 5 * time.Second
	leaveTime = time.Second     // the end of a call waits so long for a stream that is stuck
	closeTime = 2 * time.Second // a closing handshake
	maxRead   = 2 << 20         // bytes of one message of a bot
)

// mediaSide is a call's media over its whole life.
type mediaSide struct {
	open   sync.WaitGroup // streams, until their sockets are closed
	mu     sync.Mutex
	record []byte // guarded by mu: what was heard, stream after stream
}

// connect obeys <Connect><Stream>: it returns when the bot has closed the socket,
// when there is none to be had, or when ctx ends.
func (s *Server) connect(ctx context.Context, c *call, media *mediaSide, v element) {
	var verb *element
	for i := range v.kids {
		if v.kids[i].name == "Stream" {
			verb = &v.kids[i]
			break
		}
	}
	if verb == nil {
		s.warn(c, warnVerb, "Connect without Stream")
		return
	}
	params := map[string]string{}
	for _, k := range verb.kids {
		if k.name == "Parameter" {
			params[k.attrs["name"]] = k.attrs["value"]
		}
	}
	address := verb.attrs["url"]
	view := &StreamView{SID: newSID("MZ"), URL: hideToken(address), Params: params, Opened: time.Now()}
	s.mu.Lock()
	c.streams = append(c.streams, view)
	answered, digits, tone := c.answered, c.plan.digits, c.plan.tone
	s.mu.Unlock()

	if code, why := s.refusedMedia(address); code != 0 {
		s.streamFailed(c, *verb, view, code, why)
		return
	}
	switch s.Faults().Media {
	case MediaNever:
		<-ctx.Done()
		return
	case MediaHalf:
		halfHandshake(ctx, address)
		return
	}
	conn, err := s.openSocket(ctx, address)
	if err != nil {
		if ctx.Err() == nil {
			s.streamFailed(c, *verb, view, warnHandshake, err.Error())
		}
		return
	}
	s.streamEvent(c, *verb, view, "stream-started", "")

	st := &stream{
		server: s, call: c, view: view, conn: conn, digits: digits, tone: tone,
		ear: ear{answered: answered, keep: s.cfg.Record != ""},
	}
	left := make(chan struct{})
	media.open.Go(func() {
		st.run(ctx, media, params, left)
	})
	select {
	case <-left:
	case <-ctx.Done():
		if !waitFor(left, leaveTime) {
			s.warn(c, warnMessage, "the bot does not read; the call ended without it")
		}
	}
	s.streamEvent(c, *verb, view, "stream-stopped", "")
}

func waitFor(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// refusedMedia is Twilio's number for an address it would not open; 0: it would.
func (s *Server) refusedMedia(address string) (code int, why string) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return warnHandshake, "not an address"
	case u.RawQuery != "" || u.ForceQuery:
		return warnHandshake, "a query string is not allowed"
	case u.Scheme == "wss":
		return 0, ""
	case u.Scheme != "ws":
		return warnScheme, "want wss"
	case !s.cfg.Insecure || !loopback(u.Hostname()):
		return warnScheme, "want wss; ws is for loopback, and only when insecure is set"
	}
	return 0, ""
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *Server) openSocket(ctx context.Context, address string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient: s.http,
		HTTPHeader: http.Header{"X-Twilio-Signature": {s.sign(address, nil)}, "User-Agent": {"TwilioProxy/1.1"}},
	})
	switch {
	case err == nil:
		conn.SetReadLimit(maxRead)
		return conn, nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return nil, op.Err
	}
	return nil, errors.New("no handshake")
}

// halfHandshake begins an upgrade and does not go on until ctx ends.
func halfHandshake(ctx context.Context, address string) {
	u, err := url.Parse(address)
	if err != nil {
		return
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"ws": "80", "wss": "443"}[u.Scheme])
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		<-ctx.Done()
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: webso", u.EscapedPath(), u.Host)
	<-ctx.Done()
}

// hideToken takes the last element off a media address: it opens the socket.
func hideToken(address string) string {
	if i := strings.LastIndexByte(address, '/'); i > len("wss://") {
		return address[:i+1] + "…"
	}
	return address
}

func (s *Server) streamFailed(c *call, e element, view *StreamView, code int, why string) {
	s.warn(c, code, "media: %s", why)
	s.mu.Lock()
	view.Error, view.Closed = code, time.Now()
	s.mu.Unlock()
	s.streamEvent(c, e, view, "stream-error", why)
}

// streamEvent tells a stream's status callback, if it has one.
func (s *Server) streamEvent(c *call, e element, view *StreamView, event, why string) {
	address := e.attrs["statusCallback"]
	if address == "" {
		return
	}
	form := url.Values{
		"AccountSid":  {s.cfg.AccountSID},
		"CallSid":     {c.sid},
		"StreamSid":   {view.SID},
		"StreamEvent": {event},
		"Timestamp":   {time.Now().UTC().Format(time.RFC3339)},
	}
	if name := e.attrs["name"]; name != "" {
		form.Set("StreamName", name)
	}
	if why != "" {
		form.Set("StreamError", why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue(c, callback{event: event, url: address, form: form})
}

// record writes what was heard on a call, if that is wanted and there was anything.
func (s *Server) record(c *call, media *mediaSide) {
	media.mu.Lock()
	defer media.mu.Unlock()
	if len(media.record) == 0 {
		return
	}
	if err := writeWAV(filepath.Join(s.cfg.Record, c.sid+".wav"), media.record); err != nil {
		s.warn(c, 0, "recording: %v", err)
	}
}

func writeWAV(path string, ulaw []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return audio.WriteWAV(f, audio.DecodeMuLaw(ulaw), audio.Rate)
}
