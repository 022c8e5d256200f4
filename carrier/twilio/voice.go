package twilio

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"dibs/carrier"
)

// Asked reads a webhook that wants TwiML: see [Client.Verify] for what it checks
// first.
func (c *Client) Asked(r *http.Request) (carrier.Question, error) {
	form, err := c.Verify(r)
	if err != nil {
		return carrier.Question{}, err
	}
	q := carrier.Question{ID: form.Get("CallSid"), From: form.Get("From"), To: form.Get("To")}
	if !callForm.MatchString(q.ID) {
		return carrier.Question{}, fmt.Errorf("%w: no call id", carrier.ErrMalformed)
	}
	if !numberForm.MatchString(q.To) {
		return carrier.Question{}, fmt.Errorf("%w: to is no number", carrier.ErrMalformed)
	}
	if !numberForm.MatchString(q.From) || anonymous[q.From] {
		q.From = "" // withheld, or a SIP address
	}
	var ok bool
	if q.Status, ok = statusOf(form.Get("CallStatus")); !ok {
		return carrier.Question{}, fmt.Errorf("%w: call status %.20q", carrier.ErrMalformed, form.Get("CallStatus"))
	}
	return q, nil
}

// Redirect lets Twilio ask at address what to do with a live call: see
// [carrier.Voice].
func (c *Client) Redirect(ctx context.Context, id, address string) error {
	if err := checkID(id); err != nil {
		return err
	}
	if !httpAddress(address) {
		return &carrier.Error{Verdict: carrier.Refused, Detail: "not sent: url is not an http address"}
	}
	var r resource
	return c.send(ctx, http.MethodPost, "/Calls/"+id+".json", url.Values{"Url": {address}, "Method": {http.MethodPost}}, &r)
}

// anonymous are Twilio's numbers for callers who withhold theirs: words on a keypad.
var anonymous = map[string]bool{
	"+266696687":   true, // anonymous
	"+7378742833":  true, // restricted
	"+2562533":     true, // blocked
	"+8656696":     true, // unknown
	"+86282452253": true, // unavailable
}

// Instruct is an instruction as TwiML.
func (c *Client) Instruct(i carrier.Instruction) (contentType string, body []byte, err error) {
	doc := ""
	switch {
	case i.Media != nil:
		if doc, err = c.Connect(*i.Media, i.Next); err != nil {
			return "", nil, err
		}
	case i.Busy:
		doc = TwiML(Reject{Busy: true})
	case i.Say != "":
		doc = TwiML(Say{Text: i.Say, Language: i.Language}, Hangup{})
	default:
		doc = TwiML(Hangup{})
	}
	return "text/xml; charset=utf-8", []byte(doc), nil
}

var _ carrier.Voice = (*Client)(nil)
