package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/call"
	"dibs/wire"
)

// Event is one thing that happened.
type Event struct {
	// ID is unique among all events and stays when the event is published again.
	// "": one is made.
	ID      string
	Type    string    // tokens joined by dots: [CallEnded]
	Subject string    // the call, bot, provider, region or org it is about; a token
	Source  string    // who tells, as a URI reference; "": [Config].Source
	At      time.Time // when it happened; zero: now
	Org     string    // "": concerns none in particular
	Region  string    // "": the same
	Trace   string    // W3C traceparent; "": none
	Data    json.RawMessage
	// Seq is the event's place in the stream, for cursors. Set by reading.
	Seq uint64
}

// Limits of one event.
const (
	MaxData   = 32 << 10 // bytes of the data
	MaxID     = 128      // characters of an id, a source, a trace
	maxTokens = 3        // of a type: as deep as timelines are read
)

// The attributes, as headers. Subscribers in any language see these.
const (
	headerVersion = "ce-specversion"
	headerID      = "ce-id"
	headerSource  = "ce-source"
	headerType    = "ce-type"
	headerSubject = "ce-subject"
	headerTime    = "ce-time"
	headerOrg     = "ce-orgid"
	headerRegion  = "ce-region"
	headerTrace   = "traceparent"
	headerContent = "Content-Type"

	specVersion = "1.0"
	typePrefix  = "dibs." // CloudEvents asks for types that name their product
	contentJSON = "application/json"
)

// Check reports the first field that cannot be published.
func (e Event) Check() error {
	if _, err := wire.EventOf(e.Type); err != nil {
		return fmt.Errorf("type: %w", err)
	}
	if strings.Count(e.Type, ".") >= maxTokens {
		return fmt.Errorf("type: %.40q, want at most %d tokens", e.Type, maxTokens)
	}
	if err := wire.CheckToken(e.Subject); err != nil {
		return fmt.Errorf("subject: %w", err)
	}
	for _, f := range []struct{ name, token string }{{"org", e.Org}, {"region", e.Region}} {
		if f.token != "" {
			if err := wire.CheckToken(f.token); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	for _, f := range []struct{ name, text string }{{"id", e.ID}, {"source", e.Source}, {"trace", e.Trace}} {
		if len(f.text) > MaxID || strings.ContainsFunc(f.text, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '%' }) {
			return fmt.Errorf("%s: %.40q, want at most %d printable characters", f.name, f.text, MaxID)
		}
	}
	if len(e.Data) > MaxData {
		return fmt.Errorf("data: %d bytes, at most %d", len(e.Data), MaxData)
	}
	if len(e.Data) > 0 && (!json.Valid(e.Data) || bytes.TrimLeft(e.Data, " \t\r\n")[0] != '{') {
		return errors.New("data: not a JSON object")
	}
	return nil
}

// shard is the last token of the subjects of everything about one call or bot.
func shard(subject string) string {
	return fmt.Sprintf("x%02x", hash(subject)&0xff)
}

func hash(subject string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(subject))
	return h.Sum32()
}

// message is the event as it is stored. The event is complete and checked.
func (e Event) message() *nats.Msg {
	subj, _ := wire.EventOf(e.Type)
	m := &nats.Msg{Subject: subj + "." + shard(e.Subject), Data: maskNumbers(e.Data), Header: nats.Header{
		headerVersion: {specVersion},
		headerID:      {e.ID},
		headerSource:  {e.Source},
		headerType:    {typePrefix + e.Type},
		headerSubject: {e.Subject},
		headerTime:    {e.At.UTC().Format(time.RFC3339Nano)},
	}}
	for _, h := range []struct{ name, value string }{{headerOrg, e.Org}, {headerRegion, e.Region}, {headerTrace, e.Trace}} {
		if h.value != "" {
			m.Header[h.name] = []string{h.value}
		}
	}
	if len(m.Data) > 0 {
		m.Header[headerContent] = []string{contentJSON}
	}
	return m
}

// parse reads a stored event. Whatever another program left out is taken from
// where the event lies, so that one odd event spoils no timeline.
func parse(subject string, h nats.Header, data []byte, seq uint64, stored time.Time) Event {
	e := Event{
		ID: h.Get(headerID), Source: h.Get(headerSource), Subject: h.Get(headerSubject),
		Type: strings.TrimPrefix(h.Get(headerType), typePrefix),
		Org:  h.Get(headerOrg), Region: h.Get(headerRegion), Trace: h.Get(headerTrace), Seq: seq,
	}
	if len(data) > 0 && json.Valid(data) {
		e.Data = data
	}
	if e.ID == "" {
		e.ID = fmt.Sprint(seq)
	}
	if e.Type == "" {
		e.Type = strings.TrimPrefix(subject, prefix)
		if i := strings.LastIndexByte(e.Type, '.'); i >= 0 {
			e.Type = e.Type[:i]
		}
	}
	var err error
	if e.At, err = time.Parse(time.RFC3339Nano, h.Get(headerTime)); err != nil {
		e.At = stored
	}
	return e
}

// prefix is where every event lies.
var prefix = strings.TrimSuffix(wire.EventsAll(), ">")

// maskNumbers replaces every telephone number in JSON text. The mask is longer than
// nothing and has no quotes, so the text stays JSON.
func maskNumbers(data []byte) []byte {
	var out []byte // nil while nothing was found
	rest := data
	for {
		i := bytes.IndexByte(rest, '+')
		if i < 0 {
			break
		}
		n := i + 1
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		found := rest[i:n]
		out = append(out, rest[:i]...)
		if len(found) > 7 { // longer than any number: not one, and yet not to be shown
			found = []byte(call.MaskNumber(string(found)))
		}
		out = append(out, found...)
		rest = rest[n:]
	}
	if out == nil {
		return data
	}
	return append(out, rest...)
}
