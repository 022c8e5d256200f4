package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"dibs/breaker"
	"dibs/claim"
	"dibs/media"
	"dibs/pool"
	"dibs/warmup"
	"dibs/wire"
)

// ErrDrained is how Run ends when the command drain asked for it, so that a
// supervisor can tell it from its own SIGTERM.
var ErrDrained = errors.New("bot: drained by command")

// Bot is one bot. Its methods are safe for concurrent use.
type Bot struct {
	nc       *nats.Conn
	cfg      Config
	id       string
	instance string
	started  time.Time

	seats   *pool.Seats
	breaker *breaker.Breaker
	warmer  *warmup.Warmer
	media   *media.Server
	answer  *claim.Answerer
	member  *pool.Member
	minute  minute

	drain   chan struct{}    // closed by the command drain
	changed [2]chan struct{} // something but the seats has changed: for answer and member
	closing sync.WaitGroup   // of what ended calls had open

	mu       sync.Mutex // guards what follows
	draining bool
	drained  bool                // by command
	cordoned string              // why; empty: not
	deaf     string              // why not ready; empty: ready
	trying   int                 // warm-ups that the breaker has let through
	sessions map[string]*session // call ID → the call in a seat, prepared or later
	past     past                // calls that were
}

// New checks the configuration and makes a bot on a connection. Run starts it.
func New(nc *nats.Conn, cfg Config) (*Bot, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Bot{
		nc: nc, cfg: cfg, started: time.Now(), drain: make(chan struct{}), sessions: map[string]*session{},
		changed: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}, deaf: "starting",
	}
	b.id, b.instance = botID(cfg.Name, b.started)
	if b.seats, err = pool.NewSeats(cfg.Seats, cfg.Deadlines, b.started); err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	if b.breaker, err = breaker.New(cfg.Breaker); err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	if b.warmer, err = warmup.New(cfg.Warmup); err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	if b.media, err = media.New(media.Config{Bot: b.id, Log: cfg.Log}); err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	b.answer, err = claim.NewAnswerer(nc, b.seats, (*door)(b), claim.AnswererConfig{
		Identity: wire.Reply{BotID: b.id, Instance: b.instance, Revision: cfg.Revision, Pod: cfg.Pod},
		Region:   cfg.Region, Pool: cfg.Pool, Changed: b.changed[0], Log: cfg.Log,
		// The warm-up's own budget ends first: it knows what took so long, and counts it.
		WarmIn: cmp.Or(cfg.Warmup.Budget, warmup.DefaultBudget) + 500*time.Millisecond,
	})
	if err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	b.member, err = pool.NewMember(nc, b.seats, pool.MemberConfig{Beat: b.beat, Command: b.command, Changed: b.changed[1], Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	return b, nil
}

// ID is the bot's id, <Name>_<unix start>.
func (b *Bot) ID() string { return b.id }

// Run is the bot's life: until ctx ends, or the command drain comes, and then
// until its calls are over; see the package comment.
func (b *Bot) Run(ctx context.Context) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, working := errgroup.WithContext(working)
	g.Go(func() error { return b.answer.Run(working) })
	g.Go(func() error { return b.member.Run(working) })
	g.Go(func() error { b.probe(working); return nil })
	g.Go(func() error { b.watchBreaker(working); return nil })
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-b.drain:
		case <-working.Done(): // one of the others failed
		}
		b.leave(working)
		stop()
		return nil
	})
	err := g.Wait()
	b.closing.Wait()
	b.warmer.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && b.drained {
		return ErrDrained
	}
	return err
}

// leave waits for the calls, then hangs up on what is left.
func (b *Bot) leave(ctx context.Context) {
	moved := b.seats.Watch()
	b.mu.Lock()
	b.draining = true
	b.mu.Unlock()
	b.kick()
	b.cfg.Log.Info().Int("calls", b.seats.InUse().InUse).Msg("draining")
	patience := time.NewTimer(b.cfg.DrainIn)
	defer patience.Stop()
	for b.seats.InUse().InUse > 0 {
		select {
		case <-moved:
			continue
		case <-patience.C:
			b.cfg.Log.Warn().Int("calls", b.seats.InUse().InUse).Msg("out of patience: hanging up")
		case <-ctx.Done():
		}
		break
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.cfg.CloseIn)
	defer cancel()
	if err := b.media.Shutdown(closing); err != nil {
		b.cfg.Log.Warn().Err(err).Msg("media sockets left open")
	}
}

// kick tells answerer and member that Closed or the beat may be different now.
func (b *Bot) kick() {
	for _, ch := range b.changed {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// watchBreaker lets offers follow the breaker: none while it is open, again when
// it would let a probe through.
func (b *Bot) watchBreaker(ctx context.Context) {
	var open <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.breaker.Changed():
			v := b.breaker.View()
			b.cfg.Log.Warn().Str("state", string(v.State)).Str("last_error", v.LastError).Msg("breaker")
			open = nil
			if v.State == breaker.StateOpen {
				open = time.After(v.RetryIn + time.Millisecond)
			}
		case <-open:
			open = nil
		}
		b.kick()
	}
}

// probe asks the bot itself through the server. Connected but deaf is cured by
// a new connection.
func (b *Bot) probe(ctx context.Context) {
	heard, misses := false, 0
	for ctx.Err() == nil {
		err := b.hearsItself(ctx)
		why, wait := "", b.cfg.ProbeIn
		switch {
		case err == nil:
			heard, misses = true, 0
		case !b.nc.IsConnected():
			why, wait = "not connected to NATS", time.Second
		case !heard: // its own subscriptions are just being made
			why, wait = "starting", 20*time.Millisecond
		default:
			why, wait = "deaf: "+err.Error(), time.Second
			if misses++; misses >= 2 {
				b.cfg.Log.Error().Err(err).Msg("connected but deaf: reconnecting")
				_ = b.nc.ForceReconnect()
				misses = 0
			}
		}
		if ctx.Err() == nil {
			b.ready(why)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(wait, b.cfg.ProbeIn)):
		}
	}
}

// ready notes why the bot is not ready; empty: it is.
func (b *Bot) ready(why string) {
	b.mu.Lock()
	was := b.deaf
	b.deaf = why
	b.mu.Unlock()
	if was != why {
		b.cfg.Log.Info().Str("why_not", why).Bool("ready", why == "").Msg("readiness")
		b.kick()
	}
}

func (b *Bot) hearsItself(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := pool.Tell(ctx, b.nc, b.id, wire.VerbPing, wire.Command{})
	return err
}

func (b *Bot) keep(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions[s.req.CallID] = s
}

func (b *Bot) unkeep(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[s.req.CallID] == s {
		delete(b.sessions, s.req.CallID)
	}
}

// forget takes a session out of the books and notes how its call ended here.
func (b *Bot) forget(s *session, why string) {
	b.unkeep(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.past.note(time.Now(), s.req.CallID, why)
}
