package simcarrier

import (
	"encoding/json"
	"time"

	"dibs/internal/audio"
)

// Heard is what a callee heard on one stream, or on a whole call.
type Heard struct {
	Sound       bool          // anything louder than a quiet line
	FirstAudio  time.Duration // from the stream's start message to the first sound
	AfterAnswer time.Duration // from picking up to the first sound
	Tag         string        // the DTMF digits in it, in order
	Bytes       int           // of µ-law that were played
	Marks       int           // marks that came back, played or cleared
	Clears      int
}

type heardJSON struct {
	Sound         bool   `json:"sound"`
	FirstAudioMS  int64  `json:"first_audio_ms"`
	AfterAnswerMS int64  `json:"after_answer_ms"`
	Tag           string `json:"tag"`
	Bytes         int    `json:"bytes"`
	Marks         int    `json:"marks"`
	Clears        int    `json:"clears"`
}

// MarshalJSON writes durations as whole milliseconds.
func (h Heard) MarshalJSON() ([]byte, error) {
	return json.Marshal(heardJSON{h.Sound, h.FirstAudio.Milliseconds(), h.AfterAnswer.Milliseconds(), h.Tag, h.Bytes, h.Marks, h.Clears})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Heard) UnmarshalJSON(b []byte) error {
	var j heardJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*h = Heard{j.Sound, time.Duration(j.FirstAudioMS) * time.Millisecond, time.Duration(j.AfterAnswerMS) * time.Millisecond, j.Tag, j.Bytes, j.Marks, j.Clears}
	return nil
}

// add is what was heard on h's stream and then on g's.
func (h Heard) add(g Heard) Heard {
	if !h.Sound {
		h.Sound, h.FirstAudio, h.AfterAnswer = g.Sound, g.FirstAudio, g.AfterAnswer
	}
	h.Tag += g.Tag
	h.Bytes += g.Bytes
	h.Marks += g.Marks
	h.Clears += g.Clears
	return h
}

// maxBuffer is how much audio may wait to be played: ten minutes.
const maxBuffer = 10 * 60 * audio.Rate

// maxRecord is how much of a call is recorded: half an hour.
const maxRecord = 30 * 60 * audio.Rate

// ear is the far end of a stream: it plays what the bot sends at its real speed
// and listens. It has no clock and no lock; each method is told the time, which
// does not go backwards.
type ear struct {
	answered time.Time // when the callee picked up
	begun    time.Time // when the start message was sent
	keep     bool      // keep what is heard, for a recording

	buf    []byte    // arrived, not played yet
	at     time.Time // when buf[0] is played; of no meaning while buf is empty
	taken  int       // bytes taken into buf so far; what clear drops is taken off again
	marks  []mark    // not reached yet, in order
	voice  audio.Detector
	heard  Heard
	record []byte // from begun on, silence included
}

type mark struct {
	name string
	at   int // reached when so many bytes have been played
}

// media takes audio; false: the buffer is full and it is dropped.
func (e *ear) media(now time.Time, ulaw []byte) bool {
	e.play(now)
	if len(e.buf)+len(ulaw) > maxBuffer {
		return false
	}
	if len(e.buf) == 0 {
		e.at = now
	}
	e.buf = append(e.buf, ulaw...)
	e.taken += len(ulaw)
	return true
}

// mark asks for name to come back when all that has arrived is played.
func (e *ear) mark(now time.Time, name string) {
	e.play(now)
	if len(e.marks) < 1000 {
		e.marks = append(e.marks, mark{name, e.taken})
	}
}

// clear drops what is not played yet and returns the marks that stood in it.
func (e *ear) clear(now time.Time) []string {
	e.play(now)
	e.taken -= len(e.buf)
	e.buf = nil
	e.heard.Clears++
	return e.reached(e.taken, true)
}

// play plays what is due by now.
func (e *ear) play(now time.Time) {
	for len(e.buf) > 0 {
		due := int(now.Sub(e.at) * audio.Rate / time.Second)
		// Whole frames, so that loudness is judged on 20 ms; the rest when it is all.
		n := min(due, len(e.buf), frameBytes)
		if n <= 0 || n < frameBytes && n < len(e.buf) {
			break
		}
		e.hear(e.buf[:n])
		e.buf = e.buf[n:]
		e.at = e.at.Add(time.Duration(n) * time.Second / audio.Rate)
	}
}

func (e *ear) hear(ulaw []byte) {
	pcm := audio.DecodeMuLaw(ulaw)
	if !e.heard.Sound && audio.Loud(pcm) {
		e.heard.Sound = true
		e.heard.FirstAudio = e.at.Sub(e.begun)
		e.heard.AfterAnswer = e.at.Sub(e.answered)
	}
	e.voice.Write(pcm)
	e.heard.Tag = e.voice.Digits()
	e.heard.Bytes += len(ulaw)
	if e.keep {
		start := min(max(int(e.at.Sub(e.begun)*audio.Rate/time.Second), 0), maxRecord)
		if gap := start - len(e.record); gap > 0 {
			e.record = append(e.record, audio.Silence(gap)...)
		}
		if room := maxRecord - len(e.record); room > 0 {
			e.record = append(e.record, ulaw[:min(len(ulaw), room)]...)
		}
	}
}

// due are the marks that have been reached by now.
func (e *ear) due(now time.Time) []string {
	e.play(now)
	return e.reached(e.heard.Bytes, false)
}

func (e *ear) reached(played int, all bool) (names []string) {
	for len(e.marks) > 0 && (all || e.marks[0].at <= played) {
		names = append(names, e.marks[0].name)
		e.marks = e.marks[1:]
	}
	e.heard.Marks += len(names)
	return names
}
