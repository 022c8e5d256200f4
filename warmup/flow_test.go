package warmup

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseFlow(t *testing.T) {
	got, err := ParseFlow([]byte(`{
		"id": "recall", "version": "7",
		"greeting": {"text": "Hello, this is Ana.", "locale": "en-GB", "voice": "alloy"},
		"providers": {"stt": "acme", "llm": "brain-2"},
		"params": {"lang": "en"},
		"data": {"states": [{"say": "x"}], "id": 3}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Flow{
		ID: "recall", Version: "7",
		Greeting:  Greeting{Text: "Hello, this is Ana.", Locale: "en-GB", Voice: "alloy"},
		Providers: map[string]string{"stt": "acme", "llm": "brain-2"},
		Params:    map[string]string{"lang": "en"},
		Data:      json.RawMessage(`{"states": [{"say": "x"}], "id": 3}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flow (-want +got):\n%s", diff)
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ParseFlow(again); err != nil || !cmp.Equal(back.Greeting, got.Greeting) {
		t.Errorf("what is written is not read again: %v, %s", err, again)
	}
	if got, err := ParseFlow([]byte(` {"greeting":null} `)); err != nil || !cmp.Equal(got, &Flow{}) {
		t.Errorf("empty: got %+v, %v", got, err)
	}
}

func TestParseFlowNamesTheField(t *testing.T) {
	var many []string
	for i := range MaxParams + 1 {
		many = append(many, fmt.Sprintf(`"p%d":""`, i))
	}
	for _, tc := range []struct{ name, doc, field, detail string }{
		{"nothing", ``, "", "line 1, column 1"},
		{"no JSON", "{\n  \"id\": x}", "", "line 2, column 9: invalid character 'x'"},
		{"cut off", `{"id": "a"`, "", "unexpected end"},
		{"two documents", `{} {}`, "", "line 1, column 4"},
		{"a list", `[]`, "", "a list, want an object"},
		{"null", `null`, "", "null, want an object"},
		{"unknown field", `{"greetings": {}}`, "greetings", "there is no such field"},
		{"other case", `{"Id": "a"}`, "Id", "there is no such field"},
		{"unknown field below", `{"greeting": {"txt": ""}}`, "greeting.txt", "there is no such field"},
		{"twice", `{"id": "a", "id": "b"}`, "id", "twice"},
		{"twice below", `{"params": {"a": "1", "a": "2"}}`, "params.a", "twice"},
		{"id", `{"id": 7}`, "id", "a number, want a string"},
		{"id empty", `{"id": ""}`, "id", "1 to 128 letters"},
		{"id is a path", `{"id": "../etc/passwd"}`, "id", "1 to 128 letters"},
		{"version", `{"version": ["7"]}`, "version", "a list, want a string"},
		{"version long", `{"version": "` + strings.Repeat("7", 129) + `"}`, "version", "at most 128"},
		{"greeting", `{"greeting": "hello"}`, "greeting", "a string, want an object"},
		{"text", `{"greeting": {"text": true}}`, "greeting.text", "true or false, want a string"},
		{"text long", `{"greeting": {"text": "` + strings.Repeat("ö", MaxText+1) + `"}}`, "greeting.text", "1001 characters, at most 1000"},
		{"locale", `{"greeting": {"locale": "English"}}`, "greeting.locale", "want a language"},
		{"kind", `{"providers": {"asr": "acme"}}`, "providers.asr", "want stt, tts or llm"},
		{"provider", `{"providers": {"stt": {}}}`, "providers.stt", "an object, want a string"},
		{"param", `{"params": {"a": 1}}`, "params.a", "a number, want a string"},
		{"param's name", `{"params": {"a b": ""}}`, "params.a b", "1 to 128 letters"},
		{"param long", `{"params": {"a": "` + strings.Repeat("x", MaxParam) + `"}}`, "params.a", "401 bytes"},
		{"many params", `{"params": {` + strings.Join(many, ",") + `}}`, "params.p32", "more than 32"},
		{"data", `{"data": [1]}`, "data", "a list, want an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseFlow([]byte(tc.doc))
			e := coded(t, err)
			wantError(t, e, StepFlow, FlowMalformed, true, tc.detail)
			if e.Field != tc.field {
				t.Errorf("field: got %q, want %q", e.Field, tc.field)
			}
		})
	}
	_, err := ParseFlow([]byte(`{"data": {"a": "` + strings.Repeat("x", MaxFlow) + `"}}`))
	wantError(t, coded(t, err), StepFlow, FlowTooLarge, true, "at most 262144")
}

// Whatever comes: an error that says what kind it is, or a flow that is read
// again as the same flow.
func FuzzParseFlow(f *testing.F) {
	f.Add([]byte(`{"id":"a","version":"1","greeting":{"text":"x"},"providers":{"stt":"a"},"params":{"a":"b"},"data":{"x":[]}}`))
	f.Add([]byte(`{"id":"a","id":"b"}`))
	f.Add([]byte(`{"providers":{},"params":{}}`))
	f.Add([]byte("{\"data\":{\"\xff\":1}}"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		flow, err := ParseFlow(doc)
		if err != nil {
			if e := coded(t, err); !e.Permanent || strings.ContainsAny(e.Error(), "\n\r\x1b") {
				t.Fatalf("got %q, permanent %v", e, e.Permanent)
			}
			return
		}
		again, err := json.Marshal(flow)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > MaxFlow { // escaping can make it longer
			return
		}
		back, err := ParseFlow(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		flow.Data, back.Data = nil, nil
		if diff := cmp.Diff(flow, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestParseProviders(t *testing.T) {
	got, err := ParseProviders([]byte(`[
		{"name": "acme", "kind": "stt", "url": "wss://stt.example.com/v1", "headers": {"Authorization": "Token ${ACME_KEY}"},
		 "ping_ms": -1, "hello": "{\"type\":\"start\"}", "expect": true, "timeout_ms": 1500},
		{"name": "brain", "kind": "llm", "url": "https://llm.example.com/health"}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Provider{
		{
			Name: "acme", Kind: STT, URL: "wss://stt.example.com/v1", Headers: map[string]string{"Authorization": "Token ${ACME_KEY}"},
			Ping: -1 * ms, Hello: `{"type":"start"}`, Expect: true, Timeout: 1500 * ms,
		},
		{Name: "brain", Kind: LLM, URL: "https://llm.example.com/health"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for doc, text := range map[string]string{
		`{}`:                      "an object, want a list",
		`[{"nam": ""}]`:           "providers[0].nam: there is no such field",
		`[{}, {"ping_ms": "1s"}]`: "providers[1].ping_ms: want an integer",
		`[{"expect": 1}]`:         "providers[0].expect: a number",
		`[{"headers": {"a": 1}}]`: "providers[0].headers.a: a number",
		`[`:                       "line 1",
	} {
		if _, err := ParseProviders([]byte(doc)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want an error with %q", doc, err, text)
		}
	}
}
