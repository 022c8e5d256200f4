package audio

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMuLawVectors(t *testing.T) {
	for _, tc := range []struct {
		pcm  int16
		ulaw byte
		back int16
	}{
		{0, 0xff, 0},
		{3, 0xff, 0},
		{4, 0xfe, 8},
		{-3, 0x7f, 0},
		{-4, 0x7e, -8},
		{123, 0xf0, 120},
		{124, 0xef, 132}, // the edge of the first segment
		{1000, 0xce, 988},
		{-1000, 0x4e, -988},
		{8031, 0xa0, 7932},
		{-8031, 0x20, -7932},
		{32635, 0x80, 32124},
		{32767, 0x80, 32124},
		{-32635, 0x00, -32124},
		{-32768, 0x00, -32124},
	} {
		if got := EncodeMuLaw([]int16{tc.pcm})[0]; got != tc.ulaw {
			t.Errorf("EncodeMuLaw(%d) = %#02x, want %#02x", tc.pcm, got, tc.ulaw)
		}
		if got := DecodeMuLaw([]byte{tc.ulaw})[0]; got != tc.back {
			t.Errorf("DecodeMuLaw(%#02x) = %d, want %d", tc.ulaw, got, tc.back)
		}
	}
}

// The standard defines the code by decision values: 129 magnitudes, in steps
// that double from segment to segment. Every one of the 65,536 samples is held
// against that table.
func TestMuLawFollowsDecisionValues(t *testing.T) {
	decisions := []int{0} // of 14-bit magnitudes
	for segment := range 8 {
		steps := 16
		if segment == 0 {
			decisions = append(decisions, 1)
			steps = 15
		}
		for range steps {
			decisions = append(decisions, decisions[len(decisions)-1]+2<<segment)
		}
	}
	if got, want := decisions[len(decisions)-1], 8159; got != want {
		t.Fatalf("last decision value %d, want %d", got, want)
	}
	for s := math.MinInt16; s <= math.MaxInt16; s++ {
		magnitude, sign := s, byte(0x80)
		if s < 0 {
			magnitude, sign = -s, 0
		}
		interval := 127
		for interval > 0 && magnitude < 4*decisions[interval] {
			interval--
		}
		want := sign | byte(127-interval)
		if got := encode(int16(s)); got != want {
			t.Fatalf("encode(%d) = %#02x, want %#02x", s, got, want)
		}
	}
}

func TestMuLawIsStable(t *testing.T) {
	for i := range 256 {
		s := DecodeMuLaw([]byte{byte(i)})
		if got := DecodeMuLaw(EncodeMuLaw(s)); got[0] != s[0] {
			t.Errorf("byte %#02x sounds %d, and %d after a second time", i, s[0], got[0])
		}
	}
}

func TestFrames(t *testing.T) {
	for _, n := range []int{0, 1, 159, 160, 161, 320, 1000} {
		in := bytes.Repeat([]byte{7}, n)
		frames := Frames(in)
		if got, want := len(frames), (n+159)/160; got != want {
			t.Fatalf("%d bytes: %d frames, want %d", n, got, want)
		}
		all := slices.Concat(frames...)
		if !bytes.Equal(all[:n], in) || !bytes.Equal(all[n:], Silence(len(all)-n)) {
			t.Errorf("%d bytes: frames are not the input and silence", n)
		}
	}
	if got := Silence(-1); len(got) != 0 {
		t.Errorf("Silence(-1) has %d bytes", len(got))
	}
	if got := DecodeMuLaw(Silence(3)); !slices.Equal(got, []int16{0, 0, 0}) {
		t.Errorf("silence sounds %v", got)
	}
}

func rms(pcm []int16) float64 {
	var sum float64
	for _, s := range pcm {
		sum += float64(s) * float64(s)
	}
	return math.Sqrt(sum / float64(len(pcm)))
}

func sine(freq float64, rate, n int, peak float64) []int16 {
	out := make([]int16, n)
	for i := range out {
		out[i] = int16(peak * math.Sin(2*math.Pi*freq*float64(i)/float64(rate)))
	}
	return out
}

func TestResample(t *testing.T) {
	for _, tc := range []struct {
		name     string
		freq     float64
		from, to int
		min, max float64 // share of the level that is left
	}{
		{"voice up", 1000, 8000, 24000, 0.9, 1.01},
		{"voice down", 1000, 24000, 8000, 0.95, 1.02},
		{"voice down, odd rates", 1000, 22050, 8000, 0.95, 1.02},
		{"over the band, down", 6000, 24000, 8000, 0, 0.02},
		{"far over the band, down", 15000, 48000, 8000, 0, 0.02},
		{"same", 3000, 8000, 8000, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := sine(tc.freq, tc.from, tc.from, 10000)
			out := Resample(in, tc.from, tc.to)
			if got, want := len(out), tc.to; got != want {
				t.Fatalf("%d samples, want %d", got, want)
			}
			mid := out[len(out)/4 : 3*len(out)/4] // the ends ring
			if got := rms(mid) / rms(in); got < tc.min || got > tc.max {
				t.Errorf("level × %.3f, want %.2f to %.2f", got, tc.min, tc.max)
			}
		})
	}
	for _, bad := range [][2]int{{0, 8000}, {8000, 0}, {-1, 1}, {MaxRate + 1, 8000}} {
		if got := Resample([]int16{1, 2}, bad[0], bad[1]); got != nil {
			t.Errorf("Resample(%v) = %v, want nil", bad, got)
		}
	}
}

func TestResampleLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Int16(), 0, 500).Draw(t, "in")
		from, to := rapid.IntRange(1000, MaxRate).Draw(t, "from"), rapid.IntRange(1000, MaxRate).Draw(t, "to")
		if got, want := len(Resample(in, from, to)), len(in)*to/from; got != want {
			t.Fatalf("%d samples, want %d", got, want)
		}
	})
}

func TestTone(t *testing.T) {
	pcm := Tone([]float64{440, 880}, 250*time.Millisecond, 0.5)
	if got, want := len(pcm), 2000; got != want {
		t.Fatalf("%d samples, want %d", got, want)
	}
	if peak := slices.Max(pcm); peak > 16384 || peak < 12000 {
		t.Errorf("peak %d, want about half of full scale", peak)
	}
	if got := Tone([]float64{440}, -time.Second, 1); len(got) != 0 {
		t.Errorf("a negative time has %d samples", len(got))
	}
	if got := slices.Max(Tone([]float64{1000}, time.Second, 7)); got != math.MaxInt16 {
		t.Errorf("too loud an amplitude peaks at %d, want full scale", got)
	}
}

func TestLoud(t *testing.T) {
	hiss := make([]int16, 800)
	for i := range hiss {
		hiss[i] = int16(rand.IntN(200) - 100)
	}
	for _, tc := range []struct {
		name string
		pcm  []int16
		want bool
	}{
		{"nothing", nil, false},
		{"silence", DecodeMuLaw(Silence(160)), false},
		{"hiss", hiss, false},
		{"quiet voice", sine(300, Rate, 160, 800), true},
		{"loudest", slices.Repeat([]int16{math.MinInt16}, 160), true},
	} {
		if got := Loud(tc.pcm); got != tc.want {
			t.Errorf("Loud(%s) = %v, want %v", tc.name, got, tc.want)
		}
	}
}

func hear(pcm []int16, piece int) string {
	var d Detector
	for c := range slices.Chunk(pcm, piece) {
		d.Write(c)
	}
	return d.Digits()
}

func noisy(pcm []int16, level float64, r *rand.Rand) []int16 {
	out := slices.Clone(pcm)
	for i := range out {
		out[i] = sample(float64(out[i]) + level*r.NormFloat64())
	}
	return out
}

// Whatever the tag, where it begins, how it is cut, over µ-law, with hiss and
// between other sounds: the digits come out once each.
func TestTagIsHeard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[0-9*#]{0,12}`).Draw(t, "digits")
		tag, err := Tag(digits)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(tag), len(digits)*800; got != want {
			t.Fatalf("%d samples, want %d", got, want)
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		gain := rapid.Float64Range(0.1, 1.9).Draw(t, "gain")
		for i := range tag {
			tag[i] = sample(gain * float64(tag[i]))
		}
		before := make([]int16, rapid.IntRange(0, 1000).Draw(t, "offset"))
		after := Tone([]float64{rapid.Float64Range(100, 3000).Draw(t, "tone")}, 300*time.Millisecond, 0.4)
		pcm := noisy(slices.Concat(before, tag, after), rapid.Float64Range(0, 0.1).Draw(t, "noise")*gain*8000, r)
		pcm = DecodeMuLaw(EncodeMuLaw(pcm))
		if got := hear(pcm, rapid.IntRange(1, 700).Draw(t, "piece")); got != digits {
			t.Fatalf("heard %q, want %q", got, digits)
		}
	})
}

func TestTagRefusesOtherSigns(t *testing.T) {
	for _, bad := range []string{"a", "12 3", "1D", "é"} {
		if _, err := Tag(bad); err == nil {
			t.Errorf("Tag(%q): no error", bad)
		}
	}
}

func TestDetector(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pair := func(a, b, amp float64, d time.Duration) []int16 { return Tone([]float64{a, b}, d, amp) }
	pause := func(d time.Duration) []int16 { return Tone(nil, d, 0) }
	sweep := make([]int16, 5*Rate)
	for i := range sweep {
		f := 300 + 3000*float64(i)/float64(len(sweep))
		sweep[i] = int16(12000 * math.Sin(2*math.Pi*f*float64(i)/Rate))
	}
	// A gliding vowel: many harmonics, of which two may well be a row and a column.
	voice, phase := make([]int16, 60*Rate), 0.0
	for i := range voice {
		at := float64(i) / Rate
		phase += 2 * math.Pi * (160 + 70*math.Sin(at*1.3) + 10*math.Sin(at*17)) / Rate
		var v float64
		for k := 1.0; k < 16; k++ {
			v += math.Sin(k*phase+k*k) / k * (1.2 + math.Sin(at*2.1+k))
		}
		voice[i] = sample(4000 * v)
	}
	for _, tc := range []struct {
		name string
		pcm  []int16
		want string
	}{
		{"nothing", nil, ""},
		{"a vowel", voice, ""},
		{"silence", pause(time.Second), ""},
		{"hiss", noisy(pause(20*time.Second), 4000, r), ""},
		{"one tone", Tone([]float64{770}, time.Second, 0.5), ""},
		{"dial tone", pair(350, 440, 0.5, time.Second), ""},
		{"busy tone", pair(480, 620, 0.5, time.Second), ""},
		{"tones between the digits", pair(733, 1272, 0.5, time.Second), ""},
		{"two rows", pair(697, 941, 0.5, time.Second), ""},
		{"chord", Tone([]float64{440, 554, 659, 880, 1109, 1318}, time.Second, 0.8), ""},
		{"sweep", sweep, ""},
		{"long digit counts once", pair(852, 1336, 0.5, 3*time.Second), "8"},
		{"long digit in hiss counts once", noisy(pair(852, 1336, 0.5, 10*time.Second), 1500, r), "8"},
		{"a hole of 10 ms is no pause", slices.Concat(pair(852, 1336, 0.5, 90*time.Millisecond), pause(10*time.Millisecond), pair(852, 1336, 0.5, 90*time.Millisecond)), "8"},
		{"10 ms is no digit", slices.Concat(pause(50*time.Millisecond), pair(852, 1336, 0.5, 10*time.Millisecond), pause(50*time.Millisecond)), ""},
		{"too quiet", pair(852, 1336, 0.004, time.Second), ""},
		{"digit to digit without a pause", slices.Concat(pair(697, 1209, 0.5, 80*time.Millisecond), pair(941, 1336, 0.5, 80*time.Millisecond)), "10"},
		{"a phone 1 % off", pair(852*1.01, 1336*0.99, 0.5, 100*time.Millisecond), "8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := hear(tc.pcm, FrameBytes); got != tc.want {
				t.Errorf("heard %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDetectorIsBounded(t *testing.T) {
	tag, err := Tag(strings.Repeat("1", 2*maxDigits))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(hear(tag, 8000)); got != maxDigits {
		t.Errorf("%d digits, want %d", got, maxDigits)
	}
}
