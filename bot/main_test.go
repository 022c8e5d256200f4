package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"dibs/bot"
	"dibs/breaker"
	"dibs/claim"
	"dibs/internal/audio"
	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/warmup"
	"dibs/wire"
)

func TestMain(m *testing.M) {
	code := natstest.Main(m)
	if built {
		removeProgram()
	}
	os.Exit(code)
}

// patience bounds every wait of a test; nothing takes a part of it.
const patience = 30 * time.Second

const region = "eu-west"

// world is a broker, a backend's side of it (an asker and a roster), and bots.
// Everything ends with the test and leaves nothing.
type world struct {
	t      *testing.T
	broker *natstest.Broker
	nc     *nats.Conn
	asker  *claim.Asker
	roster *pool.Roster
	bots   int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, natstest.Options{})
}

func newWorldWith(t *testing.T, o natstest.Options) *world {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if !t.Failed() {
			goleak.VerifyNone(t, before)
		}
	})
	w := &world{t: t, broker: natstest.StartWith(t, o), roster: pool.NewRoster()}
	w.nc = w.broker.Connect(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.roster.Run(ctx, w.broker.Connect(t), zerolog.Nop()) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	var err error
	w.asker, err = claim.New(w.nc, claim.AskerConfig{Counts: func(region, pool string) wire.Counts { return w.roster.Counts(time.Now(), region, pool) }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// running is a bot that runs, with its media door on a loopback socket.
type running struct {
	*bot.Bot
	w    *world
	stop context.CancelFunc // what SIGTERM does
	done chan error         // what Run returned
}

// bot starts one and waits until it is ready and offers its seats.
func (w *world) bot(change func(*bot.Config)) *running {
	w.t.Helper()
	return w.botOn(w.broker.Connect(w.t), change)
}

func (w *world) botOn(nc *nats.Conn, change func(*bot.Config)) *running {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.bots++
	cfg := bot.Config{
		Name: fmt.Sprint("bot-", w.bots), Region: region, MediaURL: "ws://" + l.Addr().String(), Insecure: true, Tag: true,
		Warmup:  warmup.Config{Voice: beep{}},
		DrainIn: patience, CloseIn: patience, ProbeIn: 100 * time.Millisecond,
		Log: zerolog.New(zerolog.NewTestWriter(w.t)),
	}
	if change != nil {
		change(&cfg)
	}
	b, err := bot.New(nc, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	r := &running{Bot: b, w: w, done: make(chan error, 1)}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	door := b.Media()
	served := make(chan error, 1)
	go func() { served <- door.Serve(l) }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.done <- b.Run(ctx)
	}()
	w.t.Cleanup(func() {
		for _, v := range r.Seats() { // calls that a test leaves, so that the stop need not wait for them
			if v.CallID != "" {
				r.Release(v.CallID)
			}
		}
		r.stop()
		<-ended
		door.Close()
		<-served
	})
	w.until("the bot is ready", func() bool { ok, _ := b.Ready(); _, there := r.beat(); return ok && there })
	return r
}

// beep is a voice that needs a moment of sound and no account.
type beep struct{}

func (beep) Speak(context.Context, string, string, string) ([]int16, int, error) {
	return audio.Tone([]float64{440}, 100*time.Millisecond, 0.5), audio.Rate, nil
}

// until waits until ok says so.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-deadline:
			w.t.Fatalf("%s: not within %v; the fleet is %+v", what, patience, w.roster.Bots(time.Now()))
		}
	}
}

// beat is the bot as the backend believes it; ok is false when it knows none.
func (r *running) beat() (wire.Beat, bool) {
	for _, b := range r.w.roster.Bots(time.Now()) {
		if b.Beat.BotID == r.ID() {
			return b.Beat, true
		}
	}
	return wire.Beat{}, false
}

func (r *running) state() breaker.State { return r.Breaker().State }

// is waits until the seat of a call is in a state; idle: until no seat has it.
func (r *running) is(state wire.SeatState, call string) {
	r.w.t.Helper()
	r.w.until(call+" is "+string(state), func() bool {
		for _, s := range r.Seats() {
			if s.CallID == call {
				return s.State == state
			}
		}
		return state == wire.SeatIdle
	})
}

// call is a request for one call, with a flow of its own and its proof.
func call(id string) claim.Request {
	return claim.Request{
		CallID: id, Region: region, Pool: "default", Class: "api",
		Flow:     wire.Flow{Inline: fmt.Appendf(nil, `{"id":"hello","greeting":{"text":"Hello, %s"}}`, id)},
		Metadata: fmt.Appendf(nil, `{"dibs_tag":"%s"}`, tagOf(id)),
	}
}

// tagOf is four digits that other calls of a test do not have.
func tagOf(id string) string {
	n := 0
	for _, c := range id {
		n = (n*31 + int(c)) % 9000
	}
	return fmt.Sprint(1000 + n)
}

// claim gets a bot for a call, or fails the test. A seat that has just become idle
// is offered a moment later.
func (w *world) claim(req claim.Request) *claim.Assignment {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for {
		got, err := w.asker.Assign(ctx, req)
		// The roster may be a beat behind what the bot offers by now.
		if r, ok := asRefused(err); ok && (r.Code == claim.CodeNoIdleBot || r.Code == claim.CodeBotsDraining || r.Code == claim.CodeBotsBusy) {
			continue
		}
		if err != nil {
			w.t.Fatalf("claim for %s: %v", req.CallID, err)
		}
		return got
	}
}

// refused is why a call gets no bot, or fails the test.
func (w *world) refused(req claim.Request) *claim.Refused {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	got, err := w.asker.Assign(ctx, req)
	r, ok := asRefused(err)
	if !ok {
		w.t.Fatalf("claim for %s: %+v, %v; want a refusal", req.CallID, got, err)
	}
	return r
}

func asRefused(err error) (*claim.Refused, bool) { return errors.AsType[*claim.Refused](err) }

// asked is one ask of one bot by hand: without an asker that confirms, acks, or
// asks again.
type asked struct {
	w   *world
	sub *nats.Subscription
}

func (w *world) asks(r *running, callID string) asked {
	w.t.Helper()
	sub, err := w.nc.SubscribeSync(w.nc.NewInbox())
	if err != nil {
		w.t.Fatal(err)
	}
	req := call(callID)
	req.V, req.ClaimID, req.AcceptMS, req.ReadyMS = 1, "by-hand-"+callID, 150, 10_000
	data, err := wire.Encode(req)
	if err != nil {
		w.t.Fatal(err)
	}
	subj, err := wire.Bot(r.ID(), wire.VerbClaim)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.nc.PublishRequest(subj, sub.Subject, data); err != nil {
		w.t.Fatal(err)
	}
	return asked{w, sub}
}

// hears is the next reply, and where the bot hears what is said to it.
func (a asked) hears() (wire.Reply, string) {
	a.w.t.Helper()
	ctx, cancel := context.WithTimeout(a.w.t.Context(), patience)
	defer cancel()
	m, err := a.sub.NextMsgWithContext(ctx)
	if err != nil {
		a.w.t.Fatal(err)
	}
	reply, err := wire.Decode[wire.Reply](m.Data)
	if err != nil {
		a.w.t.Fatal(err)
	}
	return reply, m.Reply
}

// confirms says that the asker is there and wants the seat.
func (a asked) confirms(r wire.Reply, back string) {
	a.w.t.Helper()
	data, err := wire.Encode(wire.Control{V: 1, ClaimID: r.ClaimID, Say: wire.Confirm})
	if err != nil {
		a.w.t.Fatal(err)
	}
	if err := a.w.nc.Publish(back, data); err != nil {
		a.w.t.Fatal(err)
	}
}

// tell gives a bot a command.
func (w *world) tell(botID, verb, callID string) wire.Answer {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	a, err := pool.Tell(ctx, w.nc, botID, verb, wire.Command{CallID: callID, Reason: "test"})
	if err != nil {
		w.t.Fatalf("tell %s: %v", verb, err)
	}
	return a
}

// ended waits until Run has returned.
func (r *running) ended() error {
	r.w.t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		r.w.t.Fatal("Run does not return")
		return nil
	}
}

// answers is how the asks of a claim were answered.
func answers(as []claim.Attempt) string {
	var out []string
	for _, a := range as {
		s := a.Answer
		if a.Code != "" {
			s += " " + a.Code
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}
