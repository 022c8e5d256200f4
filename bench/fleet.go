package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/claim"
	"dibs/internal/natsd"
	"dibs/pool"
	"dibs/wire"
)

const region, lane = "eu-west", "default"

// nodes starts n servers on loopback, meshed when there are several.
func nodes(ctx context.Context, n int) (urls []string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	dir, err := os.MkdirTemp("", "dibs-bench-")
	stop = func() { cancel(); wg.Wait(); _ = os.RemoveAll(dir) }
	if err != nil {
		return nil, stop, err
	}
	ports := make([]int, n)
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, stop, err
		}
	}
	for i := range n {
		cfg := natsd.Config{StoreDir: fmt.Sprintf("%s/%d", dir, i), ServerName: fmt.Sprintf("n%d", i), Port: natsd.RandomPort}
		if n > 1 {
			cfg.Cluster = &natsd.Cluster{Name: "bench", Port: ports[i]}
			for j, p := range ports {
				if j != i {
					cfg.Cluster.Routes = append(cfg.Cluster.Routes, fmt.Sprintf("127.0.0.1:%d", p))
				}
			}
		}
		s, err := natsd.New(cfg)
		if err != nil {
			return nil, stop, err
		}
		failed := make(chan error, 1)
		wg.Go(func() { failed <- s.Run(ctx) })
		select {
		case <-s.Ready():
		case err := <-failed:
			return nil, stop, fmt.Errorf("server %d: %w", i, err)
		}
		urls = append(urls, s.URL())
	}
	return urls, stop, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// fleet is bots with nothing to warm up, and what they saw.
type fleet struct {
	bots   map[string]*benchBot
	conns  []*nats.Conn
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

type benchBot struct {
	id     string
	nc     *nats.Conn
	seats  *pool.Seats
	answer *claim.Answerer

	mu      sync.Mutex
	has     map[int]string // seat → call
	doubles int
}

func (b *benchBot) Closed() *wire.Reply { return nil }
func (b *benchBot) Begin(req wire.ClaimRequest) (claim.Session, *wire.Reply) {
	return &benchSession{b: b, call: req.CallID}, nil
}

type benchSession struct {
	b    *benchBot
	call string
	seat int
}

func (s *benchSession) Warm(_ context.Context, seat int) (wire.Reply, error) {
	s.seat = seat
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.has[seat] != "" {
		s.b.doubles++
	}
	s.b.has[seat] = s.call
	return wire.Reply{Media: wire.Media{URL: "wss://bot.example/m/" + s.b.id + "/0123456789abcdef"}}, nil
}

func (s *benchSession) Assigned() {}
func (s *benchSession) Drop(error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.has[s.seat] == s.call {
		delete(s.b.has, s.seat)
	}
}

// end is the end of a call: the seat is idle again.
func (b *benchBot) end(call string) error {
	if b.answer.Release(call, "") {
		return nil
	}
	seat, claimID, ok := b.seats.Find(call)
	if !ok {
		return errors.New("the bot does not know the call that it was assigned")
	}
	b.mu.Lock()
	delete(b.has, seat)
	b.mu.Unlock()
	b.seats.Move(time.Now(), seat, claimID, wire.SeatIdle)
	return nil
}

// newFleet starts bots with so many seats each, spread over conns connections to
// the servers in turn, and waits until all are offered.
func newFleet(ctx context.Context, urls []string, bots, seats, conns int) (*fleet, error) {
	f := &fleet{bots: map[string]*benchBot{}}
	ctx, f.cancel = context.WithCancel(ctx)
	for i := range min(conns, bots) {
		nc, err := nats.Connect(urls[i%len(urls)])
		if err != nil {
			return f, err
		}
		f.conns = append(f.conns, nc)
	}
	for i := range bots {
		b := &benchBot{id: fmt.Sprintf("bot-%d", i), nc: f.conns[i%len(f.conns)], has: map[int]string{}}
		var err error
		if b.seats, err = pool.NewSeats(seats, pool.Deadlines{}, time.Now()); err != nil {
			return f, err
		}
		b.answer, err = claim.NewAnswerer(b.nc, b.seats, b, claim.AnswererConfig{Identity: wire.Reply{BotID: b.id}, Region: region, Pool: lane, Log: zerolog.Nop()})
		if err != nil {
			return f, err
		}
		f.bots[b.id] = b
		f.wg.Go(func() { _ = b.answer.Run(ctx) })
	}
	return f, f.settle()
}

// settle waits until the servers have seen everything the bots sent.
func (f *fleet) settle() error {
	time.Sleep(300 * time.Millisecond)
	for _, nc := range f.conns {
		if err := nc.Flush(); err != nil {
			return err
		}
	}
	time.Sleep(200 * time.Millisecond)
	return nil
}

func (f *fleet) stop() {
	f.cancel()
	f.wg.Wait()
	for _, nc := range f.conns {
		nc.Close()
	}
}

// left is how many seats are not idle, and how many were ever in two calls.
func (f *fleet) left() (held, doubles int) {
	for _, b := range f.bots {
		held += b.seats.InUse().InUse
		doubles += b.doubles
	}
	return held, doubles
}
