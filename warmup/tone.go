package warmup

import (
	"context"
	"math"
	"strings"
	"time"
	"unicode"

	"dibs/internal/audio"
)

// tone is the built-in voice: a little tune in place of words. The same text is
// always the same tune, another text almost always another, so a listener can
// tell greetings apart; it needs no account, no program and no file.
type tone struct{}

const (
	noteLength   = 90 * time.Millisecond
	betweenWords = 45 * time.Millisecond
	afterClause  = 180 * time.Millisecond
	longestTune  = 8 * time.Second
	noteLoudness = 0.35
)

// scale is A minor pentatonic. With their octaves the notes stay clear of every
// pair of DTMF frequencies.
var scale = []float64{220, 261.63, 293.66, 329.63, 392, 440, 523.25, 587.33, 659.26}

// Speak plays one note for every three letters of a word, and rests where a
// reader would. It does not look at voice and locale.
func (tone) Speak(ctx context.Context, text, _, _ string) ([]int16, int, error) {
	var pcm []int16
	rest := func(d time.Duration) { pcm = append(pcm, audio.Tone(nil, d, 0)...) }
	at := 0
	for word := range strings.FieldsSeq(text) {
		if len(pcm) >= samples(longestTune) {
			break
		}
		letters := []rune(strings.ToLower(strings.TrimFunc(word, unicode.IsPunct)))
		for len(letters) > 0 {
			n := min(3, len(letters))
			step := 0
			for _, r := range letters[:n] {
				step += int(r)
			}
			// Neighbouring notes sound better than leaps: move by at most two places.
			at = min(max(at+step%5-2, 0), len(scale)-1)
			pcm = append(pcm, note(scale[at])...)
			letters = letters[n:]
		}
		if strings.ContainsAny(word[len(word)-1:], ".,;:!?") {
			rest(afterClause)
		} else {
			rest(betweenWords)
		}
	}
	return pcm, audio.Rate, ctx.Err()
}

// note is struck and fades, which a plain tone does not.
func note(freq float64) []int16 {
	pcm := audio.Tone([]float64{freq, 2 * freq}, noteLength, noteLoudness)
	attack := float64(samples(8 * time.Millisecond))
	for i, s := range pcm {
		level := min(1, float64(i)/attack) * math.Exp(-2.5*float64(i)/float64(len(pcm)))
		pcm[i] = int16(float64(s) * level)
	}
	return pcm
}

func samples(d time.Duration) int { return int(d * audio.Rate / time.Second) }
