package node_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/claim"
	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/wire"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

// soon is how long a loaded machine may take for what is done at once.
const soon = 30 * time.Second

// nodeBot is bot.mjs as a process, seen through its beats.
type nodeBot struct {
	t      *testing.T
	broker *natstest.Broker
	nc     *nats.Conn
	cmd    *exec.Cmd
	beats  chan wire.Beat
	id     string
}

// start runs the bot and waits for its first beat. Without Node, or before
// npm ci, there is nothing to test; DIBS_NODE=1 says that there must be.
func start(t *testing.T) *nodeBot {
	t.Helper()
	_, missing := exec.LookPath("node")
	if missing == nil {
		_, missing = os.Stat("node_modules")
	}
	if missing != nil {
		if os.Getenv("DIBS_NODE") != "" {
			t.Fatal(missing)
		}
		t.Skipf("%v (npm ci in this folder installs what the bot needs)", missing)
	}
	broker := natstest.StartWith(t, natstest.Options{Listen: true})
	b := &nodeBot{t: t, broker: broker, nc: broker.Connect(t), beats: make(chan wire.Beat, 256)}
	sub, err := b.nc.Subscribe(wire.BeatAll(), func(m *nats.Msg) {
		beat, err := wire.Decode[wire.Beat](m.Data)
		if err != nil {
			t.Errorf("beat: %v", err)
			return
		}
		b.beats <- beat
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := b.nc.FlushTimeout(soon); err != nil {
		t.Fatal(err)
	}
	b.cmd = exec.CommandContext(t.Context(), "node", "bot.mjs")
	b.cmd.Env = append(os.Environ(), "NATS_URL="+broker.URL(), "DIBS_REGION=eu-west", "DIBS_POOL=acme", "DIBS_MEDIA_URL=wss://bot.example/media")
	b.cmd.Stdout, b.cmd.Stderr = t.Output(), t.Output()
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.cmd.ProcessState == nil {
			_ = b.cmd.Process.Kill()
			_ = b.cmd.Wait()
		}
	})
	b.id = b.until("its first beat", wire.SeatIdle).BotID
	return b
}

// until waits for a beat whose seat is in a state.
func (b *nodeBot) until(what string, state wire.SeatState) wire.Beat {
	b.t.Helper()
	return b.next(what, func(beat wire.Beat) bool { return beat.Seats[0].State == state })
}

func (b *nodeBot) next(what string, is func(wire.Beat) bool) wire.Beat {
	b.t.Helper()
	end := time.After(soon)
	for {
		select {
		case beat := <-b.beats:
			if is(beat) {
				return beat
			}
		case <-end:
			b.t.Fatalf("no beat within %v that tells %s", soon, what)
		}
	}
}

// tell sends a command; the bot must agree.
func (b *nodeBot) tell(verb string, cmd wire.Command) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), soon)
	defer cancel()
	if answer, err := pool.Tell(ctx, b.nc, b.id, verb, cmd); err != nil || !answer.OK {
		b.t.Fatalf("%s: %+v, %v", verb, answer, err)
	}
}

// assign claims a seat with windows that a loaded machine can keep.
func (b *nodeBot) assign(a *claim.Asker, call string) (*claim.Assignment, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), soon)
	defer cancel()
	return a.Assign(ctx, claim.Request{CallID: call, Region: "eu-west", Pool: "acme"})
}

// refused asserts that nobody is idle, which the server itself says.
func (b *nodeBot) refused(a *claim.Asker, call string) {
	b.t.Helper()
	_, err := b.assign(a, call)
	r, ok := errors.AsType[*claim.Refused](err)
	if !ok || r.Code != claim.CodeNoIdleBot {
		b.t.Fatalf("error %v, want %s", err, claim.CodeNoIdleBot)
	}
	for _, at := range r.Attempts {
		if at.Answer != claim.NoResponders {
			b.t.Errorf("attempt %+v, want %s", at, claim.NoResponders)
		}
	}
}

// TestBot runs the protocol between Go and a bot in another language.
func TestBot(t *testing.T) {
	b := start(t)
	asker, err := claim.New(b.nc, claim.AskerConfig{Accept: 10 * time.Second, Ready: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer asker.Close()

	got, err := b.assign(asker, "call_1")
	if err != nil {
		t.Fatal(err)
	}
	if got.BotID != b.id || !strings.HasPrefix(got.Media.URL, "wss://bot.example/media/") || got.Media.Params["call_id"] != "call_1" || got.Media.ExpiresMS != 75_000 {
		t.Errorf("assignment %+v", got)
	}
	if len(got.Attempts) != 1 || got.Attempts[0].Answer != string(wire.Ready) {
		t.Errorf("attempts %+v, want one that was ready", got.Attempts)
	}
	if beat := b.until("that the seat is assigned", wire.SeatAssigned); beat.Seats[0].CallID != "call_1" {
		t.Errorf("beat %+v, want call_1", beat)
	}
	b.refused(asker, "call_2")

	b.tell(wire.VerbPing, wire.Command{})
	b.tell(wire.VerbRelease, wire.Command{CallID: "call_1", Reason: "no_answer"})
	if _, err := b.assign(asker, "call_3"); err != nil {
		t.Fatalf("after the release: %v", err)
	}
	b.tell(wire.VerbRelease, wire.Command{CallID: "call_3"})

	b.tell(wire.VerbCordon, wire.Command{})
	b.refused(asker, "call_4")
	b.tell(wire.VerbUncordon, wire.Command{})

	// An asker that is gone: its inbox has nobody. The seat is free again at once,
	// not after the 75 s in which media may come.
	request, err := wire.Encode(wire.ClaimRequest{V: wire.Version, ClaimID: "gone", CallID: "call_5", AcceptMS: 150, ReadyMS: 10_000, Region: "eu-west", Attempt: 1, Phase: wire.PhaseRegion})
	if err != nil {
		t.Fatal(err)
	}
	subj, err := wire.ClaimRegion("eu-west")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.nc.PublishRequest(subj, nats.NewInbox(), request); err != nil {
		t.Fatal(err)
	}
	b.next("that call_5 has the seat", func(beat wire.Beat) bool { return beat.Seats[0].CallID == "call_5" })
	b.until("that the seat is idle again", wire.SeatIdle)
	if _, err := b.assign(asker, "call_6"); err != nil {
		t.Fatalf("after an asker that was gone: %v", err)
	}

	// Told to stop it keeps its call, and leaves with a goodbye when that is over.
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if beat := b.next("that it drains", func(beat wire.Beat) bool { return beat.Draining }); beat.Goodbye || beat.Seats[0].CallID != "call_6" {
		t.Errorf("beat %+v, want one with call_6", beat)
	}
	b.tell(wire.VerbRelease, wire.Command{CallID: "call_6"})
	b.next("goodbye", func(beat wire.Beat) bool { return beat.Goodbye })
	if err := b.cmd.Wait(); err != nil {
		t.Errorf("the bot's exit: %v", err)
	}
}

// TestBotComesBack restarts NATS under the bot: its offers are there again, and
// they are good for one request again.
func TestBotComesBack(t *testing.T) {
	b := start(t)
	asker, err := claim.New(b.nc, claim.AskerConfig{Accept: 10 * time.Second, Ready: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer asker.Close()
	b.broker.Restart()
	for len(b.beats) > 0 {
		<-b.beats
	}
	b.until("that it is back", wire.SeatIdle)
	if _, err := b.assign(asker, "call_1"); err != nil {
		t.Fatal(err)
	}
	b.refused(asker, "call_2")
}
