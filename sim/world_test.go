package sim

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
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
	"dibs/dispatch"
	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/queue"
	"dibs/settings"
	"dibs/warmup"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

// world is everything, in one process and, inside a bubble, in fake time: what it
// waits for costs nothing, and a deadline is kept to the millisecond.
type world struct {
	t       *testing.T
	broker  *natstest.Broker  // nil on a cluster
	cluster *natstest.Cluster // nil on one server
	net     *network
	carrier *simcarrier.Server
	api     *listener // the carrier's
	twilio  *twilio.Client
	public  string // our own address
	nc      *nats.Conn
	line    *queue.Line
	records *cdr.Store
	desk    *dispatch.Desk
	roster  *pool.Roster
	nodes   []*node

	links    bool   // bots reach the broker by links that can be frozen
	askNext  func() // runs before the carrier's question how to go on is heard; nil: nothing
	settings *settings.Store
	bots     []*robot

	mu       sync.Mutex
	told     []dispatch.Happening
	alsoTell func(dispatch.Happening) // nil: nobody
}

// answers is a callee who picks up soon and talks for a moment.
var answers = simcarrier.Profile{Ring: simcarrier.Range{Min: 20 * time.Millisecond, Max: 60 * time.Millisecond}, Talk: simcarrier.Range{Min: 700 * time.Millisecond, Max: 900 * time.Millisecond}}

// talks is one who talks for so long.
func talks(d time.Duration) simcarrier.Profile {
	p := answers
	p.Talk = simcarrier.Range{Min: d, Max: d}
	return p
}

// inWorld runs f in a bubble with a world of its own: NATS, the carrier, one
// dispatcher, no bot.
func inWorld(t *testing.T, profile simcarrier.Profile, f func(w *world)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T) {
		w := emptyWorld(t, profile)
		w.addNode("one")
		f(w)
	})
}

// emptyWorld is a world without a dispatcher.
func emptyWorld(t *testing.T, profile simcarrier.Profile) *world {
	t.Helper()
	w := &world{t: t, broker: natstest.Start(t)}
	w.open(profile)
	return w
}

// connect gives a connection of its own.
func (w *world) connect(opts ...nats.Option) *nats.Conn {
	if w.cluster != nil {
		return w.cluster.Connect(w.t, len(w.nodes)%3, opts...)
	}
	return w.broker.Connect(w.t, opts...)
}

// replicas is how many servers keep everything: the one setting in which a cluster differs.
func (w *world) replicas() int {
	if w.cluster != nil {
		return 3
	}
	return 0
}

// open starts everything but dispatchers and bots.
func (w *world) open(profile simcarrier.Profile) {
	t := w.t
	t.Helper()
	w.net = newNetwork()
	w.api = w.net.listen()
	client := w.net.client()
	var err error
	w.carrier, err = simcarrier.New(simcarrier.Config{Listener: w.api, Client: client, Insecure: true, Profile: profile, Seed: 1})
	check(t, err)
	w.run("carrier", w.carrier.Run)

	hooks := w.net.listen()
	w.public = "http://" + hooks.addr
	front := &http.Server{Handler: http.HandlerFunc(w.webhook)}
	go func() { _ = front.Serve(hooks) }()
	t.Cleanup(func() { _ = front.Close() })
	w.twilio, err = twilio.New(twilio.Config{
		AccountSID: simcarrier.AccountSID, AuthToken: simcarrier.AuthToken, BaseURL: "http://" + w.api.addr,
		PublicURL: w.public, StatusPath: "/v1/carriers/twilio/status/", Insecure: true, Client: w.net.client(),
	})
	check(t, err)

	w.nc = w.connect()
	js, err := jetstream.New(w.nc)
	check(t, err)
	w.line, err = queue.Open(t.Context(), js, queue.Config{Replicas: w.replicas()})
	check(t, err)
	w.records, err = cdr.Open(t.Context(), js, cdr.Config{Replicas: w.replicas()})
	check(t, err)
	w.settings, err = settings.Open(t.Context(), js, settings.Config{Replicas: w.replicas()})
	check(t, err)
	w.run("settings", w.settings.Run)
	w.desk = &dispatch.Desk{NC: w.nc, Line: w.line, Records: w.records}
	w.roster = pool.NewRoster()
	w.run("roster", func(ctx context.Context) error { return w.roster.Run(ctx, w.nc, zerolog.Nop()) })
}

// run keeps f going until the test ends.
func (w *world) run(name string, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			w.t.Errorf("%s: %v", name, err)
		}
	}()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return stop
}

// webhook is what a backend does with a status event, and with the question how a
// call is to go on.
func (w *world) webhook(rw http.ResponseWriter, r *http.Request) {
	if _, attempt, ok := strings.Cut(r.URL.Path, "/next/"); ok {
		if w.askNext != nil {
			w.askNext()
		}
		q, err := w.twilio.Asked(r)
		check(w.t, err)
		do, err := w.desk.Next(r.Context(), attempt, q)
		if err != nil {
			w.t.Logf("next of %s: %v", attempt, err)
		}
		kind, body, err := w.twilio.Instruct(do)
		check(w.t, err)
		rw.Header().Set("Content-Type", kind)
		_, _ = rw.Write(body)
		return
	}
	ev, err := w.twilio.Event(r)
	if err == nil {
		err = w.desk.CarrierEvent(r.Context(), ev)
	}
	if err != nil {
		w.t.Logf("webhook: %v", err)
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) log(level zerolog.Level) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(w.t)).Level(level)
}

// addBots starts n bots of one seat, each on a connection of its own, and waits
// until they are offered. Change may alter a bot's configuration.
func (w *world) addBots(n int, change ...func(*bot.Config)) {
	w.t.Helper()
	for range n {
		l := w.net.listen()
		voice, err := warmup.NewVoice(warmup.VoiceConfig{Engine: warmup.VoiceTone})
		check(w.t, err)
		cfg := bot.Config{
			Name: fmt.Sprintf("bot%d", len(w.bots)), Region: "eu-west", MediaURL: "ws://" + l.addr, Insecure: true, Tag: true,
			Warmup: warmup.Config{Voice: voice}, DrainIn: 5 * time.Second, CloseIn: time.Second, Log: w.log(zerolog.WarnLevel),
		}
		for _, f := range change {
			f(&cfg)
		}
		r := &robot{media: l.addr}
		if w.links {
			r.link = w.broker.Link(w.t)
			r.nc = w.connect(nats.InProcessServer(r.link))
		} else {
			r.nc = w.connect()
		}
		r.Bot, err = bot.New(r.nc, cfg)
		check(w.t, err)
		r.srv = r.Media()
		go func() { _ = r.srv.Serve(l) }()
		w.t.Cleanup(func() { _ = r.srv.Close() })
		w.run(cfg.Name, func(ctx context.Context) error {
			if err := r.Run(ctx); !r.nc.IsClosed() {
				return err
			}
			return nil // it was killed
		})
		w.bots = append(w.bots, r)
	}
	w.until("the bots are there", w.idleSeats(len(w.bots)))
}

// robot is a bot and what it hangs on.
type robot struct {
	*bot.Bot
	nc    *nats.Conn
	link  *natstest.Link // between it and the broker; nil: none
	media string         // where it takes media
	srv   *http.Server
}

// kill ends a bot without a word: its connections are gone.
func (w *world) kill(r *robot) {
	r.nc.Close()
	_ = r.srv.Close()
	w.bots = slices.DeleteFunc(w.bots, func(b *robot) bool { return b == r })
}

// order is a plain api call.
func order(id, to string) call.Order {
	return call.Order{
		V: call.Version, CallID: id, Org: "acme", Class: call.ClassAPI, Region: "eu-west", Pool: "default", From: "+15005550006", To: to,
		Greeting: call.Greeting{Text: "Hello there"}, QueuedAt: time.Now().UTC(),
	}
}

// put puts an order to a number of its own and returns both.
func (w *world) put(id string, change ...func(*call.Order)) (number string) {
	w.t.Helper()
	number = numberOf(id)
	o := order(id, number)
	for _, f := range change {
		f(&o)
	}
	check(w.t, w.desk.Put(w.t.Context(), o))
	return o.To
}

// numberOf is a number that goes with an id of the form letter, digits.
func numberOf(id string) string {
	n := 0
	for _, c := range id {
		n = (n*31 + int(c)) % 10_000_000
	}
	return fmt.Sprintf("+491510%07d", n)
}

// until waits for a state of the world, a minute at most.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	w.within(time.Minute, what, ok)
}

// within waits for a state of the world and returns how long it took.
func (w *world) within(d time.Duration, what string, ok func() bool) time.Duration {
	w.t.Helper()
	begun := time.Now()
	tick := time.NewTicker(max(10*time.Millisecond, d/1000))
	defer tick.Stop()
	for !ok() {
		if time.Since(begun) > d {
			w.t.Fatalf("not within %v: %s\n%s", d, what, w.story())
		}
		<-tick.C
	}
	return time.Since(begun)
}

// get is a call's record.
func (w *world) get(id string) call.Record {
	w.t.Helper()
	r, err := w.desk.Get(w.t.Context(), id)
	check(w.t, err)
	return r
}

func (w *world) state(id string, states ...call.State) func() bool {
	return func() bool {
		r, err := w.desk.Get(w.t.Context(), id)
		return err == nil && slices.Contains(states, r.State)
	}
}

func (w *world) ended(id string) func() bool {
	return func() bool {
		r, err := w.desk.Get(w.t.Context(), id)
		return err == nil && r.State.Terminal()
	}
}

func (w *world) idleSeats(n int) func() bool {
	return func() bool { return w.roster.Counts(time.Now(), "eu-west", "").Idle == n }
}

func (w *world) emptyLine() bool {
	tally, err := w.line.Count(w.t.Context(), queue.Filter{})
	return err == nil && tally.Waiting == 0
}

// wantEnd fails the test unless the call ended so, after so many dials of its person.
func (w *world) wantEnd(id string, want call.Outcome, dials int) call.Record {
	w.t.Helper()
	r := w.get(id)
	if r.Outcome() != want {
		w.t.Errorf("%s ended as %s (%s), want %s\n%s", id, r.State, r.Reason, want, w.story())
	}
	if got := w.carrier.CallsTo(r.Order.To); len(got) != dials {
		w.t.Errorf("%s: the phone rang %d times, want %d: %+v\n%s", id, len(got), dials, got, w.story())
	}
	return r
}

// nothingLeft is what must hold when all calls are over: seats idle, line empty,
// records closed, no call at the carrier, no attempt dialled twice.
func (w *world) nothingLeft() {
	w.t.Helper()
	w.within(2*time.Second, "every seat is idle", w.idleSeats(len(w.bots)))
	w.within(10*time.Second, "the line is empty", w.emptyLine)
	w.within(time.Second, "no record is open", func() bool {
		l, err := w.records.Load(w.t.Context(), time.Time{}, func(call.Record, cdr.Rev) {})
		return err == nil && l.Open == 0
	})
	seen := map[string]int{}
	for _, c := range w.carrier.Calls() {
		if seen[c.Attempt]++; seen[c.Attempt] > 1 {
			w.t.Errorf("attempt %s was dialled %d times", c.Attempt, seen[c.Attempt])
		}
		if c.Ended.IsZero() {
			w.t.Errorf("the carrier's call of attempt %s goes on", c.Attempt)
		}
	}
}
