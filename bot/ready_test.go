package bot_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"dibs/bot"
	"dibs/wire"
)

// get asks the bot's door for operators.
func (r *running) get(path string) (int, string) {
	r.w.t.Helper()
	rec := httptest.NewRecorder()
	r.Ops().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	body, err := io.ReadAll(rec.Body)
	if err != nil {
		r.w.t.Fatal(err)
	}
	return rec.Code, strings.TrimSpace(string(body))
}

// Ready means alive, connected and not deaf; why it is not stands in the answer.
func TestReady(t *testing.T) {
	w := newWorld(t)
	b := w.bot(func(c *bot.Config) { c.ProbeIn = time.Hour }) // it knows without asking itself
	is := func(status int, text string) func() bool {
		return func() bool { s, body := b.get("/readyz"); return s == status && strings.Contains(body, text) }
	}
	w.until("ready", is(http.StatusOK, "ok"))
	w.onCall("call_1")
	if s, body := b.get("/readyz"); s != http.StatusOK {
		t.Errorf("with a call on it: %d %s", s, body)
	}
	w.broker.Stop()
	w.until("it says that it is not connected", is(http.StatusServiceUnavailable, "not connected to NATS"))
	if s, body := b.get("/livez"); s != http.StatusOK {
		t.Errorf("without NATS it is alive all the same: %d %s", s, body)
	}
	w.broker.Restart()
	w.until("ready again", is(http.StatusOK, "ok"))
}

// NATS comes and goes in the middle of a call: the caller notices nothing, the seat
// is right afterwards, and offers are there again within two beats.
func TestNATSRestarts(t *testing.T) {
	w := newWorld(t)
	b := w.bot(func(c *bot.Config) { c.Seats, c.Talk = 2, bot.Echo })
	c, _ := w.onCall("call_1")
	hears := func(what string) {
		t.Helper()
		c.speak([]byte(what))
		for {
			m, err := c.hear()
			if err != nil {
				t.Fatalf("the call %s: %v", what, err)
			}
			if m.Event == "media" && string(m.Media.Payload) == what {
				return
			}
		}
	}
	hears("before")
	w.broker.Stop()
	w.until("the bot is alone", func() bool { ok, _ := b.Ready(); return !ok })
	hears("without")
	w.broker.Restart()
	hears("after")
	w.until("the fleet has it right", func() bool {
		beat, ok := b.beat()
		live := slices.ContainsFunc(beat.Seats, func(s wire.SeatView) bool { return s.State == wire.SeatLive && s.CallID == "call_1" })
		return ok && live && beat.NotReady == "" && w.roster.Counts(time.Now(), region, "").Idle == 1
	})
	w.onCall("call_2") // by the other seat
	c.hangUp()
	b.is(wire.SeatIdle, "call_1")
	w.onCall("call_3")
}

// A bot that is connected but hears nothing says so, reconnects, and takes calls
// again when the way is free.
func TestDeaf(t *testing.T) {
	w := newWorld(t)
	link := w.broker.Link(t)
	lost := make(chan struct{}, 8)
	nc := w.broker.Connect(t, nats.InProcessServer(link), nats.DisconnectErrHandler(func(*nats.Conn, error) {
		select {
		case lost <- struct{}{}:
		default:
		}
	}))
	b := w.botOn(nc, nil)
	link.Freeze()
	w.until("it notices that it is deaf", func() bool {
		_, why := b.Ready()
		return strings.Contains(why, "deaf")
	})
	if !nc.IsConnected() {
		t.Error("it was not connected: that is another illness")
	}
	select {
	case <-lost: // given up by the bot itself
	case <-time.After(patience):
		t.Fatal("it stays connected and deaf")
	}
	w.until("it says why", func() bool { s, body := b.get("/readyz"); return s == 503 && body == "not connected to NATS" })
	link.Thaw()
	w.until("it hears again", func() bool { ok, _ := b.Ready(); return ok })
	w.onCall("call_1")
}

// The metrics have names, help and units as the tools expect them.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	b := w.bot(func(c *bot.Config) { c.Seats = 3 })
	w.onCall("call_1")
	w.claim(call("call_2"))
	b.is(wire.SeatAssigned, "call_2")
	status, body := b.get("/metrics")
	if status != http.StatusOK {
		t.Fatalf("HTTP %d: %s", status, body)
	}
	problems, err := promlint.New(strings.NewReader(body + "\n")).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	for _, want := range []string{
		`dibs_bot_seats{bot="` + b.ID() + `",state="idle"} 1`,
		`dibs_bot_seats{bot="` + b.ID() + `",state="live"} 1`,
		`dibs_bot_seats{bot="` + b.ID() + `",state="assigned"} 1`,
		`dibs_bot_seats{bot="` + b.ID() + `",state="warming"} 0`,
		`dibs_bot_seats_stuck{bot="` + b.ID() + `"} 0`,
		`dibs_bot_seats_taken_total{bot="` + b.ID() + `"} 2`,
		`dibs_media_streams 1`,
		`dibs_media_waiting 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no line %q", want)
		}
	}
}

// What a bot is made with is checked before it is one; the error names the field.
func TestConfig(t *testing.T) {
	w := newWorld(t)
	for field, change := range map[string]func(*bot.Config){
		"Name":     func(c *bot.Config) { c.Name = "a.b" },
		"Region":   func(c *bot.Config) { c.Region = "" },
		"Pool":     func(c *bot.Config) { c.Pool = "*" },
		"seats":    func(c *bot.Config) { c.Seats = wire.MaxSeats + 1 },
		"MediaURL": func(c *bot.Config) { c.MediaURL = "https://bot.example" },
		"Insecure": func(c *bot.Config) { c.MediaURL = "ws://bot.example" },
		"query":    func(c *bot.Config) { c.MediaURL = "wss://bot.example?x=1" },
		"DrainIn":  func(c *bot.Config) { c.DrainIn = -1 },
		"Failures": func(c *bot.Config) { c.Breaker.Failures = -1 },
		"Budget":   func(c *bot.Config) { c.Warmup.Budget = -1 },
		"revision": func(c *bot.Config) { c.Revision = "version 1" },
		"pod.node": func(c *bot.Config) { c.Pod.Node = strings.Repeat("n", wire.MaxName+1) },
	} {
		cfg := bot.Config{Name: "bot", Region: region, MediaURL: "wss://bot.example/"}
		change(&cfg)
		if _, err := bot.New(w.nc, cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
	if _, err := bot.New(w.nc, bot.Config{Name: "bot", Region: region, MediaURL: "wss://bot.example/"}); err != nil {
		t.Errorf("the least that is a bot: %v", err)
	}
}
