package simcarrier

import (
	"slices"
	"testing"
	"time"

	"dibs/internal/audio"
)

var t0 = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

func tone(ms int) []byte {
	return audio.EncodeMuLaw(audio.Tone([]float64{400}, time.Duration(ms)*time.Millisecond, 0.5))
}

// Half a second of silence and then a tone, sent in one burst 300 ms after the start,
// is heard 800 ms after it, however rarely anybody looks.
func TestEarTimes(t *testing.T) {
	for _, every := range []int{1, 7, 20, 50, 5000} {
		e := ear{begun: at(0), answered: at(-200)}
		e.media(at(300), append(audio.Silence(4000), tone(200)...))
		for ms := 300; ms <= 10_000; ms += every {
			e.play(at(ms))
		}
		if e.heard.FirstAudio != 800*time.Millisecond || e.heard.AfterAnswer != time.Second {
			t.Errorf("looked at every %d ms: first audio after %v, %v after the answer; want 800 ms, 1 s", every, e.heard.FirstAudio, e.heard.AfterAnswer)
		}
		if e.heard.Bytes != 4000+1600 {
			t.Errorf("played %d bytes, want 5600", e.heard.Bytes)
		}
	}
}

func TestEarPlaysInRealTime(t *testing.T) {
	e := ear{begun: at(0)}
	e.media(at(0), tone(1000))
	for _, step := range []struct{ ms, bytes int }{{0, 0}, {10, 0}, {20, 160}, {39, 160}, {40, 320}, {500, 4000}, {999, 7840}, {1000, 8000}, {2000, 8000}} {
		if e.play(at(step.ms)); e.heard.Bytes != step.bytes {
			t.Errorf("at %d ms: %d bytes, want %d", step.ms, e.heard.Bytes, step.bytes)
		}
	}
}

func TestEarHearsItsTag(t *testing.T) {
	tag, err := audio.Tag("4711")
	if err != nil {
		t.Fatal(err)
	}
	ulaw := audio.EncodeMuLaw(tag)
	e := ear{begun: at(0)}
	ms := 0
	for frame := range slices.Chunk(ulaw, frameBytes) { // as bots send it, one frame at a time
		e.media(at(ms), frame)
		ms += 20
		e.play(at(ms))
	}
	if e.heard.Tag != "4711" {
		t.Errorf("heard %q, want 4711", e.heard.Tag)
	}
}

func TestEarMarks(t *testing.T) {
	e := ear{begun: at(0)}
	want := func(ms int, names ...string) {
		t.Helper()
		if got := e.due(at(ms)); !slices.Equal(got, names) {
			t.Errorf("at %d ms: marks %v, want %v", ms, got, names)
		}
	}
	e.mark(at(0), "empty")
	want(0, "empty")
	e.media(at(0), tone(100))
	e.mark(at(0), "a")
	e.media(at(0), tone(100))
	e.mark(at(0), "b")
	e.mark(at(0), "c")
	want(99)
	want(100, "a")
	want(199)
	want(200, "b", "c")
	want(1000)
	if e.heard.Marks != 4 {
		t.Errorf("%d marks counted, want 4", e.heard.Marks)
	}
}

func TestEarClear(t *testing.T) {
	e := ear{begun: at(0)}
	e.media(at(0), tone(100))
	e.mark(at(0), "heard")
	e.media(at(0), tone(900))
	e.mark(at(0), "cut")
	if got := e.due(at(100)); !slices.Equal(got, []string{"heard"}) {
		t.Errorf("marks %v, want [heard]", got)
	}
	if got := e.clear(at(200)); !slices.Equal(got, []string{"cut"}) {
		t.Errorf("clear returned %v, want [cut]", got)
	}
	e.play(at(5000))
	if e.heard.Bytes != 1600 {
		t.Errorf("%d bytes were heard, want 1600: what is cleared is not", e.heard.Bytes)
	}
	e.media(at(5000), tone(20))
	e.mark(at(5000), "after")
	if got := e.due(at(5020)); !slices.Equal(got, []string{"after"}) {
		t.Errorf("marks after clear %v, want [after]", got)
	}
	if e.heard.Clears != 1 || e.heard.Marks != 3 {
		t.Errorf("counted %+v", e.heard)
	}
	// What was cleared before it was played is no first audio.
	e = ear{begun: at(0)}
	e.media(at(0), append(audio.Silence(800), tone(100)...))
	e.clear(at(50))
	e.play(at(5000))
	if e.heard.Sound {
		t.Error("heard what was cleared")
	}
}

func TestEarLimits(t *testing.T) {
	e := ear{begun: at(0)}
	if !e.media(at(0), make([]byte, maxBuffer)) || e.media(at(0), []byte{0}) {
		t.Error("the buffer does not end at ten minutes")
	}
	for range 5000 {
		e.mark(at(0), "m")
	}
	if len(e.marks) != 1000 {
		t.Errorf("%d marks are kept, want 1000", len(e.marks))
	}
}

func TestEarRecords(t *testing.T) {
	e := ear{begun: at(0), keep: true}
	e.media(at(100), tone(100))
	e.play(at(250))
	e.media(at(400), tone(100))
	e.play(at(1000))
	if len(e.record) != 500*8 {
		t.Fatalf("recorded %d bytes, want %d: silence between included", len(e.record), 500*8)
	}
	for _, part := range []struct {
		from, to int // ms
		loud     bool
	}{{0, 100, false}, {100, 200, true}, {200, 400, false}, {400, 500, true}} {
		if got := audio.Loud(audio.DecodeMuLaw(e.record[part.from*8 : part.to*8])); got != part.loud {
			t.Errorf("%d to %d ms: loud %v, want %v", part.from, part.to, got, part.loud)
		}
	}
}
