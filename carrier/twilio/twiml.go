package twilio

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dibs/carrier"
)

// Twilio's limits on instructions.
const (
	MaxInline = 4000 // characters of TwiML sent with a create
	MaxParam  = 500  // characters of a stream parameter, name and value together, not reached
)

// Verb is one instruction of a TwiML document: [Connect], [Say], [Pause],
// [Redirect], [Reject] or [Hangup].
type Verb interface{ element() any }

// Connect leads the call's audio, both ways, to a media socket until that closes;
// then the next verb has its turn.
type Connect struct {
	URL       string            // wss, no query string
	Params    map[string]string // handed over in the start message
	StatusURL string            // told of the stream's start, stop and errors; empty: nobody
}

// Say speaks Text.
type Say struct{ Text, Voice, Language string }

// Pause waits; whole seconds, rounded up, at least one.
type Pause struct{ Length time.Duration }

// Redirect asks URL, by POST, how to go on.
type Redirect struct{ URL string }

// Reject refuses an inbound call without answering it, so it costs nothing. Only
// as the first verb; Busy decides what the caller is told.
type Reject struct{ Busy bool }

// Hangup ends the call.
type Hangup struct{}

func (v Connect) element() any {
	type parameter struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	type stream struct {
		URL       string      `xml:"url,attr"`
		StatusURL string      `xml:"statusCallback,attr,omitempty"`
		Params    []parameter `xml:"Parameter"`
	}
	s := stream{URL: v.URL, StatusURL: v.StatusURL}
	for _, name := range slices.Sorted(maps.Keys(v.Params)) {
		s.Params = append(s.Params, parameter{name, v.Params[name]})
	}
	return struct {
		XMLName xml.Name `xml:"Connect"`
		Stream  stream   `xml:"Stream"`
	}{Stream: s}
}

func (v Say) element() any {
	return struct {
		XMLName  xml.Name `xml:"Say"`
		Voice    string   `xml:"voice,attr,omitempty"`
		Language string   `xml:"language,attr,omitempty"`
		Text     string   `xml:",chardata"`
	}{Voice: v.Voice, Language: v.Language, Text: v.Text}
}

func (v Pause) element() any {
	return struct {
		XMLName xml.Name `xml:"Pause"`
		Length  string   `xml:"length,attr"`
	}{Length: seconds(max(v.Length, time.Second))}
}

func (v Redirect) element() any {
	return struct {
		XMLName xml.Name `xml:"Redirect"`
		Method  string   `xml:"method,attr"`
		URL     string   `xml:",chardata"`
	}{Method: "POST", URL: v.URL}
}

func (v Reject) element() any {
	reason := "rejected"
	if v.Busy {
		reason = "busy"
	}
	return struct {
		XMLName xml.Name `xml:"Reject"`
		Reason  string   `xml:"reason,attr"`
	}{Reason: reason}
}

func (v Hangup) element() any {
	return struct {
		XMLName xml.Name `xml:"Hangup"`
	}{}
}

// TwiML is the document of verbs, in their order. Whatever is in a field is
// escaped; what XML cannot hold becomes the replacement character.
func TwiML(verbs ...Verb) string {
	var b strings.Builder
	b.WriteString(xml.Header)
	b.WriteString("<Response>")
	e := xml.NewEncoder(&b)
	for _, v := range verbs {
		// Nothing here can fail: the elements are our own structs, the writer is memory.
		_ = e.Encode(v.element())
	}
	b.WriteString("</Response>")
	return b.String()
}

// Connect is the document that leads a call to m and then, while the call is still
// on, asks next how to go on (empty: the call ends). It is what Place sends and
// what an inbound webhook answers. The error names what Twilio would not take.
func (c *Client) Connect(m carrier.Media, next string) (string, error) {
	if err := checkMedia(m.URL, c.insecure); err != nil {
		return "", err
	}
	for name, value := range m.Params {
		if name == "" {
			return "", errors.New("media: a parameter has no name")
		}
		if utf8.RuneCountInString(name)+utf8.RuneCountInString(value) >= MaxParam {
			return "", fmt.Errorf("media: parameter %.40q: name and value have %d characters or more", name, MaxParam)
		}
	}
	verbs := []Verb{Connect{URL: m.URL, Params: m.Params}}
	if next != "" {
		if !httpAddress(next) {
			return "", errors.New("next url: not an http address")
		}
		verbs = append(verbs, Redirect{URL: next})
	}
	return TwiML(verbs...), nil
}

// checkMedia quotes nothing of the address: there is a token in it.
func checkMedia(s string, insecure bool) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "":
		return errors.New("media: not an address")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("media: the address has a query string or a fragment")
	case u.Scheme == "wss":
		return nil
	case u.Scheme == "ws" && insecure && loopback(u.Hostname()):
		return nil
	case u.Scheme == "ws":
		return errors.New("media: ws is for loopback only, and only when insecure is set")
	}
	return errors.New("media: want wss")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func httpAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
