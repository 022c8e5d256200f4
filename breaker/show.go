package breaker

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown is the longest LastError, in bytes.
const maxShown = 200

// What an error's text may carry by accident: a URL with a token in it, a
// credential, a key, a phone number.
var (
	urls    = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)(?:[^\s/@"']*@)?([^\s/?#"']*)[^\s"']*`)
	bearers = regexp.MustCompile(`(?i)\b(bearer|basic)\s+\S+`)
	secrets = regexp.MustCompile(`(?i)(token|secret|password|passwd|key|authorization)(["']?\s*[:=]\s*)(?:"[^"]*"|\S+)`)
	opaque  = regexp.MustCompile(`[A-Za-z0-9_+/=-]{20,}`)
	numbers = regexp.MustCompile(`\+?\d[\d ()-]{5,}\d`)
)

// show is text on one line of at most maxShown bytes, without what must not be
// shown. It would rather hide too much: the whole error is in the bot's log.
func show(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	text = urls.ReplaceAllString(text, "$1$2/…")
	text = bearers.ReplaceAllString(text, "$1 …")
	text = secrets.ReplaceAllString(text, "$1$2…")
	text = opaque.ReplaceAllStringFunc(text, func(w string) string {
		if strings.ContainsAny(w, "0123456789") {
			return "…"
		}
		return w
	})
	text = numbers.ReplaceAllString(text, "…")
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxShown {
		return text
	}
	cut := maxShown - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
