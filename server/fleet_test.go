package server_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/claim"
	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/wire"
)

// fakeBot is the least that is a bot: real seats, real beats and a real answering
// side; only what it would talk with is missing.
type fakeBot struct {
	id    string
	link  *natstest.Link
	seats *pool.Seats
	ans   *claim.Answerer
	warm  func(context.Context, wire.ClaimRequest) (wire.Reply, error)
	moved chan struct{}
	leave func() // ends it as a bot that leaves on purpose

	mu       sync.Mutex
	reqs     []wire.ClaimRequest
	cordoned string
	draining bool
	refuse   string // a code with which every command is refused
	reasons  []string
}

// bot starts one and waits until the server knows it.
func (w *world) bot(id string, warm func(context.Context, wire.ClaimRequest) (wire.Reply, error)) *fakeBot {
	w.t.Helper()
	seats, err := pool.NewSeats(1, pool.Deadlines{}, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	b := &fakeBot{id: id, seats: seats, warm: warm, moved: make(chan struct{}, 8), link: w.broker.Link(w.t)}
	nc := w.broker.Connect(w.t, nats.InProcessServer(b.link))
	if b.ans, err = claim.NewAnswerer(nc, seats, b, claim.AnswererConfig{
		Identity: wire.Reply{BotID: id, Instance: "1", Pod: wire.Pod{Name: id}}, Region: region, Pool: "default", Log: zerolog.Nop(),
	}); err != nil {
		w.t.Fatal(err)
	}
	member, err := pool.NewMember(nc, seats, pool.MemberConfig{Beat: b.beat, Command: b.command, Changed: b.moved, Log: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{b.ans.Run, member.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	b.leave = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(func() { b.link.Thaw(); b.leave() })
	// Its two offers, its own claims, where it is talked to, and five verbs.
	eventually(w.t, "the bot's subscriptions", func() bool { return nc.NumSubscriptions() >= 9 })
	if err := nc.FlushTimeout(10 * time.Second); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the bot's beat", func() bool { return w.listed(id) != nil })
	return b
}

// fleet lets the server hear beats.
func (w *world) fleet() *world {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan error, 1)
	subs := w.nc.NumSubscriptions()
	go func() { done <- w.roster.Run(ctx, w.nc, zerolog.Nop()) }()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
	eventually(w.t, "the roster's subscription", func() bool { return w.nc.NumSubscriptions() > subs })
	if err := w.nc.FlushTimeout(10 * time.Second); err != nil {
		w.t.Fatal(err)
	}
	return w
}

func (w *world) listed(id string) *pool.Bot {
	for _, b := range w.roster.Bots(time.Now()) {
		if b.Beat.BotID == id {
			return &b
		}
	}
	return nil
}

func (b *fakeBot) beat() wire.Beat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return wire.Beat{
		V: wire.Version, BotID: b.id, Instance: "1", Revision: "r1", Region: region, Pool: "default", Pod: wire.Pod{Name: b.id, Node: "n1"},
		Seats: b.seats.View(time.Now()), Cordoned: b.cordoned != "", Draining: b.draining, RSS: 1 << 20, Flows: []string{"recall"},
	}
}

func (b *fakeBot) command(verb string, cmd wire.Command) wire.Answer {
	b.mu.Lock()
	defer func() {
		b.mu.Unlock()
		b.moved <- struct{}{}
	}()
	b.reasons = append(b.reasons, verb+": "+cmd.Reason)
	if b.refuse != "" {
		return wire.Answer{Code: b.refuse, Detail: "this bot is stubborn"}
	}
	switch verb {
	case wire.VerbRelease:
		seat, claimID, ok := b.seats.Find(cmd.CallID)
		if !b.ans.Release(cmd.CallID, cmd.ClaimID) && (!ok || !b.seats.Move(time.Now(), seat, claimID, wire.SeatIdle)) {
			return wire.Answer{Code: "unknown_call"}
		}
	case wire.VerbCordon:
		b.cordoned = "yes"
	case wire.VerbUncordon:
		b.cordoned = ""
	case wire.VerbDrain:
		b.draining = true
	}
	return wire.Answer{OK: true}
}

func (b *fakeBot) Closed() *wire.Reply { return nil }

func (b *fakeBot) Begin(req wire.ClaimRequest) (claim.Session, *wire.Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reqs = append(b.reqs, req)
	return fakeSession{b, req}, nil
}

type fakeSession struct {
	b   *fakeBot
	req wire.ClaimRequest
}

func (s fakeSession) Warm(ctx context.Context, _ int) (wire.Reply, error) {
	if s.b.warm != nil {
		return s.b.warm(ctx, s.req)
	}
	return wire.Reply{
		Media:     wire.Media{URL: "wss://bot.example/m/" + s.b.id + "/one-time", Params: map[string]string{"call": s.req.CallID}, ExpiresMS: 75000},
		Warmup:    wire.Warmup{TotalMS: 3, Steps: map[string]wire.Millis{"flow": 2}, GreetingReady: true},
		Providers: s.req.Providers,
	}, nil
}

func (s fakeSession) Assigned()  {}
func (s fakeSession) Drop(error) {}

// idle reports whether the seat is free.
func (b *fakeBot) idle() bool { return b.seats.View(time.Now())[0].State == wire.SeatIdle }

func (b *fakeBot) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.reasons...)
}

func (b *fakeBot) asked() []wire.ClaimRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]wire.ClaimRequest(nil), b.reqs...)
}

// eventually waits for what happens in other goroutines, at most half a minute.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: has not come within 30 s", what)
		}
	}
}
