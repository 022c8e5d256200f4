package sim

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"dibs/cdr"
	"dibs/claim"
	"dibs/dispatch"
	"dibs/internal/leader"
	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/queue"
	"dibs/settings"
	"dibs/wire"
)

// node is one dispatcher, on a link of its own to the broker.
type node struct {
	id   string
	link *natstest.Link
	lead *leader.Leader
	stop func()

	mu sync.Mutex
	at func(dispatch.Step, string)
}

// addNode starts a dispatcher. Change may alter its configuration.
func (w *world) addNode(id string, change ...func(*dispatch.Config)) *node {
	w.t.Helper()
	n := &node{id: id}
	var nc *nats.Conn
	if w.broker != nil {
		n.link = w.broker.Link(w.t)
		nc = w.connect(nats.InProcessServer(n.link))
	} else {
		nc = w.connect()
	}
	js, err := jetstream.New(nc)
	check(w.t, err)
	roster := pool.NewRoster()
	asker, err := claim.New(nc, claim.AskerConfig{Counts: func(region, p string) wire.Counts { return roster.Counts(time.Now(), region, p) }})
	check(w.t, err)
	ctx := w.t.Context()
	line, err := queue.Open(ctx, js, queue.Config{Replicas: w.replicas()})
	check(w.t, err)
	records, err := cdr.Open(ctx, js, cdr.Config{Replicas: w.replicas()})
	check(w.t, err)
	limits, err := settings.Open(ctx, js, settings.Config{Replicas: w.replicas()})
	check(w.t, err)
	n.lead, err = leader.New(js, leader.Config{Key: "dispatch", ID: id, Replicas: w.replicas()})
	check(w.t, err)
	cfg := dispatch.Config{
		NC: nc, Leader: n.lead, Line: line, Records: records, Roster: roster, Asker: asker, Carrier: w.twilio,
		Settings: limits, Media: w.net.client(),
		ID: id, PublicURL: w.public, Emit: w.hear, At: n.step, Log: w.log(zerolog.InfoLevel).With().Str("node", id).Logger(),
	}
	for _, f := range change {
		f(&cfg)
	}
	d, err := dispatch.New(cfg)
	check(w.t, err)
	stopRoster := w.run("roster of "+id, func(ctx context.Context) error { return roster.Run(ctx, nc, zerolog.Nop()) })
	stopSettings := w.run("settings of "+id, limits.Run)
	stopRun := w.run("dispatcher "+id, d.Run)
	n.stop = func() { stopRun(); stopRoster(); stopSettings() }
	w.nodes = append(w.nodes, n)
	return n
}

// onStep lets f know of every step; it runs where the step is done and may block.
func (n *node) onStep(f func(dispatch.Step, string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = f
}

func (n *node) step(s dispatch.Step, id string) {
	n.mu.Lock()
	f := n.at
	n.mu.Unlock()
	if f != nil {
		f(s, id)
	}
}

// inOffice reports whether exactly one of the nodes says that it leads.
func (w *world) inOffice() bool {
	n := 0
	for _, node := range w.nodes {
		if _, _, ok := node.lead.Leading(); ok {
			n++
		}
	}
	if n > 1 {
		w.t.Errorf("%d in office at once", n)
	}
	return n == 1
}
