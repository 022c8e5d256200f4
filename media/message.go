package media

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Events of the carrier's stream. Those it does not list are ignored, so that a
// carrier may add some.
const (
	eventConnected = "connected"
	eventStart     = "start"
	eventMedia     = "media"
	eventDTMF      = "dtmf"
	eventMark      = "mark"
	eventStop      = "stop"
)

// maxSID bounds the ids that the carrier gives: the stream's goes back to it
// with every message.
const maxSID = 256

// Start is what the carrier says of a stream as it begins.
type Start struct {
	CallSID    string // the carrier's id of the call ("CA…")
	StreamSID  string // and of this stream of it ("MZ…")
	AccountSID string
	Params     map[string]string // as given with the socket's address; nil if none
}

// message is one from the carrier; which of the fields mean something depends on
// the event.
type message struct {
	event     string
	sequence  int64 // 0: none that can be read
	streamSID string
	start     Start
	outbound  bool // media of our own voice
	payload   []byte
	digit     string
	mark      string
}

// number is a count that carriers send as a string. Nothing depends on it, so
// one that cannot be read is 0 and no reason to hang up.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	if err != nil {
		v = 0
	}
	*n = number(v)
	return nil
}

// decode reads one message. It is strict about the parts that are used and blind
// to the rest.
func decode(b []byte) (message, error) {
	// The parts stay raw until the event says which of them counts.
	var env struct {
		Event     string          `json:"event"`
		Sequence  number          `json:"sequenceNumber"`
		StreamSID json.RawMessage `json:"streamSid"`
		Start     json.RawMessage `json:"start"`
		Media     json.RawMessage `json:"media"`
		DTMF      json.RawMessage `json:"dtmf"`
		Mark      json.RawMessage `json:"mark"`
	}
	if err := json.Unmarshal(b, &env); err != nil {
		return message{}, fmt.Errorf("message: %w", err)
	}
	m := message{event: env.Event, sequence: int64(env.Sequence)}
	var err error
	switch m.event {
	case eventStart, eventMedia, eventDTMF, eventMark:
		if env.StreamSID != nil {
			if err = json.Unmarshal(env.StreamSID, &m.streamSID); err != nil {
				return message{}, fmt.Errorf("%s: stream id: %w", m.event, err)
			}
		}
	}
	switch m.event {
	case "":
		err = errors.New("no event")
	case eventStart:
		err = m.readStart(env.Start)
	case eventMedia:
		var v struct {
			Track   string  `json:"track"`
			Payload *[]byte `json:"payload"`
		}
		if err = part(env.Media, &v); err == nil && v.Payload == nil {
			err = errors.New("no payload")
		}
		if err == nil {
			m.outbound, m.payload = strings.HasPrefix(v.Track, "outbound"), *v.Payload
		}
	case eventDTMF:
		var v struct {
			Digit string `json:"digit"`
		}
		err = part(env.DTMF, &v)
		m.digit = v.Digit
	case eventMark:
		var v struct {
			Name string `json:"name"`
		}
		err = part(env.Mark, &v)
		m.mark = v.Name
	}
	if err != nil {
		return message{}, fmt.Errorf("message %.20q: %w", m.event, err)
	}
	return m, nil
}

func part(raw json.RawMessage, v any) error {
	if raw == nil {
		return errors.New("part missing")
	}
	return json.Unmarshal(raw, v)
}

func (m *message) readStart(raw json.RawMessage) error {
	var v struct {
		StreamSID  string            `json:"streamSid"`
		CallSID    string            `json:"callSid"`
		AccountSID string            `json:"accountSid"`
		Params     map[string]string `json:"customParameters"`
		Format     *struct {
			Encoding   string `json:"encoding"`
			SampleRate number `json:"sampleRate"`
			Channels   number `json:"channels"`
		} `json:"mediaFormat"`
	}
	if err := part(raw, &v); err != nil {
		return err
	}
	if v.StreamSID == "" {
		v.StreamSID = m.streamSID
	}
	switch f := v.Format; {
	case v.StreamSID == "":
		return errors.New("no stream id")
	case len(v.StreamSID) > maxSID, len(v.CallSID) > maxSID, len(v.AccountSID) > maxSID:
		return fmt.Errorf("id of more than %d bytes", maxSID)
	case m.streamSID != "" && m.streamSID != v.StreamSID:
		return errors.New("two stream ids")
	case f != nil && (f.Encoding != "audio/x-mulaw" || f.SampleRate != 8000 || f.Channels != 1):
		return fmt.Errorf("format %.20q, %d Hz, %d channels; spoken is audio/x-mulaw, 8000 Hz, 1 channel", f.Encoding, f.SampleRate, f.Channels)
	}
	m.streamSID = v.StreamSID
	m.start = Start{CallSID: v.CallSID, StreamSID: v.StreamSID, AccountSID: v.AccountSID, Params: v.Params}
	return nil
}

// encoder makes the messages to the carrier, without an allocation a frame. A
// result is good until the next one.
type encoder struct {
	sid []byte // the stream's id as JSON
	buf []byte
}

func newEncoder(streamSID string) encoder {
	return encoder{sid: quote(streamSID)}
}

// quote cannot fail: every string has a JSON form.
func quote(s string) []byte {
	b, _ := json.Marshal(s)
	return b
}

func (e *encoder) begin(event string) []byte {
	b := append(e.buf[:0], `{"event":"`...)
	b = append(b, event...)
	b = append(b, `","streamSid":`...)
	return append(b, e.sid...)
}

func (e *encoder) media(ulaw []byte) []byte {
	b := append(e.begin("media"), `,"media":{"payload":"`...)
	b = base64.StdEncoding.AppendEncode(b, ulaw)
	e.buf = append(b, `"}}`...)
	return e.buf
}

func (e *encoder) mark(name string) []byte {
	b := append(e.begin("mark"), `,"mark":{"name":`...)
	b = append(b, quote(name)...)
	e.buf = append(b, `}}`...)
	return e.buf
}

func (e *encoder) clear() []byte {
	e.buf = append(e.begin("clear"), '}')
	return e.buf
}
