package audio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// wavFile is a file by hand, so that every field can lie.
func wavFile(code, channels uint16, rate uint32, depth uint16, size uint32, data []byte) []byte {
	le := binary.LittleEndian
	b := append([]byte("RIFF"), 0xff, 0xff, 0xff, 0xff)
	b = append(b, "WAVEfmt \x10\x00\x00\x00"...)
	b = le.AppendUint16(b, code)
	b = le.AppendUint16(b, channels)
	b = le.AppendUint32(b, rate)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, depth)
	b = append(b, "data"...)
	b = le.AppendUint32(b, size)
	return append(b, data...)
}

func TestReadWAV(t *testing.T) {
	mono := wavFile(1, 1, 16000, 16, 4, []byte{1, 0, 2, 0})
	odd := slices.Concat(mono[:36], []byte("LIST\x03\x00\x00\x00abc\x00"), mono[36:])
	extensible := slices.Concat([]byte("RIFF----WAVEfmt \x28\x00\x00\x00\xfe\xff\x01\x00\x40\x1f\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00"),
		make([]byte, 8), []byte{1}, make([]byte, 15), []byte("data\x02\x00\x00\x00\x05\x00"))
	for _, tc := range []struct {
		name string
		in   []byte
		pcm  []int16
		rate int
		bad  bool
	}{
		{"mono", mono, []int16{1, 2}, 16000, false},
		{"another chunk of odd size first", odd, []int16{1, 2}, 16000, false},
		{"chunk after the data", append(slices.Clone(mono), "LIST\x00\x00\x00\x00"...), []int16{1, 2}, 16000, false},
		{"stereo", wavFile(1, 2, 8000, 16, 8, []byte{10, 0, 20, 0, 0xff, 0x7f, 0xff, 0x7f}), []int16{15, 32767}, 8000, false},
		{"µ-law", wavFile(7, 1, 8000, 8, 2, []byte{0xff, 0x80}), []int16{0, 32124}, 8000, false},
		{"µ-law stereo", wavFile(7, 2, 8000, 8, 2, []byte{0xff, 0x80}), []int16{16062}, 8000, false},
		{"extensible", extensible, []int16{5}, 8000, false},
		{"streamed, all ones", wavFile(1, 1, 22050, 16, 0xffffffff, []byte{1, 0, 2, 0}), []int16{1, 2}, 22050, false},
		{"streamed, nought", wavFile(1, 1, 22050, 16, 0, []byte{1, 0, 2, 0}), []int16{1, 2}, 22050, false},
		{"cut off inside a sample", wavFile(1, 1, 8000, 16, 100, []byte{1, 0, 2}), []int16{1}, 8000, false},
		{"no sound", wavFile(1, 1, 8000, 16, 0, nil), []int16{}, 8000, false},
		{"empty", nil, nil, 0, true},
		{"no WAV", []byte("RIFF....AVI LIST"), nil, 0, true},
		{"header only", []byte("RIFF....WAVE"), nil, 0, true},
		{"data before format", []byte("RIFF....WAVEdata\x02\x00\x00\x00ab"), nil, 0, true},
		{"short format", []byte("RIFF....WAVEfmt \x02\x00\x00\x00\x01\x00"), nil, 0, true},
		{"8-bit PCM", wavFile(1, 1, 8000, 8, 1, []byte{1}), nil, 0, true},
		{"float", wavFile(3, 1, 8000, 32, 4, []byte{1, 2, 3, 4}), nil, 0, true},
		{"no channel", wavFile(1, 0, 8000, 16, 2, []byte{1, 2}), nil, 0, true},
		{"many channels", wavFile(1, 6, 8000, 16, 2, []byte{1, 2}), nil, 0, true},
		{"no rate", wavFile(1, 1, 0, 16, 2, []byte{1, 2}), nil, 0, true},
		{"absurd rate", wavFile(1, 1, 1<<31, 16, 2, []byte{1, 2}), nil, 0, true},
		{"too large", make([]byte, MaxWAV+1), nil, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pcm, rate, err := ReadWAV(tc.in)
			if tc.bad != errors.Is(err, ErrWAV) || tc.bad != (err != nil) {
				t.Fatalf("error %v, want one: %v", err, tc.bad)
			}
			if diff := cmp.Diff(tc.pcm, pcm); diff != "" || rate != tc.rate {
				t.Errorf("rate %d, want %d; samples (-want +got):\n%s", rate, tc.rate, diff)
			}
		})
	}
}

func TestWAVRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pcm := rapid.SliceOf(rapid.Int16()).Draw(t, "pcm")
		rate := rapid.IntRange(1, MaxRate).Draw(t, "rate")
		var b bytes.Buffer
		if err := WriteWAV(&b, pcm, rate); err != nil {
			t.Fatal(err)
		}
		got, gotRate, err := ReadWAV(b.Bytes())
		if err != nil || gotRate != rate || !slices.Equal(got, pcm) {
			t.Fatalf("read %d samples at %d, error %v; want %d at %d", len(got), gotRate, err, len(pcm), rate)
		}
	})
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteWAVErrors(t *testing.T) {
	if err := WriteWAV(&bytes.Buffer{}, nil, 0); err == nil {
		t.Error("rate 0: no error")
	}
	if err := WriteWAV(full{}, []int16{1}, Rate); err == nil {
		t.Error("full disk: no error")
	}
}

func FuzzReadWAV(f *testing.F) {
	f.Add(wavFile(1, 1, 8000, 16, 4, []byte{1, 0, 2, 0}))
	f.Add(wavFile(7, 2, 8000, 8, 0xffffffff, []byte{1, 0, 2}))
	f.Add([]byte("RIFF....WAVELIST\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		pcm, rate, err := ReadWAV(b)
		switch {
		case err != nil && (!errors.Is(err, ErrWAV) || pcm != nil || rate != 0):
			t.Errorf("error %v with %d samples at %d", err, len(pcm), rate)
		case err == nil && (rate < 1 || rate > MaxRate || len(pcm) > len(b)):
			t.Errorf("%d samples at %d from %d bytes", len(pcm), rate, len(b))
		}
	})
}
