package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"dibs/wire"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// Config says which office, and who runs for it.
type Config struct {
	// Key names the office; one token ([wire.CheckToken]). Required.
	Key string
	// ID names this process to people; it need not be unique. Required.
	ID string
	// Replicas of the bucket: 1 for a single broker, 3 or 5 for a cluster. 0 is 1.
	Replicas int
	// TTL is when the broker forgets a holder that does not renew; whole seconds,
	// at least 1 s. 0 is 2 s.
	TTL time.Duration
	// Renew is how often the holder renews. 0 is a quarter of TTL.
	Renew time.Duration
	// Trust is how long the holder believes in a renewal, from when it was sent;
	// more than two Renew, less than TTL. 0 is three quarters of TTL.
	Trust time.Duration
	// Logger gets one line for each change. The zero value is silent.
	Logger zerolog.Logger
}

// check fills in the defaults and reports the first field that cannot be used.
func (c *Config) check() error {
	if err := wire.CheckToken(c.Key); err != nil {
		return fmt.Errorf("leader: Key: %w", err)
	}
	if c.ID == "" {
		return errors.New("leader: ID: missing")
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		return fmt.Errorf("leader: Replicas: %d, want 1 to 5", c.Replicas)
	}
	if c.TTL == 0 {
		c.TTL = 2 * time.Second
	}
	if c.TTL < time.Second || c.TTL%time.Second != 0 {
		return fmt.Errorf("leader: TTL: %v, want whole seconds", c.TTL)
	}
	if c.Renew == 0 {
		c.Renew = c.TTL / 4
	}
	if c.Trust == 0 {
		c.Trust = c.TTL * 3 / 4
	}
	if c.Trust >= c.TTL {
		return fmt.Errorf("leader: Trust: %v, want less than the TTL of %v", c.Trust, c.TTL)
	}
	if c.Renew <= 0 || 2*c.Renew >= c.Trust {
		return fmt.Errorf("leader: Renew: %v, want less than half of Trust, %v", c.Renew, c.Trust)
	}
	return nil
}

// Leader runs for one office. Make it with [New].
type Leader struct {
	js  jetstream.JetStream
	cfg Config

	mu    sync.Mutex
	term  uint64 // 0: not in office
	until time.Time
}

// New gives a Leader that does nothing until it is [Leader.Run]. The error names
// the field of cfg that cannot be used.
func New(js jetstream.JetStream, cfg Config) (*Leader, error) {
	if js == nil {
		return nil, errors.New("leader: no JetStream context")
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Leader{js: js, cfg: cfg}, nil
}

// Leading reports whether this process is in office now, with which term, and
// until when it may say so without another renewal. Ask it, not the context,
// right before an act that must not be done twice. Any goroutine may.
func (l *Leader) Leading() (term uint64, until time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == 0 || !before(time.Now(), l.until) {
		return 0, time.Time{}, false
	}
	return l.term, l.until, true
}

// show makes what the office says now visible to Leading.
func (l *Leader) show(o *office) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term, l.until = 0, time.Time{}
	if o.lost == nil {
		l.term, l.until = o.term, o.until()
	}
}

// Run runs for the office until ctx ends, which is no error. Each time it is
// won, inOffice is called with the term and a context that ends when the office
// does; its cause is [ErrDoubted], [ErrTaken] or that of ctx. inOffice must return
// soon after: the office is not run for again, nor given back, before it has.
//
// When inOffice returns although its context is alive, the office is given back
// and Run returns the same error. What it returns later is only logged.
//
// A broker that is not there is waited for. Run is called once at a time.
func (l *Leader) Run(ctx context.Context, inOffice func(ctx context.Context, term uint64) error) error {
	o := &office{instance: rand.Text(), ttl: l.cfg.TTL, renew: l.cfg.Renew, trust: l.cfg.Trust}
	k := &key{js: l.js, cfg: l.cfg, instance: o.instance}
	log := l.cfg.Logger.With().Str("office", l.cfg.Key).Logger()
	var t *tenure // not nil exactly while o.term is not 0
	for ctx.Err() == nil && !t.resigned() {
		switch s := o.next(time.Now()); s.act {
		case wait:
			timer := time.NewTimer(time.Until(s.at))
			select {
			case <-timer.C:
			case <-ctx.Done():
			case <-t.over():
			}
			timer.Stop()
		case look:
			r, err := k.look(ctx, s.at)
			o.looked(time.Now(), r, err)
		case write:
			sent := time.Now()
			rev, err := k.write(ctx, s.at, s.rev)
			o.wrote(sent, time.Now(), rev, err)
			switch {
			case t == nil && o.term != 0:
				l.show(o) // before the function in office may ask
				log.Info().Uint64("term", o.term).Msg("in office")
				t = begin(ctx, o.term, o.until(), inOffice)
			case t != nil && err == nil && !t.extend(o.until()):
				o.overdue()
			}
		case leave:
			l.show(o)
			err := t.end(s.cause)
			log.Warn().Uint64("term", t.term).AnErr("cause", s.cause).Err(err).Msg("office lost")
			t = nil
		}
		l.show(o)
	}

	mine := o.resign()
	l.show(o)
	var result error
	if t != nil {
		err := t.end(context.Cause(ctx))
		if t.resigned() {
			result = err
		}
		log.Info().Uint64("term", t.term).Err(err).Msg("office given up")
	}
	if mine {
		// What was under way when ctx ended may have been done all the same.
		if err := k.giveBack(context.WithoutCancel(ctx), time.Now().Add(l.cfg.Trust), o.pause()); err != nil {
			log.Warn().Err(err).Msg("office not given back; it ends by itself")
		}
	}
	return result
}
