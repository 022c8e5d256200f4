package bot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"dibs/breaker"
	"dibs/media"
	"dibs/pool"
	"dibs/warmup"
	"dibs/wire"
)

// Talk is what a bot does on a call once its greeting is on its way. The call
// ends when it returns; ctx ends with the call. Nil: listen until the end.
type Talk func(ctx context.Context, call *Call) error

// Call is a live call as Talk sees it.
type Call struct {
	Request  wire.ClaimRequest
	Prepared *warmup.Prepared // flow, provider sessions; closed after the call
	Stream   *media.Stream
}

// Config says who a bot is and how it works. Only Name, Region and MediaURL are
// required.
type Config struct {
	Name     string // the pod's name; the bot's id is <Name>_<unix start>
	Region   string
	Pool     string // default "default"
	Seats    int    // default 1
	Revision string // of the deployment, for placement and people
	Pod      wire.Pod

	// MediaURL is what the carrier connects to, without the path: "wss://host".
	MediaURL string
	// Insecure allows a MediaURL of ws://, which only a simulated carrier takes.
	Insecure bool

	Warmup  warmup.Config
	Breaker breaker.Config
	Talk    Talk
	// Tag lets a call's metadata put DTMF digits in front of the greeting
	// ("dibs_tag"), by which a listener proves which greeting it heard.
	Tag bool

	MediaIn time.Duration // media must come within, from ready; default 75 s, over the longest ring
	MaxCall time.Duration // default 4 h; a claim may ask for less
	DrainIn time.Duration // how long a stop waits for calls; default 10 min
	CloseIn time.Duration // and then for their sockets to close; default 60 s
	ProbeIn time.Duration // between self-probes; default 10 s

	Deadlines pool.Deadlines // of seats, for "stuck"; default: pool's, and never less than what is waited for here
	Log       zerolog.Logger
}

// withDefaults fills what was left out and checks the rest.
func (c Config) withDefaults() (Config, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.MediaIn, 75*time.Second)
	def(&c.MaxCall, 4*time.Hour)
	def(&c.DrainIn, 10*time.Minute)
	def(&c.CloseIn, time.Minute)
	def(&c.ProbeIn, 10*time.Second)
	if c.Deadlines == (pool.Deadlines{}) {
		c.Deadlines = pool.Deadlines{
			Claimed: 2 * time.Second, Warming: max(10*time.Second, c.Warmup.Budget+2*time.Second),
			Assigned: c.MediaIn + 5*time.Second, Wrapup: 10 * time.Second,
		}
	}
	if c.Pool == "" {
		c.Pool = "default"
	}
	if c.Seats == 0 {
		c.Seats = 1
	}
	for _, f := range []struct{ name, token string }{{"Name", c.Name}, {"Region", c.Region}, {"Pool", c.Pool}} {
		if err := wire.CheckToken(f.token); err != nil {
			return c, fmt.Errorf("bot: %s: %w", f.name, err)
		}
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"MediaIn", c.MediaIn}, {"MaxCall", c.MaxCall}, {"DrainIn", c.DrainIn}, {"CloseIn", c.CloseIn}, {"ProbeIn", c.ProbeIn}} {
		if f.d < 0 {
			return c, fmt.Errorf("bot: %s: %v is negative", f.name, f.d)
		}
	}
	c.MediaURL = strings.TrimSuffix(c.MediaURL, "/")
	switch {
	case strings.ContainsAny(c.MediaURL, "?#"):
		return c, errors.New("bot: MediaURL: no query string or fragment (carriers refuse it)")
	case strings.HasPrefix(c.MediaURL, "wss://"):
	case strings.HasPrefix(c.MediaURL, "ws://") && c.Insecure:
	default:
		return c, fmt.Errorf("bot: MediaURL: %q does not begin with wss:// (ws:// needs Insecure)", c.MediaURL)
	}
	return c, nil
}

// botID makes the id that no other bot ever has: a name that comes back is
// another bot.
func botID(name string, started time.Time) (id, instance string) {
	instance = strconv.FormatInt(started.Unix(), 10)
	return name + "_" + instance, instance
}
