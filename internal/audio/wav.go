package audio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxWAV is the largest WAV file that is read, in bytes: half an hour at 16 kHz.
const MaxWAV = 64 << 20

// ErrWAV is every reason for which a file cannot be read as sound.
var ErrWAV = errors.New("not a WAV file that can be read")

const (
	formatPCM        = 1
	formatMuLaw      = 7
	formatExtensible = 0xfffe
	headerBytes      = 44
)

// WriteWAV writes pcm as a 16-bit mono WAV file at rate Hz (1 to [MaxRate]).
func WriteWAV(w io.Writer, pcm []int16, rate int) error {
	if rate < 1 || rate > MaxRate {
		return fmt.Errorf("write wav: rate %d is not within 1 to %d", rate, MaxRate)
	}
	if len(pcm) > (MaxWAV-headerBytes)/2 {
		return fmt.Errorf("write wav: %d samples are more than fit into %d bytes", len(pcm), MaxWAV)
	}
	le := binary.LittleEndian
	size := 2 * len(pcm)
	b := make([]byte, 0, headerBytes+size)
	b = append(b, "RIFF"...)
	b = le.AppendUint32(b, uint32(headerBytes-8+size))
	b = append(b, "WAVEfmt "...)
	b = le.AppendUint32(b, 16)
	b = le.AppendUint16(b, formatPCM)
	b = le.AppendUint16(b, 1)
	b = le.AppendUint32(b, uint32(rate))
	b = le.AppendUint32(b, uint32(2*rate))
	b = le.AppendUint16(b, 2)
	b = le.AppendUint16(b, 16)
	b = append(b, "data"...)
	b = le.AppendUint32(b, uint32(size))
	for _, s := range pcm {
		b = le.AppendUint16(b, uint16(s))
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write wav: %w", err)
	}
	return nil
}

// ReadWAV reads a WAV file of 16-bit PCM or µ-law, mono, or stereo which is mixed
// down. A file that was written to a pipe, and so does not know its own size (0 or
// more than there is), is read to its end. Every error is an [ErrWAV]. The result
// has at most one sample a byte of b.
func ReadWAV(b []byte) (pcm []int16, rate int, err error) {
	if len(b) > MaxWAV {
		return nil, 0, fmt.Errorf("%w: %d bytes, at most %d", ErrWAV, len(b), MaxWAV)
	}
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return nil, 0, fmt.Errorf("%w: no RIFF header", ErrWAV)
	}
	var f *format
	for b = b[12:]; len(b) >= 8; {
		id, size := string(b[:4]), int64(binary.LittleEndian.Uint32(b[4:]))
		b = b[8:]
		if id == "data" && size == 0 {
			size = int64(len(b))
		}
		body := b[:min(size, int64(len(b)))]
		switch id {
		case "fmt ":
			if f, err = readFormat(body); err != nil {
				return nil, 0, err
			}
		case "data":
			if f == nil {
				return nil, 0, fmt.Errorf("%w: data before its format", ErrWAV)
			}
			return f.decode(body), f.rate, nil
		}
		b = b[min(size+size&1, int64(len(b))):] // chunks begin at even places
	}
	return nil, 0, fmt.Errorf("%w: no data", ErrWAV)
}

// format is what a file says of its samples.
type format struct {
	mulaw    bool
	channels int
	rate     int
}

func readFormat(b []byte) (*format, error) {
	if len(b) < 16 {
		return nil, fmt.Errorf("%w: format of %d bytes", ErrWAV, len(b))
	}
	le := binary.LittleEndian
	code, channels, rate, depth := le.Uint16(b), le.Uint16(b[2:]), le.Uint32(b[4:]), le.Uint16(b[14:])
	if code == formatExtensible && len(b) >= 26 {
		code = le.Uint16(b[24:]) // the sub-format begins with the code it stands for
	}
	switch {
	case code == formatPCM && depth == 16, code == formatMuLaw && depth == 8:
	default:
		return nil, fmt.Errorf("%w: format %d with %d bits", ErrWAV, code, depth)
	}
	if channels < 1 || channels > 2 {
		return nil, fmt.Errorf("%w: %d channels", ErrWAV, channels)
	}
	if rate < 1 || rate > MaxRate {
		return nil, fmt.Errorf("%w: %d samples a second", ErrWAV, rate)
	}
	return &format{mulaw: code == formatMuLaw, channels: int(channels), rate: int(rate)}, nil
}

// decode drops what is left of a sample that was cut off.
func (f *format) decode(b []byte) []int16 {
	var all []int16
	if f.mulaw {
		all = DecodeMuLaw(b)
	} else {
		all = make([]int16, len(b)/2)
		for i := range all {
			all[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
		}
	}
	if f.channels == 1 {
		return all
	}
	mono := all[:len(all)/2]
	for i := range mono {
		mono[i] = int16((int(all[2*i]) + int(all[2*i+1])) / 2)
	}
	return mono
}
