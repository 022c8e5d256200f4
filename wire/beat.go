package wire

import (
	"errors"
	"fmt"
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

// MaxSeats is the most seats one bot can announce in a beat of 64 KiB.
const MaxSeats = 512

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
	return nil
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
	CallID string `json:"call_id,omitempty"` // release: of this call, whatever seat it has
	Reason string `json:"reason,omitempty"`
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
}

func (a Answer) version() int { return a.V }

// Check reports the first missing field.
func (a Answer) Check() error {
	if err := CheckToken(a.BotID); err != nil {
		return fmt.Errorf("bot_id: %w", err)
	}
	return nil
}
