package inbound

import (
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/backend"
	"dibs/call"
	"dibs/carrier"
	"dibs/dispatch"
	"dibs/settings"
)

// The backend in office and the bot die in the same moment: the carrier's question
// waits at another replica until that one has the office, and the caller hears a bot.
func TestBotAndOfficeKilled(t *testing.T) {
	w := newWorld(t, 0)
	l, err := net.Listen("tcp", "127.0.0.1:0") // where the carrier reaches us: the second backend
	check(t, err)
	w.base = "http://" + l.Addr().String()
	w.api, err = api.NewClient(api.ClientConfig{BaseURL: w.base, Token: token, Timeout: 20 * time.Second})
	check(t, err)
	var first backend.Config
	w.edit = func(c *backend.Config) { first = *c }
	stop := w.addBackend()
	desk := &dispatch.Desk{NC: w.broker.Connect(t), Records: w.records}
	w.until("the first is in office", func() bool {
		_, err := desk.Next(t.Context(), "in_nobody-1", carrier.Question{ID: "CA0"})
		return err != nil && errors.Is(err, api.ErrNotFound)
	})
	w.edit = func(c *backend.Config) { _ = c.Listener.Close(); c.Listener = l }
	w.addBackend()
	w.until("the second serves", func() bool {
		resp, err := http.Get(w.base + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	w.line()
	w.addBot()
	w.addBot()
	w.until("the bots are there", w.idle(2))
	sid := w.callIn(caller, time.Minute)
	w.heard(sid, 0)
	c := w.find("the call is live", func(c api.Call) bool { return c.Class == call.ClassInbound && c.State == call.Live })
	who, _ := w.talking()
	first.NC.Close() // as kill -9 does: the office is not given back
	who.kill()
	go stop()
	w.heard(sid, 1)
	s := w.sim(sid)
	t.Logf("%v of silence", s.Streams[1].Opened.Sub(s.Streams[0].Closed))
	w.carrier.Hangup(sid)
	w.outcome(c.ID, call.Completed)
	w.until("the seat is idle", w.idle(1))
}

// Nobody is in office at all: the carrier's question is answered with a sentence, in
// time.
func TestNobodyInOffice(t *testing.T) {
	w := newWorld(t, 0)
	nc := w.broker.Connect(t)
	js, err := jetstream.New(nc)
	check(t, err)
	numbers, err := settings.Open(t.Context(), js, settings.Config{})
	check(t, err)
	check(t, numbers.Put(t.Context(), api.Number{Number: ours, Org: "acme", Region: region, Sorry: "Auf Wiederhören", Language: "de-DE"}))
	r := &dispatch.Reception{NC: nc, Desk: &dispatch.Desk{NC: nc, Records: w.records}, Numbers: numbers, Log: zerolog.Nop()}
	begun := time.Now()
	do := r.Next(t.Context(), "in_abc-1", carrier.Question{ID: "CA0", From: caller, To: ours})
	if do.Say != "Auf Wiederhören" || do.Language != "de-DE" || do.Media != nil {
		t.Errorf("got %+v", do)
	}
	if took := time.Since(begun); took < 4*time.Second || took > 14*time.Second {
		t.Errorf("after %v, want about 5 s and within the carrier's 15 s", took)
	}
}
