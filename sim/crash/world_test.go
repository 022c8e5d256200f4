package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
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
	"github.com/nats-io/nats.go/jetstream"

	"dibs/api"
	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/cdr"
	"dibs/internal/natstest"
	"dibs/queue"
)

// program is the real thing, built once.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if !slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "-test.parallel") }) {
		_ = flag.Set("test.parallel", "10") // most of a test is waiting
	}
	dir, err := os.MkdirTemp("", "dibs-crash-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "dibs")
	if out, err := exec.Command("go", "build", "-o", program, "dibs/cmd/dibs").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// process is one child that can be killed and started again.
type process struct {
	t    testing.TB
	name string
	args []string
	env  []string
	dir  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *process) start(extra ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(p.dir, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	check(p.t, err)
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program, p.args...)
	cmd.Env = append(append(os.Environ(), p.env...), extra...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(p.t, cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	p.cmd, p.done = cmd, done
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stopped reports whether the process stands still, by its own SIGSTOP.
func (p *process) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	_, rest, ok := bytes.Cut(stat, []byte(") "))
	return err == nil && ok && rest[0] == 'T'
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(s)
}

// died waits until the process has ended by itself.
func (p *process) died(within time.Duration) bool {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	select {
	case <-done:
		return true
	case <-time.After(within):
		return false
	}
}

// world is a system of real processes.
type world struct {
	t       testing.TB
	dir     string
	natsURL string
	natsP   *process
	carrier *simcarrier.Server
	sim     string
	base    string
	api     *api.Client
	env     []string // of backends
	backend *process // the first
	bots    []*process

	nc      *nats.Conn
	line    *queue.Line
	records *cdr.Store
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const token = "crash-harness-token"

// newWorld starts NATS, the carrier (in this process, so that a test can look into
// its books), bots and one backend that waits for its start.
func newWorld(t testing.TB, bots int, profile simcarrier.Profile, env ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	t.Cleanup(func() {
		if t.Failed() {
			w.dump()
		}
	})
	port := natstest.FreePorts(t, 1)[0]
	w.natsURL = fmt.Sprintf("nats://127.0.0.1:%d", port)
	w.natsP = w.process("nats", []string{"nats", "--port", fmt.Sprint(port), "--store", filepath.Join(w.dir, "js")})
	w.natsP.start()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	w.sim = "http://" + l.Addr().String()
	w.carrier, err = simcarrier.New(simcarrier.Config{Listener: l, Insecure: true, Profile: profile, Seed: 1})
	check(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.carrier.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })

	w.nc, err = nats.Connect(w.natsURL, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	check(t, err)
	t.Cleanup(w.nc.Close)
	w.until("NATS is there", w.nc.IsConnected)
	js, err := jetstream.New(w.nc)
	check(t, err)
	w.line, err = queue.Open(ctx, js, queue.Config{})
	check(t, err)
	w.records, err = cdr.Open(ctx, js, cdr.Config{})
	check(t, err)

	w.env = append(env, "DIBS_TOKEN="+token, "TWILIO_ACCOUNT_SID="+simcarrier.AccountSID, "TWILIO_AUTH_TOKEN="+simcarrier.AuthToken, "TWILIO_BASE_URL="+w.sim)
	var base string
	w.backend, base = w.newBackend("one", "")
	w.use(base)
	for range bots {
		w.addBot(1)
	}
	return w
}

// addBot starts one more bot.
func (w *world) addBot(seats int) {
	name := fmt.Sprintf("bot-%d", len(w.bots))
	b := w.process(name, []string{
		"bot", "--region", "eu-west", "--name", name, "--seats", fmt.Sprint(seats), "--media-addr", "127.0.0.1:0", "--ops-addr", "", "--insecure", "--voice", "tone", "--tag-greetings",
	})
	b.start()
	w.bots = append(w.bots, b)
}

// use lets the world talk to another backend.
func (w *world) use(base string) {
	w.base = base
	var err error
	w.api, err = api.NewClient(api.ClientConfig{BaseURL: base, Token: token, Timeout: 10 * time.Second})
	check(w.t, err)
}

// pair starts two backends behind one address, as a load balancer gives it to the
// carrier and to callers.
func (w *world) pair() []*process {
	front := &http.Server{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(w.t, err)
	public := "http://" + l.Addr().String()
	var both []*process
	var bases []string
	for _, name := range []string{"left", "right"} {
		p, base := w.newBackend(name, public)
		p.start()
		both, bases = append(both, p), append(bases, base)
	}
	client := &http.Client{Timeout: 15 * time.Second}
	front.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		first := rand.IntN(2)
		for i := range bases {
			req, err := http.NewRequestWithContext(r.Context(), r.Method, bases[(first+i)%2]+r.URL.RequestURI(), bytes.NewReader(body))
			check(w.t, err)
			req.Header = r.Header.Clone()
			resp, err := client.Do(req)
			if err != nil {
				continue // it is dead: the other one
			}
			rw.WriteHeader(resp.StatusCode)
			_, _ = io.Copy(rw, resp.Body)
			_ = resp.Body.Close()
			return
		}
		rw.WriteHeader(http.StatusBadGateway)
	})
	go func() { _ = front.Serve(l) }()
	w.t.Cleanup(func() { _ = front.Close() })
	w.use(public)
	return both
}

// newBackend makes one that waits for its start, and says where it will be. Public is
// where the carrier reaches it; empty: there.
func (w *world) newBackend(name, public string) (p *process, base string) {
	addr := fmt.Sprintf("127.0.0.1:%d", natstest.FreePorts(w.t, 1)[0])
	if public == "" {
		public = "http://" + addr
	}
	return w.process("backend-"+name, []string{
		"backend", "--addr", addr, "--name", name, "--region", "eu-west", "--from", "+15005550006", "--insecure", "--log-level", "warn",
	}, append(slices.Clone(w.env), "DIBS_PUBLIC_URL="+public)...), "http://" + addr
}

func (w *world) process(name string, args []string, env ...string) *process {
	p := &process{t: w.t, name: name, args: args, dir: w.dir, env: append(slices.Clone(env), "NATS_URL="+w.natsURL)}
	w.t.Cleanup(p.kill)
	return p
}

// until waits for a state, bounded.
func (w *world) until(what string, ok func() bool) { w.untilIn(what, 60*time.Second, ok) }

func (w *world) untilIn(what string, patience time.Duration, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within %v: %s", patience, what)
		}
		<-tick.C
	}
}

func (w *world) ready() bool {
	resp, err := http.Get(w.base + "/readyz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// idle is how many seats the backend believes to be idle.
func (w *world) idle() int {
	page, err := w.api.Bots(w.t.Context(), "eu-west", "")
	if err != nil {
		return -1
	}
	return page.Counts.Idle
}

// put asks for a call until somebody says that it was taken.
func (w *world) put(key, to, tag, campaign string) string {
	w.t.Helper()
	var id string
	meta, _ := json.Marshal(map[string]string{"dibs_tag": tag})
	w.until("POST /v1/calls "+key, func() bool {
		c, _, err := w.api.PlaceCall(w.t.Context(), api.PlaceCall{To: to, Org: "acme", Campaign: campaign, Metadata: meta, Greeting: api.Greeting{Text: "Hello"}}, key)
		id = c.ID
		return err == nil
	})
	return id
}

func (w *world) record(id string) (call.Record, bool) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	r, _, err := w.records.Get(ctx, id)
	return r, err == nil
}

// nothingLeft fails the test when a message, an open record or a seat remains.
func (w *world) nothingLeft(seats int) {
	w.t.Helper()
	// A backend that is killed between a bot's ready and the record of it leaves the seat to
	// the bot, which waits for its media as long as a phone may ring: 75 s.
	w.untilIn("every seat is idle", 90*time.Second, func() bool { return w.idle() == seats })
	w.until("the line is empty", func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
		defer cancel()
		tally, err := w.line.Count(ctx, queue.Filter{})
		return err == nil && tally.Waiting == 0
	})
	w.until("no record is open", func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		l, err := w.records.Load(ctx, time.Time{}, func(call.Record, cdr.Rev) {})
		return err == nil && l.Open == 0 && len(l.Broken) == 0
	})
}

// dump shows the ends of the logs of a test that failed.
func (w *world) dump() {
	files, _ := filepath.Glob(filepath.Join(w.dir, "*.log"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if n := len(data); n > 6000 {
			data = data[n-6000:]
		}
		w.t.Logf("%s:\n%s", filepath.Base(f), bytes.TrimSpace(data))
	}
}
