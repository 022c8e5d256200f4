package media

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte(startMessage))
	for _, s := range []string{
		`{"event":"connected","protocol":"Call","version":"1.0.0"}`,
		`{"event":"media","sequenceNumber":"3","streamSid":"MZ1","media":{"track":"inbound","chunk":"1","timestamp":"5","payload":"/38="}}`,
		`{"event":"dtmf","streamSid":"MZ1","sequenceNumber":"5","dtmf":{"track":"inbound_track","digit":"1"}}`,
		`{"event":"mark","sequenceNumber":"4","streamSid":"MZ1","mark":{"name":"x"}}`,
		`{"event":"stop","sequenceNumber":5,"streamSid":"MZ1"}`,
		`{"event":"media","media":{"payload":null}}`, `null`, `[]`, `{"event":"start","start":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		switch {
		case m.event == "":
			t.Error("a message without an event")
		case m.event == eventStart && (m.start.StreamSID == "" || len(m.start.StreamSID) > maxSID || m.start.StreamSID != m.streamSID):
			t.Errorf("start of stream %q (%q)", m.start.StreamSID, m.streamSID)
		case len(m.payload) > len(b):
			t.Errorf("%d bytes of sound from %d", len(m.payload), len(b))
		}
		if m.event == eventStart {
			e := newEncoder(m.start.StreamSID)
			for _, made := range []func() []byte{e.clear, func() []byte { return e.mark(m.start.CallSID) }, func() []byte { return e.media(b) }} {
				if out := made(); !json.Valid(out) {
					t.Errorf("not JSON: %s", out)
				}
			}
		}
	})
}

// What is sent is what another end reads, whatever the ids, names and sound.
func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sid := rapid.String().Draw(t, "sid")
		name := rapid.String().Draw(t, "name")
		ulaw := rapid.SliceOf(rapid.Byte()).Draw(t, "ulaw")
		e := newEncoder(sid)
		for _, tc := range []struct {
			event string
			made  func() []byte
		}{
			{"media", func() []byte { return e.media(ulaw) }},
			{"mark", func() []byte { return e.mark(name) }},
			{"clear", e.clear},
			{"media", func() []byte { return e.media(ulaw) }}, // the buffer is used again
		} {
			var got heard
			if err := json.Unmarshal(tc.made(), &got); err != nil {
				t.Fatal(err)
			}
			if got.Event != tc.event || got.StreamSID != sid {
				t.Fatalf("%s of %q, want %s of %q", got.Event, got.StreamSID, tc.event, sid)
			}
			if tc.event == "media" && string(got.Media.Payload) != string(ulaw) {
				t.Fatalf("payload %v, want %v", got.Media.Payload, ulaw)
			}
			if tc.event == "mark" && got.Mark.Name != name {
				t.Fatalf("name %q, want %q", got.Mark.Name, name)
			}
		}
	})
}

func TestReasons(t *testing.T) {
	for _, r := range reasons {
		if !r.Valid() {
			t.Errorf("%q is not valid", r)
		}
	}
	if Reason("bored").Valid() || Reason("").Valid() {
		t.Error("an invented reason is valid")
	}
}
