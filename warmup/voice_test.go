package warmup

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/internal/audio"
)

// heard is what a speech API was asked for.
type heard struct {
	Method, Path, Key string
	Body              map[string]any
}

// speechDouble is a speech API on loopback that speaks the wire of the real one.
type speechDouble struct {
	*httptest.Server
	requests chan heard
	answer   atomic.Pointer[http.HandlerFunc] // nil: sound
	sound    func(http.ResponseWriter)
}

func newSpeechDouble(t *testing.T, keyHeader string, sound func(http.ResponseWriter)) *speechDouble {
	d := &speechDouble{requests: make(chan heard, 64), sound: sound}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := heard{Method: r.Method, Path: r.URL.RequestURI(), Key: r.Header.Get(keyHeader)}
		if err := json.NewDecoder(r.Body).Decode(&h.Body); err != nil || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		d.requests <- h
		if f := d.answer.Load(); f != nil {
			(*f)(w, r)
			return
		}
		d.sound(w)
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *speechDouble) answers(f http.HandlerFunc) { d.answer.Store(&f) }

// sine is one second of 440 Hz.
func sine(rate int) []int16 {
	pcm := make([]int16, rate)
	for i := range pcm {
		pcm[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/float64(rate)))
	}
	return pcm
}

func littleEndian(pcm []int16) []byte {
	var b []byte
	for _, s := range pcm {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

// openAISound is how OpenAI sends pcm: chunks, and no word about the rate.
func openAISound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "audio/pcm")
	for part := range slices.Chunk(littleEndian(sine(openAIRate)), 4096+1) {
		w.Write(part)
		w.(http.Flusher).Flush()
	}
}

func elevenLabsSound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "audio/basic")
	for part := range slices.Chunk(audio.EncodeMuLaw(sine(audio.Rate)), 700) {
		w.Write(part)
		w.(http.Flusher).Flush()
	}
}

func newTestVoice(t *testing.T, cfg VoiceConfig) Voice {
	t.Helper()
	v, err := NewVoice(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestOpenAIVoice(t *testing.T) {
	noLeaks(t)
	t.Setenv("SPEECH_KEY", "s3cr3t")
	d := newSpeechDouble(t, "Authorization", openAISound)
	for _, base := range []string{d.URL, d.URL + "/", d.URL + "/v1", d.URL + "/v1/"} {
		w := newWarmer(t, Config{Voice: newTestVoice(t, VoiceConfig{Engine: VoiceOpenAI, URL: base, Key: "${SPEECH_KEY}"})})
		p := prepare(t, w, Call{Greeting: Greeting{Text: `Hello, "Ana" & <co>`, Voice: "nova", Locale: "en-GB"}})
		want := heard{"POST", "/v1/audio/speech", "Bearer s3cr3t", map[string]any{
			"model": "gpt-4o-mini-tts", "input": `Hello, "Ana" & <co>`, "voice": "nova", "response_format": "pcm",
		}}
		if diff := cmp.Diff(want, await(t, d.requests, "request")); diff != "" {
			t.Errorf("%s: request (-want +got):\n%s", base, diff)
		}
		wantSound(t, p.Greeting, audio.EncodeMuLaw(sine(audio.Rate)))
	}
}

func TestElevenLabsVoice(t *testing.T) {
	noLeaks(t)
	t.Setenv("SPEECH_KEY", "s3cr3t")
	d := newSpeechDouble(t, "xi-api-key", elevenLabsSound)
	for _, tc := range []struct {
		name string
		cfg  VoiceConfig
		g    Greeting
		path string
		body map[string]any
	}{
		{
			"as it comes",
			VoiceConfig{},
			Greeting{Text: "Hello"},
			"/v1/text-to-speech/JBFq/stream?output_format=ulaw_8000",
			map[string]any{"text": "Hello", "model_id": "eleven_flash_v2_5"},
		},
		{
			"voice and language",
			VoiceConfig{},
			Greeting{Text: "Hallo", Voice: "abc_1", Locale: "de_AT"},
			"/v1/text-to-speech/abc_1/stream?output_format=ulaw_8000",
			map[string]any{"text": "Hallo", "model_id": "eleven_flash_v2_5", "language_code": "de"},
		},
		{
			"a model that takes no language",
			VoiceConfig{Model: "eleven_multilingual_v2"},
			Greeting{Text: "Hallo", Locale: "de"},
			"/v1/text-to-speech/JBFq/stream?output_format=ulaw_8000",
			map[string]any{"text": "Hallo", "model_id": "eleven_multilingual_v2"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Engine, tc.cfg.URL, tc.cfg.Key, tc.cfg.Voice = VoiceElevenLabs, d.URL, "${SPEECH_KEY}", "JBFq"
			p := prepare(t, newWarmer(t, Config{Voice: newTestVoice(t, tc.cfg)}), Call{Greeting: tc.g})
			if diff := cmp.Diff(heard{"POST", tc.path, "s3cr3t", tc.body}, await(t, d.requests, "request")); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if want := audio.EncodeMuLaw(sine(audio.Rate)); !bytes.Equal(p.Greeting, want) {
				t.Error("the µ-law that the vendor sent is not what the caller hears")
			}
		})
	}
	t.Run("a voice that leads elsewhere", func(t *testing.T) {
		w := newWarmer(t, Config{Voice: newTestVoice(t, VoiceConfig{Engine: VoiceElevenLabs, URL: d.URL, Key: "k", Voice: "JBFq"})})
		for _, voice := range []string{"..", "a/b", "a?b", "%2e%2e"} {
			wantError(t, prepareFails(t, w, Call{Greeting: Greeting{Text: "x", Voice: voice}}), StepGreeting, GreetingFailed, true, "not the id of a voice")
		}
		if len(d.requests) != 0 {
			t.Errorf("asked for %v", <-d.requests)
		}
	})
}

// wantSound compares loudness over time: filters and µ-law change the samples.
func wantSound(t *testing.T, got, want []byte) {
	t.Helper()
	if len(got) != len(want) || len(got)%audio.FrameBytes != 0 {
		t.Fatalf("got %d bytes, want %d in whole frames", len(got), len(want))
	}
	rms := func(ulaw []byte) float64 {
		var sum float64
		for _, s := range audio.DecodeMuLaw(ulaw) {
			sum += float64(s) * float64(s)
		}
		return math.Sqrt(sum / float64(len(ulaw)))
	}
	g, w := audio.Frames(got), audio.Frames(want)
	for i := range g {
		if a, b := rms(g[i]), rms(w[i]); math.Abs(a-b) > b/10+50 {
			t.Fatalf("frame %d: loudness %.0f, want %.0f", i, a, b)
		}
	}
}

func TestSpeechEngineThatFails(t *testing.T) {
	body := func(status int, contentType, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "audio/pcm")
		zeros := make([]byte, 1<<20)
		for r.Context().Err() == nil {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	}
	halfway := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "audio/pcm")
		w.Write(make([]byte, 20_000))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		code   Code
		own    bool // the call's own fault, when it chose the voice
		text   string
	}{
		{"key refused", body(401, "application/json", `{"error": {"message": "Incorrect API key provided: s3cr3t", "code": "invalid_api_key"}}`), GreetingFailed, false, "HTTP 401 Unauthorized invalid_api_key"},
		{"quota", body(401, "application/json", `{"detail": {"status": "quota_exceeded", "message": "s3cr3t"}}`), GreetingFailed, false, "quota_exceeded"},
		{"rate limited", body(429, "application/json", `{"detail": {"status": "too_many_concurrent_requests"}}`, "Retry-After", "3"), ProviderRateLimited, false, "429 Too Many Requests too_many_concurrent_requests"},
		{"voice unknown", body(400, "application/json", `{"detail": {"status": "voice_not_found"}}`), GreetingFailed, true, "voice_not_found"},
		{"voice invalid", body(422, "application/json", `{"detail": [{"msg": "s3cr3t"}]}`), GreetingFailed, true, "422"},
		{"nothing there", body(404, "text/plain", "not found"), GreetingFailed, true, "404"},
		{"broken", body(500, "text/html", "<s3cr3t>"), GreetingFailed, false, "500"},
		{"elsewhere", body(307, "text/plain", "", "Location", "http://127.0.0.1:1/s3cr3t"), GreetingFailed, false, "307"},
		{"words for sound", body(200, "application/json", `{}`), GreetingFailed, false, "application/json in place of sound"},
		{"another format", body(200, "audio/mpeg", "ID3"), GreetingFailed, false, "audio/mpeg in place of pcm"},
		{"nothing", body(200, "audio/pcm", ""), GreetingFailed, false, "no sound"},
		{"half a sample", body(200, "audio/pcm", "abc"), GreetingFailed, false, "half a sample"},
		{"a file that is none", body(200, "audio/wav", "RIFFabc"), GreetingFailed, false, "WAV"},
		{"without end", endless, GreetingFailed, false, "more than 2m0s"},
		{"cut off", halfway, GreetingFailed, false, "EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			noLeaks(t)
			d := newSpeechDouble(t, "Authorization", openAISound)
			w := newWarmer(t, Config{
				Budget: patience, GreetingBudget: patience,
				Voice: newTestVoice(t, VoiceConfig{Engine: VoiceOpenAI, URL: d.URL, Key: "s3cr3t"}),
			})
			d.answers(tc.answer)
			mine := Call{Greeting: Greeting{Text: "Hello", Voice: "nova"}}
			e := prepareFails(t, w, mine)
			wantError(t, e, StepGreeting, tc.code, tc.own, tc.text)
			if strings.Contains(e.Error(), "s3cr3t") || strings.Contains(e.Error(), "127.0.0.1") {
				t.Errorf("the error tells too much: %v", e)
			}
			if tc.code == ProviderRateLimited && e.RetryAfter != 3*time.Second {
				t.Errorf("RetryAfter: got %v, want 3s", e.RetryAfter)
			}
			// The same with the bot's own voice would fail on every call.
			wantError(t, prepareFails(t, w, Call{Greeting: Greeting{Text: "Hello"}}), StepGreeting, tc.code, false, tc.text)

			// What was made for the first, if it was, is not kept: it is made again, whole.
			d.answer.Store(nil)
			wantSound(t, prepare(t, w, mine).Greeting, audio.EncodeMuLaw(sine(audio.Rate)))
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		noLeaks(t)
		d := newSpeechDouble(t, "", openAISound)
		d.Close()
		w := newWarmer(t, Config{Voice: newTestVoice(t, VoiceConfig{Engine: VoiceOpenAI, URL: d.URL})})
		wantError(t, prepareFails(t, w, Call{Greeting: Greeting{Text: "x"}}), StepGreeting, GreetingFailed, false, "connection refused")
	})
}

func TestOpenAICompatible(t *testing.T) {
	noLeaks(t)
	var wav bytes.Buffer
	if err := audio.WriteWAV(&wav, sine(22_050), 22_050); err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]func(http.ResponseWriter){
		"a WAV file": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "audio/wav")
			w.Write(wav.Bytes())
		},
		"a rate of its own": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "audio/L16; rate=16000; channels=1")
			w.Write(littleEndian(sine(16_000)))
		},
	} {
		d := newSpeechDouble(t, "Authorization", answer)
		p := prepare(t, newWarmer(t, Config{Voice: newTestVoice(t, VoiceConfig{Engine: VoiceOpenAI, URL: d.URL})}), Call{Greeting: Greeting{Text: "x"}})
		t.Log(name)
		wantSound(t, p.Greeting, audio.EncodeMuLaw(sine(audio.Rate)))
		if h := await(t, d.requests, "request"); h.Key != "" {
			t.Errorf("%s: sent the key %q, there is none", name, h.Key)
		}
	}
}
