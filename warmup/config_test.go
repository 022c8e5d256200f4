package warmup

import (
	"strings"
	"testing"
)

func TestConfigNamesTheField(t *testing.T) {
	t.Setenv("ACME_KEY", "s3cr3t")
	t.Setenv("TWO_LINES", "s3cr3t\r\nX-Evil: 1")
	t.Setenv("EMPTY", " ")
	ok := Provider{Name: "acme", Kind: STT, URL: "wss://stt.example.com"}
	with := func(f func(*Provider)) Config {
		p := ok
		f(&p)
		return Config{Providers: []Provider{p}}
	}
	for _, tc := range []struct {
		name string
		cfg  Config
		text string
	}{
		{"budget", Config{Budget: -1}, "Budget"},
		{"greeting budget", Config{GreetingBudget: -1}, "GreetingBudget"},
		{"name", with(func(p *Provider) { p.Name = "a b" }), "Providers[0].Name"},
		{"kind", with(func(p *Provider) { p.Kind = "asr" }), "Providers[0].Kind: want stt, tts or llm"},
		{"scheme", with(func(p *Provider) { p.URL = "ftp://a" }), "Providers[0].URL: want ws, wss, http or https"},
		{"host", with(func(p *Provider) { p.URL = "wss:///x" }), "Providers[0].URL"},
		{"user part", with(func(p *Provider) { p.URL = "wss://me:s3cr3t@a" }), "Providers[0].URL"},
		{"unset", with(func(p *Provider) { p.Headers = map[string]string{"X-Key": "Token ${NOT_SET_HERE}"} }), "Providers[0].Headers: X-Key: environment variable NOT_SET_HERE is not set"},
		{"empty", with(func(p *Provider) { p.Headers = map[string]string{"X-Key": "${EMPTY}"} }), "environment variable EMPTY is not set"},
		{"unset in the URL", with(func(p *Provider) { p.URL = "wss://a/${NOT_SET_HERE}" }), "Providers[0].URL: environment variable NOT_SET_HERE"},
		{"open", with(func(p *Provider) { p.Headers = map[string]string{"X-Key": "${ACME_KEY"} }), "Headers: X-Key: ${ without"},
		{"two lines", with(func(p *Provider) { p.Headers = map[string]string{"X-Key": "${TWO_LINES}"} }), "X-Key: its value has control characters"},
		{"header", with(func(p *Provider) { p.Headers = map[string]string{"X Key": ""} }), `"X Key" is no header name`},
		{"timeout", with(func(p *Provider) { p.Timeout = -1 }), "Providers[0].Timeout"},
		{"hello over HTTP", with(func(p *Provider) { p.URL, p.Hello = "https://a", "x" }), "Hello, Expect"},
		{"twice", Config{Providers: []Provider{ok, ok}}, `Providers[1].Name: stt "acme" is there twice`},
		{"dir", Config{Flows: Flows{Dir: "/not/there"}}, "Flows.Dir"},
		{"template without id", Config{Flows: Flows{Template: "https://a/flow"}}, "Flows.Template"},
		{"template of the host", Config{Flows: Flows{Template: "https://{id}.example.com/{id}"}}, "Flows.Template"},
		{"template's user", Config{Flows: Flows{Template: "https://me:s3cr3t@a/{id}"}}, "Flows.Template"},
		{"template's scheme", Config{Flows: Flows{Template: "file:///{id}"}}, "Flows.Template"},
		{"flow headers", Config{Flows: Flows{Headers: map[string]string{"A": "${NOT_SET_HERE}"}}}, "Flows.Headers: A: environment variable"},
		{"origin with a path", Config{Flows: Flows{Origins: []string{"https://a/flows"}}}, "Flows.Origins"},
		{"origin without a scheme", Config{Flows: Flows{Origins: []string{"flows.example.com"}}}, "Flows.Origins"},
		{"flow timeout", Config{Flows: Flows{Timeout: -1}}, "Flows.Timeout"},
		{"voices", Config{Voices: map[string]Voice{"a": nil}}, `Voices["a"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New(tc.cfg)
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("got %v, want an error with %q", err, tc.text)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error tells the key: %v", err)
			}
		})
	}
	if _, err := New(with(func(p *Provider) { p.Headers = map[string]string{"X-Key": "$5 and ${ACME_KEY}"} })); err != nil {
		t.Errorf("a header from the environment: %v", err)
	}
}

func TestVoiceConfigNamesTheField(t *testing.T) {
	t.Setenv("TWO_LINES", "s3cr3t\nx")
	for _, tc := range []struct {
		cfg  VoiceConfig
		text string
	}{
		{VoiceConfig{Engine: "festival"}, "VoiceConfig.Engine"},
		{VoiceConfig{Engine: VoiceEspeak, Program: "/not/there"}, "VoiceConfig.Program"},
		{VoiceConfig{Engine: VoiceOpenAI, Key: "${NOT_SET_HERE}"}, "VoiceConfig.Key: environment variable NOT_SET_HERE"},
		{VoiceConfig{Engine: VoiceOpenAI, Key: "${TWO_LINES}"}, "VoiceConfig.Key"},
		{VoiceConfig{Engine: VoiceOpenAI, URL: "ftp://a"}, "VoiceConfig.URL"},
		{VoiceConfig{Engine: VoiceOpenAI, URL: "https://me:s3cr3t@a"}, "VoiceConfig.URL"},
		{VoiceConfig{Engine: VoiceElevenLabs, Voice: "v"}, "VoiceConfig.Key"},
		{VoiceConfig{Engine: VoiceElevenLabs, Key: "k"}, "VoiceConfig.Voice"},
	} {
		if _, err := NewVoice(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%+v: got %v, want an error with %q", tc.cfg, err, tc.text)
		}
	}
	if v := newTestVoice(t, VoiceConfig{Engine: VoiceAuto, Program: "/not/there"}); v != (tone{}) {
		t.Errorf("auto without espeak-ng: got %T, want tone", v)
	}
	for _, e := range []string{VoiceOpenAI, VoiceElevenLabs} {
		if v := newTestVoice(t, VoiceConfig{Engine: e, Key: "k", Voice: "v"}); v == nil {
			t.Errorf("%s with the vendor's own URL: got nothing", e)
		}
	}
}
