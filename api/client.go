package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ClientConfig says which server, and who asks.
type ClientConfig struct {
	BaseURL string // http(s)://host, with a path prefix if there is one
	Token   string // bearer token; empty: none is sent

	Timeout time.Duration // of one request whose context has no deadline; 0: 1 min
	// HTTP sends the requests; redirects are never followed, as the token would go
	// with them. Nil: a client of our own.
	HTTP *http.Client
}

// MaxAnswer is how many bytes of an answer are read; a longer one is an error.
const MaxAnswer = 16 << 20

// Client speaks to one server. It is safe for concurrent use, repeats nothing by
// itself, and shows its token to nobody but the server. Its errors are a [*Problem]
// when the server answered with one.
type Client struct {
	base    string
	token   string
	timeout time.Duration
	http    *http.Client
}

// NewClient checks cfg and sends nothing.
func NewClient(cfg ClientConfig) (*Client, error) {
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("api: BaseURL: want http(s)://host, without user, query and fragment")
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("api: Timeout: %v is negative", cfg.Timeout)
	}
	if strings.ContainsAny(cfg.Token, " \r\n\t") {
		return nil, errors.New("api: Token: has white space in it")
	}
	var hc http.Client
	if cfg.HTTP != nil {
		hc = *cfg.HTTP
	}
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: strings.TrimSuffix(cfg.BaseURL, "/"), token: cfg.Token, timeout: cmp.Or(cfg.Timeout, time.Minute), http: &hc}, nil
}

// String names the server, never the token.
func (c *Client) String() string { return "client of " + c.base }

// GoString is String, so that no verb prints the token.
func (c *Client) GoString() string { return c.String() }

// PlaceCall asks for a call. With a key the request may be repeated as often as it
// takes: the answer is the same call, and replayed says that it was known already.
func (c *Client) PlaceCall(ctx context.Context, p PlaceCall, key string) (out Call, replayed bool, err error) {
	head := http.Header{}
	if key != "" {
		head.Set("Idempotency-Key", key)
	}
	got, err := c.do(ctx, http.MethodPost, "/v1/calls", nil, head, p, &out)
	return out, got.Get("Idempotency-Replayed") == "true", err
}

// Call looks one call up. With reveal nothing is masked, which the token must allow.
func (c *Client) Call(ctx context.Context, id string, reveal bool) (out Call, err error) {
	q := url.Values{}
	if reveal {
		q.Set("reveal", "true")
	}
	_, err = c.do(ctx, http.MethodGet, "/v1/calls/"+url.PathEscape(id), q, nil, nil, &out)
	return out, err
}

// Calls lists calls, newest first.
func (c *Client) Calls(ctx context.Context, query ListQuery, reveal bool) (out CallPage, err error) {
	q := url.Values{}
	for name, value := range map[string]string{
		"state": string(query.State), "org": query.Org, "campaign": query.Campaign, "cursor": query.Cursor,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if query.Limit != 0 {
		q.Set("limit", strconv.Itoa(query.Limit))
	}
	if reveal {
		q.Set("reveal", "true")
	}
	_, err = c.do(ctx, http.MethodGet, "/v1/calls", q, nil, nil, &out)
	return out, err
}

// CancelCall asks for a call to be stopped, in whatever state it is.
func (c *Client) CancelCall(ctx context.Context, id, reason string) (out Call, err error) {
	_, err = c.do(ctx, http.MethodDelete, "/v1/calls/"+url.PathEscape(id), nil, nil, Reason{reason}, &out)
	return out, err
}

// Why explains why a call has not gone out.
func (c *Client) Why(ctx context.Context, id string) (out Why, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/calls/"+url.PathEscape(id)+"/why", nil, nil, nil, &out)
	return out, err
}

// Scale is how many bots a region wants, and why.
func (c *Client) Scale(ctx context.Context, region string) (out Scale, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/scale/"+url.PathEscape(region), nil, nil, nil, &out)
	return out, err
}

// Checkpoint leaves something for the bot that may have to take a call over: any
// JSON of at most 8 KiB. The newest counts.
func (c *Client) Checkpoint(ctx context.Context, id string, left json.RawMessage) error {
	_, err := c.do(ctx, http.MethodPost, "/v1/calls/"+url.PathEscape(id)+"/checkpoint", nil, nil, left, nil)
	return err
}

// PutNumber says what happens to calls that come in at one of our numbers.
func (c *Client) PutNumber(ctx context.Context, n Number) (out Number, err error) {
	_, err = c.do(ctx, http.MethodPut, "/v1/numbers/"+url.PathEscape(n.Number), nil, nil, n, &out)
	return out, err
}

// Numbers are all our numbers.
func (c *Client) Numbers(ctx context.Context) (out NumberPage, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/numbers", nil, nil, nil, &out)
	return out, err
}

// Number is what happens to calls to one of our numbers.
func (c *Client) Number(ctx context.Context, number string) (out Number, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/numbers/"+url.PathEscape(number), nil, nil, nil, &out)
	return out, err
}

// DeleteNumber forgets one of our numbers: calls to it are refused.
func (c *Client) DeleteNumber(ctx context.Context, number string) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/numbers/"+url.PathEscape(number), nil, nil, nil, nil)
	return err
}

// Orgs are all envelopes that the token may see.
func (c *Client) Orgs(ctx context.Context) (out OrgPage, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/orgs", nil, nil, nil, &out)
	return out, err
}

// PutOrg sets an org's envelope; what is left out is the default.
func (c *Client) PutOrg(ctx context.Context, o Org) (out OrgState, err error) {
	_, err = c.do(ctx, http.MethodPut, "/v1/orgs/"+url.PathEscape(o.ID), nil, nil, o, &out)
	return out, err
}

// Campaigns are all campaigns with a cap that the token may see.
func (c *Client) Campaigns(ctx context.Context) (out CampaignPage, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/campaigns", nil, nil, nil, &out)
	return out, err
}

// Campaign is one, and how it is used.
func (c *Client) Campaign(ctx context.Context, id string) (out CampaignState, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/campaigns/"+url.PathEscape(id), nil, nil, nil, &out)
	return out, err
}

// PutCampaign sets a campaign's cap, or pauses it; what is left out is the default.
func (c *Client) PutCampaign(ctx context.Context, k Campaign) (out CampaignState, err error) {
	_, err = c.do(ctx, http.MethodPut, "/v1/campaigns/"+url.PathEscape(k.ID), nil, nil, k, &out)
	return out, err
}

// Claim asks for a bot, now; it takes as long as the bot's warm-up. Ending ctx
// gives the seat back.
func (c *Client) Claim(ctx context.Context, claim Claim) (out Assignment, err error) {
	_, err = c.do(ctx, http.MethodPost, "/v1/claims", nil, nil, claim, &out)
	return out, err
}

// Release gives the seat of a claimed call back.
func (c *Client) Release(ctx context.Context, callID string, r Release) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/claims/"+url.PathEscape(callID), nil, nil, r, nil)
	return err
}

// Bots lists bots; empty arguments choose all.
func (c *Client) Bots(ctx context.Context, region, state string) (out BotPage, err error) {
	q := url.Values{}
	if region != "" {
		q.Set("region", region)
	}
	if state != "" {
		q.Set("state", state)
	}
	_, err = c.do(ctx, http.MethodGet, "/v1/bots", q, nil, nil, &out)
	return out, err
}

// Bot looks one bot up.
func (c *Client) Bot(ctx context.Context, id string) (out Bot, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/bots/"+url.PathEscape(id), nil, nil, nil, &out)
	return out, err
}

// CordonBot lets a bot take no new calls.
func (c *Client) CordonBot(ctx context.Context, id, reason string) (Bot, error) {
	return c.tell(ctx, id, "cordon", reason)
}

// UncordonBot lets a bot take calls again.
func (c *Client) UncordonBot(ctx context.Context, id, reason string) (Bot, error) {
	return c.tell(ctx, id, "uncordon", reason)
}

// DrainBot lets a bot finish its calls and leave.
func (c *Client) DrainBot(ctx context.Context, id, reason string) (Bot, error) {
	return c.tell(ctx, id, "drain", reason)
}

func (c *Client) tell(ctx context.Context, id, verb, reason string) (out Bot, err error) {
	_, err = c.do(ctx, http.MethodPost, "/v1/bots/"+url.PathEscape(id)+"/"+verb, nil, nil, Reason{reason}, &out)
	return out, err
}

// do is one request. body nil sends none, out nil reads none.
func (c *Client) do(ctx context.Context, method, path string, q url.Values, head http.Header, body, out any) (http.Header, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %v: %w", c.timeout, context.DeadlineExceeded))
		defer cancel()
	}
	what := method + " " + path
	var send io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("api: %s: %w", what, err)
		}
		send = bytes.NewReader(data)
	}
	address := c.base + path
	if len(q) > 0 {
		address += "?" + q.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, address, send)
	if err != nil {
		return nil, fmt.Errorf("api: %s: %w", what, err)
	}
	maps.Copy(r.Header, head)
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("api: %s: %w", what, err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return resp.Header, fmt.Errorf("api: %s: answer: %w", what, err)
	case len(data) > MaxAnswer:
		return resp.Header, fmt.Errorf("api: %s: answer of more than %d bytes", what, MaxAnswer)
	case resp.StatusCode >= 300:
		return resp.Header, problemOf(resp, data)
	case out == nil:
		return resp.Header, nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return resp.Header, fmt.Errorf("api: %s: answer: %w", what, err)
	}
	return resp.Header, nil
}

// problemOf reads a problem, or makes one when something in between answered.
func problemOf(resp *http.Response, data []byte) *Problem {
	var p Problem
	if err := json.Unmarshal(data, &p); err == nil && p.Code != "" {
		p.Status = resp.StatusCode
		return &p
	}
	return &Problem{
		Type: "about:blank", Title: http.StatusText(resp.StatusCode), Status: resp.StatusCode,
		Code: "http_" + strconv.Itoa(resp.StatusCode), Detail: "not an answer of Dibs; is the address right?",
	}
}
