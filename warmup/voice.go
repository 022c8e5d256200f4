package warmup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"
)

// Voice turns text into speech: 16-bit samples of one channel, rate a second
// (1 to 192,000). Voice and locale are wishes, empty for the voice's own. It must
// end soon after ctx does, and an error that wraps [ErrVoiceRefused] says that
// what was asked for cannot be had.
type Voice interface {
	Speak(ctx context.Context, text, voice, locale string) (pcm []int16, rate int, err error)
}

// ErrVoiceRefused says that a speech engine does not accept the voice, the
// language or the text: the fault of whoever chose them.
var ErrVoiceRefused = errors.New("refused by the speech engine")

// maxSpeech is the longest greeting that is taken from an engine.
const maxSpeech = 2 * time.Minute

// The engines of [VoiceConfig].
const (
	VoiceAuto       = "auto"       // espeak-ng where it is installed, else tone
	VoiceTone       = "tone"       // built in: short tones in place of words
	VoiceEspeak     = "espeak"     // the program espeak-ng
	VoiceOpenAI     = "openai"     // POST /v1/audio/speech, at OpenAI or anything compatible
	VoiceElevenLabs = "elevenlabs" // POST /v1/text-to-speech/{voice}/stream
)

// VoiceConfig chooses a speech engine. The zero value is auto and needs nothing.
type VoiceConfig struct {
	Engine  string // one of the engines; "": auto
	URL     string // openai, elevenlabs: the API's base; "": the vendor's own
	Key     string // openai, elevenlabs: the account's key, best as ${NAME} of the environment; openai may go without
	Model   string // "": gpt-4o-mini-tts, eleven_flash_v2_5
	Voice   string // when neither call nor flow chooses; "": alloy; elevenlabs has none of its own and needs one
	Program string // espeak: its path; "": espeak-ng on PATH
}

// NewVoice makes the chosen voice. The error names the field.
func NewVoice(cfg VoiceConfig) (Voice, error) {
	switch cfg.Engine {
	case "", VoiceAuto:
		if path, err := exec.LookPath(cmp.Or(cfg.Program, "espeak-ng")); err == nil {
			return &espeak{path, cfg.Voice}, nil
		}
		return tone{}, nil
	case VoiceTone:
		return tone{}, nil
	case VoiceEspeak:
		path, err := exec.LookPath(cmp.Or(cfg.Program, "espeak-ng"))
		if err != nil {
			return nil, fmt.Errorf("VoiceConfig.Program: %w", err)
		}
		return &espeak{path, cfg.Voice}, nil
	case VoiceOpenAI, VoiceElevenLabs:
		return newVendor(cfg)
	}
	return nil, fmt.Errorf("VoiceConfig.Engine: %q, want auto, tone, espeak, openai or elevenlabs", oneLine(cfg.Engine))
}

func newVendor(cfg VoiceConfig) (Voice, error) {
	key, err := expand(cfg.Key)
	if err == nil {
		_, err = headers(map[string]string{"Key": cfg.Key})
	}
	if err != nil {
		return nil, fmt.Errorf("VoiceConfig.Key: %w", err)
	}
	base := cfg.URL
	if base == "" {
		base = "https://api.openai.com"
		if cfg.Engine == VoiceElevenLabs {
			base = "https://api.elevenlabs.io"
		}
	}
	u, err := url.Parse(base)
	if err != nil || origin(u) == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("VoiceConfig.URL: want an http or https URL without user part and query")
	}
	// People give the base with and without the version; both mean the same.
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	v := vendor{
		base: u, key: key, model: cfg.Model, voice: cfg.Voice,
		client: &http.Client{Transport: newTransport(5 * time.Second), CheckRedirect: noRedirect},
	}
	if cfg.Engine == VoiceOpenAI {
		v.model, v.voice = cmp.Or(v.model, "gpt-4o-mini-tts"), cmp.Or(v.voice, "alloy")
		return &openAI{v}, nil
	}
	if v.key == "" {
		return nil, errors.New("VoiceConfig.Key: elevenlabs needs one")
	}
	if v.voice == "" {
		return nil, errors.New("VoiceConfig.Voice: elevenlabs needs one")
	}
	v.model = cmp.Or(v.model, "eleven_flash_v2_5")
	return &elevenLabs{v}, nil
}
