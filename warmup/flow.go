package warmup

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"
)

// Limits of a flow document.
const (
	MaxFlow   = 256 << 10 // bytes
	MaxText   = 1000      // characters of a greeting, a good minute of speech
	MaxParams = 32        // entries of params
	MaxParam  = 400       // bytes of a name and its value together: a carrier's limit is 500
)

// Flow is what a bot is to say and do on a call: a JSON object of at most
// [MaxFlow] bytes,
//
//	{
//	  "id":        "recall",                the name under which it is asked for
//	  "version":   "2026-03",               any word; a call may pin it
//	  "greeting":  {"text": "Hello, this is …", "locale": "en-GB", "voice": "alloy"},
//	  "providers": {"stt": "acme", "tts": "…", "llm": "…"},   when the call does not choose
//	  "params":    {"lang": "en"},          handed to the media stream, strings only
//	  "data":      {…}                      the flow's own; not looked into
//	}
//
// Every field may be left out; any other field is refused, and so is a field
// that stands there twice. A Flow may be shared by calls: it must not be changed.
type Flow struct {
	ID        string            `json:"id,omitempty"`
	Version   string            `json:"version,omitempty"`
	Greeting  Greeting          `json:"greeting,omitzero"`
	Providers map[string]string `json:"providers,omitempty"` // kind → provider name
	Params    map[string]string `json:"params,omitempty"`
	Data      json.RawMessage   `json:"data,omitempty"`
}

// Greeting is the first sentence.
type Greeting struct {
	Text   string `json:"text,omitempty"`   // at most MaxText characters
	Locale string `json:"locale,omitempty"` // BCP 47: "en", "en-GB"
	Voice  string `json:"voice,omitempty"`  // a name that the speech engine knows
}

// The kinds of providers.
const (
	STT = "stt" // speech to text
	TTS = "tts" // text to speech
	LLM = "llm" // language model
)

var kinds = []string{STT, TTS, LLM}

// ParseFlow reads a flow document. The error is an [*Error] with the code
// flow_too_large, or flow_malformed and the field.
func ParseFlow(data []byte) (*Flow, error) {
	if len(data) > MaxFlow {
		return nil, &Error{Step: StepFlow, Code: FlowTooLarge, Permanent: true, Detail: fmt.Sprintf("%d bytes, at most %d", len(data), MaxFlow)}
	}
	var f Flow
	err := valid(data)
	if err == nil {
		err = object("", data, map[string]reader{
			"id":      text(&f.ID, checkName),
			"version": text(&f.Version, checkShort),
			"greeting": func(path string, raw json.RawMessage) error {
				return object(path, raw, map[string]reader{
					"text":   text(&f.Greeting.Text, checkText),
					"locale": text(&f.Greeting.Locale, checkLocale),
					"voice":  text(&f.Greeting.Voice, checkShort),
				})
			},
			"providers": table(&f.Providers, len(kinds), checkKind, checkName),
			"params":    table(&f.Params, MaxParams, checkName, nil),
			"data": func(path string, raw json.RawMessage) error {
				f.Data = raw
				return each(path, raw, func(string, string, json.RawMessage) error { return nil })
			},
		})
	}
	if err == nil {
		err = checkParams(f.Params)
	}
	if err != nil {
		return nil, malformed(err)
	}
	return &f, nil
}

func malformed(err error) *Error {
	e := &Error{Step: StepFlow, Code: FlowMalformed, Permanent: true, Detail: oneLine(err.Error()), Err: err}
	if fe, ok := errors.AsType[*fieldError](err); ok {
		e.Field, e.Detail = fe.field, oneLine(fe.detail)
	}
	return e
}

var (
	nameRE   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	localeRE = regexp.MustCompile(`^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}$`)
)

func checkName(s string) error {
	if !nameRE.MatchString(s) {
		return errors.New("want 1 to 128 letters, digits, and _ - . but for the first")
	}
	return nil
}

func checkKind(s string) error {
	if !slices.Contains(kinds, s) {
		return errors.New("want stt, tts or llm")
	}
	return nil
}

func checkShort(s string) error {
	if len(s) > 128 {
		return fmt.Errorf("%d bytes, at most 128", len(s))
	}
	return nil
}

func checkText(s string) error {
	if n := utf8.RuneCountInString(s); n > MaxText {
		return fmt.Errorf("%d characters, at most %d", n, MaxText)
	}
	return nil
}

func checkLocale(s string) error {
	if s != "" && !localeRE.MatchString(s) {
		return errors.New(`want a language and perhaps a region, like "en-GB"`)
	}
	return nil
}

func checkParams(params map[string]string) error {
	for k, v := range params {
		if len(k)+len(v) > MaxParam {
			return &fieldError{"params." + k, fmt.Sprintf("name and value are %d bytes, at most %d", len(k)+len(v), MaxParam)}
		}
	}
	return nil
}
