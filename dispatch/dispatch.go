package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"dibs/call"
	"dibs/queue"
)

// Dispatcher runs for the office of one environment, and does its work while it
// has it.
type Dispatcher struct {
	cfg   Config
	clock clock
	pace  *pacer

	outcomes *outcomes
}

// New checks the configuration; Run starts it.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Cap == 0 {
		cfg.Cap = 1000
	}
	if cfg.Emit == nil {
		cfg.Emit = func(Happening) {}
	}
	if cfg.At == nil {
		cfg.At = func(Step, string) {}
	}
	cfg.Media = mediaClient(cfg.Media)
	return &Dispatcher{cfg: cfg, clock: newClock(cfg.Hurry), outcomes: newOutcomes(), pace: newPacer(cfg.CPS)}, nil
}

// Run runs for the office until ctx ends, and holds it while it can. Whatever
// ends an office, the next one, here or elsewhere, finds everything again.
func (d *Dispatcher) Run(ctx context.Context) error {
	for {
		err := d.cfg.Leader.Run(ctx, func(ctx context.Context, term uint64) error {
			return d.inOffice(ctx, term)
		})
		if ctx.Err() != nil {
			return nil
		}
		// Something of this term was lost (a gap, a record): the cure is a new one.
		d.cfg.Log.Warn().Err(err).Msg("office given back")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// inOffice takes over: the records first, then the line, so that every message
// finds the record of its call.
func (d *Dispatcher) inOffice(ctx context.Context, term uint64) error {
	begun := time.Now()
	o := newOffice(d, term)
	if err := o.loadLimits(ctx); err != nil {
		return err
	}
	loaded, err := d.cfg.Records.Load(ctx, d.clock.now().Add(-call.PersonGap), o.load)
	if err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	for _, b := range loaded.Broken {
		d.cfg.Log.Error().Err(b.Err).Str("record", b.Key).Msg("a record cannot be read: a person has to look; its call is not dialled")
		d.cfg.Emit(Happening{Type: recordBroken, At: d.clock.now(), Detail: map[string]any{"record": b.Key, "why": b.Err.Error()}})
	}
	term0, err := d.cfg.Line.TakeOffice(ctx, d.cfg.ID)
	if err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	d.cfg.Log.Info().Uint64("term", term).Int("records", loaded.Open).Uint64("line", term0.Backlog()).Dur("took", time.Since(begun)).Msg("in office")
	o.empty = term0.Backlog() == 0
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return term0.Run(gctx, func(items []*queue.Item, behind uint64) { o.deliver(gctx, items, behind) })
	})
	g.Go(func() error { return o.run(gctx) })
	err = g.Wait()
	o.callers.Wait()
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("dispatch: %w", err)
	}
	return err
}
