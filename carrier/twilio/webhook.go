package twilio

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dibs/carrier"
)

// MaxWebhook is how many bytes of a webhook's body are read; a longer one is malformed.
const MaxWebhook = 64 << 10

// SignatureHeader carries Twilio's signature of a webhook or of a media upgrade.
const SignatureHeader = "X-Twilio-Signature"

// Verify reads the form of a webhook and checks that Twilio sent it, to the public
// address plus the request's path and query, for our account. A GET carries its
// form in the query. A prefix that a mux strips must be in Config.PublicURL. The
// error is [carrier.ErrMalformed], [carrier.ErrSignature] or [carrier.ErrAccount].
func (c *Client) Verify(r *http.Request) (url.Values, error) {
	if c.public == "" {
		return nil, fmt.Errorf("%w: no public address is configured", carrier.ErrSignature)
	}
	var form, signed url.Values
	var err error
	switch r.Method {
	case http.MethodGet:
		if form, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			err = errors.New("query is not a form")
		}
	case http.MethodPost:
		form, err = readForm(r)
		signed = form
	default:
		err = fmt.Errorf("method %.10q", r.Method)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", carrier.ErrMalformed, err)
	}
	if !Validate(c.token, r.Header.Get(SignatureHeader), c.publicAddress(r.URL), signed) {
		return nil, carrier.ErrSignature
	}
	if form.Get("AccountSid") != c.account {
		return nil, carrier.ErrAccount
	}
	return form, nil
}

// publicAddress is u as Twilio has it.
func (c *Client) publicAddress(u *url.URL) string {
	address := c.public + u.EscapedPath()
	if u.RawQuery != "" || u.ForceQuery {
		address += "?" + u.RawQuery
	}
	return address
}

func readForm(r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, errors.New("content type is not that of a form")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxWebhook+1))
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	if len(body) > MaxWebhook {
		return nil, fmt.Errorf("body of more than %d bytes", MaxWebhook)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("body is not a form") // the parser's own words quote it
	}
	return form, nil
}

// Event reads a status webhook: see [Client.Verify] for what it checks first. The
// event "answered" has the status in_progress, and "completed" any terminal one.
func (c *Client) Event(r *http.Request) (carrier.Event, error) {
	form, err := c.Verify(r)
	if err != nil {
		return carrier.Event{}, err
	}
	e := carrier.Event{
		Carrier:  c.Name(),
		ID:       form.Get("CallSid"),
		Attempt:  c.attempt(r.URL.Path),
		Seq:      -1,
		Length:   length(form.Get("CallDuration")),
		Answered: answeredBy(form.Get("AnsweredBy")),
	}
	if !callForm.MatchString(e.ID) {
		return carrier.Event{}, fmt.Errorf("%w: no call id", carrier.ErrMalformed)
	}
	status := form.Get("CallStatus")
	if status == "" && e.Answered != "" {
		status = "in-progress" // the word of who answered comes by itself
	}
	var ok bool
	if e.Status, ok = statusOf(status); !ok {
		return carrier.Event{}, fmt.Errorf("%w: call status %.20q", carrier.ErrMalformed, status)
	}
	if n, err := strconv.Atoi(form.Get("SequenceNumber")); err == nil && n >= 0 {
		e.Seq = n
	}
	if n, err := strconv.Atoi(form.Get("SipResponseCode")); err == nil && n >= 100 && n <= 699 && e.Status.Terminal() {
		e.SIPCode = n
	}
	return e, nil
}

// answeredBy is Twilio's word for who answered; one that we do not know says nothing.
func answeredBy(word string) string {
	if word == "" || slices.Contains(carrier.AnsweredBy(), word) {
		return word
	}
	return "unknown"
}

// attempt is the last element of a status webhook's path; empty: it has none.
func (c *Client) attempt(path string) string {
	if c.statusPath == "" {
		return ""
	}
	id, ok := strings.CutPrefix(path, c.statusPath)
	if !ok || strings.Contains(id, "/") {
		return ""
	}
	return id
}
