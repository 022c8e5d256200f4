package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Version is the version of orders and records that this package writes.
const Version = 1

// Limits of an order.
const (
	MaxOrder    = 64 << 10 // bytes as JSON
	MaxMetadata = 8 << 10  // bytes of the metadata object
	MaxCallID   = 64       // characters; the ids of follow-up calls are up to 8 longer
	MaxTries    = 20       // dials of one retry policy
	maxWord     = 128      // characters of any other id
)

// Order is one call as it travels on the line: all that is needed to make it.
type Order struct {
	V        int    `json:"v"`
	CallID   string `json:"call_id"`
	Org      string `json:"org_id"`
	Campaign string `json:"campaign_id,omitempty"` // required in class campaign
	Class    Class  `json:"class"`
	Region   string `json:"region"`            // the call never leaves it
	Pool     string `json:"pool,omitempty"`    // "": the region's default
	Carrier  string `json:"carrier,omitempty"` // "": the deployment's only one

	From string `json:"from,omitempty"` // E.164; inbound: the caller, empty when withheld
	To   string `json:"to"`             // E.164

	Flow     Flow                `json:"flow,omitzero"`
	Greeting Greeting            `json:"greeting,omitzero"`
	Needs    map[string][]string `json:"needs,omitempty"`    // kind (stt, tts, llm) → providers, the preferred first
	Metadata json.RawMessage     `json:"metadata,omitempty"` // an object of at most MaxMetadata bytes, handed to the bot as it came

	NotBefore time.Time    `json:"not_before,omitzero"` // zero: at once
	NotAfter  time.Time    `json:"not_after,omitzero"`  // at this moment it is too late; zero: never too late
	Hours     Hours        `json:"hours,omitzero"`      // on the callee's clock; none: at any hour
	TZ        string       `json:"tz,omitempty"`        // the callee's zone; needed with Hours unless ZoneOf knows it
	Retry     *RetryPolicy `json:"retry,omitempty"`     // none: one try

	RingMS    Millis `json:"ring_ms,omitempty"`     // give up ringing after this, 5 s to 10 min; 0: 60 s
	MediaMS   Millis `json:"media_ms,omitempty"`    // a bot without media for this long frees itself, to 1 h; 0: the bot's own, 75 s
	MaxCallMS Millis `json:"max_call_ms,omitempty"` // cap of the call's length, to 24 h; 0: 1 h

	// Detect asks the carrier to find out who answered, see [Detects]; "": it does not.
	Detect string `json:"machine_detection,omitempty"`

	CallBack    bool   `json:"call_back,omitempty"`    // ring again when we broke the line
	CallbackURL string `json:"callback_url,omitempty"` // told how the call ended

	// NoWait ends the call as bot_unavailable when the first claim finds no bot,
	// instead of letting it wait: now or not at all.
	NoWait bool `json:"no_wait,omitempty"`

	QueuedAt    time.Time `json:"queued_at,omitzero"`     // when the call was accepted
	RequestHash string    `json:"request_hash,omitempty"` // of the request it was made from, to know it again; "": none

	// Where this call comes from, when another one led to it.
	Try        int    `json:"try,omitempty"`         // the first is 1; 0 is read as 1
	Root       string `json:"root,omitempty"`        // id of the first try
	RetryOf    string `json:"retry_of,omitempty"`    // id of the try before this one
	CallbackOf string `json:"callback_of,omitempty"` // id of the call that was broken or turned away
}

// Flow names what the bot is to say and do.
type Flow struct {
	ID      string          `json:"id,omitempty"`
	Version string          `json:"version,omitempty"`
	URL     string          `json:"url,omitempty"`
	Inline  json.RawMessage `json:"inline,omitempty"`
}

// Greeting overrides the flow's first sentence.
type Greeting struct {
	Text   string `json:"text,omitempty"`
	Locale string `json:"locale,omitempty"`
	Voice  string `json:"voice,omitempty"`
}

// Defaults of an order's limits.
const (
	DefaultRing    = 60 * time.Second
	DefaultMaxCall = time.Hour
)

// Inbound reports whether the other side called us.
func (o Order) Inbound() bool { return o.Class == ClassInbound }

// BotWait is how long the call may wait for a bot from its first miss. A callback
// was promised for as long as it lives; everybody else is told after [BotWait].
func (o Order) BotWait() time.Duration {
	if o.CallbackOf != "" {
		return CallbackLife
	}
	return BotWait
}

// Detects are what may be found out of who answered.
func Detects() []string { return []string{"answer", "message_end"} }

// Person is the human at the other end: the callee, or the caller of an inbound
// call ("" when the number is withheld).
func (o Order) Person() Person {
	if o.Inbound() {
		return Person{o.Org, o.From}
	}
	return Person{o.Org, o.To}
}

// TryNumber is which dial of the retry policy this call is, from 1.
func (o Order) TryNumber() int { return max(1, o.Try) }

// Zone is the callee's time zone: TZ, or that of the number; UTC when the order
// has no hours and does not say.
func (o Order) Zone() (*time.Location, error) {
	if o.TZ != "" {
		return Zone(o.TZ)
	}
	if tz, ok := ZoneOf(o.Person().Number); ok {
		return Zone(tz)
	}
	if o.Hours == nil {
		return time.UTC, nil
	}
	return nil, errors.New("the number does not tell the time zone")
}

// Opens is the first moment, at or after now, at which the call may be dialled:
// not before NotBefore and inside the hours. ok is false when there is none before
// NotAfter: then it is to expire, not to be dialled late.
func (o Order) Opens(now time.Time) (at time.Time, ok bool) {
	if at = now; at.Before(o.NotBefore) {
		at = o.NotBefore
	}
	if o.Hours != nil {
		loc, err := o.Zone()
		if err != nil {
			return time.Time{}, false // Check does not let such an order in
		}
		if at, ok = o.Hours.Earliest(at, loc); !ok {
			return time.Time{}, false
		}
	}
	if !o.NotAfter.IsZero() && !at.Before(o.NotAfter) {
		return time.Time{}, false
	}
	return at, true
}

// FieldError names the field of an order or record that cannot be used. It holds
// no full telephone number.
type FieldError struct {
	Field  string // as in JSON, with a path: "retry.on"
	Detail string // what is wrong with it
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Detail }

func field(name, format string, args ...any) error {
	return &FieldError{Field: name, Detail: fmt.Sprintf(format, args...)}
}

// Check reports the first field that cannot be used, as a [*FieldError].
func (o Order) Check() error {
	if o.V < 1 || o.V > Version {
		return field("v", "%d, want 1 to %d", o.V, Version)
	}
	longest := MaxCallID
	if o.RetryOf != "" || o.CallbackOf != "" {
		longest += 8 // "-r20-cb"
	}
	if len(o.CallID) > longest {
		return field("call_id", "%d characters, at most %d", len(o.CallID), longest)
	}
	for _, f := range []struct {
		name, word string
		optional   bool
	}{
		{"call_id", o.CallID, false},
		{"org_id", o.Org, false},
		{"campaign_id", o.Campaign, o.Class != ClassCampaign},
		{"region", o.Region, false},
		{"pool", o.Pool, true},
		{"carrier", o.Carrier, true},
		{"root", o.Root, true},
		{"retry_of", o.RetryOf, true},
		{"callback_of", o.CallbackOf, true},
	} {
		if !token(f.word) && !(f.optional && f.word == "") {
			return field(f.name, "%.40q, want 1 to %d letters, digits, _ or -", f.word, maxWord)
		}
	}
	if !o.Class.Known() {
		return field("class", "%.40q, want one of %v", string(o.Class), Classes())
	}
	if !E164(o.To) {
		return field("to", "want E.164: + and 7 to 15 digits")
	}
	if !E164(o.From) && !(o.Inbound() && o.From == "") {
		return field("from", "want E.164: + and 7 to 15 digits")
	}
	if o.Try < 0 || o.Try > MaxTries {
		return field("try", "%d, want 0 to %d", o.Try, MaxTries)
	}
	for _, f := range []struct {
		name     string
		ms       Millis
		min, max time.Duration
	}{
		{"ring_ms", o.RingMS, 5 * time.Second, 10 * time.Minute},
		{"media_ms", o.MediaMS, time.Second, time.Hour},
		{"max_call_ms", o.MaxCallMS, time.Second, 24 * time.Hour},
	} {
		// Compared as they came: a number of years would overflow as a Duration.
		if f.ms != 0 && (f.ms < ToMillis(f.min) || f.ms > ToMillis(f.max)) {
			return field(f.name, "%d, want 0 or %d to %d", int64(f.ms), int64(ToMillis(f.min)), int64(ToMillis(f.max)))
		}
	}
	for kind, providers := range o.Needs {
		if !token(kind) {
			return field("needs", "%.40q is no kind of provider", kind)
		}
		if len(providers) == 0 {
			return field("needs."+kind, "no provider")
		}
		for _, p := range providers {
			if !token(p) {
				return field("needs."+kind, "%.40q is no provider", p)
			}
		}
	}
	if err := checkMetadata(o.Metadata); err != nil {
		return err
	}
	if len(o.Flow.Inline) > 0 && !json.Valid(o.Flow.Inline) {
		return field("flow.inline", "not JSON")
	}
	if o.Detect != "" && !slices.Contains(Detects(), o.Detect) {
		return field("machine_detection", "%.40q, want one of %v", o.Detect, Detects())
	}
	if o.CallbackURL != "" {
		u, err := url.Parse(o.CallbackURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || len(o.CallbackURL) > 2048 {
			return field("callback_url", "want an absolute http or https URL of at most 2048 characters")
		}
	}
	return o.checkTimes()
}

// checkTimes is the part of Check about when.
func (o Order) checkTimes() error {
	for _, f := range []struct {
		name string
		at   time.Time
	}{{"not_before", o.NotBefore}, {"not_after", o.NotAfter}, {"queued_at", o.QueuedAt}} {
		if y := f.at.Year(); !f.at.IsZero() && (y < 1970 || y > 9998) { // beyond, JSON and arithmetic break
			return field(f.name, "year %d", y)
		}
	}
	if !o.NotAfter.IsZero() && !o.NotAfter.After(o.NotBefore) {
		return field("not_after", "not after not_before")
	}
	if err := o.Hours.Check(); err != nil {
		return field("hours", "%v", err)
	}
	if o.TZ != "" {
		if _, err := Zone(o.TZ); err != nil {
			return field("tz", "%v", err)
		}
	} else if o.Hours != nil || o.Retry != nil && o.Retry.Hours != nil {
		if _, ok := ZoneOf(o.Person().Number); !ok {
			return field("tz", "needed with hours: the number does not tell the time zone")
		}
	}
	if o.Retry != nil {
		return o.Retry.check(o.Hours)
	}
	return nil
}

func checkMetadata(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) > MaxMetadata {
		return field("metadata", "%d bytes, at most %d", len(raw), MaxMetadata)
	}
	if t := bytes.TrimLeft(raw, " \t\r\n"); !json.Valid(raw) || t[0] != '{' && string(t) != "null" {
		return field("metadata", "not a JSON object")
	}
	return nil
}

// token reports whether s may be a part of a subject or of an id.
func token(s string) bool {
	if s == "" || len(s) > maxWord {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
