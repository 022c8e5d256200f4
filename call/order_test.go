package call_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dibs/call"
)

// full is an order with every field set.
func full() call.Order {
	o := order()
	o.CallID, o.Pool, o.Carrier, o.To, o.From = "call_01J-x", "default", "twilio", "+4915112345689", "+4930123456"
	o.Flow = call.Flow{ID: "recall", Version: "7", URL: "https://flows.example/recall", Inline: json.RawMessage(`{"a":1}`)}
	o.Greeting = call.Greeting{Text: "Guten Tag", Locale: "de-DE", Voice: "anna"}
	o.Needs = map[string][]string{"stt": {"deepgram", "assemblyai"}, "tts": {"cartesia"}}
	o.Metadata = json.RawMessage(`{"customer":{"name":"Ada"}}`)
	o.NotBefore, o.NotAfter = sec(60), sec(86400)
	o.Hours = call.Hours{"mon": {{Open: 9 * 60, Close: 12 * 60}, {Open: 14 * 60, Close: 24 * 60}}, "sun": nil}
	o.TZ = "Europe/Berlin"
	o.Retry = &call.RetryPolicy{
		MaxAttempts: 4, BackoffMS: []call.Millis{60_000}, On: []call.Outcome{call.Busy, call.FailedTemporary},
		Hours: call.Hours{"mon": {{Open: 9 * 60, Close: 10 * 60}}}, MinGapMS: 1,
	}
	o.RingMS, o.MediaMS, o.MaxCallMS = 30_000, 75_000, 600_000
	o.NoWait, o.RequestHash, o.Detect = true, "5e884898", "message_end"
	o.CallBack, o.CallbackURL = true, "https://crm.example/hooks?x=1"
	o.Try, o.Root, o.RetryOf, o.CallbackOf = 2, "r", "q", "p"
	return o
}

func TestOrderRoundTrip(t *testing.T) {
	o := full()
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("the test leaves %s empty", v.Type().Field(i).Name)
		}
	}
	data, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := call.DecodeOrder(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(o, got); d != "" {
		t.Error(d)
	}
	later := strings.Replace(string(data), `{"v":1`, `{"v":1,"a_field_of_tomorrow":{"x":[1]}`, 1)
	if got, err := call.DecodeOrder([]byte(later)); err != nil || got.CallID != o.CallID {
		t.Errorf("with an unknown field: %v", err)
	}
	direct := strings.Replace(string(data), `"class":"campaign"`, `"class":"direct"`, 1)
	if got, err := call.DecodeOrder([]byte(direct)); err != nil || got.Class != call.ClassAPI {
		t.Errorf("direct: got class %q, %v", got.Class, err)
	}
}

// Hours without an interval are never; they must not become "always" on the way.
func TestNeverStaysNever(t *testing.T) {
	data, err := json.Marshal(call.RetryPolicy{Hours: call.Hours{}})
	if err != nil {
		t.Fatal(err)
	}
	var p call.RetryPolicy
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Hours.Earliest(t0, time.UTC); ok {
		t.Errorf("got open hours from %s", data)
	}
}

func TestOrderCheck(t *testing.T) {
	if err := order().Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		field  string
		change func(*call.Order)
	}{
		{"v", func(o *call.Order) { o.V = 0 }},
		{"v", func(o *call.Order) { o.V = 2 }},
		{"call_id", func(o *call.Order) { o.CallID = "" }},
		{"call_id", func(o *call.Order) { o.CallID = "a.b" }},
		{"call_id", func(o *call.Order) { o.CallID = strings.Repeat("x", 65) }},
		{"org_id", func(o *call.Order) { o.Org = "acme > *" }},
		{"campaign_id", func(o *call.Order) { o.Campaign = "" }},
		{"region", func(o *call.Order) { o.Region = "" }},
		{"pool", func(o *call.Order) { o.Pool = "a b" }},
		{"carrier", func(o *call.Order) { o.Carrier = "../x" }},
		{"class", func(o *call.Order) { o.Class = "urgent" }},
		{"to", func(o *call.Order) { o.To = "004915112345689" }},
		{"to", func(o *call.Order) { o.To = "+49 151 12345689" }},
		{"to", func(o *call.Order) { o.To = "+0151123456" }},
		{"to", func(o *call.Order) { o.To = "+1234567890123456" }},
		{"to", func(o *call.Order) { o.To = "+４９1511234" }},
		{"from", func(o *call.Order) { o.From = "" }},
		{"try", func(o *call.Order) { o.Try = -1 }},
		{"ring_ms", func(o *call.Order) { o.RingMS = 4_999 }},
		{"media_ms", func(o *call.Order) { o.MediaMS = -1 }},
		{"max_call_ms", func(o *call.Order) { o.MaxCallMS = 1 << 62 }},
		{"needs", func(o *call.Order) { o.Needs = map[string][]string{"": {"x"}} }},
		{"needs.stt", func(o *call.Order) { o.Needs = map[string][]string{"stt": nil} }},
		{"needs.stt", func(o *call.Order) { o.Needs = map[string][]string{"stt": {"a b"}} }},
		{"metadata", func(o *call.Order) { o.Metadata = json.RawMessage(`[1]`) }},
		{"metadata", func(o *call.Order) { o.Metadata = json.RawMessage(`  `) }},
		{"metadata", func(o *call.Order) {
			o.Metadata = json.RawMessage(`{"x":"` + strings.Repeat("y", call.MaxMetadata) + `"}`)
		}},
		{"flow.inline", func(o *call.Order) { o.Flow.Inline = json.RawMessage(`{`) }},
		{"callback_url", func(o *call.Order) { o.CallbackURL = "/relative" }},
		{"callback_url", func(o *call.Order) { o.CallbackURL = "file:///etc/passwd" }},
		{"not_after", func(o *call.Order) { o.NotBefore, o.NotAfter = sec(1), sec(1) }},
		{"not_before", func(o *call.Order) { o.NotBefore = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"hours", func(o *call.Order) { o.TZ, o.Hours = "UTC", call.Hours{} }},
		{"hours", func(o *call.Order) { o.TZ, o.Hours = "UTC", call.Hours{"monday": {{Open: 1, Close: 2}}} }},
		{"hours", func(o *call.Order) { o.TZ, o.Hours = "UTC", call.Hours{"mon": {{Open: 22 * 60, Close: 2 * 60}}} }},
		{"tz", func(o *call.Order) { o.TZ = "Berlin" }},
		{"tz", func(o *call.Order) { o.TZ = "Local" }},
		{"tz", func(o *call.Order) { o.Hours = call.Hours{"mon": {{Open: 1, Close: 2}}} }}, // +1 has many zones
		{"retry.max_attempts", func(o *call.Order) { o.Retry = &call.RetryPolicy{MaxAttempts: 21} }},
		{"retry.backoff_ms", func(o *call.Order) { o.Retry = &call.RetryPolicy{BackoffMS: []call.Millis{-1}} }},
		{"retry.min_gap_ms", func(o *call.Order) { o.Retry = &call.RetryPolicy{MinGapMS: 1 << 60} }},
		{"retry.on", func(o *call.Order) { o.Retry = &call.RetryPolicy{On: []call.Outcome{call.Completed}} }},
		{"retry.hours", func(o *call.Order) { o.TZ, o.Retry = "UTC", &call.RetryPolicy{Hours: call.Hours{}} }},
		{"retry.hours", func(o *call.Order) {
			o.TZ, o.Hours = "UTC", call.Hours{"mon": {{Open: 60, Close: 120}}}
			o.Retry = &call.RetryPolicy{Hours: call.Hours{"mon": {{Open: 120, Close: 180}}}}
		}},
	} {
		o := order()
		c.change(&o)
		err := o.Check()
		fe, ok := errors.AsType[*call.FieldError](err)
		if !ok || fe.Field != c.field {
			t.Errorf("got error %v, want one of field %s", err, c.field)
			continue
		}
		if strings.Contains(err.Error(), "12345689") {
			t.Errorf("the error shows a number: %v", err)
		}
		if _, err := o.Encode(); !errors.Is(err, call.ErrInvalid) {
			t.Errorf("%s: encode: got %v, want ErrInvalid", c.field, err)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       error
	}{
		{"empty", ``, call.ErrMalformed},
		{"no object", `[]`, call.ErrMalformed},
		{"null", `null`, call.ErrInvalid},
		{"wrong type", `{"v":1,"to":5}`, call.ErrMalformed},
		{"cut off", `{"v":1,`, call.ErrMalformed},
		{"newer", `{"v":2}`, call.ErrVersion},
		{"newer, other types", `{"v":2,"to":{"e164":"+1"}}`, call.ErrVersion},
		{"nothing in it", `{"v":1}`, call.ErrInvalid},
		{"bad hours", `{"v":1,"hours":{"mon":[["9:00","20:00"]]}}`, call.ErrMalformed},
		{"bad interval", `{"v":1,"hours":{"mon":[["09:00"]]}}`, call.ErrMalformed},
		{"too large", `{"v":1,"x":"` + strings.Repeat("x", call.MaxRecord) + `"}`, call.ErrTooLarge},
	} {
		if _, err := call.DecodeOrder([]byte(c.data)); !errors.Is(err, c.want) {
			t.Errorf("order %s: got %v, want %v", c.name, err, c.want)
		}
		want := c.want
		if strings.HasPrefix(c.name, "bad ") || c.name == "wrong type" {
			want = call.ErrInvalid // a record has its order one level below
		}
		if _, err := call.DecodeRecord([]byte(c.data)); !errors.Is(err, want) {
			t.Errorf("record %s: got %v, want %v", c.name, err, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"+4915112345689":   "+49151•••89",
		"+15550100":        "+15•••00",
		"+2901234":         "+2•••34",
		"+123456789012345": "+12345•••45",
		"anonymous":        "•••",
		"":                 "",
	} {
		if got := call.MaskNumber(in); got != want {
			t.Errorf("mask %q: got %q, want %q", in, got, want)
		}
	}
	for number, want := range map[string]string{
		"+4915112345689": "Europe/Berlin", "+353861234567": "Europe/Dublin", "+85212345678": "Asia/Hong_Kong",
		"+15550100": "", "+34612345678": "", "+351912345678": "", "+79161234567": "", "49151": "",
	} {
		tz, ok := call.ZoneOf(number)
		if tz != want || ok != (want != "") {
			t.Errorf("zone of %s: got %q %v, want %q", number, tz, ok, want)
		}
	}
	for n := range 1000 { // every zone in the table exists
		if tz, ok := call.ZoneOf("+" + pad(n) + "5550100"); ok {
			zone(t, tz)
		}
	}
}

func pad(n int) string {
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

func TestWords(t *testing.T) {
	for s, want := range map[string]call.Class{"api": call.ClassAPI, "direct": call.ClassAPI, "campaign": call.ClassCampaign} {
		if got, err := call.ParseClass(s); got != want || err != nil {
			t.Errorf("class %q: got %q, %v", s, got, err)
		}
	}
	if _, err := call.ParseClass("Direct"); err == nil {
		t.Error("class Direct: want an error")
	}
	for i, c := range call.Classes() {
		if c.Rank() != i || c.Direct() != (c != call.ClassCampaign) {
			t.Errorf("%s: rank %d, direct %v", c, c.Rank(), c.Direct())
		}
	}
	if call.Class("x").Direct() || call.Class("x").Rank() != -1 {
		t.Error("an unknown class is direct or has a rank")
	}
	want := map[call.State]bool{call.Placing: true, call.Dialing: true, call.Ringing: true, call.Live: true}
	for _, s := range append(call.States(), "new_state") {
		if call.InFlight(s) != want[s] {
			t.Errorf("%s in flight: %v", s, call.InFlight(s))
		}
		if s.Terminal() && call.InFlight(s) || s.Known() == (s == "new_state") {
			t.Errorf("%s: terminal %v, known %v", s, s.Terminal(), s.Known())
		}
	}
}

// TestDecodeAnything: whatever stands in the store, reading it is an error or gives
// something sound, and the machine goes on with that.
func TestDecodeAnything(t *testing.T) {
	rec := after(call.New(full(), t0), ev(call.EvAdmitted)...)
	sound, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		data := []byte(string(sound))
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
			data[at] = rapid.SampledFrom([]byte(`{}[]",:0123-xtn`)).Draw(t, "byte")
		}
		r, err := call.DecodeRecord(data)
		if err != nil {
			return
		}
		for _, k := range everyKind {
			if next, _ := call.Apply(r, call.Event{Kind: k, Outcome: call.Busy, CarrierID: "CA"}, sec(500)); next.Check() != nil {
				t.Fatalf("%s: %v", k, next.Check())
			}
		}
	})
}
