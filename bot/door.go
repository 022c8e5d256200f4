package bot

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"dibs/breaker"
	"dibs/claim"
	"dibs/wire"
)

// door is the bot as package claim sees it.
type door Bot

// Closed says why no call is taken now; see [claim.Bot].
func (d *door) Closed() *wire.Reply {
	b := (*Bot)(d)
	b.mu.Lock()
	draining, cordoned, trying := b.draining, b.cordoned, b.trying
	b.mu.Unlock()
	switch {
	case draining:
		return &wire.Reply{Status: wire.Draining}
	case cordoned != "":
		return &wire.Reply{Status: wire.Cordoned, Detail: cordoned}
	}
	// Half open, one probe is let through: while it is on its way no other seat
	// could take a call.
	if v := b.breaker.View(); v.State == breaker.StateOpen || v.State == breaker.StateHalfOpen && trying > 0 {
		return &wire.Reply{Status: wire.BreakerOpen, Breaker: view(v)}
	}
	return nil
}

// Begin asks the breaker for a try; see [claim.Bot].
func (d *door) Begin(req wire.ClaimRequest) (claim.Session, *wire.Reply) {
	b := (*Bot)(d)
	try, err := b.breaker.Allow()
	if err != nil {
		r := &wire.Reply{Status: wire.BreakerOpen}
		if open, ok := errors.AsType[*breaker.Open](err); ok {
			r.Breaker = view(breaker.View(*open))
		}
		return nil, r
	}
	b.mu.Lock()
	b.trying++
	b.mu.Unlock()
	return &session{b: b, req: req, try: try}, nil
}

// tried takes note that a try has its verdict.
func (b *Bot) tried() {
	b.mu.Lock()
	b.trying--
	b.mu.Unlock()
	if b.breaker.View().State != breaker.StateClosed {
		b.kick()
	}
}

func view(v breaker.View) *wire.BreakerView {
	return &wire.BreakerView{State: string(v.State), Failures: v.Failures, LastError: v.LastError, RetryMS: wire.ToMillis(v.RetryIn)}
}

// command carries out one verb; see [pool.MemberConfig].
func (b *Bot) command(verb string, cmd wire.Command) wire.Answer {
	switch verb {
	case wire.VerbRelease:
		return b.release(cmd)
	case wire.VerbCall:
		return b.stands(cmd)
	case wire.VerbCordon, wire.VerbUncordon:
		b.mu.Lock()
		b.cordoned = ""
		if verb == wire.VerbCordon {
			b.cordoned = "cordoned"
			if cmd.Reason != "" {
				b.cordoned = cmd.Reason
			}
		}
		b.mu.Unlock()
	case wire.VerbDrain:
		b.mu.Lock()
		if !b.drained {
			b.drained = true
			close(b.drain)
		}
		b.mu.Unlock()
	default:
		return wire.Answer{Code: "unknown_verb", Detail: "this bot does not know " + verb}
	}
	b.cfg.Log.Info().Str("verb", verb).Str("reason", cmd.Reason).Msg("commanded")
	b.kick()
	return wire.Answer{OK: true}
}

// release frees the seat of a call in whatever state it is.
func (b *Bot) release(cmd wire.Command) wire.Answer {
	if cmd.CallID == "" {
		return wire.Answer{Code: "malformed", Detail: "call_id: missing"}
	}
	if b.answer.Release(cmd.CallID, cmd.ClaimID) {
		return wire.Answer{OK: true}
	}
	b.mu.Lock()
	s := b.sessions[cmd.CallID]
	b.mu.Unlock()
	if s == nil || cmd.ClaimID != "" && cmd.ClaimID != s.req.ClaimID || !s.finish("released") {
		return wire.Answer{Code: "unknown_call", Detail: "this bot does not have the call"}
	}
	b.cfg.Log.Info().Str("call", cmd.CallID).Str("reason", cmd.Reason).Msg("released")
	return wire.Answer{OK: true}
}

// beat is the bot's present truth; see [pool.MemberConfig].
func (b *Bot) beat() wire.Beat {
	now := time.Now()
	b.mu.Lock()
	draining, cordoned, deaf := b.draining, b.cordoned != "", b.deaf
	b.mu.Unlock()
	return wire.Beat{
		V: wire.Version, BotID: b.id, Instance: b.instance, Revision: b.cfg.Revision, Region: b.cfg.Region, Pool: b.cfg.Pool, Pod: b.cfg.Pod, MediaURL: b.cfg.MediaURL,
		Seats: b.seats.View(now), Cordoned: cordoned, Draining: draining, NotReady: deaf, Breaker: view(b.breaker.View()),
		Flows: b.warmer.Cached(), RSS: rss(), Calls: b.seats.Calls(), Minute: b.minute.view(now),
		UptimeMS: wire.ToMillis(now.Sub(b.started)), Protocols: []int{wire.Version},
	}
}

// rss is the process's resident memory in bytes, 0 where /proc does not say.
func rss() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
