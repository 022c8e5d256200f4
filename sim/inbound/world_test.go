// Package inbound tries the whole system with calls that come in, and with bots that
// die in the middle of a call: real NATS, whole backends, real bots with their media
// sockets, the simulated carrier.
package inbound

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/backend"
	"dibs/bot"
	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/carrier/twilio"
	"dibs/cdr"
	"dibs/internal/natstest"
	"dibs/server"
	"dibs/warmup"
	"dibs/wire"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

const (
	token  = "a-token-for-the-test"
	region = "eu-west"
	ours   = "+493012345678"
	caller = "+4915112345678"
	tag    = "4711"
)

// world is one carrier, one broker, backends and bots.
type world struct {
	t       testing.TB
	broker  *natstest.Broker
	carrier *simcarrier.Server
	simURL  string
	base    string // of the first backend; the carrier reaches us there
	bases   []string
	api     *api.Client
	records *cdr.Store
	bots    []*mortal
	edit    func(*backend.Config)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// talker is somebody who answers soon and stays for long.
var talker = simcarrier.Profile{Ring: simcarrier.Range{Min: 20 * time.Millisecond}, Talk: simcarrier.Range{Min: time.Minute}}

func newWorld(t testing.TB, backends int, edit ...func(*backend.Config)) *world {
	t.Helper()
	w := &world{t: t, broker: natstest.StartWith(t, natstest.Options{Listen: true})}
	if len(edit) > 0 {
		w.edit = edit[0]
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	w.simURL = "http://" + l.Addr().String()
	w.carrier, err = simcarrier.New(simcarrier.Config{Listener: l, Insecure: true, Profile: talker, Seed: 1})
	check(t, err)
	w.run("carrier", w.carrier.Run)
	nc := w.broker.Connect(t)
	js, err := jetstream.New(nc)
	check(t, err)
	w.records, err = cdr.Open(t.Context(), js, cdr.Config{})
	check(t, err)
	for range backends {
		w.addBackend()
	}
	if backends == 0 {
		return w
	}
	w.api, err = api.NewClient(api.ClientConfig{BaseURL: w.base, Token: token, Timeout: 20 * time.Second})
	check(t, err)
	w.until("the backends are ready", func() bool {
		for _, b := range w.bases {
			resp, err := http.Get(b + "/readyz")
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return false
			}
		}
		return true
	})
	return w
}

// run runs f until the test ends, or until the returned function is called.
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

// addBackend starts one more replica; the first is where the carrier reaches us.
func (w *world) addBackend() (stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(w.t, err)
	base := "http://" + l.Addr().String()
	if w.base == "" {
		w.base = base
	}
	w.bases = append(w.bases, base)
	cfg := backend.Config{
		NC: w.broker.Connect(w.t), Listener: l, ID: fmt.Sprintf("backend%d", len(w.bases)), PublicURL: w.base, Region: region, From: ours,
		Tokens: []server.Token{{Name: "test", Secret: token, Role: server.Admin}},
		Twilio: twilio.Config{
			AccountSID: simcarrier.AccountSID, AuthToken: simcarrier.AuthToken, BaseURL: w.simURL, PublicURL: w.base,
			StatusPath: api.StatusPath("twilio"), Insecure: true,
		},
		StopIn: time.Second, Log: zerolog.New(zerolog.NewTestWriter(w.t)).Level(zerolog.WarnLevel),
	}
	if w.edit != nil {
		w.edit(&cfg)
	}
	return w.run(cfg.ID, func(ctx context.Context) error { return backend.Run(ctx, cfg) })
}

// line sets a number of ours, and the carrier's webhooks for it.
func (w *world) line(edit ...func(*api.Number)) {
	w.t.Helper()
	n := api.Number{
		Number: ours, Org: "acme", Region: region, Pool: "default", Greeting: api.Greeting{Text: "Hello"},
		Metadata: json.RawMessage(`{"dibs_tag":"` + tag + `"}`),
	}
	for _, f := range edit {
		f(&n)
	}
	_, err := w.api.PutNumber(w.t.Context(), n)
	check(w.t, err)
	check(w.t, w.carrier.SetLine(n.Number, simcarrier.Line{
		VoiceURL: w.base + api.InboundPath("twilio"), StatusURL: w.base + api.InboundPath("twilio") + "/status",
	}))
}

// callIn lets somebody call us and returns the carrier's id.
func (w *world) callIn(from string, talk time.Duration) string {
	w.t.Helper()
	sid, err := w.carrier.CallIn(simcarrier.Inbound{To: ours, From: from, Talk: talk})
	check(w.t, err)
	return sid
}

// mortal is a bot that can be killed as a process is: all its connections at once.
type mortal struct {
	bot  *bot.Bot
	nc   *nats.Conn
	l    *dying
	took chan wire.ClaimRequest // of calls that it talks on
}

// dying is a listener that can cut every connection it has accepted.
type dying struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (d *dying) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err == nil {
		d.mu.Lock()
		d.conns = append(d.conns, c)
		d.mu.Unlock()
	}
	return c, err
}

// kill ends the bot as kill -9 does: nobody is told, the kernel closes its sockets.
func (m *mortal) kill() {
	m.nc.Close()
	_ = m.l.Close()
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	for _, c := range m.l.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

func (w *world) addBot(edit ...func(*bot.Config)) *mortal {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(w.t, err)
	voice, err := warmup.NewVoice(warmup.VoiceConfig{Engine: warmup.VoiceTone})
	check(w.t, err)
	m := &mortal{nc: w.broker.Connect(w.t), l: &dying{Listener: l}, took: make(chan wire.ClaimRequest, 16)}
	cfg := bot.Config{
		Name: fmt.Sprintf("bot%d", len(w.bots)), Region: region, MediaURL: "ws://" + l.Addr().String(), Insecure: true, Tag: true,
		Warmup: warmup.Config{Voice: voice}, DrainIn: time.Second, CloseIn: time.Second,
		Talk: func(ctx context.Context, c *bot.Call) error {
			m.took <- c.Request
			<-ctx.Done()
			return nil
		},
	}
	for _, f := range edit {
		f(&cfg)
	}
	m.bot, err = bot.New(m.nc, cfg)
	check(w.t, err)
	srv := m.bot.Media()
	go func() { _ = srv.Serve(m.l) }()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.bot.Run(ctx) }()
	w.t.Cleanup(func() { stop(); <-done; _ = srv.Close() })
	w.bots = append(w.bots, m)
	return m
}

// until waits for a state of the world, bounded.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within 40 s: %s\n%s", what, w.story())
		}
		<-tick.C
	}
}

// story is every call as the API and the carrier have it.
func (w *world) story() string {
	var s strings.Builder
	if w.api != nil {
		if page, err := w.api.Calls(context.Background(), api.ListQuery{}, false); err == nil {
			for _, c := range page.Calls {
				fmt.Fprintf(&s, "%s %s %s (%s)\n", c.ID, c.Class, c.State, c.Reason)
				if c, err := w.api.Call(context.Background(), c.ID, false); err == nil {
					for _, e := range c.Timeline {
						fmt.Fprintf(&s, "   %s %s %s\n", e.At.Format("05.000"), e.Type, e.Data)
					}
				}
			}
		}
	}
	for _, c := range w.carrier.Calls() {
		fmt.Fprintf(&s, "%s %s %s by %s, %d streams, heard %+v, warnings %v\n", c.SID, c.Direction, c.Status, c.EndedBy, len(c.Streams), c.Heard, c.Warnings)
	}
	return s.String()
}

func (w *world) idle(n int) func() bool {
	return func() bool {
		page, err := w.api.Bots(w.t.Context(), "", "")
		return err == nil && page.Counts.Idle == n
	}
}

// find is the only call that fits, once there is one.
func (w *world) find(what string, fits func(api.Call) bool) api.Call {
	w.t.Helper()
	var found api.Call
	w.until(what, func() bool {
		page, err := w.api.Calls(w.t.Context(), api.ListQuery{}, true)
		if err != nil {
			return false
		}
		for _, c := range page.Calls {
			if fits(c) {
				found = c
				return true
			}
		}
		return false
	})
	return found
}

// outcome waits for the end of a call.
func (w *world) outcome(id string, want call.Outcome) api.Call {
	w.t.Helper()
	var c api.Call
	w.until(id+" ends", func() bool {
		var err error
		c, err = w.api.Call(w.t.Context(), id, true)
		return err == nil && c.State.Terminal()
	})
	if c.Outcome != want {
		w.t.Errorf("%s ended as %s (%s), want %s\n%s", id, c.Outcome, c.Reason, want, w.story())
	}
	return c
}

// sim is the carrier's view of a call.
func (w *world) sim(sid string) simcarrier.Call {
	c, ok := w.carrier.Call(sid)
	if !ok {
		w.t.Fatalf("the carrier does not know %s", sid)
	}
	return c
}

// heard waits until the nth stream of a call has brought the tag.
func (w *world) heard(sid string, nth int) simcarrier.StreamView {
	w.t.Helper()
	w.until(fmt.Sprintf("stream %d is heard", nth), func() bool {
		c := w.sim(sid)
		return len(c.Streams) > nth && len(c.Streams[nth].Heard.Tag) >= len(tag)
	})
	s := w.sim(sid).Streams[nth]
	if s.Heard.Tag != tag {
		w.t.Errorf("stream %d: heard %q, want %q", nth, s.Heard.Tag, tag)
	}
	return s
}

// ask posts a signed webhook to one of the backends.
func (w *world) ask(base, path string, form url.Values) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, base+path, bytes.NewReader([]byte(form.Encode())))
	check(w.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(twilio.SignatureHeader, twilio.Sign(simcarrier.AuthToken, w.base+path, form))
	resp, err := http.DefaultClient.Do(r)
	check(w.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	check(w.t, err)
	return resp.StatusCode, string(body)
}

func voiceForm(sid, from string) url.Values {
	return url.Values{"AccountSid": {simcarrier.AccountSID}, "CallSid": {sid}, "From": {from}, "To": {ours}, "CallStatus": {"ringing"}}
}
