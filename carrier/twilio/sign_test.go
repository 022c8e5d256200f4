package twilio_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"dibs/carrier"
	"dibs/carrier/twilio"
)

type vector struct {
	Name, Token, URL, Body, Signature string
	Valid                             bool
}

func vectors(t testing.TB) (forms, bodies []vector) {
	t.Helper()
	b, err := os.ReadFile("testdata/signatures.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Forms, Bodies []vector }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Forms) == 0 || len(file.Bodies) == 0 {
		t.Fatal("no vectors")
	}
	return file.Forms, file.Bodies
}

func TestSignatures(t *testing.T) {
	forms, bodies := vectors(t)
	for _, v := range forms {
		t.Run(v.Name, func(t *testing.T) {
			form, err := url.ParseQuery(v.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := twilio.Validate(v.Token, v.Signature, v.URL, form); got != v.Valid {
				t.Errorf("got %v, want %v", got, v.Valid)
			}
			if twilio.Validate("", v.Signature, v.URL, form) || twilio.Validate(v.Token, "", v.URL, form) {
				t.Error("an empty token or signature is valid")
			}
			if !twilio.Validate(v.Token, twilio.Sign(v.Token, v.URL, form), v.URL, form) {
				t.Error("our own signature is not valid")
			}
		})
	}
	for _, v := range bodies {
		t.Run(v.Name, func(t *testing.T) {
			if got := twilio.ValidateBody(v.Token, v.Signature, v.URL, []byte(v.Body)); got != v.Valid {
				t.Errorf("got %v, want %v", got, v.Valid)
			}
		})
	}
}

const hook = "/v1/carriers/twilio/status/att_1"

func signed(t *testing.T, public, target string, form url.Values) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(twilio.SignatureHeader, twilio.Sign(token, public+target, form))
	return r
}

func statusForm(fields ...string) url.Values {
	form := url.Values{"CallSid": {"CA0123456789abcdef0123456789abcdef"}, "AccountSid": {account}, "CallStatus": {"in-progress"}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return form
}

func TestEvents(t *testing.T) {
	const public = "https://voice.example.com/behind/a/proxy"
	c := client(t, twilio.Config{PublicURL: public + "/", StatusPath: "/v1/carriers/twilio/status"})
	base := carrier.Event{Carrier: "twilio", ID: "CA0123456789abcdef0123456789abcdef", Attempt: "att_1", Status: carrier.InProgress, Seq: -1}
	with := func(change func(*carrier.Event)) carrier.Event {
		e := base
		change(&e)
		return e
	}
	for _, test := range []struct {
		name, target string
		form         url.Values
		want         carrier.Event
		err          error
	}{
		{"least", hook, statusForm(), base, nil},
		{"query", hook + "?x=1&y=a%20b", statusForm(), base, nil},
		{"escaped attempt", "/v1/carriers/twilio/status/a%20b", statusForm(), with(func(e *carrier.Event) { e.Attempt = "a b" }), nil},
		{"no attempt", "/v1/carriers/twilio/status/", statusForm(), with(func(e *carrier.Event) { e.Attempt = "" }), nil},
		{"another path", "/elsewhere/att_1", statusForm(), with(func(e *carrier.Event) { e.Attempt = "" }), nil},
		{"deeper path", hook + "/more", statusForm(), with(func(e *carrier.Event) { e.Attempt = "" }), nil},
		{"number", hook, statusForm("SequenceNumber", "2"), with(func(e *carrier.Event) { e.Seq = 2 }), nil},
		{"odd number", hook, statusForm("SequenceNumber", "-2"), base, nil},
		{"SIP before the end", hook, statusForm("SipResponseCode", "200"), base, nil},
		{"end", hook, statusForm("CallStatus", "no-answer", "SipResponseCode", "487", "CallDuration", "0"), with(func(e *carrier.Event) { e.Status, e.SIPCode = carrier.NoAnswer, 487 }), nil},
		{"odd end", hook, statusForm("CallStatus", "busy", "SipResponseCode", "9999999999999999999", "CallDuration", "-3"), with(func(e *carrier.Event) { e.Status = carrier.Busy }), nil},
		{"machine", hook, statusForm("AnsweredBy", "machine_start"), with(func(e *carrier.Event) { e.Answered = "machine_start" }), nil},
		{"machine, by itself", hook, statusForm("AnsweredBy", "machine_start", "CallStatus", ""), with(func(e *carrier.Event) { e.Status, e.Answered = carrier.InProgress, "machine_start" }), nil},
		{"a new word", hook, statusForm("AnsweredBy", "<robot>"), with(func(e *carrier.Event) { e.Answered = "unknown" }), nil},
		{"neither", hook, statusForm("CallStatus", ""), carrier.Event{}, carrier.ErrMalformed},
		{"unknown status", hook, statusForm("CallStatus", "thinking"), carrier.Event{}, carrier.ErrMalformed},
		{"no call", hook, statusForm("CallSid", "x"), carrier.Event{}, carrier.ErrMalformed},
		{"no account", hook, statusForm("AccountSid", ""), carrier.Event{}, carrier.ErrAccount},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := c.Event(signed(t, public, test.target, test.form))
			if got != test.want || !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Errorf("got %+v, %v; want %+v, %v", got, err, test.want, test.err)
			}
		})
	}

	t.Run("no public address", func(t *testing.T) {
		_, err := client(t, twilio.Config{}).Event(signed(t, "http://example.com", hook, statusForm()))
		if !errors.Is(err, carrier.ErrSignature) {
			t.Errorf("got %v, want ErrSignature", err)
		}
	})
	t.Run("other kinds of request", func(t *testing.T) {
		r := signed(t, public, hook, statusForm())
		r.Header.Set("Content-Type", "application/json")
		if _, err := c.Event(r); !errors.Is(err, carrier.ErrMalformed) {
			t.Errorf("json: got %v, want ErrMalformed", err)
		}
		r = signed(t, public, hook, statusForm())
		r.Method = http.MethodPut
		if _, err := c.Event(r); !errors.Is(err, carrier.ErrMalformed) {
			t.Errorf("put: got %v, want ErrMalformed", err)
		}
	})
	t.Run("by GET", func(t *testing.T) {
		target := hook + "?" + statusForm().Encode()
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Header.Set(twilio.SignatureHeader, twilio.Sign(token, public+target, nil))
		if got, err := c.Event(r); err != nil || got != base {
			t.Errorf("got %+v, %v; want %+v", got, err, base)
		}
	})
}

func FuzzSignature(f *testing.F) {
	forms, _ := vectors(f)
	for _, v := range forms {
		f.Add(v.Token, v.URL, v.Body, v.Signature)
	}
	f.Fuzz(func(t *testing.T, token, address, body, signature string) {
		form, err := url.ParseQuery(body)
		if err != nil || token == "" {
			return
		}
		sign := twilio.Sign(token, address, form)
		if !twilio.Validate(token, sign, address, form) {
			t.Errorf("our own signature of %q is not valid", address)
		}
		if twilio.Validate(token+"x", sign, address, form) {
			t.Errorf("another token's signature of %q is valid", address)
		}
		twilio.Validate(token, signature, address, form)
		twilio.ValidateBody(token, signature, address, []byte(body))
	})
}

func FuzzEvent(f *testing.F) {
	f.Add(hook, statusForm("SequenceNumber", "1").Encode())
	f.Add("/?%zz", "a=%zz;&=&")
	f.Fuzz(func(t *testing.T, target, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") {
			return
		}
		const public = "https://voice.example.com"
		c := client2(t, public)
		form, _ := url.ParseQuery(body)
		r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: http.NoBody}
		r.Body = readCloser(body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(twilio.SignatureHeader, twilio.Sign(token, public+target, form))
		e, err := c.Event(r)
		if err != nil && e != (carrier.Event{}) {
			t.Errorf("got %+v beside %v", e, err)
		}
		if err == nil && (e.ID == "" || e.Status == "" || strings.Contains(e.Attempt, "/")) {
			t.Errorf("got %+v", e)
		}
	})
}
