package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/carrier"
	"dibs/claim"
	"dibs/pool"
	"dibs/wire"
)

// A carrier and a bot without sound, for runs of many thousand steps: what they
// know of a call is whether it goes on.

// quiet is a carrier whose phones ring until somebody says how that ends.
type quiet struct {
	w      *world
	closed func(callID string) // the media of a call; the bot sees it
	events chan carrier.Event

	mu sync.Mutex
	n  int
	on map[string]carrier.Dial // carrier's id → a call that goes on
}

func (*quiet) Name() string { return "quiet" }
func (*quiet) Event(*http.Request) (carrier.Event, error) {
	return carrier.Event{}, carrier.ErrMalformed
}
func (q *quiet) Cancel(ctx context.Context, id string) error { return q.Hangup(ctx, id) }

func (q *quiet) Place(_ context.Context, d carrier.Dial) (carrier.Placed, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n++
	id := fmt.Sprintf("CA%d", q.n)
	q.on[id] = d
	return carrier.Placed{ID: id, Status: carrier.Ringing}, nil
}

// begin is a call that came in and is led to a bot.
func (q *quiet) begin(id string, d carrier.Dial) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.on[id] = d
}

// Hangup ends a call, and tells so a moment later.
func (q *quiet) Hangup(_ context.Context, id string) error {
	if d, ok := q.over(id); ok {
		q.events <- carrier.Event{ID: id, Attempt: d.Attempt, Status: carrier.Canceled}
	}
	return nil
}

// over ends a call, silently.
func (q *quiet) over(id string) (d carrier.Dial, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d, ok = q.on[id]
	delete(q.on, id)
	if ok {
		q.closed(d.Attempt[:strings.LastIndexByte(d.Attempt, '-')])
	}
	return d, ok
}

// run sends status webhooks, and repeats them while nobody is in office.
func (q *quiet) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-q.events:
			for errors.Is(q.w.desk.CarrierEvent(ctx, ev), api.ErrUnavailable) && ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	}
}

func (q *quiet) Find(_ context.Context, what carrier.Query) (found []carrier.Found, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, d := range q.on {
		if id == what.ID || what.ID == "" && d.To == what.To {
			found = append(found, carrier.Found{ID: id, To: d.To, From: d.From, Status: carrier.Ringing})
		}
	}
	if len(found) == 0 && what.ID != "" {
		found = append(found, carrier.Found{ID: what.ID, Status: carrier.Completed})
	}
	return found, nil
}

// mute is a bot that is on the phone with whoever has a seat.
type mute struct {
	id    string
	seats *pool.Seats
	ans   *claim.Answerer
}

// addMute starts one with so many seats, and waits until it is heard of.
func (w *world) addMute(seats int) *mute {
	w.t.Helper()
	b := &mute{id: fmt.Sprintf("mute%d", seats)}
	nc := w.broker.Connect(w.t)
	var err error
	b.seats, err = pool.NewSeats(seats, pool.Deadlines{}, time.Now())
	check(w.t, err)
	b.ans, err = claim.NewAnswerer(nc, b.seats, b, claim.AnswererConfig{Identity: wire.Reply{BotID: b.id, Instance: "1"}, Region: "eu-west", Pool: "default", Log: zerolog.Nop()})
	check(w.t, err)
	member, err := pool.NewMember(nc, b.seats, pool.MemberConfig{Beat: b.beat, Command: b.command, Log: zerolog.Nop()})
	check(w.t, err)
	w.run("answers of "+b.id, b.ans.Run)
	w.run("member "+b.id, member.Run)
	w.until("the bot is there", w.idleSeats(seats))
	return b
}

func (b *mute) beat() wire.Beat {
	return wire.Beat{V: wire.Version, BotID: b.id, Instance: "1", Region: "eu-west", Pool: "default", Pod: wire.Pod{Name: b.id}, Seats: b.seats.View(time.Now())}
}

func (b *mute) command(verb string, cmd wire.Command) wire.Answer {
	if verb == wire.VerbRelease {
		b.end(cmd.CallID)
		return wire.Answer{OK: true}
	}
	if _, _, ok := b.seats.Find(cmd.CallID); !ok {
		return wire.Answer{Code: "unknown_call"}
	}
	return wire.Answer{OK: true, State: wire.CallLive}
}

// end frees the seat of a call.
func (b *mute) end(id string) {
	if b.ans.Release(id, "") {
		return
	}
	if seat, claimID, ok := b.seats.Find(id); ok {
		b.seats.Move(time.Now(), seat, claimID, wire.SeatIdle)
	}
}

func (*mute) Closed() *wire.Reply { return nil }
func (b *mute) Begin(wire.ClaimRequest) (claim.Session, *wire.Reply) {
	return muteSession{b}, nil
}

type muteSession struct{ b *mute }

func (s muteSession) Warm(context.Context, int) (wire.Reply, error) {
	return wire.Reply{Media: wire.Media{URL: "wss://bot.example/m/" + s.b.id + "/0123456789abcdef"}}, nil
}
func (muteSession) Assigned()  {}
func (muteSession) Drop(error) {}
