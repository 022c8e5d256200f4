// Package audio is the little sound arithmetic that three sides of a call share:
// µ-law as telephones speak it, resampling, WAV files, and the DTMF tag by which
// a listener proves which greeting it heard. Pure functions, no clocks, no I/O
// but the writer given.
//
//	WAV file ──ReadWAV──▶ pcm at its rate ──Resample──▶ pcm at 8 kHz ──EncodeMuLaw──▶ bytes ──Frames──▶ 20 ms each
//	                       Tag("4711") ── before it, and ──▶ the listener: DecodeMuLaw ──Detector──▶ "4711"
//
// Sound is []int16, one channel, at [Rate] unless a rate is named; µ-law is one
// byte a sample. Nothing here keeps a slice it was given, and nothing can fail
// but reading a file or tagging what is not a digit. There is nothing to die:
// what comes from outside (a WAV file, a caller's voice) is bounded and never
// trusted.
package audio

// Telephone audio: 8,000 samples a second, one byte each, frames of 20 ms.
const (
	Rate       = 8000
	FrameBytes = 160
)
