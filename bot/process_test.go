package bot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/claim"
	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/wire"
)

// program is cmd/bot, built once for all tests that need a process to kill.
var program = sync.OnceValues(func() (string, error) {
	built = true
	dir, err := os.MkdirTemp("", "dibs-bot-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bot")
	out, err := exec.Command("go", "build", "-o", path, "dibs/cmd/bot").CombinedOutput()
	if err != nil {
		return path, fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

var built bool // program was asked for

// process is a bot as a process of its own, seen as the fleet sees it.
type process struct {
	w      *world
	name   string
	cmd    *exec.Cmd
	stderr bytes.Buffer // to be read after its end
	ended  chan struct{}
}

func runProgram(w *world, name string, args ...string) *process {
	w.t.Helper()
	path, err := program()
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{w: w, name: name, ended: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if w.t.Failed() {
			w.t.Logf("%s said:\n%s", name, &p.stderr)
		}
	})
	return p
}

// process starts one and waits until its seats are offered.
func (w *world) process(name, pool string, args ...string) *process {
	w.t.Helper()
	p := runProgram(w, name, append([]string{
		"--nats", w.broker.URL(), "--region", region, "--pool", pool, "--name", name, "--voice", "tone", "--tag-greetings", "--insecure",
		"--media-addr", "127.0.0.1:0", "--ops-addr", "", "--log-level", "warn",
	}, args...)...)
	w.until(name+" is there", func() bool {
		beat, ok := p.beat()
		return ok && beat.NotReady == ""
	})
	return p
}

func (p *process) beat() (wire.Beat, bool) {
	for _, b := range p.w.roster.Bots(time.Now()) {
		if strings.HasPrefix(b.Beat.BotID, p.name+"_") {
			return b.Beat, true
		}
	}
	return wire.Beat{}, false
}

func (p *process) id() string {
	b, _ := p.beat()
	return b.BotID
}

func (p *process) signal(s os.Signal) {
	p.w.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.w.t.Fatalf("%v to %s: %v", s, p.name, err)
	}
}

// stops stops the process and waits until all of it stands still, where the system
// tells: on a loaded machine that is a while after the signal.
func (p *process) stops() {
	p.w.t.Helper()
	p.signal(syscall.SIGSTOP)
	p.w.until(p.name+" stands still", func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		return !slices.ContainsFunc(tasks, func(path string) bool {
			stat, err := os.ReadFile(path)
			_, state, ok := strings.Cut(string(stat), ") ")
			return err == nil && ok && !strings.HasPrefix(state, "T")
		})
	})
}

// exits waits for the end and says with which code.
func (p *process) exits() int {
	p.w.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.w.t.Fatalf("%s does not end", p.name)
		return -1
	}
}

// slowProvider is the flag for a provider that opens no session before its
// time-out, which is longer than any test.
func slowProvider(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	data, err := json.Marshal([]map[string]any{{"name": "slow", "kind": "stt", "url": "ws://" + l.Addr().String(), "timeout_ms": 60_000}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "providers.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return "--providers=" + path
}

type outcome struct {
	got *claim.Assignment
	err error
}

// claims claims in the background.
func (w *world) claims(req claim.Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		got, err := w.asker.Assign(w.t.Context(), req)
		done <- outcome{got, err}
	}()
	return done
}

// A bot is killed −9 at every point of the claim; the asker goes on to another one
// without being told. The one that survives serves another pool, so that it is
// known who is asked first.
func TestKilled(t *testing.T) {
	t.Run("after the request", func(t *testing.T) {
		w := newWorldWith(t, natstest.Options{Listen: true})
		dies := w.process("dies", "default")
		lives := w.process("lives", "spare")
		dies.stops() // it is asked, and does not come to answering
		sent := w.nc.Stats().OutMsgs
		done := w.claims(call("call_1"))
		w.until("it is asked", func() bool { return w.nc.Stats().OutMsgs > sent && w.nc.Flush() == nil })
		dies.signal(syscall.SIGKILL)
		// The second silence: the server has not seen its end yet, and it is still
		// offered to the region.
		w.goesOn(done, lives, "silence, no_responders, ready", "silence, no_responders, silence, ready")
	})
	t.Run("after accepted", func(t *testing.T) {
		w := newWorldWith(t, natstest.Options{Listen: true})
		dies := w.process("dies", "default", slowProvider(t))
		lives := w.process("lives", "spare")
		done := w.claims(call("call_1"))
		w.until("it warms up", func() bool {
			b, _ := dies.beat()
			return b.Seats[0].State == wire.SeatWarming
		})
		dies.signal(syscall.SIGKILL)
		w.goesOn(done, lives, "lost, no_responders, ready")
	})
	t.Run("after ready", func(t *testing.T) {
		w := newWorldWith(t, natstest.Options{Listen: true})
		dies := w.process("dies", "default")
		lives := w.process("lives", "spare")
		got := w.claim(call("call_1"))
		id := dies.id()
		if got.BotID != id {
			t.Fatalf("%s has the call, want %s", got.BotID, id)
		}
		dies.signal(syscall.SIGKILL)
		dies.exits()
		w.until("its death is known to who asks", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a question already at its door is lost
			defer cancel()
			_, err := pool.Tell(ctx, w.nc, id, wire.VerbPing, wire.Command{})
			return errors.Is(err, nats.ErrNoResponders)
		})
		w.goesOn(w.claims(call("call_1")), lives, "no_responders, ready")
	})
}

// goesOn waits for a claim that must end with another bot, by one of the given
// rows of answers.
func (w *world) goesOn(done <-chan outcome, lives *process, want ...string) {
	w.t.Helper()
	select {
	case o := <-done:
		if o.err != nil {
			w.t.Fatal(o.err)
		}
		if got := answers(o.got.Attempts); !slices.Contains(want, got) {
			w.t.Errorf("the asks were answered %q, want one of %q", got, want)
		}
		if o.got.BotID != lives.id() {
			w.t.Errorf("%s has the call, want %s", o.got.BotID, lives.id())
		}
		// 150 ms for a silence, half a second for a death while it warms up; the
		// window of 10 s was not waited for.
		if o.got.Took > 5*time.Second {
			w.t.Errorf("the claim took %v", o.got.Took)
		}
		c := dial(w.t, o.got.Media.URL)
		c.start()
		c.greeting()
	case <-time.After(patience):
		w.t.Fatal("the claim does not end")
	}
}

// A bot's process stands still: each of its seats costs at most one ask, and no call
// fails. When it goes on, its late answers are withdrawn and its seats idle.
func TestStandsStill(t *testing.T) {
	const seats = 2
	w := newWorldWith(t, natstest.Options{Listen: true})
	still := w.process("still", "default", fmt.Sprint("--seats=", seats))
	lives := w.process("lives", "default", "--seats=4")
	still.stops()
	silent, claims := 0, 0 // asks, and claims with such an ask
	for i := range 20 {
		id := fmt.Sprint("call_", i)
		got := w.claim(call(id))
		if got.BotID != lives.id() {
			t.Fatalf("%s has %s", got.BotID, id)
		}
		if n := strings.Count(answers(got.Attempts), claim.Silence); n > 0 {
			silent, claims = silent+n, claims+1
		}
		if a := w.tell(lives.id(), wire.VerbRelease, id); !a.OK {
			t.Fatalf("release: %+v", a)
		}
	}
	if silent == 0 || silent > seats {
		t.Errorf("%d asks met silence, want 1 to %d: an offer is good for one", silent, seats)
	}
	before, _ := still.beat()
	still.signal(syscall.SIGCONT)
	w.until("every claim took a seat, too late, and its seats are idle", func() bool {
		b, ok := still.beat()
		return ok && b.Seq > before.Seq && b.Calls >= int64(claims) && idle(b) == seats
	})
	if b, _ := still.beat(); b.Calls > int64(silent) {
		t.Errorf("seats were taken %d times by %d asks", b.Calls, silent)
	}
	lives.signal(syscall.SIGKILL)
	lives.exits()
	for i := range seats { // and it takes calls again
		w.claim(call(fmt.Sprint("again_", i)))
	}
}

func idle(b wire.Beat) (n int) {
	for _, s := range b.Seats {
		if s.State == wire.SeatIdle {
			n++
		}
	}
	return n
}

// How a bot's process ends, and what it says of it.
func TestExit(t *testing.T) {
	t.Run("SIGTERM with a call on it", func(t *testing.T) {
		w := newWorldWith(t, natstest.Options{Listen: true})
		p := w.process("bot", "default")
		c, _ := w.onCall("call_1")
		p.signal(syscall.SIGTERM)
		w.until("it drains", func() bool { b, _ := p.beat(); return b.Draining })
		c.hangUp()
		if code := p.exits(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("drained by command", func(t *testing.T) {
		w := newWorldWith(t, natstest.Options{Listen: true})
		p := w.process("bot", "default")
		w.tell(p.id(), wire.VerbDrain, "")
		if code := p.exits(); code != 3 {
			t.Errorf("exit code %d, want 3", code)
		}
	})
	t.Run("no NATS", func(t *testing.T) {
		w := newWorld(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		p := runProgram(w, "bot", "--nats", "nats://me:secret@"+addr, "--nats-wait", "300ms", "--region", region, "--insecure")
		if code := p.exits(); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		last := lastLine(p.stderr.String())
		if !strings.Contains(last, "no NATS at nats://"+addr) || strings.Contains(p.stderr.String(), "secret") {
			t.Errorf("it says %q", p.stderr.String())
		}
	})
	t.Run("wrong flags", func(t *testing.T) {
		w := newWorld(t)
		if code := runProgram(w, "bot", "--seats", "many").exits(); code != 2 {
			t.Errorf("exit code %d, want 2", code)
		}
	})
	t.Run("without a place for the media", func(t *testing.T) {
		w := newWorldWith(t, natstest.Options{Listen: true})
		p := runProgram(w, "bot", "--nats", w.broker.URL(), "--region", region, "--media-addr", "127.0.0.1:0")
		if code := p.exits(); code != 1 || !strings.Contains(lastLine(p.stderr.String()), "--media-url") {
			t.Errorf("exit code %d, it says %q", code, p.stderr.String())
		}
	})
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// removeProgram ends what program began.
func removeProgram() {
	if path, _ := program(); path != "" {
		os.RemoveAll(filepath.Dir(path))
	}
}
