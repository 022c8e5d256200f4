package audio

import "math/bits"

// G.711 adds the bias so that every segment of its curve begins at a power of
// two; louder than clip would leave the eighth segment.
const (
	bias    = 0x84
	clip    = 0x7fff - bias
	silence = 0xff // µ-law of 0
)

// linear is the sound of each µ-law byte.
var linear = func() (t [256]int16) {
	for i := range t {
		u := ^byte(i)
		v := (int16(u&0x0f)<<3+bias)<<(u>>4&7) - bias
		if u&0x80 != 0 {
			v = -v
		}
		t[i] = v
	}
	return t
}()

// EncodeMuLaw is pcm as G.711 µ-law, one byte a sample.
func EncodeMuLaw(pcm []int16) []byte {
	out := make([]byte, len(pcm))
	for i, s := range pcm {
		out[i] = encode(s)
	}
	return out
}

func encode(s int16) byte {
	v, sign := int(s), byte(0)
	if v < 0 {
		v, sign = -v, 0x80
	}
	v = min(v, clip) + bias
	segment := bits.Len(uint(v)) - 8 // the bias makes bit 7 the lowest that can lead
	return ^(sign | byte(segment)<<4 | byte(v>>(segment+3))&0x0f)
}

// DecodeMuLaw is the sound of G.711 µ-law, one sample a byte. Every byte has one.
func DecodeMuLaw(b []byte) []int16 {
	out := make([]int16, len(b))
	for i, u := range b {
		out[i] = linear[u]
	}
	return out
}

// Silence is n bytes (n/8 ms) of µ-law silence; none if n is not positive.
func Silence(n int) []byte {
	out := make([]byte, max(n, 0))
	for i := range out {
		out[i] = silence
	}
	return out
}

// Frames cuts µ-law into pieces of [FrameBytes], the last filled up with silence.
// All but the last share the memory of ulaw.
func Frames(ulaw []byte) [][]byte {
	out := make([][]byte, 0, (len(ulaw)+FrameBytes-1)/FrameBytes)
	for len(ulaw) >= FrameBytes {
		out = append(out, ulaw[:FrameBytes:FrameBytes])
		ulaw = ulaw[FrameBytes:]
	}
	if len(ulaw) > 0 {
		last := Silence(FrameBytes)
		copy(last, ulaw)
		out = append(out, last)
	}
	return out
}
