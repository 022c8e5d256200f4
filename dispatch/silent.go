package dispatch

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"dibs/call"
	"dibs/carrier"
	"dibs/pool"
)

// A bot that is killed closes its media socket, and the carrier asks how to go on. One
// that is frozen, or whose machine has lost its power, closes nothing: the carrier goes
// on waiting, and the caller hears silence. Then the call is taken away from it.
//
// A bot that is only cut off from NATS talks on, and nobody may cut its conversation.
// So two witnesses must agree that it is gone, NATS and its media server, and each of
// them must be credible at that moment: we hold the office, which needs NATS, and the
// media server of another bot of the region answers us. Where we cannot reach media
// servers at all, or there is no other bot to go to, the call is left alone.
const (
	silentChecks = 3               // in a row, 5 s apart: longer than a bot is away when NATS was restarted (two beats)
	reachIn      = 2 * time.Second // a media server answers
	neighbours   = 3               // of the bot's that are asked, to see whether we would hear it

	callBotSilent = "call.bot_silent" // it is taken away from a bot that holds its socket and says nothing
)

// check asks the bot how the call stands with it, and, when it has been silent for
// long, looks whether it is there at all.
func (c *caller) check(ctx context.Context, bot string, long bool) standing {
	s := c.stands(ctx, bot)
	if s == botDead && long && c.o.d.gone(ctx, bot) {
		return botGone
	}
	return s
}

// finding is what a check found out, and of which bot.
type finding struct {
	bot      string
	standing standing
}

// checked reads what a bot said when it was asked by the way. The call may have
// another one by then.
func (c *caller) checked(ctx context.Context, f finding) bool {
	c.checking = false
	a, s := c.rec.Current(), f.standing
	if c.asked || c.rescue || a == nil || a.Bot != f.bot {
		return true
	}
	if s != botDead && s != botGone {
		c.silent = 0
	}
	switch s {
	case botHas:
		c.missing = 0
		if c.rec.State == call.Ringing { // media has come: somebody is there
			return c.apply(ctx, call.Event{Kind: call.EvLive})
		}
	case botEnded, botBroke:
		// Without a question from the carrier: its status event, or its question, is on
		// its way; if neither comes, nobody is to listen to silence.
		if c.missing++; c.missing >= endedFor && c.closeAt.IsZero() {
			c.closeAt = time.Now()
		}
	case botDead, botGone:
		c.missing = 0
		c.silent++
		if s == botGone {
			c.takeAway(ctx)
		}
	case botWaits, botMute: // not there yet, or not to be asked
		c.missing = 0
	}
	return true
}

// takeAway lets the carrier ask how to go on with a call whose bot is gone. When that
// fails, the next check tries again.
func (c *caller) takeAway(ctx context.Context) {
	v, ok := c.o.d.cfg.Carrier.(carrier.Voice)
	a := c.rec.Current()
	if !ok || a == nil || a.CarrierID == "" || a.BotLost || !a.HangupAt.IsZero() || !c.closeAt.IsZero() {
		return
	}
	if c.takenFrom != a.Bot {
		c.emit(callBotSilent, map[string]any{"attempt": a.ID, "bot": a.Bot, "checks": c.silent})
	}
	c.takenFrom = a.Bot
	id, address := a.CarrierID, nextURL(c.o.d.cfg.PublicURL, c.o.d.cfg.Carrier.Name(), a.ID)
	c.o.callers.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, placeIn)
		defer cancel()
		if err := v.Redirect(ctx, id, address); err != nil && ctx.Err() == nil {
			c.o.d.cfg.Log.Warn().Err(err).Str("call", c.id).Msg("the call is not taken away from its silent bot; tried again")
		}
	})
}

// gone reports whether nobody answers where the bot takes media, although somebody
// does where another bot of its region takes it.
func (d *Dispatcher) gone(ctx context.Context, bot string) bool {
	bots := d.cfg.Roster.Bots(time.Now())
	i := slices.IndexFunc(bots, func(b pool.Bot) bool { return b.Beat.BotID == bot })
	if i < 0 || d.reach(ctx, bots[i]) != absent {
		return false
	}
	it := bots[i].Beat
	others := slices.DeleteFunc(bots, func(b pool.Bot) bool {
		return b.Heard > pool.NotAsked || b.Beat.Region != it.Region || b.Beat.BotID == it.BotID
	})
	slices.SortStableFunc(others, func(a, b pool.Bot) int { return cmp.Compare(a.Heard, b.Heard) })
	for _, b := range others[:min(len(others), neighbours)] {
		if d.reach(ctx, b) == present {
			return true
		}
	}
	return false
}

// presence is what a media server's answer, or its silence, says.
type presence int

const (
	unsure  presence = iota
	present          // something answered, whatever it said
	absent           // nothing accepts, or nothing answers
)

// reach asks the media server of a bot for a page that it does not have. A proxy that
// stands before it and does not reach it says so.
func (d *Dispatcher) reach(ctx context.Context, b pool.Bot) presence {
	address, ok := mediaServer(b.Beat.MediaURL)
	if !ok {
		return unsure
	}
	short, cancel := context.WithTimeout(ctx, reachIn)
	defer cancel()
	r, err := http.NewRequestWithContext(short, http.MethodGet, address+"/m/"+b.Beat.BotID+"/", nil)
	if err != nil {
		return unsure
	}
	resp, err := d.cfg.Media.Do(r)
	switch {
	case err == nil:
		_ = resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return absent // a bot never says so
		}
		return present
	case ctx.Err() != nil:
		return unsure
	case errors.Is(err, context.DeadlineExceeded):
		return absent
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return absent
		}
		return unsure
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return absent
	}
	return present // it spoke, and not what we wanted to hear
}

// mediaClient is c, or one of its own, that goes where it was sent and nowhere else.
func mediaClient(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}
	}
	its := *c
	its.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &its
}

// mediaServer is where a media address is asked by HTTP.
func mediaServer(media string) (address string, ok bool) {
	u, err := url.Parse(media)
	if err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
		return "", false
	}
	return "http" + strings.TrimPrefix(u.Scheme, "ws") + "://" + u.Host + strings.TrimSuffix(u.EscapedPath(), "/"), true
}
