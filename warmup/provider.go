package warmup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// Provider is one vendor's door, opened in warm-up and kept open for the call.
type Provider struct {
	Name    string            // as admission and flows call it
	Kind    string            // STT, TTS or LLM; the first of a kind is its default
	URL     string            // ws, wss: a session; http, https: a warm connection, URL answers HEAD or GET. ${NAME} is the environment's
	Headers map[string]string // sent with the handshake and every request; ${NAME} is the environment's
	Ping    time.Duration     // between pings, which keep it open and notice its death; 0: 10 s, negative: none
	Hello   string            // ws: text sent at once; empty: none
	Expect  bool              // ws: it is open when a first message has come, see Session.First
	Timeout time.Duration     // to open it, a first message included, and to answer a ping; 0: 5 s
}

// ParseProviders reads a JSON list of providers; fields are name, kind, url,
// headers, ping_ms (-1: none), hello, expect and timeout_ms. The error names the
// field; what the providers mean is checked by [New].
func ParseProviders(data []byte) ([]Provider, error) {
	if err := valid(data); err != nil {
		return nil, fmt.Errorf("providers: %w", err)
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		return nil, fmt.Errorf("providers: %s, want a list", kind(data))
	}
	out := make([]Provider, len(list))
	for i, raw := range list {
		p := &out[i]
		if err := object(fmt.Sprintf("providers[%d]", i), raw, map[string]reader{
			"name":       text(&p.Name, nil),
			"kind":       text(&p.Kind, nil),
			"url":        text(&p.URL, nil),
			"headers":    table(&p.Headers, 32, nil, nil),
			"ping_ms":    millis(&p.Ping),
			"hello":      text(&p.Hello, nil),
			"expect":     truth(&p.Expect),
			"timeout_ms": millis(&p.Timeout),
		}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// provider is a Provider whose secrets are filled in. It is never printed.
type provider struct {
	Provider
	url    *url.URL
	header http.Header
}

func newProvider(p Provider) (*provider, error) {
	if p.Ping == 0 {
		p.Ping = 10 * time.Second
	}
	if p.Timeout == 0 {
		p.Timeout = 5 * time.Second
	}
	if err := checkName(p.Name); err != nil {
		return nil, &fieldError{"Name", err.Error()}
	}
	if err := checkKind(p.Kind); err != nil {
		return nil, &fieldError{"Kind", err.Error()}
	}
	if p.Timeout < 0 {
		return nil, &fieldError{"Timeout", fmt.Sprintf("%v, want more than 0", p.Timeout)}
	}
	raw, err := expand(p.URL)
	if err != nil {
		return nil, &fieldError{"URL", err.Error()}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, &fieldError{"URL", "want ws, wss, http or https, a host, and no user part"}
	}
	r := &provider{Provider: p, url: u}
	switch u.Scheme {
	case "ws", "wss":
	case "http", "https":
		if p.Hello != "" || p.Expect {
			return nil, &fieldError{"Hello, Expect", "only for ws and wss"}
		}
	default:
		return nil, &fieldError{"URL", "want ws, wss, http or https"}
	}
	if r.header, err = headers(p.Headers); err != nil {
		return nil, &fieldError{"Headers", err.Error()}
	}
	return r, nil
}

// open opens a session within the provider's time-out. It outlives ctx. The
// errors are *Error, or ctx's own.
func (p *provider) open(ctx context.Context) (*Session, error) {
	if p.url.Scheme == "ws" || p.url.Scheme == "wss" {
		return p.openSocket(ctx)
	}
	return p.openHTTP(ctx)
}

// noRedirect stops a client at a redirect: following one would carry the
// provider's key to another host.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (p *provider) openSocket(outer context.Context) (*Session, error) {
	ctx, stop := context.WithTimeout(outer, p.Timeout)
	defer stop()
	// The connection is the session's alone: a refused one is not kept, and a dial
	// that is still under way when we leave ends with us.
	transport := newTransport(p.Timeout)
	transport.DisableKeepAlives = true
	var wire atomic.Pointer[net.Conn]
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err == nil {
			wire.Store(&c)
		}
		return c, err
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: noRedirect}
	conn, resp, err := websocket.Dial(ctx, p.url.String(), &websocket.DialOptions{HTTPClient: client, HTTPHeader: p.header.Clone()})
	if err != nil {
		if resp != nil {
			return nil, p.refused(resp)
		}
		return nil, p.failed(outer, ctx, err, "the handshake")
	}
	conn.SetReadLimit(maxInbox)
	var first []byte
	if p.Hello != "" {
		err = conn.Write(ctx, websocket.MessageText, []byte(p.Hello))
	}
	if err == nil && p.Expect {
		_, first, err = conn.Read(ctx)
	}
	if err != nil {
		conn.CloseNow()
		return nil, p.failed(outer, ctx, err, "the first message")
	}
	return keepSocket(p, conn, *wire.Load(), first), nil
}

// refused is the error of an HTTP answer that is no yes.
func (p *provider) refused(resp *http.Response) error {
	e := &Error{Code: ProviderRefused, Provider: p.Name, Detail: p.Name + " says " + status(resp.StatusCode)}
	if resp.StatusCode == http.StatusTooManyRequests {
		e.Code, e.RetryAfter = ProviderRateLimited, retryAfter(resp.Header)
	}
	return e
}

// failed is the error of an opening that got no HTTP answer, or broke after it.
func (p *provider) failed(outer, ctx context.Context, err error, what string) error {
	if outer.Err() != nil {
		return outer.Err()
	}
	e := &Error{Code: ProviderRefused, Provider: p.Name, Detail: p.Name + ": " + reason(err), Err: err}
	switch {
	case ctx.Err() != nil, timedOut(err):
		e.Code, e.Detail = ProviderSilent, fmt.Sprintf("%s does not answer within %v, during %s", p.Name, p.Timeout, what)
	case hungUp(err):
		e.Code, e.Detail = ProviderClosed, fmt.Sprintf("%s closed the connection during %s%s", p.Name, what, closeReason(err))
	}
	return e
}

// timedOut reports whether err is a limit of the network's own, which may come a
// moment before that of the context.
func timedOut(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// hungUp reports whether err is the other side's ending of a connection.
func hungUp(err error) bool {
	return websocket.CloseStatus(err) != -1 || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// closeReason is what a close frame gave as the reason, as " (1008: …)".
func closeReason(err error) string {
	ce, ok := errors.AsType[websocket.CloseError](err)
	if !ok {
		return ""
	}
	if ce.Reason == "" {
		return fmt.Sprintf(" (%d)", ce.Code)
	}
	return fmt.Sprintf(" (%d: %s)", ce.Code, oneLine(ce.Reason))
}

// retryAfter reads the header as seconds or as a date; 0 if it says neither.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(min(max(n, 0), 86_400)) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(time.Until(at), 0), 24*time.Hour)
	}
	return 0
}
