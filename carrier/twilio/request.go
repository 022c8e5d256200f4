package twilio

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dibs/carrier"
)

const (
	maxReply  = 1 << 20 // bytes of a reply that are read
	maxDetail = 160     // runes of Twilio's sentence that are kept

	codeNotFound = 20404
	codeTooMany  = 20429
)

// send makes one request, once, and reads its JSON reply into into. Path is
// below the account; a form is sent as the body of a POST and as the query of
// anything else. The error is a [*carrier.Error].
func (c *Client) send(ctx context.Context, method, path string, form url.Values, into any) error {
	if err := ctx.Err(); err != nil {
		return &carrier.Error{Verdict: carrier.NotPlaced, Detail: "not sent", Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var way trip
	req, err := c.request(httptrace.WithClientTrace(ctx, way.trace()), method, path, form)
	if err != nil {
		return &carrier.Error{Verdict: carrier.Refused, Detail: "the request cannot be written"}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return way.failed(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.refused(resp, body)
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return &carrier.Error{
			Verdict: carrier.Unknown, Status: resp.StatusCode,
			Detail: "the reply cannot be read", Err: bare(err),
		}
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, form url.Values) (*http.Request, error) {
	target := c.base + "/2010-04-01/Accounts/" + c.account + path
	var body io.Reader
	if method == http.MethodPost {
		// Wrapped, so that net/http cannot rewind it and so cannot send it again.
		body = io.NopCloser(strings.NewReader(form.Encode()))
	} else if len(form) > 0 {
		target += "?" + form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.ContentLength = int64(len(form.Encode()))
		req.GetBody = nil
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", "application/json")
	req.SetBasicAuth(c.user, c.secret)
	return req, nil
}

// trip notes how far a request came.
type trip struct {
	asked atomic.Bool // the transport began to look for a connection
	had   atomic.Bool // and had one, so bytes may have left
}

func (t *trip) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { t.had.Store(true) },
	}
}

// failed is what a request without a reply means. Not placed needs proof: we saw
// it look for a connection and never saw it get one. A transport that tells
// nothing must at least name the failure of a dial.
func (t *trip) failed(err error) *carrier.Error {
	verdict := carrier.Unknown
	if !t.had.Load() && (t.asked.Load() || failedDial(err)) {
		verdict = carrier.NotPlaced
	}
	detail := "no reply"
	if verdict == carrier.NotPlaced {
		detail = "no connection"
	}
	return &carrier.Error{Verdict: verdict, Detail: detail, Err: bare(err)}
}

func failedDial(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	_, ok := errors.AsType[*net.DNSError](err)
	return ok
}

// bare takes the address off err: it holds numbers in the query of a list.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// refused is what a reply that is not 2xx means.
func (c *Client) refused(resp *http.Response, body []byte) *carrier.Error {
	var told struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &told) != nil {
		told.Code, told.Message = 0, "" // a proxy's page, not Twilio's words
	}
	e := &carrier.Error{
		Verdict: carrier.Unknown,
		Status:  resp.StatusCode,
		Code:    told.Code,
		Detail:  c.clean(told.Message),
	}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, told.Code == codeTooMany:
		e.Verdict = carrier.RateLimited
		e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	case resp.StatusCode >= 400 && resp.StatusCode < 500:
		e.Verdict = carrier.Refused
	}
	return e
}

var (
	addresses = regexp.MustCompile(`\w+://\S+`)
	longRuns  = regexp.MustCompile(`\+?[0-9][0-9 ()-]{4,}[0-9]`)
)

// clean makes Twilio's sentence fit for logs: it quotes numbers and addresses,
// and an address of ours may hold a token.
func (c *Client) clean(s string) string {
	for _, secret := range []string{c.token, c.secret} {
		s = strings.ReplaceAll(s, secret, "…")
	}
	s = addresses.ReplaceAllString(s, "…")
	s = longRuns.ReplaceAllStringFunc(s, func(n string) string { return "…" + n[len(n)-2:] })
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxDetail {
		s = string(r[:maxDetail]) + "…"
	}
	return s
}

// retryAfter reads the header: seconds or a date; 0 if it says nothing usable.
func retryAfter(h string, now time.Time) time.Duration {
	var d time.Duration
	if n, err := strconv.Atoi(h); err == nil {
		d = time.Duration(min(n, 3600)) * time.Second
	} else if t, err := http.ParseTime(h); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), time.Hour)
}
