package warmup

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/audio"
)

// script makes a program in place of espeak-ng.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "espeak-ng")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEspeakIsRunWithCare(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	var wav bytes.Buffer
	if err := audio.WriteWAV(&wav, sine(22_050), 22_050); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "wav"), wav.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	// It knows no voice but German, and dies of the others as the real one can.
	path := script(t, `cd "`+dir+`" || exit 1
echo "$*" >>args
cat >text
case "$*" in *"-v de") cat wav ;; *) kill -SEGV $$ ;; esac
`)
	w := newWarmer(t, Config{Voice: newTestVoice(t, VoiceConfig{Engine: VoiceEspeak, Program: path})})
	text := `$(touch owned) --help; 'x' "y"` + "\n`z` ü"
	p := prepare(t, w, Call{Greeting: Greeting{Text: text, Voice: "alloy", Locale: "de_AT"}})
	wantSound(t, p.Greeting, audio.EncodeMuLaw(sine(audio.Rate)))
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil {
		t.Fatal(err)
	}
	const options = "--stdin --stdout -b 1 -v "
	if want := options + "alloy\n" + options + "de-at\n" + options + "de\n"; string(args) != want {
		t.Errorf("run as:\n%s\nwant:\n%s", args, want)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "text")); err != nil || string(got) != text {
		t.Errorf("read %q, %v; want the text as it is", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "owned")); err == nil {
		t.Error("the text was run by a shell")
	}
	for _, voice := range []string{"--path=/", "../../etc/passwd", "-w/x"} {
		if _, _, err := w.greeter.voice.Speak(t.Context(), "x", voice, "de"); err != nil {
			t.Errorf("%q: %v, want the locale's voice", voice, err)
		}
	}
	if args, _ = os.ReadFile(filepath.Join(dir, "args")); strings.Contains(string(args), "path") || strings.Contains(string(args), "-w") {
		t.Errorf("run as:\n%s", args)
	}
	e := prepareFails(t, w, Call{Greeting: Greeting{Text: "x", Locale: "fr"}})
	wantError(t, e, StepGreeting, GreetingFailed, false, "segmentation fault")
}

func TestEspeakThatMisbehaves(t *testing.T) {
	for _, tc := range []struct{ name, script, text string }{
		{"no sound", `exit 0`, "no sound"},
		{"noise", `echo noise`, "RIFF"},
		{"endless", `exec cat /dev/zero`, "over the limit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			noLeaks(t)
			w := newWarmer(t, Config{
				Budget: patience, GreetingBudget: patience,
				Voice: newTestVoice(t, VoiceConfig{Engine: VoiceEspeak, Program: script(t, tc.script)}),
			})
			wantError(t, prepareFails(t, w, Call{Greeting: Greeting{Text: "x"}}), StepGreeting, GreetingFailed, false, tc.text)
		})
	}
}

func TestRealEspeak(t *testing.T) {
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skip("espeak-ng is not installed")
	}
	noLeaks(t)
	w := newWarmer(t, Config{Voice: newTestVoice(t, VoiceConfig{})}) // auto finds it
	if _, ok := w.greeter.voice.(*espeak); !ok {
		t.Fatalf("auto chose %T", w.greeter.voice)
	}
	for _, g := range []Greeting{
		{Text: "Good morning, this is the dental practice."},
		{Text: "Guten Morgen, hier ist die Zahnarztpraxis.", Locale: "de-DE"},
		{Text: "Good morning, this is the dental practice.", Voice: "alloy", Locale: "xx"}, // known to others, not here
	} {
		p := prepare(t, w, Call{Greeting: g})
		seconds := float64(len(p.Greeting)) / audio.Rate
		if seconds < 1 || seconds > 10 || !audio.Loud(audio.DecodeMuLaw(p.Greeting)) {
			t.Errorf("%+v: got %.1f s, loud %v", g, seconds, audio.Loud(audio.DecodeMuLaw(p.Greeting)))
		}
	}
}

func TestToneVoice(t *testing.T) {
	speak := func(text string) []int16 {
		pcm, rate, err := tone{}.Speak(t.Context(), text, "", "")
		if err != nil || rate != audio.Rate {
			t.Fatalf("%q: rate %d, %v", text, rate, err)
		}
		return pcm
	}
	a := speak("Hello, this is the dental practice. How are you?")
	if !slices.Equal(a, speak("Hello, this is the dental practice. How are you?")) {
		t.Error("the same text is not the same tune")
	}
	if slices.Equal(a, speak("Hello, this is the garage. How are you?")) {
		t.Error("another text is the same tune")
	}
	if !audio.Loud(a[:audio.FrameBytes*2]) {
		t.Error("it begins with silence")
	}
	if got := len(speak(strings.Repeat("word ", MaxText/5))); got > samples(longestTune+time.Second) {
		t.Errorf("the longest text takes %d samples", got)
	}
	if got := len(speak("日本語 … ‼ é")); got == 0 {
		t.Error("nothing for other scripts")
	}
	// A listener that waits for the tag must not hear one in the tune.
	var d audio.Detector
	for i := range 50 {
		d.Write(speak(fmt.Sprintf("Hello %d, this is number %d of the practice, speaking words %s.", i, i*7919, strings.Repeat("ab", i%9))))
	}
	if got := d.Digits(); got != "" {
		t.Errorf("the tune has the digits %q in it", got)
	}
}
