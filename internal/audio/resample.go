package audio

import "math"

// MaxRate is the highest sample rate that is handled, in Hz.
const MaxRate = 192_000

// lobes is the half width of the low-pass in zero crossings of its sinc: steep
// enough for speech, short enough to run on a whole greeting in milliseconds.
const lobes = 8

// Resample turns pcm from one sample rate into another by linear interpolation;
// on the way down, what the lower rate cannot carry is filtered out first. The
// result is a copy of len(pcm)*to/from samples, and nil for a rate that is not
// within 1 to [MaxRate].
func Resample(pcm []int16, from, to int) []int16 {
	if from < 1 || to < 1 || from > MaxRate || to > MaxRate {
		return nil
	}
	if from == to {
		return append(make([]int16, 0, len(pcm)), pcm...)
	}
	if to < from {
		pcm = lowPass(pcm, float64(to)/float64(from))
	}
	out := make([]int16, int(int64(len(pcm))*int64(to)/int64(from)))
	for i := range out {
		at := int64(i) * int64(from)
		k, rest := int(at/int64(to)), at%int64(to)
		a := int64(pcm[k])
		b := int64(pcm[min(k+1, len(pcm)-1)])
		out[i] = int16(a + (b-a)*rest/int64(to))
	}
	return out
}

// lowPass takes away what lies over the share cut of the present bandwidth: a
// sinc under a Hann window, its sum one, so that level stays level.
func lowPass(pcm []int16, cut float64) []int16 {
	cut *= 0.9 // room for the slope
	half := int(math.Ceil(lobes / cut))
	kernel := make([]float64, 2*half+1)
	var sum float64
	for i := range kernel {
		x := float64(i - half)
		sinc := 1.0
		if x != 0 {
			sinc = math.Sin(math.Pi*x*cut) / (math.Pi * x * cut)
		}
		kernel[i] = sinc * (0.5 + 0.5*math.Cos(math.Pi*x/float64(half+1)))
		sum += kernel[i]
	}
	for i := range kernel {
		kernel[i] /= sum
	}
	out := make([]int16, len(pcm))
	for i := range out {
		var acc float64
		for k := max(0, half-i); k < len(kernel) && i+k-half < len(pcm); k++ {
			acc += kernel[k] * float64(pcm[i+k-half])
		}
		out[i] = sample(acc)
	}
	return out
}

// sample rounds and limits to what 16 bits hold.
func sample(v float64) int16 {
	return int16(math.Round(min(max(v, math.MinInt16), math.MaxInt16)))
}

// loudRMS is some -40 dB of full scale: over a line's hiss, under any voice.
const loudRMS = 300

// Loud reports whether pcm is more than a quiet line: root mean square of at
// least 300. Nothing is not loud.
func Loud(pcm []int16) bool {
	var sum int64
	for _, s := range pcm {
		sum += int64(s) * int64(s)
	}
	return len(pcm) > 0 && sum >= loudRMS*loudRMS*int64(len(pcm))
}
