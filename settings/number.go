package settings

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"dibs/api"
	"dibs/call"
	"dibs/wire"
)

// Limits of a number's settings.
const (
	MaxSentence = 500      // characters of overflow and sorry
	maxStored   = 48 << 10 // bytes of one number as JSON; an order made of it stays far below its own limit
)

var languageForm = regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

// Invalid says which fields cannot be used.
type Invalid struct {
	Fields   []api.FieldProblem
	Deadlock bool // somebody could never dial: the details have the numbers
}

func (e *Invalid) Error() string {
	var parts []string
	for _, f := range e.Fields {
		parts = append(parts, f.Path+": "+f.Detail)
	}
	return strings.Join(parts, "; ")
}

// Check reports every field that cannot be used, as an [*Invalid].
func Check(n api.Number) error {
	var bad []api.FieldProblem
	say := func(path, format string, args ...any) {
		bad = append(bad, api.FieldProblem{Path: path, Detail: fmt.Sprintf(format, args...)})
	}
	if !call.E164(n.Number) {
		say("number", "want E.164: + and 7 to 15 digits")
	}
	for _, f := range []struct{ path, word string }{{"org_id", n.Org}, {"region", n.Region}, {"pool", n.Pool}} {
		if (f.word != "" || f.path != "pool") && wire.CheckToken(f.word) != nil {
			say(f.path, "want 1 to 128 letters, digits, _ or -")
		}
	}
	if err := wire.CheckMetadata(n.Metadata); err != nil {
		say("metadata", "want an object of at most %d bytes", wire.MaxMetadata)
	}
	if len(n.Flow.Inline) > 0 && !json.Valid(n.Flow.Inline) {
		say("flow.inline", "not JSON")
	}
	if ms := n.MaxCallMS; ms != 0 && (ms < call.ToMillis(time.Second) || ms > call.ToMillis(24*time.Hour)) {
		say("max_call_ms", "%d, want 0 or 1000 to 86400000", int64(ms))
	}
	for _, f := range []struct{ path, text string }{{"overflow", n.Overflow}, {"sorry", n.Sorry}} {
		if c := utf8.RuneCountInString(f.text); c > MaxSentence {
			say(f.path, "%d characters, at most %d", c, MaxSentence)
		}
	}
	if n.Language != "" && !languageForm.MatchString(n.Language) {
		say("language", "want a tag like en-GB")
	}
	if len(bad) == 0 {
		if data, err := json.Marshal(n); err != nil || len(data) > maxStored {
			say("flow", "larger than %d bytes with the rest; put it behind a URL", maxStored)
		}
	}
	if len(bad) > 0 {
		return &Invalid{Fields: bad}
	}
	return nil
}
