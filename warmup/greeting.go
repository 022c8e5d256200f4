package warmup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dibs/internal/audio"
)

// spoken is what a greeting depends on.
type spoken struct {
	engine string // the provider whose voice it is; "": the voice of this bot
	Greeting
}

// greeter makes greetings and remembers them as µ-law.
type greeter struct {
	voice  Voice
	voices map[string]Voice // TTS provider name → its voice
	cache  *lru[spoken, []byte]
}

// make speaks g in the voice of the chosen provider, if it has one here, after
// the tag. The result is µ-law in whole frames, the caller's own; nil if there is
// nothing to say.
func (r *greeter) make(ctx context.Context, g Greeting, provider, tag string) (ulaw []byte, hit bool, err error) {
	front, err := audio.Tag(tag)
	if err != nil {
		return nil, false, &Error{Code: GreetingFailed, Permanent: true, Detail: oneLine(err.Error()), Err: err}
	}
	ulaw = audio.EncodeMuLaw(front)
	if g.Text != "" {
		var speech []byte
		if speech, hit, err = r.speak(ctx, g, provider); err != nil {
			return nil, false, err
		}
		ulaw = append(ulaw, speech...)
	}
	if over := len(ulaw) % audio.FrameBytes; over != 0 {
		ulaw = append(ulaw, audio.Silence(audio.FrameBytes-over)...)
	}
	return slices.Clip(ulaw), hit, nil
}

func (r *greeter) speak(ctx context.Context, g Greeting, provider string) (ulaw []byte, hit bool, err error) {
	voice, engine := r.voice, ""
	if v, ok := r.voices[provider]; ok {
		voice, engine = v, provider
	}
	key := spoken{engine, g}
	if ulaw, ok := r.cache.get(key); ok {
		return ulaw, true, nil
	}
	pcm, rate, err := voice.Speak(ctx, g.Text, g.Voice, g.Locale)
	if err == nil && len(pcm) == 0 {
		err = errors.New("the speech engine sends no sound")
	}
	if err == nil && (rate < 1 || rate > audio.MaxRate) {
		err = fmt.Errorf("the speech engine says %d samples a second", rate)
	}
	if err != nil {
		return nil, false, greetingFailed(ctx, err, g, engine)
	}
	// A custom voice may have said too much; the vendors' are bounded already.
	pcm = pcm[:min(len(pcm), rate*int(maxSpeech.Seconds()))]
	ulaw = audio.EncodeMuLaw(audio.Resample(pcm, rate, audio.Rate))
	r.cache.put(key, ulaw)
	return ulaw, false, nil
}

func greetingFailed(ctx context.Context, err error, g Greeting, engine string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &Error{Code: GreetingFailed, Detail: reason(err), Err: err}
	if own, ok := errors.AsType[*Error](err); ok {
		copied := *own
		e = &copied
	}
	if engine != "" {
		e.Provider = engine
	}
	// With the bot's own choice it would be refused on every call: then it is the
	// bot that is wrong, and its breaker must know.
	e.Permanent = errors.Is(err, ErrVoiceRefused) && (g.Voice != "" || g.Locale != "")
	return e
}
