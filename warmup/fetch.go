package warmup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// fromURL asks for the flow at u, which is allowed, and remembers it: the next
// time the source only has to say that nothing has changed. When the source does
// not answer, a copy that it vouched for within MaxStale stands in. An answer of
// "no" (not found, forbidden, malformed) is an answer, and the copy is dropped.
func (s *source) fromURL(outer context.Context, u *url.URL, ref FlowRef) (*Flow, error) {
	key := "url:" + u.String()
	old, have := s.cache.get(key)

	ctx, stop := context.WithTimeout(outer, s.cfg.Timeout)
	defer stop()
	next, err := s.ask(ctx, u, old)
	if outer.Err() != nil {
		return nil, outer.Err()
	}
	if err == nil {
		next.id = cmp.Or(ref.ID, next.flow.ID)
		s.cache.put(key, next)
		return matching(next.flow, ref, false)
	}
	e, coded := errors.AsType[*Error](err)
	if !coded {
		e = &Error{Step: StepFlow, Code: FlowUnavailable, Detail: reason(err), Err: err}
		if ctx.Err() != nil {
			e.Detail = fmt.Sprintf("no answer within %v", s.cfg.Timeout)
		}
	}
	if e.Code != FlowUnavailable {
		s.cache.drop(key)
		return nil, e
	}
	if !have || time.Since(old.fresh) > s.cfg.MaxStale {
		return nil, e
	}
	f, err := matching(old.flow, ref, true)
	if err == nil {
		s.stale.Add(1)
	}
	return f, err
}

// ask makes one request; old is what there is already, if its flow is not nil.
func (s *source) ask(ctx context.Context, u *url.URL, old copied) (copied, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return copied{}, err
	}
	if s.template != nil && origin(u) == origin(s.template) {
		req.Header = s.header.Clone()
	}
	req.Header.Set("Accept", "application/json")
	if old.etag != "" {
		req.Header.Set("If-None-Match", old.etag)
	} else if old.modified != "" {
		req.Header.Set("If-Modified-Since", old.modified)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return copied{}, err
	}
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusNotModified && old.flow != nil:
		old.fresh = time.Now()
		return old, nil
	case code == http.StatusNotFound, code == http.StatusGone:
		return copied{}, notFound("its source says " + status(code))
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return copied{}, &Error{Step: StepFlow, Code: FlowForbidden, Detail: "its source says " + status(code)}
	case code >= 300 && code < 400 && code != http.StatusNotModified:
		return copied{}, &Error{Step: StepFlow, Code: FlowForbidden, Detail: "its source redirects elsewhere"}
	default:
		return copied{}, &Error{Step: StepFlow, Code: FlowUnavailable, Detail: "its source says " + status(code)}
	}
	// The limit is on what is read after decompression.
	data, err := readAtMost(resp.Body, MaxFlow)
	if errors.Is(err, errOver) {
		return copied{}, &Error{Step: StepFlow, Code: FlowTooLarge, Permanent: true, Detail: oneLine(err.Error()), Err: err}
	}
	if err != nil {
		return copied{}, err
	}
	f, err := ParseFlow(data)
	if err != nil {
		return copied{}, err
	}
	return copied{flow: f, etag: resp.Header.Get("ETag"), modified: resp.Header.Get("Last-Modified"), fresh: time.Now()}, nil
}

// status is an HTTP status for people.
func status(code int) string {
	s := "HTTP " + strconv.Itoa(code)
	if t := http.StatusText(code); t != "" {
		s += " " + t
	}
	return s
}
