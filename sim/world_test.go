package sim

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"dibs/bot"
	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/carrier/twilio"
	"dibs/cdr"
	"dibs/claim"
	"dibs/dispatch"
	"dibs/internal/leader"
	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/queue"
	"dibs/warmup"
	"dibs/wire"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

// world is everything, in one process and in real time.
type world struct {
	t       *testing.T
	broker  *natstest.Broker
	carrier *simcarrier.Server
	desk    *dispatch.Desk
	roster  *pool.Roster
	bots    []*bot.Bot

	mu   sync.Mutex
	told []dispatch.Happening
}

// answers is a callee who picks up soon and talks for a moment.
var answers = simcarrier.Profile{Ring: simcarrier.Range{Min: 20 * time.Millisecond, Max: 60 * time.Millisecond}, Talk: simcarrier.Range{Min: 700 * time.Millisecond, Max: 900 * time.Millisecond}}

func newWorld(t *testing.T, profile simcarrier.Profile) *world {
	t.Helper()
	w := &world{t: t, broker: natstest.StartWith(t, natstest.Options{Listen: true})}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { stop(); wg.Wait() })
	run := func(name string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	w.carrier, err = simcarrier.New(simcarrier.Config{Listener: l, Insecure: true, Profile: profile, Seed: 1})
	check(t, err)
	run("carrier", w.carrier.Run)

	var handler http.Handler
	hooks := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { handler.ServeHTTP(rw, r) }))
	t.Cleanup(hooks.Close)
	tw, err := twilio.New(twilio.Config{
		AccountSID: simcarrier.AccountSID, AuthToken: simcarrier.AuthToken, BaseURL: "http://" + l.Addr().String(),
		PublicURL: hooks.URL, StatusPath: "/v1/carriers/twilio/status/", Insecure: true,
	})
	check(t, err)

	nc := w.broker.Connect(t)
	js, err := jetstream.New(nc)
	check(t, err)
	w.roster = pool.NewRoster()
	run("roster", func(ctx context.Context) error { return w.roster.Run(ctx, nc, zerolog.Nop()) })
	asker, err := claim.New(nc, claim.AskerConfig{Counts: func(region, p string) wire.Counts { return w.roster.Counts(time.Now(), region, p) }})
	check(t, err)
	line, err := queue.Open(ctx, js, queue.Config{})
	check(t, err)
	records, err := cdr.Open(ctx, js, cdr.Config{})
	check(t, err)
	lead, err := leader.New(js, leader.Config{Key: "dispatch", ID: "one"})
	check(t, err)
	d, err := dispatch.New(dispatch.Config{
		NC: nc, Leader: lead, Line: line, Records: records, Roster: w.roster, Asker: asker, Carrier: tw,
		ID: "one", PublicURL: hooks.URL, Emit: w.hear, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel),
	})
	check(t, err)
	w.desk = &dispatch.Desk{NC: nc, Line: line, Records: records}
	handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ev, err := tw.Event(r)
		if err == nil {
			err = w.desk.CarrierEvent(r.Context(), ev)
		}
		if err != nil {
			t.Logf("webhook: %v", err)
			http.Error(rw, err.Error(), 500)
		}
	})
	run("dispatcher", d.Run)
	return w
}

func (w *world) hear(h dispatch.Happening) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, h)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addBot starts one bot on a connection of its own.
func (w *world) addBot(seats int) *bot.Bot {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(w.t, err)
	voice, err := warmup.NewVoice(warmup.VoiceConfig{Engine: warmup.VoiceTone})
	check(w.t, err)
	b, err := bot.New(w.broker.Connect(w.t), bot.Config{
		Name: fmt.Sprintf("bot%d", len(w.bots)), Region: "eu-west", Seats: seats, MediaURL: "ws://" + l.Addr().String(), Insecure: true, Tag: true,
		Warmup: warmup.Config{Voice: voice}, DrainIn: 5 * time.Second, CloseIn: time.Second, Log: zerolog.New(zerolog.NewTestWriter(w.t)).Level(zerolog.WarnLevel),
	})
	check(w.t, err)
	srv := b.Media()
	go func() { _ = srv.Serve(l) }()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	w.t.Cleanup(func() { stop(); <-done; _ = srv.Close() })
	w.bots = append(w.bots, b)
	return b
}

func order(id, to string) call.Order {
	return call.Order{
		V: call.Version, CallID: id, Org: "acme", Class: call.ClassAPI, Region: "eu-west", Pool: "default", From: "+15005550006", To: to,
		Greeting: call.Greeting{Text: "Hello there"}, QueuedAt: time.Now().UTC(),
	}
}

// until waits for a state of the world, bounded.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within 30 s: %s\n%s", what, w.story())
		}
		<-tick.C
	}
}

func (w *world) story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var s strings.Builder
	for _, h := range w.told {
		fmt.Fprintf(&s, "%s %s %s %v\n", h.At.Format("05.000"), h.Type, h.Order.CallID, h.Detail)
	}
	return s.String()
}

func (w *world) ended(id string) func() bool {
	return func() bool {
		r, err := w.desk.Get(w.t.Context(), id)
		return err == nil && r.State.Terminal()
	}
}

func (w *world) idleBots(n int) func() bool {
	return func() bool { return w.roster.Counts(time.Now(), "eu-west", "").Idle == n }
}

var _ = nats.ErrTimeout
