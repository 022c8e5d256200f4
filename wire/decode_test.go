package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"dibs/wire"
)

// aRequest is the least that is a request.
func aRequest() wire.ClaimRequest {
	return wire.ClaimRequest{
		V: wire.Version, ClaimID: "c1", CallID: "call_1", Phase: wire.PhasePool, Attempt: 1,
		AcceptMS: 150, ReadyMS: 10_000, Region: "eu-west",
	}
}

func TestEncodeRefusesWhatNobodyWouldTake(t *testing.T) {
	tests := []struct {
		name  string
		msg   wire.Message
		want  error
		field string
	}{
		{"a request without a call", wire.ClaimRequest{V: 1, ClaimID: "c1", Region: "eu-west", AcceptMS: 1, ReadyMS: 1}, wire.ErrInvalid, "call_id"},
		{"a ready without a URL", wire.Reply{V: 1, Status: wire.Ready, ClaimID: "c1", BotID: "b1"}, wire.ErrInvalid, "media.url"},
		{"a control without a word", wire.Control{V: 1, ClaimID: "c1"}, wire.ErrInvalid, "say"},
		{"a beat without seats", wire.Beat{V: 1, BotID: "b1", Region: "eu-west", Pool: "default"}, wire.ErrInvalid, "seats"},
		{"a beat of too many seats", wire.Beat{V: 1, BotID: "b1", Region: "eu-west", Pool: "default", Seats: make([]wire.SeatView, wire.MaxSeats+1)}, wire.ErrInvalid, "seats"},
		{"an answer of nobody", wire.Answer{V: 1, OK: true}, wire.ErrInvalid, "bot_id"},
		{"a detail of 64 KiB", wire.Reply{V: 1, Status: wire.Failed, ClaimID: "c1", BotID: "b1", Detail: strings.Repeat("x", wire.MaxMessage)}, wire.ErrTooLarge, ""},
		{"a flow that is no JSON", with(func(r *wire.ClaimRequest) { r.Flow.Inline = json.RawMessage("{") }), wire.ErrMalformed, ""},
		{"a version below 0", with(func(r *wire.ClaimRequest) { r.V = -1 }), wire.ErrInvalid, "v"},
		{"a version of tomorrow", with(func(r *wire.ClaimRequest) { r.V = wire.Version + 1 }), wire.ErrInvalid, "v"},
		{"metadata that is blank", with(func(r *wire.ClaimRequest) { r.Metadata = json.RawMessage(" \n\t") }), wire.ErrInvalid, "metadata"},
		{"metadata that is no JSON", with(func(r *wire.ClaimRequest) { r.Metadata = json.RawMessage("{") }), wire.ErrInvalid, "metadata"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := wire.Encode(tt.msg)
			if !errors.Is(err, tt.want) {
				t.Fatalf("wrote %d bytes, error %v, want %v", len(data), err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.field) {
				t.Errorf("error %v does not name %q", err, tt.field)
			}
		})
	}
}

func with(change func(*wire.ClaimRequest)) wire.ClaimRequest {
	r := aRequest()
	change(&r)
	return r
}

// TestEncodeIsNoHTML holds that a greeting travels as it is written, on one line.
func TestEncodeIsNoHTML(t *testing.T) {
	r := aRequest()
	r.Greeting.Text, r.Metadata = "<b>Anna & co</b>", json.RawMessage(`{"a":"x>y"}`)
	data, err := wire.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"<b>Anna & co</b>"`, `{"a":"x>y"}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s does not contain %s", data, want)
		}
	}
	if data[len(data)-1] != '}' {
		t.Errorf("%q ends in something else than the object", data)
	}
	kept := string(data)
	if _, err := wire.Encode(aRequest()); err != nil || string(data) != kept {
		t.Errorf("the next message (error %v) changed the first: %s", err, data)
	}
}

// TestErrorsTellNoMore holds the errors that are logged: they show a bad token
// only in part, and never the rest of the message.
func TestErrorsTellNoMore(t *testing.T) {
	r := aRequest()
	r.CallID, r.To = strings.Repeat("y", 60)+" ", "+31612345678"
	_, err := wire.Encode(r)
	if err == nil || strings.Contains(err.Error(), r.To) || strings.Contains(err.Error(), strings.Repeat("y", 41)) {
		t.Errorf("error %v", err)
	}
}

func TestMillis(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want wire.Millis
	}{
		{0, 0},
		{999 * time.Microsecond, 0},
		{150 * time.Millisecond, 150},
		{1500*time.Millisecond + 999*time.Microsecond, 1500},
		{24 * time.Hour, 86_400_000},
	} {
		got := wire.ToMillis(tt.d)
		if got != tt.want {
			t.Errorf("ToMillis(%v) = %d, want %d", tt.d, got, tt.want)
		}
		if back := got.Duration(); back > tt.d || tt.d-back >= time.Millisecond {
			t.Errorf("%v became %v", tt.d, back)
		}
	}
}

func TestMillisNeverOverflow(t *testing.T) {
	const longest = math.MaxInt64 / time.Millisecond * time.Millisecond
	for ms, want := range map[wire.Millis]time.Duration{
		math.MaxInt64:     longest,
		math.MinInt64:     -longest,
		1<<53 - 1:         longest,
		9_223_372_036_854: 9_223_372_036_854 * time.Millisecond,
		-1:                -time.Millisecond,
	} {
		if got := ms.Duration(); got != want {
			t.Errorf("%d ms are %v, want %v", int64(ms), got, want)
		}
	}
}

// TestTheLongestBeatFits fills every field of a beat to its bound, with what
// takes the most room when written.
func TestTheLongestBeatFits(t *testing.T) {
	word, name, token := strings.Repeat("~", wire.MaxWord), strings.Repeat("~", wire.MaxName), strings.Repeat("x", wire.MaxToken)
	note := strings.Repeat("\x01", wire.MaxNote) // \u0001: six bytes for one
	b := wire.Beat{
		V: wire.Version, BotID: token, Instance: word, Seq: math.MaxUint64, Revision: word, Region: token, Pool: token,
		Pod:      wire.Pod{Name: name, Namespace: name, Node: name},
		MediaURL: strings.Repeat("~", wire.MaxURL),
		Cordoned: true, Draining: true, Goodbye: true, NotReady: note,
		Breaker: &wire.BreakerView{State: strings.Repeat("~", 16), Failures: math.MinInt64, LastError: note, RetryMS: 1<<53 - 1},
		RSS:     math.MinInt64, Calls: math.MinInt64, UptimeMS: 1<<53 - 1,
		Minute: wire.Minute{Ended: math.MinInt64, Failed: math.MinInt64, Errors: math.MinInt64, Turns: math.MinInt64, FirstAudioP95MS: 1<<53 - 1},
	}
	for range wire.MaxSeats {
		b.Seats = append(b.Seats, wire.SeatView{State: wire.SeatState(strings.Repeat("~", 16)), ForMS: 1<<53 - 1, CallID: token, Stuck: true})
	}
	for range wire.MaxFlows {
		b.Flows = append(b.Flows, word)
	}
	for range 16 {
		b.Protocols = append(b.Protocols, math.MinInt64)
	}
	data, err := wire.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), "null"); n > 0 || len(data) < wire.MaxMessage*3/4 {
		t.Errorf("%d bytes with %d nulls: not every field was filled", len(data), n)
	}
	b.Flows = append(b.Flows, "one-more")
	if _, err := wire.Encode(b); !errors.Is(err, wire.ErrInvalid) {
		t.Errorf("one flow more: %v", err)
	}
}

// TestFit makes a beat that says too much one that can be sent, and leaves any
// other as it is.
func TestFit(t *testing.T) {
	b := wire.Beat{
		V: 1, BotID: "b1", Region: "eu-west", Pool: "default", Seats: []wire.SeatView{{State: wire.SeatIdle}},
		NotReady: strings.Repeat("é", wire.MaxNote), // cut in the middle of one
		MediaURL: "wss://" + strings.Repeat("x", wire.MaxURL),
		Breaker:  &wire.BreakerView{State: "open", LastError: strings.Repeat("x", wire.MaxNote+1)},
		Flows:    []string{"recall@7", "with a space", strings.Repeat("x", wire.MaxWord+1), "naïve"},
	}
	for i := range wire.MaxFlows {
		b.Flows = append(b.Flows, fmt.Sprint("flow-", i))
	}
	got := b.Fit()
	if _, err := wire.Encode(got); err != nil {
		t.Fatal(err)
	}
	if len(got.Flows) != wire.MaxFlows || got.Flows[0] != "recall@7" || got.Flows[1] != "flow-0" {
		t.Errorf("flows %q", got.Flows)
	}
	if got.MediaURL != "" {
		t.Errorf("media_url of %d bytes: half an address is none", len(got.MediaURL))
	}
	if want := strings.Repeat("é", wire.MaxNote/2); got.NotReady != want || len(got.Breaker.LastError) != wire.MaxNote {
		t.Errorf("not_ready %q, last_error of %d bytes", got.NotReady, len(got.Breaker.LastError))
	}
	if len(b.Breaker.LastError) != wire.MaxNote+1 || b.Flows[1] != "with a space" {
		t.Error("the beat it was made from has changed")
	}
	if diff := gocmp.Diff(got, got.Fit()); diff != "" {
		t.Errorf("a beat that fits was changed: %s", diff)
	}
}

func TestSeatStates(t *testing.T) {
	for _, s := range []wire.SeatState{wire.SeatIdle, wire.SeatClaimed, wire.SeatWarming, wire.SeatAssigned, wire.SeatLive, wire.SeatWrapup} {
		if !s.Known() {
			t.Errorf("%q is not known", s)
		}
	}
	for _, s := range []wire.SeatState{"", "IDLE", "busy"} {
		if s.Known() {
			t.Errorf("%q is known", s)
		}
	}
}

// TestRequestsComeBack writes and reads any request that passes its own check.
func TestRequestsComeBack(t *testing.T) {
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`)
	word := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 40, -1))
	ms := rapid.Map(rapid.Int64Range(0, 86_400_000), func(n int64) wire.Millis { return wire.Millis(n) })
	rapid.Check(t, func(t *rapid.T) {
		want := wire.ClaimRequest{
			V: wire.Version, ClaimID: token.Draw(t, "claim"), CallID: token.Draw(t, "call"), Phase: wire.Phase(word.Draw(t, "phase")),
			Attempt: rapid.Int().Draw(t, "attempt"), AcceptMS: 1 + ms.Draw(t, "accept")/2, ReadyMS: 1 + ms.Draw(t, "ready")/2,
			MediaMS: ms.Draw(t, "media"), MaxCallMS: ms.Draw(t, "max call"), WaitedMS: ms.Draw(t, "waited"),
			Region: token.Draw(t, "region"), Pool: rapid.OneOf(rapid.Just(""), token).Draw(t, "pool"), Org: word.Draw(t, "org"),
			Class: word.Draw(t, "class"), From: word.Draw(t, "from"), To: word.Draw(t, "to"),
			Flow:      wire.Flow{ID: word.Draw(t, "flow"), URL: word.Draw(t, "url")},
			Greeting:  wire.Greeting{Text: word.Draw(t, "text")},
			Providers: rapid.MapOfN(word, word, 0, 3).Draw(t, "providers"),
		}
		data, err := wire.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.Decode[wire.ClaimRequest](data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got, same...); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// same compares messages by what they mean: an empty map or list is none, and
// raw JSON is its value and not its white space.
var same = gocmp.Options{
	cmpopts.EquateEmpty(),
	gocmp.FilterValues(
		func(a, b json.RawMessage) bool { return len(a)+len(b) > 0 },
		gocmp.Transformer("value", func(raw json.RawMessage) any {
			d := json.NewDecoder(strings.NewReader(string(raw)))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				return string(raw)
			}
			return v
		}),
	),
}

func FuzzDecodeClaimRequest(f *testing.F) { fuzz[wire.ClaimRequest](f, "claim_request") }
func FuzzDecodeReply(f *testing.F)        { fuzz[wire.Reply](f, "reply") }
func FuzzDecodeBeat(f *testing.F)         { fuzz[wire.Beat](f, "beat") }
func FuzzDecodeControl(f *testing.F)      { fuzz[wire.Control](f, "control") }
func FuzzDecodeCommand(f *testing.F)      { fuzz[wire.Command](f, "command") }

// fuzz reads anything at all, starting from the vectors: it never panics, every
// refusal has one of the four words, and what was read is read again the same
// after it was written.
func fuzz[T wire.Message](f *testing.F, file string) {
	data, err := os.ReadFile(filepath.Join("..", "testdata", "protocol", file+".json"))
	if err != nil {
		f.Fatal(err)
	}
	var seeds vectorFile
	if err := json.Unmarshal(data, &seeds); err != nil {
		f.Fatal(err)
	}
	for _, v := range seeds.Vectors {
		if v.Fill == 0 { // the long ones only slow the fuzzer down
			f.Add([]byte(v.seed()))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := wire.Decode[T](data)
		if err != nil {
			for _, known := range decodeErrors {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatalf("an error of no known kind: %v", err)
		}
		written, err := wire.Encode(first)
		if errors.Is(err, wire.ErrTooLarge) {
			return // escapes can make it longer than it came
		}
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		second, err := wire.Decode[T](written)
		if err != nil {
			t.Fatalf("written but not read: %v", err)
		}
		if diff := gocmp.Diff(first, second, same...); diff != "" {
			t.Fatalf("read twice (-first +second):\n%s", diff)
		}
	})
}

func (v vector) seed() string {
	var s string
	if json.Unmarshal(v.JSON, &s) == nil {
		return s
	}
	return string(v.JSON)
}

// A bot in another language reads what this writes; docs/PROTOCOL.md has the fields.
func ExampleEncode() {
	data, err := wire.Encode(wire.Reply{
		V: wire.Version, Status: wire.Ready, ClaimID: "c1", BotID: "b1",
		Media: wire.Media{URL: "wss://bot.example/m/b1/9f2c", ExpiresMS: wire.ToMillis(75 * time.Second)},
	})
	fmt.Println(string(data), err)
	// Output:
	// {"v":1,"status":"ready","claim_id":"c1","bot_id":"b1","seat":0,"media":{"url":"wss://bot.example/m/b1/9f2c","expires_ms":75000}} <nil>
}

func ExampleDecode() {
	_, err := wire.Decode[wire.Control]([]byte(`{"v":1,"say":"confirm"}`))
	fmt.Println(errors.Is(err, wire.ErrInvalid), err)
	// Output:
	// true invalid message: claim_id: not a subject token: empty
}
