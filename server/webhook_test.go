package server_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"dibs/api"
	"dibs/call"
	"dibs/carrier/twilio"
	"dibs/server"
)

const sid = "CA0123456789abcdef0123456789abcdef"

// hook is a status webhook as the carrier sends it, signed with token.
func (w *world) hook(path, token string, form url.Values) reply {
	w.t.Helper()
	return w.ask("POST", path, form.Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded",
		twilio.SignatureHeader, twilio.Sign(token, public+path, form))
}

func form(status string, more ...string) url.Values {
	f := url.Values{"AccountSid": {account}, "CallSid": {sid}, "CallStatus": {status}, "From": {from}, "To": {to}}
	for i := 0; i < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return f
}

func TestWebhooks(t *testing.T) {
	w := newWorld(t)
	id := read[api.Call](t, w.ask("POST", "/v1/calls", body()), 202).ID
	attempt := w.calls.dial(id)
	path := api.StatusPath("twilio") + attempt

	for _, tt := range []struct {
		name string
		send func() reply
		code string
	}{
		{"unsigned", func() reply {
			return w.ask("POST", path, form("ringing").Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded")
		}, api.CodeBadSignature},
		{"a token of ours is no signature", func() reply {
			return w.ask("POST", path, form("ringing").Encode(), "Authorization", "Bearer "+admin, "Content-Type", "application/x-www-form-urlencoded")
		}, api.CodeBadSignature},
		{"another key", func() reply { return w.hook(path, "another-key", form("ringing")) }, api.CodeBadSignature},
		{"signed for another attempt", func() reply {
			f := form("ringing")
			return w.ask("POST", path, f.Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded",
				twilio.SignatureHeader, twilio.Sign(authToken, public+api.StatusPath("twilio")+"call_other-1", f))
		}, api.CodeBadSignature},
		{"changed on the way", func() reply {
			return w.ask("POST", path, form("completed").Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded",
				twilio.SignatureHeader, twilio.Sign(authToken, public+path, form("ringing")))
		}, api.CodeBadSignature},
		{"another account", func() reply {
			return w.hook(path, authToken, form("ringing", "AccountSid", "ACffffffffffffffffffffffffffffffff"))
		}, api.CodeBadSignature},
		{"no call id", func() reply { return w.hook(path, authToken, form("ringing", "CallSid", "")) }, api.CodeBadWebhook},
		{"a status of the future", func() reply { return w.hook(path, authToken, form("levitating")) }, api.CodeBadWebhook},
		{"no form", func() reply { return w.ask("POST", path, body(), "Authorization", "") }, api.CodeBadWebhook},
		{"a form of 70 KiB", func() reply { return w.hook(path, authToken, form("ringing", "X", strings.Repeat("a", 70<<10))) }, api.CodeBadWebhook},
		{"another carrier", func() reply { return w.hook(api.StatusPath("telnyx")+attempt, authToken, form("ringing")) }, api.CodeUnknownCarrier},
	} {
		t.Run(tt.name, func(t *testing.T) { denied(t, tt.send(), tt.code) })
	}
	if _, _, events := w.calls.counts(); events != 0 || w.calls.record(id).State != call.Dialing {
		t.Fatalf("%d events, call %s: want nothing believed", events, w.calls.record(id).State)
	}

	heard := func(path, status string, want call.State) {
		t.Helper()
		if r := w.hook(path, authToken, form(status)); r.status != 204 || len(r.body) != 0 {
			t.Fatalf("%s: %d %s, want 204", status, r.status, r.body)
		}
		if got := w.calls.record(id); got.State != want {
			t.Errorf("after %s: %s, want %s", status, got.State, want)
		}
	}
	heard(path, "ringing", call.Ringing)
	if a := w.calls.record(id).Current(); a == nil || a.CarrierID != sid {
		t.Errorf("attempt %+v, want the carrier's id", a)
	}
	heard(path, "in-progress", call.Live)
	heard(path, "ringing", call.Live) // late
	heard(path, "completed", "completed")
	before := w.calls.record(id)
	heard(path, "completed", "completed") // again
	heard(path, "in-progress", "completed")
	if after := w.calls.record(id); after.Changes != before.Changes {
		t.Errorf("a replay changed the record %d times", after.Changes-before.Changes)
	}
	for _, unknown := range []string{"call_nobody-1", id + "-99", "x", "a.b", "%2a", "caf%C3%A9"} {
		heard(api.StatusPath("twilio")+unknown, "ringing", "completed")
	}

	w.calls.set(func(l *ledger) { l.onOther = func(string) error { return api.ErrUnavailable } })
	if r := w.hook(path, authToken, form("completed")); r.header.Get("Retry-After") == "" {
		t.Errorf("nobody in office: %d without Retry-After", r.status)
	} else {
		denied(t, r, api.CodeNobodyInOffice)
	}
	w.calls.set(func(l *ledger) { l.onOther = func(string) error { return errors.New("disk full") } })
	denied(t, w.hook(path, authToken, form("completed")), api.CodeInternal)

	got := string(w.ask("GET", "/metrics", nil, "Authorization", "").body)
	for _, want := range []string{
		`dibs_carrier_webhooks_total{carrier="twilio",result="applied"} 6`,
		`dibs_carrier_webhooks_total{carrier="twilio",result="unknown_call"} 6`,
		`dibs_carrier_webhooks_total{carrier="twilio",result="bad_signature"} 6`,
		`dibs_carrier_webhooks_total{carrier="twilio",result="malformed"} 4`,
		`dibs_carrier_webhooks_total{carrier="twilio",result="unavailable"} 1`,
		`dibs_carrier_webhooks_total{carrier="twilio",result="failed"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	if s := w.log.String(); strings.Contains(s, "15112345678") || strings.Contains(s, authToken) || strings.Contains(s, sid) {
		t.Errorf("the log holds a number, a secret or a form:\n%s", s)
	}
}

func TestNoCarrier(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Carrier = nil })
	denied(t, w.hook(api.StatusPath("twilio")+"x-1", authToken, form("ringing")), api.CodeUnknownCarrier)
}
