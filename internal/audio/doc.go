// Package audio is the little sound arithmetic that three sides of a call share:
// µ-law as telephones speak it, resampling, WAV files, and the DTMF tag by which
// a listener proves which greeting it heard. Pure functions, no clocks, no I/O
// but the writer given.
package audio

// Telephone audio: 8,000 samples a second, one byte each, frames of 20 ms.
const (
	Rate       = 8000
	FrameBytes = 160
)
