package pool_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/wire"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

func beat(id string, seq uint64, states ...wire.SeatState) wire.Beat {
	b := wire.Beat{V: 1, BotID: id, Instance: "1", Seq: seq, Region: "eu-west", Pool: "default"}
	for _, s := range states {
		b.Seats = append(b.Seats, wire.SeatView{State: s})
	}
	return b
}

func TestRosterCounts(t *testing.T) {
	r := pool.NewRoster()
	r.Hear(epoch, beat("a", 1, wire.SeatIdle, wire.SeatLive, wire.SeatWarming))
	draining := beat("b", 1, wire.SeatIdle, wire.SeatLive)
	draining.Draining = true
	r.Hear(epoch, draining)
	broken := beat("c", 1, wire.SeatIdle)
	broken.Breaker = &wire.BreakerView{State: "open"}
	r.Hear(epoch, broken)
	stuck := beat("d", 1, wire.SeatWarming)
	stuck.Seats[0].Stuck = true
	r.Hear(epoch, stuck)
	other := beat("e", 1, wire.SeatIdle)
	other.Region = "us-east"
	r.Hear(epoch, other)

	want := wire.Counts{Bots: 4, Seats: 7, Idle: 1, Claimed: 1, Live: 1, Draining: 2, Broken: 1, Stuck: 1}
	if diff := cmp.Diff(want, r.Counts(epoch, "eu-west", "")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wire.Counts{}, r.Counts(epoch, "eu-west", "spanish")); diff != "" {
		t.Error(diff)
	}
	silent := r.Counts(epoch.Add(pool.NotCapacity+1), "eu-west", "")
	if diff := cmp.Diff(wire.Counts{Stuck: 7}, silent); diff != "" {
		t.Errorf("after 30 s of silence: %s", diff)
	}
	if n := len(r.Bots(epoch.Add(pool.Forgotten + 1))); n != 0 {
		t.Errorf("%d bots listed after an hour of silence", n)
	}
}

func TestRosterShows(t *testing.T) {
	r := pool.NewRoster()
	b := beat("a", 1, wire.SeatIdle, wire.SeatWarming)
	b.Seats[1].CallID = "c1"
	r.Hear(epoch, b)
	if !r.Shows("c1") || r.Shows("c2") || r.Live(epoch, "c1") {
		t.Errorf("shows c1 %v and c2 %v, c1 live %v; want only c1, and not live", r.Shows("c1"), r.Shows("c2"), r.Live(epoch, "c1"))
	}
	r.Hear(epoch, beat("a", 2, wire.SeatIdle, wire.SeatIdle))
	if r.Shows("c1") {
		t.Error("shows c1 after a beat without it")
	}
}

func TestRosterOrder(t *testing.T) {
	r := pool.NewRoster()
	r.Hear(epoch, beat("a", 5, wire.SeatLive))
	r.Hear(epoch, beat("a", 4, wire.SeatIdle)) // late
	if c := r.Counts(epoch, "eu-west", ""); c.Live != 1 {
		t.Errorf("an older beat won: %+v", c)
	}
	again := beat("a", 1, wire.SeatIdle) // a name that came back
	again.Instance = "2"
	r.Hear(epoch, again)
	if c := r.Counts(epoch, "eu-west", ""); c.Idle != 1 {
		t.Errorf("a new instance was taken for an old beat: %+v", c)
	}
	bye := beat("a", 2)
	bye.Instance, bye.Goodbye = "2", true
	r.Hear(epoch, bye)
	if c := r.Counts(epoch, "eu-west", ""); c.Bots != 0 {
		t.Errorf("still there after goodbye: %+v", c)
	}
}

// started is a member on a connection, with a roster that hears it.
func started(t *testing.T, b *natstest.Broker, id string) (*pool.Seats, *pool.Roster, func()) {
	t.Helper()
	s, err := pool.NewSeats(2, pool.Deadlines{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := pool.NewRoster()
	m, err := pool.NewMember(b.Connect(t), s, pool.MemberConfig{
		Beat: func() wire.Beat {
			return wire.Beat{V: 1, BotID: id, Instance: "1", Region: "eu-west", Pool: "default", Seats: s.View(time.Now())}
		},
		Command: func(verb string, cmd wire.Command) wire.Answer {
			if verb == wire.VerbRelease && cmd.CallID == "" {
				return wire.Answer{Code: "unknown_call"}
			}
			return wire.Answer{OK: true, Detail: verb + " " + cmd.CallID}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	nc := b.Connect(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- r.Run(ctx, nc, zerolog.Nop()) }()
	synctest.Wait()
	mctx, leave := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { left <- m.Run(mctx) }()
	t.Cleanup(func() { cancel(); <-done; <-left })
	synctest.Wait()
	return s, r, leave
}

func TestBeats(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		s, r, leave := started(t, b, "bot-1")
		var beats atomic.Int64
		sub, err := b.Connect(t).Subscribe(wire.BeatAll(), func(*nats.Msg) { beats.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		synctest.Wait()
		if c := r.Counts(time.Now(), "eu-west", "default"); c.Idle != 2 {
			t.Errorf("at the start: %+v", c)
		}
		time.Sleep(time.Minute + time.Millisecond)
		synctest.Wait()
		if n := beats.Swap(0); n != 12 {
			t.Errorf("%d beats in a quiet minute, want 12", n)
		}
		time.Sleep(time.Second)
		s.Take(time.Now(), "k", "c1", -1)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if c := r.Counts(time.Now(), "eu-west", "default"); c.Idle != 1 || c.Claimed != 1 {
			t.Errorf("a change is not told at once: %+v", c)
		}
		for i := range 1000 { // a storm of changes within one second
			s.Take(time.Now(), fmt.Sprint(i), "c2", -1)
			s.Move(time.Now(), 1, fmt.Sprint(i), wire.SeatIdle)
			time.Sleep(time.Millisecond)
		}
		if n := beats.Load(); n < 10 || n > 13 {
			t.Errorf("%d beats in a second of changes, want about 11", n)
		}
		leave()
		synctest.Wait()
		if c := r.Counts(time.Now(), "eu-west", "default"); c.Bots != 0 {
			t.Errorf("after goodbye: %+v", c)
		}
	})
}

// NATS is away for half a minute: the roster ages, and is right again within
// two beats.
func TestBeatsAfterRestart(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		s, r, _ := started(t, b, "bot-1")
		b.Stop()
		s.Take(time.Now(), "k", "c1", -1)
		s.Move(time.Now(), 0, "k", wire.SeatAssigned)
		time.Sleep(pool.NotCapacity + 5*time.Second)
		if c := r.Counts(time.Now(), "eu-west", ""); c.Bots != 0 || c.Stuck != 2 {
			t.Errorf("while away: %+v", c)
		}
		b.Restart()
		time.Sleep(2 * pool.BeatEvery)
		synctest.Wait()
		if c := r.Counts(time.Now(), "eu-west", ""); c.Idle != 1 || c.Claimed != 1 {
			t.Errorf("two beats later: %+v", c)
		}
	})
}

func TestCommands(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		started(t, b, "bot-1")
		nc := b.Connect(t)
		for _, tc := range []struct {
			verb string
			cmd  wire.Command
			want wire.Answer
		}{
			{wire.VerbPing, wire.Command{}, wire.Answer{OK: true}},
			{wire.VerbRelease, wire.Command{CallID: "c1"}, wire.Answer{OK: true, Detail: "release c1"}},
			{wire.VerbRelease, wire.Command{}, wire.Answer{Code: "unknown_call"}},
			{wire.VerbDrain, wire.Command{}, wire.Answer{OK: true, Detail: "drain "}},
		} {
			got, err := pool.Tell(t.Context(), nc, "bot-1", tc.verb, tc.cmd)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.V, tc.want.BotID = 1, "bot-1"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: %s", tc.verb, diff)
			}
		}
		if _, err := pool.Tell(t.Context(), nc, "bot-2", wire.VerbPing, wire.Command{}); err == nil {
			t.Error("a bot that is not there answered")
		}
		subj, _ := wire.Bot("bot-1", wire.VerbRelease)
		for _, body := range []string{"", "x", `{"v":9}`} {
			m, err := nc.RequestWithContext(t.Context(), subj, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if a, err := wire.Decode[wire.Answer](m.Data); err != nil || a.OK || a.Code == "" {
				t.Errorf("body %q: %+v %v", body, a, err)
			}
		}
	})
}
