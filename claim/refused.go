package claim

import (
	"fmt"

	"dibs/wire"
)

// The codes of a [Refused]: which kind of "nobody" it was.
const (
	CodeNoBotRegistered = "no_bot_registered" // the region, or pool, has no bot at all
	CodeNoIdleBot       = "no_idle_bot"       // bots are there, none is idle
	CodeBotsBusy        = "bots_busy"         // bots were asked and none had a seat left
	CodeBotsDraining    = "bots_draining"     // all that are there drain or are cordoned
	CodeBreakerOpen     = "breaker_open"      // all that are there fail to warm up
	CodeClaimTimeout    = "claim_timeout"     // a bot was asked or had accepted, and then was silent
	CodeWarmupFailed    = "warmup_failed"     // bots accepted and could not prepare the call
)

// Refused is a claim that got no bot.
type Refused struct {
	// Code is one of the codes above, or, for a call that no bot would take, the
	// code the bot gave (flow_not_found, bad_request …).
	Code string
	// CallsFault says that asking again is useless: the call itself is wrong.
	CallsFault bool
	Detail     string // the last bot's sentence, may be empty
	Region     string
	Pool       string
	Counts     *wire.Counts // who was there; nil when the asker has no roster
	Attempts   []Attempt
}

func (r *Refused) Error() string {
	s := "claim: " + r.Code + " in " + r.Region
	if c := r.Counts; c != nil {
		s += fmt.Sprintf(": %d bots, %d seats: %d idle, %d claimed, %d live, %d draining, %d broken, %d stuck",
			c.Bots, c.Seats, c.Idle, c.Claimed, c.Live, c.Draining, c.Broken, c.Stuck)
	}
	s += fmt.Sprintf("; asked %d times", len(r.Attempts))
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return s
}

// refused makes the error from what the asks met, the most telling first.
func (c *asking) refused() error {
	r := &Refused{Region: c.req.Region, Pool: c.req.Pool, Attempts: c.attempts}
	if c.a.cfg.Counts != nil {
		n := c.a.cfg.Counts(c.req.Region, "")
		r.Counts = &n
	}
	met := map[string]int{}
	for _, at := range c.attempts {
		met[at.Answer]++
		if at.Detail != "" {
			r.Detail = at.Detail
		}
		if at.Answer == string(wire.Rejected) {
			r.Code, r.CallsFault = at.Code, true
			if r.Code == "" {
				r.Code = string(wire.Rejected)
			}
			return r
		}
	}
	answered := len(c.attempts) - met[NoResponders] - met[Silence] - met[Lost]
	switch {
	case met[string(wire.Failed)] > 0:
		r.Code = CodeWarmupFailed
	case met[Lost] > 0 || answered == 0 && met[Silence] > 0:
		r.Code = CodeClaimTimeout
	case answered > 0 && answered == met[string(wire.BreakerOpen)]:
		r.Code = CodeBreakerOpen
	case answered > 0 && answered == met[string(wire.Draining)]+met[string(wire.Cordoned)]:
		r.Code = CodeBotsDraining
	case answered > 0:
		r.Code = CodeBotsBusy
	default:
		r.Code = nobodyCode(r.Counts)
	}
	return r
}

// nobodyCode says why nobody was there to be asked, as far as the roster knows.
func nobodyCode(c *wire.Counts) string {
	switch {
	case c == nil:
		return CodeNoIdleBot
	case c.Bots == 0:
		return CodeNoBotRegistered
	case c.Draining == c.Seats:
		return CodeBotsDraining
	case c.Broken > 0 && c.Broken+c.Draining == c.Seats:
		return CodeBreakerOpen
	}
	return CodeNoIdleBot
}
