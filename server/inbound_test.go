package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"dibs/api"
	"dibs/call"
	"dibs/carrier"
	"dibs/carrier/twilio"
	"dibs/server"
	"dibs/settings"
)

// desk answers every question as it is told, and remembers them.
type desk struct {
	mu    sync.Mutex
	do    carrier.Instruction
	asked []string
}

func (d *desk) note(s string) carrier.Instruction {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, s)
	return d.do
}

func (d *desk) Answer(_ context.Context, q carrier.Question) carrier.Instruction {
	return d.note("in " + q.From + " " + q.To)
}

func (d *desk) Next(_ context.Context, attempt string, q carrier.Question) carrier.Instruction {
	return d.note("next " + attempt)
}

func (d *desk) Attempt(id string) string { return "in_" + id + "-1" }

func TestQuestions(t *testing.T) {
	d := &desk{do: carrier.Instruction{Media: &carrier.Media{URL: "wss://m.example/m/b/t"}, Next: public + "/v1/carriers/twilio/next/x-1"}}
	w := newWorld(t, func(c *server.Config) { c.Reception = d })
	inbound := api.InboundPath("twilio")
	r := w.hook(inbound, authToken, form("ringing"))
	if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/xml") || !strings.Contains(string(r.body), `<Stream url="wss://m.example/m/b/t">`) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	w.hook(api.NextPath("twilio")+"call_x-1", authToken, form("in-progress"))
	if got := strings.Join(d.asked, ", "); got != "in "+from+" "+to+", next call_x-1" {
		t.Errorf("asked %q", got)
	}
	for _, tt := range []struct {
		name string
		send func() reply
		code string
	}{
		{"unsigned", func() reply {
			return w.ask("POST", inbound, form("ringing").Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded")
		}, api.CodeBadSignature},
		{"a token of ours is no signature", func() reply {
			return w.ask("POST", inbound, form("ringing").Encode(), "Authorization", "Bearer "+admin, "Content-Type", "application/x-www-form-urlencoded")
		}, api.CodeBadSignature},
		{"another account", func() reply {
			return w.hook(inbound, authToken, form("ringing", "AccountSid", "ACffffffffffffffffffffffffffffffff"))
		}, api.CodeBadSignature},
		{"signed for the status path", func() reply {
			f := form("ringing")
			return w.ask("POST", inbound, f.Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded",
				twilio.SignatureHeader, twilio.Sign(authToken, public+inbound+"/status", f))
		}, api.CodeBadSignature},
		{"no call id", func() reply { return w.hook(inbound, authToken, form("ringing", "CallSid", "x")) }, api.CodeBadWebhook},
		{"a form of 70 KiB", func() reply { return w.hook(inbound, authToken, form("ringing", "X", strings.Repeat("a", 70<<10))) }, api.CodeBadWebhook},
		{"another carrier", func() reply { return w.hook(api.InboundPath("telnyx"), authToken, form("ringing")) }, api.CodeUnknownCarrier},
	} {
		t.Run(tt.name, func(t *testing.T) { denied(t, tt.send(), tt.code) })
	}
	if len(d.asked) != 2 {
		t.Errorf("a refused question was asked: %q", d.asked[2:])
	}
	d.do = carrier.Instruction{Media: &carrier.Media{URL: "http://not-a-socket"}}
	if r := w.hook(inbound, authToken, form("ringing")); r.status != 200 || !strings.Contains(string(r.body), "<Hangup>") {
		t.Errorf("an instruction that cannot be said: %d %s", r.status, r.body)
	}
	if s := w.log.String(); strings.Contains(s, "/m/b/t") {
		t.Error("the log holds a media token")
	}
}

// memory keeps numbers and checkpoints.
type memory struct {
	numbers map[string]api.Number
	left    map[string]string
	fault   error
}

func (m *memory) Number(_ context.Context, number string) (api.Number, error) {
	n, ok := m.numbers[number]
	if !ok {
		return n, settings.ErrNotFound
	}
	return n, m.fault
}

func (m *memory) Numbers(context.Context) (out []api.Number, err error) {
	for _, n := range m.numbers {
		out = append(out, n)
	}
	return out, m.fault
}

func (m *memory) Put(_ context.Context, n api.Number) error {
	if err := settings.Check(n); err != nil {
		return err
	}
	m.numbers[n.Number] = n
	return m.fault
}

func (m *memory) Delete(ctx context.Context, number string) error {
	if _, err := m.Number(ctx, number); err != nil {
		return err
	}
	delete(m.numbers, number)
	return nil
}

type left struct{ m *memory }

func (l left) Put(_ context.Context, id string, data json.RawMessage) error {
	l.m.left[id] = string(data)
	return l.m.fault
}

func TestNumbers(t *testing.T) {
	m := &memory{numbers: map[string]api.Number{}}
	w := newWorld(t, func(c *server.Config) { c.Numbers = m })
	const path = "/v1/numbers/+493012345678"
	denied(t, w.ask("PUT", path, map[string]any{"org_id": "acme"}), api.CodeForbidden)
	denied(t, w.ask("GET", path, nil, as(admin)...), api.CodeNumberNotFound)
	n := read[api.Number](t, w.ask("PUT", path, map[string]any{"org_id": "acme", "call_back": true}, as(admin)...), 200)
	if n.Number != "+493012345678" || n.Region != region || !n.CallBack {
		t.Errorf("put %+v", n)
	}
	if got := read[api.Number](t, w.ask("GET", "/v1/numbers/%2B493012345678", nil, as(admin)...), 200); got.Org != "acme" {
		t.Errorf("got %+v", got)
	}
	if p := read[api.NumberPage](t, w.ask("GET", "/v1/numbers", nil, as(admin)...), 200); len(p.Numbers) != 1 {
		t.Errorf("all: %+v", p)
	}
	denied(t, w.ask("PUT", path, map[string]any{"org_id": "acme", "callback": true}, as(admin)...), api.CodeUnknownField)
	denied(t, w.ask("PUT", path, map[string]any{"org_id": "acme", "number": "+4930999999"}, as(admin)...), api.CodeInvalidField)
	denied(t, w.ask("PUT", "/v1/numbers/12", map[string]any{"org_id": "acme"}, as(admin)...), api.CodeInvalidField)
	p := denied(t, w.ask("PUT", path, map[string]any{"org_id": "a.b", "language": "in German", "max_call_ms": 5}, as(admin)...), api.CodeInvalidField)
	if len(p.Errors) != 3 {
		t.Errorf("%+v, want three fields", p.Errors)
	}
	if r := w.ask("DELETE", path, nil, as(admin)...); r.status != 204 {
		t.Errorf("delete: %d %s", r.status, r.body)
	}
	denied(t, w.ask("DELETE", path, nil, as(admin)...), api.CodeNumberNotFound)
	m.fault = settings.ErrUnavailable
	denied(t, w.ask("GET", "/v1/numbers", nil, as(admin)...), api.CodeUnavailable)
}

func TestCheckpoint(t *testing.T) {
	m := &memory{left: map[string]string{}}
	w := newWorld(t, func(c *server.Config) { c.Checkpoints = left{m} })
	id := read[api.Call](t, w.ask("POST", "/v1/calls", body()), 202).ID
	path := "/v1/calls/" + id + "/checkpoint"
	for _, data := range []string{`{"step":1}`, `[1,2]`, `"` + strings.Repeat("x", 8190) + `"`} {
		if r := w.ask("POST", path, data); r.status != 204 || m.left[id] != data {
			t.Errorf("%.20s: %d %s, kept %.20s", data, r.status, r.body, m.left[id])
		}
	}
	denied(t, w.ask("POST", path, `"`+strings.Repeat("x", 8191)+`"`), api.CodeInvalidField)
	denied(t, w.ask("POST", path, `{"step":`), api.CodeMalformedJSON)
	denied(t, w.ask("POST", path, `{}`, as(viewer)...), api.CodeForbidden)
	denied(t, w.ask("POST", "/v1/calls/call_nobody/checkpoint", `{}`), api.CodeCallNotFound)
	m.fault = errors.New("NATS is away")
	denied(t, w.ask("POST", path, `{}`), api.CodeUnavailable)
	m.fault = nil
	w.ask("DELETE", "/v1/calls/"+id, nil)
	denied(t, w.ask("POST", path, `{}`), api.CodeCallEnded)
}

// TestRandomWebhooks sends ten thousand webhooks of every kind, in any order, signed
// or not, whole or broken: none is answered with a fault of ours, and every call ends
// as the first end that was signed for it says, or stays where it was.
func TestRandomWebhooks(t *testing.T) {
	d := &desk{}
	w := newWorld(t, func(c *server.Config) { c.Reception = d })
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	h := w.srv.Handler()
	type life struct {
		attempt string
		end     call.State
	}
	lives := map[string]*life{}
	var ids []string
	for i := range 50 {
		id := read[api.Call](t, w.ask("POST", "/v1/calls", body("to", fmt.Sprintf("+49151123%05d", i))), 202).ID
		ids = append(ids, id)
		lives[id] = &life{attempt: w.calls.dial(id)}
	}
	ends := map[string]call.State{"completed": "completed", "busy": "busy", "no-answer": "no_answer", "canceled": "cancelled", "failed": "failed"}
	for n := range 10_000 {
		id := ids[rnd.IntN(len(ids))]
		l := lives[id]
		status := pick("queued", "initiated", "ringing", "in-progress", "completed", "busy", "no-answer", "canceled", "failed", "levitating", "")
		f := url.Values{
			"AccountSid": {account}, "CallSid": {fmt.Sprintf("CA%032x", n%50)}, "CallStatus": {status}, "From": {from}, "To": {to},
			"SequenceNumber": {pick("0", "1", "-1", "x", "99999999999999999999")}, "CallDuration": {pick("", "3", "-3", "1e9", "٣")},
			"SipResponseCode": {pick("", "200", "486", "-1", "9999")}, "AnsweredBy": {pick("", "human", "machine_start", "<b>")},
		}
		sane := true
		switch rnd.IntN(8) {
		case 0:
			f.Set("CallSid", pick("", "CA", "CA"+strings.Repeat("g", 32), strings.Repeat("C", 5000)))
			sane = false
		case 1:
			f.Set("AccountSid", pick("", "AC", "ACffffffffffffffffffffffffffffffff"))
			sane = false
		case 2:
			f.Add(pick("CallStatus", "CallSid", "\x00", "é"), pick("", "x", "completed"))
		}
		path := pick(api.StatusPath("twilio")+l.attempt, api.StatusPath("twilio")+l.attempt, api.StatusPath("twilio")+l.attempt,
			api.StatusPath("twilio")+id+"-7", api.InboundPath("twilio"), api.InboundPath("twilio")+"/status", api.NextPath("twilio")+l.attempt)
		text := f.Encode()
		sign := twilio.Sign(authToken, public+path, f)
		switch rnd.IntN(10) {
		case 0:
			sign, sane = pick("", "AAAA", sign[1:]), false
		case 1:
			text = text[:rnd.IntN(len(text))]
			sane = false
		case 2:
			text = pick("%zz", "\xff\xfe", "{}", strings.Repeat("a=b&", 20_000))
			sane = false
		}
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(text))
		r.Header.Set("Content-Type", pick("application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=UTF-8"))
		r.Header.Set(twilio.SignatureHeader, sign)
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		if got.Code >= 500 || got.Code < 200 {
			t.Fatalf("%s %q was answered %d %s", path, text, got.Code, got.Body)
		}
		if state, ok := ends[f.Get("CallStatus")]; ok && sane && strings.HasSuffix(path, l.attempt) && strings.HasPrefix(path, api.StatusPath("twilio")) && l.end == "" {
			if got.Code != http.StatusNoContent {
				t.Fatalf("a signed end was answered %d %s", got.Code, got.Body)
			}
			l.end = state
		}
	}
	for id, l := range lives {
		rec := w.calls.record(id)
		if l.end == "" || rec.State != l.end || rec.Check() != nil {
			t.Errorf("%s: %s (%v), want %q", id, rec.State, rec.Check(), l.end)
		}
	}
}
