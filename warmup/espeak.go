package warmup

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"dibs/internal/audio"
)

// espeak runs the program espeak-ng. The text goes in by its standard input, the
// sound comes out as a WAV file; there is no shell and no file.
type espeak struct {
	path  string
	voice string
}

// espeakRate bounds what is read: its highest rate, in bytes a second.
const espeakRate = 2 * 48_000

var espeakVoice = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]{0,63}$`)

// Speak tries the voice that was asked for, then the locale's, the language's and
// English: espeak-ng crashes on some names it does not know, and a greeting
// written for another engine should still be heard.
func (v *espeak) Speak(ctx context.Context, text, voice, locale string) ([]int16, int, error) {
	locale = strings.ToLower(strings.ReplaceAll(locale, "_", "-"))
	language, _, _ := strings.Cut(locale, "-")
	var tried []string
	var err error
	for _, name := range []string{voice, locale, language, v.voice, "en"} {
		if !espeakVoice.MatchString(name) || slices.Contains(tried, name) {
			continue
		}
		tried = append(tried, name)
		var out []byte
		if out, err = v.run(ctx, name, text); err == nil {
			var pcm []int16
			var rate int
			if pcm, rate, err = audio.ReadWAV(out); err == nil {
				return pcm, rate, nil
			}
		}
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
	}
	return nil, 0, &Error{Code: GreetingFailed, Detail: "espeak-ng: " + oneLine(err.Error()), Err: err}
}

func (v *espeak) run(ctx context.Context, voice, text string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, v.path, "--stdin", "--stdout", "-b", "1", "-v", voice)
	cmd.Stdin = strings.NewReader(text)
	out := &capped{left: espeakRate * int(maxSpeech/time.Second)}
	cmd.Stdout = out
	// Whatever it starts ends with it; who keeps its pipes open is not waited for.
	ownGroup(cmd)
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if out.left < 0 {
		return nil, errOver
	}
	if err != nil {
		return nil, err
	}
	if len(out.data) == 0 {
		return nil, errors.New("no sound")
	}
	return out.data, nil
}

// capped takes so much and no more.
type capped struct {
	data []byte
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		return 0, errOver
	}
	c.data = append(c.data, p...)
	return len(p), nil
}
