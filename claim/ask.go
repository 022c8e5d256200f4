package claim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"dibs/wire"
)

// The asker's numbers; docs/PROTOCOL.md has them for both sides.
const (
	Pause         = 150 * time.Millisecond // before asking again after busy
	AcceptIn      = 150 * time.Millisecond // silence for so long is given up
	ReadyIn       = 10 * time.Second       // from the request to ready
	Repeats       = 4                      // further asks in one phase
	WarmFailures  = 2                      // failed warm-ups in one claim
	confirmAfter  = 20 * time.Millisecond  // from accepted: a bot with nothing to warm up is ready before, and gets an ack only
	confirmEvery  = 500 * time.Millisecond // confirm again: it meets "no responders" when the bot died
	pauseSpread   = 0.2                    // the pause is jittered by ± 20 %
	inboxPerClaim = 64                     // messages of one claim not yet looked at; more are dropped, the windows decide
)

// Request is what a backend asks a bot for. CallID, Region and whatever the bots
// need are the caller's; ClaimID, Phase, Attempt and the windows are set here
// when they are empty.
type Request = wire.ClaimRequest

// AskerConfig is for what the defaults do not fit.
type AskerConfig struct {
	// Counts says who is there; it turns "nobody" into which kind of nobody.
	// pool.Roster.Counts is one. Nil: claims say no_idle_bot without counts.
	Counts func(region, pool string) wire.Counts
	// Accept and Ready are the windows of an ask; 0: [AcceptIn], [ReadyIn].
	Accept, Ready time.Duration
}

// Asker asks for bots over one connection. Safe for concurrent use.
type Asker struct {
	nc    *nats.Conn
	cfg   AskerConfig
	inbox string
	sub   *nats.Subscription
	stats *Stats

	mu     sync.Mutex
	claims map[string]chan heard // key → the claim that listens
}

type heard struct {
	ask   int  // number of the ask inside the claim
	gone  bool // no responders
	reply wire.Reply
	back  string // where the bot hears us
}

// Assignment is a seat that a call has.
type Assignment struct {
	BotID, Instance, Revision string
	Pod                       wire.Pod
	Seat                      int
	ClaimID                   string
	Media                     wire.Media
	Warmup                    wire.Warmup
	Providers                 map[string]string
	Attempts                  []Attempt     // every ask, in order: who took the call, and why
	Took                      time.Duration // from the first ask to ready
}

// Attempt is one ask inside a claim.
type Attempt struct {
	Phase  wire.Phase  `json:"phase"`
	BotID  string      `json:"bot,omitempty"` // empty: nobody answered
	Answer string      `json:"answer"`        // a wire.Status, or no_responders, silence, lost, cancelled
	MS     wire.Millis `json:"ms"`
	Code   string      `json:"code,omitempty"` // why: of rejected, failed
	Detail string      `json:"detail,omitempty"`
}

// Answers that no bot gave.
const (
	NoResponders = "no_responders" // nobody is idle
	Silence      = "silence"       // asked, and nothing within the accept window
	Lost         = "lost"          // accepted, then gone or silent to the end of the window
	Cancelled    = "cancelled"     // the caller's context ended
)

// New makes an asker on a connection; Close ends it.
func New(nc *nats.Conn, cfg AskerConfig) (*Asker, error) {
	if cfg.Accept == 0 {
		cfg.Accept = AcceptIn
	}
	if cfg.Ready == 0 {
		cfg.Ready = ReadyIn
	}
	if cfg.Accept < 0 || cfg.Ready < cfg.Accept {
		return nil, fmt.Errorf("claim: windows: accept %v, ready %v", cfg.Accept, cfg.Ready)
	}
	a := &Asker{nc: nc, cfg: cfg, inbox: nc.NewInbox(), claims: map[string]chan heard{}, stats: newStats()}
	var err error
	if a.sub, err = nc.Subscribe(a.inbox+".*.*", a.hear); err != nil {
		return nil, fmt.Errorf("claim: subscribe: %w", err)
	}
	return a, nil
}

// Close stops listening; claims that run end as silence.
func (a *Asker) Close() error { return a.sub.Unsubscribe() }

// hear sorts a message to its claim. A bot that answers a claim that is over is
// told so at once, so that its seat is not held for nobody.
func (a *Asker) hear(m *nats.Msg) {
	key, num, _ := strings.Cut(m.Subject[len(a.inbox)+1:], ".")
	h := heard{ask: atoi(num), back: m.Reply, gone: noResponders(m)}
	if !h.gone {
		r, err := wire.Decode[wire.Reply](m.Data)
		if err != nil {
			return // not a reply; the windows decide
		}
		h.reply = r
	}
	a.mu.Lock()
	ch := a.claims[key]
	a.mu.Unlock()
	if ch != nil {
		select {
		case ch <- h:
			return
		default:
		}
	}
	a.decline(h)
}

// decline tells a bot that nobody wants what it offers any more.
func (a *Asker) decline(h heard) {
	if h.back != "" && (h.reply.Status == wire.Accepted || h.reply.Status == wire.Ready) {
		a.say(h, wire.Withdraw)
	}
}

func (a *Asker) say(h heard, word wire.Say) { a.sayFrom(h, word, "") }

// sayFrom says a word and hears of the bot's death at inbox, when given.
func (a *Asker) sayFrom(h heard, word wire.Say, inbox string) {
	if h.back == "" {
		return // a minimal bot
	}
	data, err := wire.Encode(wire.Control{V: wire.Version, ClaimID: h.reply.ClaimID, Say: word})
	if err != nil {
		return
	}
	_ = a.nc.PublishMsg(&nats.Msg{Subject: h.back, Reply: inbox, Data: data}) // lost: the bot's deadline frees the seat
}

// Assign claims one seat for one call: pool first, then region-wide. It returns
// when the bot is ready, with a [*Refused] when there is none, or with an error
// that wraps ctx's when ctx ends first; the seat is free then.
func (a *Asker) Assign(ctx context.Context, req Request) (*Assignment, error) {
	req.V = wire.Version
	if req.ClaimID == "" {
		req.ClaimID = nuid.Next()
	}
	if req.AcceptMS == 0 {
		req.AcceptMS = wire.ToMillis(a.cfg.Accept)
	}
	if req.ReadyMS == 0 {
		req.ReadyMS = wire.ToMillis(a.cfg.Ready)
	}
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	c := &asking{a: a, req: req, key: nuid.Next(), ch: make(chan heard, inboxPerClaim), begun: time.Now()}
	a.mu.Lock()
	a.claims[c.key] = c.ch
	a.mu.Unlock()
	defer c.close()
	got, err := c.run(ctx)
	a.stats.claimed(c, err)
	return got, err
}

// close stops listening and declines what came too late to be looked at.
func (c *asking) close() {
	c.a.mu.Lock()
	delete(c.a.claims, c.key)
	c.a.mu.Unlock()
	for {
		select {
		case h := <-c.ch:
			if c.took == nil || h.reply.BotID != c.took.reply.BotID {
				c.a.decline(h)
			}
		default:
			return
		}
	}
}

// pause is how long to wait before asking again, with jitter.
func pause() time.Duration {
	return time.Duration(float64(Pause) * (1 - pauseSpread + 2*pauseSpread*rand.Float64()))
}

func atoi(s string) (n int) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || n > 1<<20 {
			return -1
		}
		n = n*10 + int(s[i]-'0')
	}
	return n
}
