package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SeatState is where a seat stands in its life.
type SeatState string

// idle → claimed → warming → assigned → live → wrapup → idle.
const (
	SeatIdle     SeatState = "idle"
	SeatClaimed  SeatState = "claimed"  // accepted; the asker has not confirmed yet
	SeatWarming  SeatState = "warming"  // confirmed; warm-up runs
	SeatAssigned SeatState = "assigned" // ready was sent; media must come
	SeatLive     SeatState = "live"     // media is there
	SeatWrapup   SeatState = "wrapup"   // the call is over, the bot tidies up
)

// Known reports whether this version knows the state.
func (s SeatState) Known() bool {
	switch s {
	case SeatIdle, SeatClaimed, SeatWarming, SeatAssigned, SeatLive, SeatWrapup:
		return true
	}
	return false
}

// Beat is a bot's liveness message: the whole truth about it, every 5 s and on
// every change, so a lost one is mended by the next.
type Beat struct {
	V        int    `json:"v"`
	BotID    string `json:"bot_id"`   // contains its start: <pod>_<unix>
	Instance string `json:"instance"` // the start stamp alone
	Seq      uint64 `json:"seq"`      // goes up by one a beat: an older one that arrives later is dropped
	Revision string `json:"revision,omitempty"`
	Region   string `json:"region"`
	Pool     string `json:"pool"`
	Pod      Pod    `json:"pod,omitzero"`
	MediaURL string `json:"media_url,omitempty"` // where carriers connect to, as far as it is the same for every call: "wss://host"

	Seats    []SeatView   `json:"seats"`
	Cordoned bool         `json:"cordoned,omitempty"`
	Draining bool         `json:"draining,omitempty"`
	Goodbye  bool         `json:"goodbye,omitempty"` // the last beat: gone on purpose
	NotReady string       `json:"not_ready,omitempty"`
	Breaker  *BreakerView `json:"breaker,omitempty"`
	Flows    []string     `json:"flows,omitempty"` // flow ids in the bot's cache, newest first

	RSS       int64  `json:"rss_bytes,omitempty"`
	Calls     int64  `json:"calls_total,omitempty"`
	Minute    Minute `json:"minute,omitzero"`
	UptimeMS  Millis `json:"uptime_ms,omitempty"`
	Protocols []int  `json:"protocols,omitempty"`
}

// SeatView is one seat as others see it. The age is measured by the bot, so the
// clocks of the two sides need not agree.
type SeatView struct {
	State  SeatState `json:"state"`
	ForMS  Millis    `json:"for_ms"` // how long in this state
	CallID string    `json:"call_id,omitempty"`
	Stuck  bool      `json:"stuck,omitempty"` // past the deadline of its state: not capacity
}

// Minute is what happened in the last minute.
type Minute struct {
	Ended           int    `json:"ended,omitempty"`
	Failed          int    `json:"failed,omitempty"`
	Errors          int    `json:"errors,omitempty"`
	Turns           int    `json:"turns,omitempty"`
	FirstAudioP95MS Millis `json:"first_audio_p95_ms,omitempty"`
}

// What a beat may hold. Together they are chosen so that the longest beat there
// can be fits into [MaxMessage]: a bot never vanishes because it has much to say.
const (
	MaxSeats = 256 // seats of one bot
	MaxFlows = 32  // flow ids in one beat
	MaxWord  = 128 // bytes of a flow id or a revision: printable ASCII without space, quote and backslash
	MaxName  = 253 // bytes of a pod's, namespace's or node's name, of the same characters
	MaxNote  = 200 // bytes of a text for people
	MaxURL   = 512 // bytes of an address, of the characters of a word

	maxState     = 16 // bytes of a state
	maxProtocols = 16
)

// word reports whether s has at most so many bytes, none of which JSON escapes.
func word(field, s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("%s: %d bytes, at most %d", field, len(s), most)
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return fmt.Errorf("%s: not printable ASCII without space, quote and backslash", field)
		}
	}
	return nil
}

func note(field, s string) error {
	if len(s) > MaxNote {
		return fmt.Errorf("%s: %d bytes, at most %d", field, len(s), MaxNote)
	}
	return nil
}

// Fit is the beat without what is over its bounds: flows that cannot be told are
// left out, texts are cut. What no roster could use at all is left for Check.
func (b Beat) Fit() Beat {
	b.Flows = slices.DeleteFunc(slices.Clone(b.Flows), func(f string) bool { return word("flows", f, MaxWord) != nil })
	b.Flows = b.Flows[:min(len(b.Flows), MaxFlows)]
	b.NotReady = cut(b.NotReady)
	if word("media_url", b.MediaURL, MaxURL) != nil {
		b.MediaURL = ""
	}
	if b.Breaker != nil {
		v := *b.Breaker
		v.LastError = cut(v.LastError)
		b.Breaker = &v
	}
	return b
}

func cut(s string) string {
	if len(s) <= MaxNote {
		return s
	}
	return strings.ToValidUTF8(s[:MaxNote], "")
}

func (b Beat) version() int { return b.V }

// Check reports the first field that a roster could not use.
func (b Beat) Check() error {
	for _, f := range []struct{ name, token string }{{"bot_id", b.BotID}, {"region", b.Region}, {"pool", b.Pool}} {
		if err := CheckToken(f.token); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if len(b.Seats) == 0 && !b.Goodbye {
		return errors.New("seats: empty")
	}
	if len(b.Seats) > MaxSeats {
		return fmt.Errorf("seats: %d, at most %d", len(b.Seats), MaxSeats)
	}
	for i := range b.Seats {
		if err := b.Seats[i].check(); err != nil {
			return err
		}
	}
	if len(b.Flows) > MaxFlows {
		return fmt.Errorf("flows: %d, at most %d", len(b.Flows), MaxFlows)
	}
	for _, f := range b.Flows {
		if err := word("flows", f, MaxWord); err != nil {
			return err
		}
	}
	if len(b.Protocols) > maxProtocols {
		return fmt.Errorf("protocols: %d, at most %d", len(b.Protocols), maxProtocols)
	}
	return cmp.Or(
		word("instance", b.Instance, MaxWord),
		word("revision", b.Revision, MaxWord),
		word("pod.name", b.Pod.Name, MaxName),
		word("pod.namespace", b.Pod.Namespace, MaxName),
		word("pod.node", b.Pod.Node, MaxName),
		word("media_url", b.MediaURL, MaxURL),
		note("not_ready", b.NotReady),
		b.Breaker.check(),
		b.Minute.FirstAudioP95MS.age("minute.first_audio_p95_ms"),
		b.UptimeMS.age("uptime_ms"),
	)
}

func (s SeatView) check() error {
	if s.CallID != "" {
		if err := CheckToken(s.CallID); err != nil {
			return fmt.Errorf("seats[].call_id: %w", err)
		}
	}
	return cmp.Or(word("seats[].state", string(s.State), maxState), s.ForMS.age("seats[].for_ms"))
}

// Counts are the seats of a region or pool by what they can do now; they stand
// in every error that says "nobody".
type Counts struct {
	Bots     int `json:"bots"`     // heard within 30 s
	Seats    int `json:"seats"`    // of those bots
	Idle     int `json:"idle"`     // would take a call now
	Claimed  int `json:"claimed"`  // claimed, warming or assigned
	Live     int `json:"live"`     // live or in wrap-up
	Draining int `json:"draining"` // of bots that drain or are cordoned, whatever their state
	Broken   int `json:"broken"`   // of bots whose breaker is open
	Stuck    int `json:"stuck"`    // past the deadline of their state, or silent too long
}

// Command is what a backend tells one bot ([VerbRelease], [VerbCordon] …).
type Command struct {
	V      int    `json:"v"`
	CallID string `json:"call_id,omitempty"` // release, call: this one, whatever seat it has
	// ClaimID, of a release: only if the seat was given to this claim. Who comes late must
	// not free a seat that the call has had since by another.
	ClaimID string `json:"claim_id,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func (c Command) version() int { return c.V }

// Check always agrees: which fields a command needs depends on its verb.
func (c Command) Check() error { return nil }

// Answer is what the bot says to a [Command].
type Answer struct {
	V      int    `json:"v"`
	BotID  string `json:"bot_id"`
	OK     bool   `json:"ok"`
	Code   string `json:"code,omitempty"` // not OK: unknown_call, unknown_verb, malformed
	Detail string `json:"detail,omitempty"`

	// Of the verb call.
	State CallState `json:"state,omitempty"`
	Why   string    `json:"why,omitempty"`  // ended: how, a reason of package media or of a release
	Media Media     `json:"media,omitzero"` // assigned: where the call is expected
}

// CallState is how a call stands with a bot that is asked for it.
type CallState string

// The states. A bot that never had the call, or has forgotten it, says unknown_call.
const (
	CallAssigned CallState = "assigned" // prepared, its media has not come
	CallLive     CallState = "live"
	CallEnded    CallState = "ended" // within the last minutes
)

func (a Answer) version() int { return a.V }

// Check reports the first field that cannot be used.
func (a Answer) Check() error {
	if err := CheckToken(a.BotID); err != nil {
		return fmt.Errorf("bot_id: %w", err)
	}
	return a.Media.ExpiresMS.timeout("media.expires_ms")
}
