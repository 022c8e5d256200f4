package twilio_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"dibs/carrier"
	"dibs/carrier/twilio"
)

func TestAsked(t *testing.T) {
	const public, path = "https://dibs.example", "/v1/inbound/twilio"
	c := client2(t, public)
	form := func(more ...string) url.Values {
		f := url.Values{
			"AccountSid": {account}, "CallSid": {"CA0123456789abcdef0123456789abcdef"},
			"From": {"+4915112345678"}, "To": {"+493012345678"}, "CallStatus": {"ringing"},
		}
		for i := 0; i < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	for _, tt := range []struct {
		name string
		form url.Values
		from string
		err  error
	}{
		{"a caller", form(), "+4915112345678", nil},
		{"a caller who withholds", form("From", "+266696687"), "", nil},
		{"anonymous in words", form("From", "Anonymous"), "", nil},
		{"a SIP address", form("From", "sip:alice@example.com"), "", nil},
		{"a line of another account", form("AccountSid", "ACffffffffffffffffffffffffffffffff"), "", carrier.ErrAccount},
		{"no call id", form("CallSid", ""), "", carrier.ErrMalformed},
		{"to a SIP address", form("To", "sip:dibs@example.com"), "", carrier.ErrMalformed},
		{"a status of the future", form("CallStatus", "levitating"), "", carrier.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, err := c.Asked(signed(t, public, path, tt.form))
			if !errors.Is(err, tt.err) || tt.err == nil && err != nil {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if err == nil && (q.From != tt.from || q.To != "+493012345678" || q.Status != carrier.Ringing || !strings.HasPrefix(q.ID, "CA")) {
				t.Errorf("got %+v", q)
			}
		})
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form().Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if _, err := c.Asked(r); !errors.Is(err, carrier.ErrSignature) {
		t.Errorf("unsigned: %v", err)
	}
}

func TestInstruct(t *testing.T) {
	c := client2(t, "https://dibs.example")
	media := &carrier.Media{URL: "wss://media.example/m/b/t", Params: map[string]string{"dibs_call_id": "in_1"}}
	for _, tt := range []struct {
		name string
		i    carrier.Instruction
		want string
	}{
		{"end it", carrier.Instruction{}, `<Hangup></Hangup>`},
		{"busy", carrier.Instruction{Busy: true}, `<Reject reason="busy"></Reject>`},
		{"a sentence", carrier.Instruction{Say: "Bye & thanks", Language: "en-GB"}, `<Say language="en-GB">Bye &amp; thanks</Say><Hangup></Hangup>`},
		{"a bot", carrier.Instruction{Media: media, Next: "https://dibs.example/n"}, `<Connect><Stream url="wss://media.example/m/b/t"><Parameter name="dibs_call_id" value="in_1"></Parameter></Stream></Connect><Redirect method="POST">https://dibs.example/n</Redirect>`},
		{"a bot and nothing after it", carrier.Instruction{Media: media, Busy: true, Say: "no"}, `<Connect><Stream url="wss://media.example/m/b/t"><Parameter name="dibs_call_id" value="in_1"></Parameter></Stream></Connect>`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kind, body, err := c.Instruct(tt.i)
			if err != nil || !strings.HasPrefix(kind, "text/xml") {
				t.Fatalf("%q, %v", kind, err)
			}
			if got := string(body); !strings.HasSuffix(got, "<Response>"+tt.want+"</Response>") {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if _, _, err := c.Instruct(carrier.Instruction{Media: &carrier.Media{URL: "wss://m.example/x?token=1"}}); err == nil {
		t.Error("a query string was taken")
	}
}

func TestPlaceDetects(t *testing.T) {
	var got url.Values
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		got = r.PostForm
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"sid":"CA0123456789abcdef0123456789abcdef","status":"queued"}`))
	}))
	defer srv.Close()
	c := client(t, twilio.Config{BaseURL: srv.URL})
	for detect, want := range map[string]string{"": "", carrier.DetectAnswer: "Enable", carrier.DetectMessageEnd: "DetectMessageEnd"} {
		d := dial()
		d.Detect, d.MaxCall, d.StatusURL = detect, time.Minute, "https://dibs.example.com/status/1"
		if _, err := c.Place(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if got.Get("MachineDetection") != want || got.Get("TimeLimit") != "60" {
			t.Errorf("detect %q: asked %q, limit %q", detect, got.Get("MachineDetection"), got.Get("TimeLimit"))
		}
		beside, tell := "", "" // of all, only this one may not keep a person waiting
		if detect == carrier.DetectAnswer {
			beside, tell = "true", d.StatusURL
		}
		if got.Get("AsyncAmd") != beside || got.Get("AsyncAmdStatusCallback") != tell {
			t.Errorf("detect %q: beside the call %q, told %q", detect, got.Get("AsyncAmd"), got.Get("AsyncAmdStatusCallback"))
		}
	}
	d := dial()
	d.Detect = "guess"
	if _, err := c.Place(t.Context(), d); carrier.VerdictOf(err) != carrier.Refused {
		t.Errorf("an unknown detection: %v", err)
	}
}
