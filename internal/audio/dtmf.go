package audio

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A tag's digit sounds for tagOn and is followed by silence for tagOff.
const (
	tagOn        = 60 * time.Millisecond
	tagOff       = 40 * time.Millisecond
	tagAmplitude = 0.5
)

var (
	rows = [4]float64{697, 770, 852, 941}
	cols = [3]float64{1209, 1336, 1477}
	keys = [4]string{"123", "456", "789", "*0#"}
)

// Tone is d of sine waves at freqs Hz together, at [Rate]. Amplitude is the peak
// of their sum, 1 is full scale; it is shared out evenly and held to 0..1.
func Tone(freqs []float64, d time.Duration, amplitude float64) []int16 {
	out := make([]int16, max(0, int(int64(d)*Rate/int64(time.Second))))
	each := min(max(amplitude, 0), 1) * math.MaxInt16 / float64(max(1, len(freqs)))
	for i := range out {
		var v float64
		for _, f := range freqs {
			v += each * math.Sin(2*math.Pi*f*float64(i)/Rate)
		}
		out[i] = sample(v)
	}
	return out
}

// Tag is digits (0-9, *, #) as DTMF at [Rate], 100 ms each: 60 ms of tone, then
// 40 ms of silence. A [Detector] hears it again.
func Tag(digits string) ([]int16, error) {
	var out []int16
	for _, d := range digits {
		row, col := key(d)
		if col < 0 {
			return nil, fmt.Errorf("tag: %q is not a DTMF digit", d)
		}
		out = append(out, Tone([]float64{rows[row], cols[col]}, tagOn, tagAmplitude)...)
		out = append(out, Tone(nil, tagOff, 0)...)
	}
	return out, nil
}

func key(d rune) (row, col int) {
	for row, r := range keys {
		if col := strings.IndexRune(r, d); col >= 0 {
			return row, col
		}
	}
	return 0, -1
}

// The detector looks at windows of 26 ms, one every 10 ms. A digit of 60 ms fills
// at least half of five windows wherever it begins, a pause of 40 ms leaves at
// least three less than half full: hits and misses have one to spare.
const (
	window = 205 // samples; the tones of DTMF fall near the middle of its bins
	hop    = 80
	hits   = 3 // windows in a row that make a digit
	misses = 2 // windows in a row that end it

	quiet     = 100.0 // root mean square under which nothing is listened to
	share     = 0.5   // of the sound's power that must be the two tones
	dominance = 6.0   // how much stronger a tone is than its neighbours, in power
	twist     = 6.3   // how much stronger one tone may be than the other, in power (8 dB)
	fade      = 0.25  // of a digit's strongest window: under it the digit has faded

	maxDigits = 1024
)

// Detector hears DTMF digits in sound at [Rate] that comes in pieces of any
// size. The zero value is ready. A digit counts once however long it sounds, and
// again only after a pause; voices, hiss and single tones are no digits. It is
// not safe for concurrent use.
type Detector struct {
	buf    [window]float64
	n      int // samples in buf
	digits []byte

	last byte    // what the last window held; 0 nothing
	run  int     // windows in a row that held it
	on   byte    // the digit that is sounding and was counted; 0 none
	gone int     // windows in a row without it
	peak float64 // power of its strongest window
}

// Write takes the next samples.
func (d *Detector) Write(pcm []int16) {
	for _, s := range pcm {
		d.buf[d.n] = float64(s)
		if d.n++; d.n == window {
			d.look()
			copy(d.buf[:], d.buf[hop:])
			d.n -= hop
		}
	}
}

// Digits are those heard so far, in order; the first 1,024 of them.
func (d *Detector) Digits() string { return string(d.digits) }

func (d *Detector) look() {
	digit, power := d.classify()
	if digit != d.last {
		d.last, d.run = digit, 0
	}
	d.run++

	if digit != 0 && digit == d.on && power >= fade*d.peak {
		d.gone, d.peak = 0, max(d.peak, power)
		return
	}
	if d.on != 0 {
		if d.gone++; d.gone >= misses {
			// What is left of a fading digit begins no new one.
			if d.on == digit {
				d.run = 0
			}
			d.on = 0
		}
	}
	if digit != 0 && digit != d.on && d.run >= hits {
		d.on, d.gone, d.peak = digit, 0, power
		if len(d.digits) < maxDigits {
			d.digits = append(d.digits, digit)
		}
	}
}

// classify names the digit that the window holds, with its power; 0 if none.
func (d *Detector) classify() (digit byte, power float64) {
	var total float64
	for _, s := range d.buf {
		total += s * s
	}
	if total < quiet*quiet*window {
		return 0, 0
	}
	r, low, ok := d.strongest(rows[:])
	if !ok {
		return 0, 0
	}
	c, high, ok := d.strongest(cols[:])
	if !ok || low > twist*high || high > twist*low {
		return 0, 0
	}
	// A full window of a sine has the power total·window/2.
	if low+high < share*total*window/2 {
		return 0, 0
	}
	return keys[r][c], low + high
}

// strongest is the one frequency that stands out of its group, if one does.
func (d *Detector) strongest(group []float64) (best int, power float64, ok bool) {
	var second float64
	for i, f := range group {
		switch p := d.goertzel(f); {
		case p > power:
			best, power, second = i, p, power
		case p > second:
			second = p
		}
	}
	return best, power, power > dominance*second
}

// goertzel is the power of one frequency in the window.
func (d *Detector) goertzel(f float64) float64 {
	k := 2 * math.Cos(2*math.Pi*f/Rate)
	var a, b float64
	for _, s := range d.buf {
		a, b = s+k*a-b, a
	}
	return a*a + b*b - k*a*b
}
