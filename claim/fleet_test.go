package claim_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/claim"
	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/wire"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

// testBot is a whole answering side with real seats; only the warm-up is the
// test's.
type testBot struct {
	id     string
	seats  *pool.Seats
	answer *claim.Answerer
	warm   func(ctx context.Context, req wire.ClaimRequest) (wire.Reply, error)
	kick   chan struct{}

	mu     sync.Mutex
	closed *wire.Reply
	begun  int
	drops  []error
	has    map[int]string  // seat → call that was assigned
	ended  map[string]bool // calls that are over
	double []string        // seats assigned to two calls at once
}

func (b *testBot) Closed() *wire.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed == nil {
		return nil
	}
	r := *b.closed
	return &r
}

func (b *testBot) close(s wire.Status) {
	b.mu.Lock()
	b.closed = &wire.Reply{Status: s}
	b.mu.Unlock()
	b.kick <- struct{}{}
}

func (b *testBot) Begin(req wire.ClaimRequest) (claim.Session, *wire.Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun++
	return &testSession{b: b, req: req}, nil
}

type testSession struct {
	b    *testBot
	req  wire.ClaimRequest
	seat int
}

func (s *testSession) Warm(ctx context.Context, seat int) (wire.Reply, error) {
	s.seat = seat
	s.b.mu.Lock()
	warm := s.b.warm
	s.b.mu.Unlock()
	if warm != nil {
		return warm(ctx, s.req)
	}
	return ready(s.req), nil
}

// quick makes every later warm-up ready at once.
func (b *testBot) quick() { b.slow(nil) }

// slow gives every later warm-up something to do.
func (b *testBot) slow(warm func(context.Context, wire.ClaimRequest) (wire.Reply, error)) {
	b.mu.Lock()
	b.warm = warm
	b.mu.Unlock()
}

func ready(req wire.ClaimRequest) wire.Reply {
	return wire.Reply{Media: wire.Media{URL: "wss://bot/m/" + req.CallID}}
}

func (s *testSession) Assigned() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.ended[s.req.CallID] {
		return // the call was over before the ack was looked at
	}
	if had := s.b.has[s.seat]; had != "" {
		s.b.double = append(s.b.double, had+" and "+s.req.CallID)
	}
	s.b.has[s.seat] = s.req.CallID
}

func (s *testSession) Drop(cause error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.drops = append(s.b.drops, cause)
}

// end frees a seat, as the end of a call does, whether or not its ack has come.
func (b *testBot) end(callID string) {
	if b.answer.Release(callID, "") {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended[callID] = true
	seat, claimID, ok := b.seats.Find(callID)
	if ok {
		delete(b.has, seat)
		b.seats.Move(time.Now(), seat, claimID, wire.SeatIdle)
	}
}

func (b *testBot) dropped() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]error(nil), b.drops...)
}

// fleet is a broker with bots; everything ends with the test.
type fleet struct {
	t      *testing.T
	broker *natstest.Broker
	bots   []*testBot
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, broker: natstest.Start(t)}
	t.Cleanup(func() { time.Sleep(time.Second) }) // nats.go looks again after 100 ms whether a drained subscription is empty
	return f
}

func (f *fleet) bot(seats int, warm func(context.Context, wire.ClaimRequest) (wire.Reply, error)) *testBot {
	return f.botOn(f.broker.Connect(f.t), seats, warm)
}

func (f *fleet) botOn(nc *nats.Conn, seats int, warm func(context.Context, wire.ClaimRequest) (wire.Reply, error)) *testBot {
	f.t.Helper()
	b := startBot(f.t, nc, fmt.Sprintf("bot-%d", len(f.bots)), seats, warm)
	f.bots = append(f.bots, b)
	return b
}

func startBot(t testing.TB, nc *nats.Conn, id string, seats int, warm func(context.Context, wire.ClaimRequest) (wire.Reply, error)) *testBot {
	t.Helper()
	s, err := pool.NewSeats(seats, pool.Deadlines{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b := &testBot{id: id, seats: s, warm: warm, kick: make(chan struct{}, 1), has: map[int]string{}, ended: map[string]bool{}}
	b.answer, err = claim.NewAnswerer(nc, s, b, claim.AnswererConfig{
		Identity: wire.Reply{BotID: id}, Region: "eu-west", Pool: "default", Changed: b.kick, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.answer.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b
}

func (f *fleet) asker(cfg claim.AskerConfig) *claim.Asker {
	f.t.Helper()
	a, err := claim.New(f.broker.Connect(f.t), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = a.Close() })
	synctest.Wait() // every offer stands
	return a
}

func call(id string) claim.Request {
	return claim.Request{CallID: id, Region: "eu-west", Pool: "default", Class: "api"}
}

// idle fails the test unless every seat of every bot is idle.
func (f *fleet) idle() {
	f.t.Helper()
	synctest.Wait()
	for _, b := range f.bots {
		for i, v := range b.seats.View(time.Now()) {
			if v.State != wire.SeatIdle {
				f.t.Errorf("%s seat %d is %s for call %s, want idle", b.id, i, v.State, v.CallID)
			}
		}
		if len(b.double) > 0 {
			f.t.Errorf("%s: seat in two calls: %v", b.id, b.double)
		}
	}
}
