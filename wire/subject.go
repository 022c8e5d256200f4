package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Version is the protocol version this package speaks: the "v" of every message
// and the "v1" of every subject.
const Version = 1

// Prefix starts every subject.
const Prefix = "dibs.v1."

// IdleGroup is the queue group of idle seats. Only seats that can take a call
// now are members.
const IdleGroup = "idle"

// MaxToken is the longest token in bytes; a subject stays far below the
// server's limit of 4 KiB whatever is put into it.
const MaxToken = 128

// ErrToken says that a word cannot be a part of a subject.
var ErrToken = errors.New("not a subject token")

// CheckToken reports whether s may be one token of a subject: 1 to [MaxToken]
// characters of A–Z, a–z, 0–9, "_" and "-". The error wraps [ErrToken] and shows
// at most the first 40 bytes of s.
func CheckToken(s string) error {
	if s == "" {
		return fmt.Errorf("%w: empty", ErrToken)
	}
	if len(s) > MaxToken {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrToken, len(s), MaxToken)
	}
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			continue
		}
		return fmt.Errorf("%w: %q", ErrToken, s[:min(len(s), 40)])
	}
	return nil
}

// subject joins checked tokens below the prefix.
func subject(tokens ...string) (string, error) {
	for _, t := range tokens {
		if err := CheckToken(t); err != nil {
			return "", err
		}
	}
	return Prefix + strings.Join(tokens, "."), nil
}

// parse is the inverse of subject: the n tokens after the first, which is kind.
func parse(kind string, n int, subj string) (tokens []string, ok bool) {
	rest, ok := strings.CutPrefix(subj, Prefix+kind+".")
	if !ok {
		return nil, false
	}
	tokens = strings.Split(rest, ".")
	bad := func(t string) bool { return CheckToken(t) != nil }
	return tokens, len(tokens) == n && !slices.ContainsFunc(tokens, bad)
}

// ClaimPool is where the idle seats of one pool of a region are asked.
func ClaimPool(region, pool string) (string, error) { return subject("claim", region, pool) }

// ClaimRegion is where all idle seats of a region are asked.
func ClaimRegion(region string) (string, error) { return subject("claim", region) }

// The verbs of a bot's own subjects.
const (
	VerbClaim    = "claim"    // ClaimRequest: a directed ask
	VerbRelease  = "release"  // Command: the call is over before it was live, or must end
	VerbCordon   = "cordon"   // Command: no new calls
	VerbUncordon = "uncordon" // Command: take calls again
	VerbDrain    = "drain"    // Command: finish and leave
	VerbCall     = "call"     // Command: how does this call stand with you; an Answer with State
	VerbPing     = "ping"     // Command: are you there; answered by the process, not the network
)

// Bot is the subject of one verb of one bot.
func Bot(id, verb string) (string, error) { return subject("bot", id, verb) }

// BotAll matches every verb of one bot.
func BotAll(id string) (string, error) {
	s, err := subject("bot", id)
	if err != nil {
		return "", err
	}
	return s + ".*", nil
}

// ParseBotVerb takes the verb out of a subject made by [Bot].
func ParseBotVerb(subj string) (verb string, ok bool) {
	t, ok := parse("bot", 2, subj)
	if !ok {
		return "", false
	}
	return t[1], true
}

// BeatOf is where one bot's beats are published.
func BeatOf(region, id string) (string, error) { return subject("beat", region, id) }

// BeatAll matches the beats of every bot.
func BeatAll() string { return Prefix + "beat.>" }

// Line is where one outbound call waits: the stream keeps at most one message a
// subject, so the same call cannot be put twice.
func Line(region, class, org, call string) (string, error) {
	return subject("line", region, class, org, call)
}

// LineAll matches everything that waits on the line.
func LineAll() string { return Prefix + "line.>" }

// ParseLine is the inverse of [Line].
func ParseLine(subj string) (region, class, org, call string, ok bool) {
	t, ok := parse("line", 4, subj)
	if !ok {
		return "", "", "", "", false
	}
	return t[0], t[1], t[2], t[3], true
}

// EventOf is where events of one type go; dots in the type ("call.ended") make
// tokens of their own, so that subscribers can choose a family.
func EventOf(typ string) (string, error) {
	return subject(append([]string{"events"}, strings.Split(typ, ".")...)...)
}

// EventsAll matches every event.
func EventsAll() string { return Prefix + "events.>" }

// Desk is a subject on which the elected dispatcher answers; dots in the
// question ("lease.take") make tokens of their own.
func Desk(question string) (string, error) {
	return subject(append([]string{"desk"}, strings.Split(question, ".")...)...)
}

// Scale is where the dispatcher tells its numbers, once a second.
func Scale() string { return Prefix + "scale" }

// Roll is where the dispatcher, on taking office, asks every lease holder what it holds.
func Roll() string { return Prefix + "roll" }

// Names of the streams and key-value buckets in JetStream.
const (
	StreamLine     = "DIBS_LINE"
	StreamEvents   = "DIBS_EVENTS"
	BucketCalls    = "dibs_calls"
	BucketPeople   = "dibs_people"
	BucketFleet    = "dibs_fleet"
	BucketSettings = "dibs_settings"
	BucketOffice   = "dibs_office"
)
