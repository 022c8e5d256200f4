package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"dibs/call"
	"dibs/carrier/twilio"
	"dibs/cdr"
	"dibs/claim"
	"dibs/demand"
	"dibs/dispatch"
	"dibs/events"
	"dibs/internal/leader"
	"dibs/pool"
	"dibs/queue"
	"dibs/server"
	"dibs/settings"
	"dibs/wire"
)

// officeKey is the office of the dispatcher; there is one in an environment.
const officeKey = "dispatch"

// Config is what a backend is made of. NC, Listener, ID, PublicURL, Twilio and
// Tokens are required.
type Config struct {
	NC       *nats.Conn
	Listener net.Listener

	ID        string // of this process, a token
	PublicURL string // where the carrier reaches us, no slash at the end
	Region    string // of calls that name none
	From      string // of calls that name none
	Tokens    []server.Token
	Twilio    twilio.Config

	Replicas  int            // of streams and buckets; 0: as they are
	Retention time.Duration  // of ended records; 0: 30 days
	Cap       int            // most calls in flight; 0: 1000
	CPS       float64        // dials a second of each of our numbers; 0: no limit
	Settings  settings.File  // of the file at the start; see package settings
	Admit     dispatch.Admit // of calls that come in; nil: as the office says
	Demand    demand.Config  // how demand becomes bots
	StopIn    time.Duration  // 0: 20 s

	Hurry float64                     // see [dispatch.Config]
	At    func(dispatch.Step, string) // see [dispatch.Config]
	Log   zerolog.Logger
}

// Run is a backend's life: until ctx ends, or it cannot go on.
func Run(ctx context.Context, cfg Config) error {
	if cfg.StopIn == 0 {
		cfg.StopIn = 20 * time.Second
	}
	js, err := jetstream.New(cfg.NC)
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	tw, err := twilio.New(cfg.Twilio)
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	roster := pool.NewRoster()
	asker, err := claim.New(cfg.NC, claim.AskerConfig{
		Counts: func(region, p string) wire.Counts { return roster.Counts(time.Now(), region, p) },
	})
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	defer func() { _ = asker.Close() }()
	opening, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	line, err := queue.Open(opening, js, queue.Config{Replicas: cfg.Replicas})
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	records, err := cdr.Open(opening, js, cdr.Config{Replicas: cfg.Replicas, Retention: cfg.Retention})
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	log, err := events.Open(opening, js, events.Config{Replicas: cfg.Replicas, Source: "/dibs/backend/" + cfg.ID})
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	numbers, err := settings.Open(opening, js, settings.Config{Replicas: cfg.Replicas, Cap: cfg.Cap, Log: cfg.Log})
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	if put, err := numbers.Seed(opening, cfg.Settings); err != nil {
		return fmt.Errorf("backend: %w", err)
	} else if put > 0 {
		cfg.Log.Info().Int("settings", put).Msg("set from the file")
	}
	checkpoints, err := cdr.OpenCheckpoints(opening, js, cfg.Replicas)
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	lead, err := leader.New(js, leader.Config{Key: officeKey, ID: cfg.ID, Replicas: cfg.Replicas, Logger: cfg.Log})
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	emit := emitter(log, cfg.Log)
	d, err := dispatch.New(dispatch.Config{
		NC: cfg.NC, Settings: numbers, Leader: lead, Line: line, Records: records, Roster: roster, Asker: asker, Carrier: tw,
		ID: cfg.ID, PublicURL: cfg.PublicURL, Cap: cfg.Cap, CPS: cfg.CPS, Emit: emit, Hurry: cfg.Hurry, At: cfg.At, Log: cfg.Log,
		Sorry: func(ctx context.Context, o call.Order) (string, string) {
			return dispatch.Sorry(ctx, numbers, o.To, o.From)
		},
		Checkpoint: lastLeft(checkpoints),
	})
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	scale, err := dispatch.NewScale(cfg.Demand)
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), asker.Stats(), roster.Collector(), d.Collector(),
		scale.Collector(func() []string { return regions(roster, cfg.Region) }))
	desk := &dispatch.Desk{NC: cfg.NC, Line: line, Records: records, Events: timeline(log)}
	if cfg.Admit == nil {
		cfg.Admit = (&dispatch.Doorman{Desk: desk, Log: cfg.Log}).Admit
	}
	reception := &dispatch.Reception{
		NC: cfg.NC, Desk: desk, Asker: asker, Numbers: numbers, Carrier: tw, PublicURL: cfg.PublicURL, Admit: cfg.Admit, Emit: emit, Log: cfg.Log,
	}
	srv, err := server.New(server.Config{
		Calls: desk, Reception: reception, Numbers: numbers, Limits: numbers, Usage: desk.Usage, Tell: func(e events.Event) { log.Emit(e) }, Checkpoints: checkpoints, Asker: asker, Roster: roster, NC: cfg.NC, Carrier: tw,
		Tokens: cfg.Tokens, PublicURL: cfg.PublicURL, Region: cfg.Region, From: cfg.From, Scale: scale.Wanted, Registerer: reg, Gatherer: reg, Log: cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	return serve(ctx, cfg, srv.HTTP(), roster, d, log, scale, numbers)
}

// serve runs the parts, and stops them in order: the API first, so that nobody is
// promised anything by a process that leaves.
func serve(ctx context.Context, cfg Config, web *http.Server, roster *pool.Roster, d *dispatch.Dispatcher, log *events.Log, scale *dispatch.Scale, numbers *settings.Store) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, working := errgroup.WithContext(working)
	g.Go(func() error { return roster.Run(working, cfg.NC, cfg.Log) })
	g.Go(func() error { return d.Run(working) })
	g.Go(func() error { return log.Run(working) })
	g.Go(func() error { return numbers.Run(working) })
	g.Go(func() error { return scale.Run(working, cfg.NC, cfg.Log) })
	g.Go(func() error {
		if err := web.Serve(cfg.Listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("backend: serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-working.Done():
		}
		cfg.Log.Info().Msg("stopping")
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.StopIn)
		defer cancel()
		if err := web.Shutdown(closing); err != nil {
			_ = web.Close()
		}
		stop()
		return nil
	})
	cfg.Log.Info().Str("addr", cfg.Listener.Addr().String()).Str("id", cfg.ID).Msg("backend started")
	return g.Wait()
}

// regions are those in which there are bots, and the default one.
func regions(roster *pool.Roster, def string) (out []string) {
	if def != "" {
		out = append(out, def)
	}
	for _, b := range roster.Bots(time.Now()) {
		out = append(out, b.Beat.Region)
	}
	return out
}
