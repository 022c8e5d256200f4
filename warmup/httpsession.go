package warmup

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// openHTTP makes one request, so that name, TCP and TLS are behind us when the
// call needs them, and keeps the connection.
func (p *provider) openHTTP(outer context.Context) (*Session, error) {
	ctx, stop := context.WithTimeout(outer, p.Timeout)
	defer stop()
	transport := newTransport(p.Timeout)
	transport.IdleConnTimeout = max(transport.IdleConnTimeout, 3*p.Ping)
	s, alive := newSession(p)
	s.client = &http.Client{Transport: &authorized{p, transport, s.done}, CheckRedirect: noRedirect}
	if err := p.probe(outer, ctx, s.client); err != nil {
		s.abort()
		return nil, err
	}
	if p.Ping > 0 {
		s.wg.Go(func() {
			failures := 0
			every(alive, p.Ping, func() bool {
				ctx, stop := context.WithTimeout(alive, p.Timeout)
				defer stop()
				err := p.probe(alive, ctx, s.client)
				if err == nil || alive.Err() != nil {
					failures = 0
					return true
				}
				// One lost connection is nothing: the next request makes a new one.
				if failures++; failures < 2 {
					return true
				}
				s.end(err)
				return false
			})
		})
	}
	return s, nil
}

// probe asks for the provider's URL, with GET where HEAD is not known.
func (p *provider) probe(outer, ctx context.Context, client *http.Client) error {
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		req, err := http.NewRequestWithContext(ctx, method, p.url.String(), nil)
		if err != nil {
			return &Error{Code: ProviderRefused, Provider: p.Name, Detail: p.Name + ": " + reason(err), Err: err}
		}
		resp, err := client.Do(req)
		if err != nil {
			return p.failed(outer, ctx, err, "the first request")
		}
		// Read to its end, within reason, a connection can be used again.
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		resp.Body.Close()
		switch code := resp.StatusCode; {
		case method == http.MethodHead && (code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented || code == http.StatusNotFound):
			continue
		case code < 200 || code > 299:
			return p.refused(resp)
		case err != nil:
			return p.failed(outer, ctx, err, "the first request")
		}
		return nil
	}
	return nil // not reached: GET answers one way or the other
}

// authorized adds the provider's headers to requests to its own origin, and
// stops when the session is over, so that nothing is left open after it.
type authorized struct {
	p    *provider
	next *http.Transport
	done <-chan struct{}
}

func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-a.done:
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fmt.Errorf("%s: %w", a.p.Name, ErrClosed)
	default:
	}
	if origin(r.URL) == origin(a.p.url) {
		r = r.Clone(r.Context())
		for k, v := range a.p.header {
			if r.Header.Get(k) == "" {
				r.Header[k] = v
			}
		}
	}
	return a.next.RoundTrip(r)
}

func (a *authorized) CloseIdleConnections() { a.next.CloseIdleConnections() }
