package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/internal/natstest"
	"dibs/wire"
)

// What subscribers in other languages see.
func TestCloudEvent(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		js := natstest.Start(t).JetStream(t)
		l := openLog(t, js, Config{Source: "/dibs/backend-1"})
		sub, err := js.Conn().SubscribeSync("dibs.v1.events.call.ended.*")
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 8, 25, 14, 0, 0, 500_000_000, time.FixedZone("", 7200))
		want := Event{
			ID: "e1", Type: CallEnded, Subject: "call_1", At: at, Org: "acme", Region: "eu-west",
			Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			Data:  json.RawMessage(`{"outcome":"completed","to":"+4915112345678"}`),
		}
		publish(t, l, want)
		m, err := sub.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantHeader := nats.Header{
			"ce-specversion": {"1.0"}, "ce-id": {"e1"}, "ce-source": {"/dibs/backend-1"}, "ce-type": {"dibs.call.ended"},
			"ce-subject": {"call_1"}, "ce-time": {"2026-08-25T12:00:00.5Z"}, "ce-orgid": {"acme"}, "ce-region": {"eu-west"},
			"traceparent":  {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
			"Content-Type": {"application/json"}, "Nats-Msg-Id": {"e1"},
		}
		if diff := cmp.Diff(wantHeader, m.Header); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		wantData := `{"outcome":"completed","to":"+49151•••78"}`
		if string(m.Data) != wantData || !json.Valid(m.Data) {
			t.Errorf("data %s, want %s", m.Data, wantData)
		}
		if want := "dibs.v1.events.call.ended." + shard("call_1"); m.Subject != want {
			t.Errorf("subject %s, want %s", m.Subject, want)
		}

		got, err := l.Timeline(t.Context(), "call_1", time.Time{}, 0)
		if err != nil || len(got) != 1 {
			t.Fatalf("timeline: %v, %v", got, err)
		}
		want.Source, want.Seq, want.Data = "/dibs/backend-1", 1, json.RawMessage(wantData)
		want.At = want.At.UTC()
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
	})
}

func TestCheck(t *testing.T) {
	good := Event{Type: CallClaimAttempted, Subject: "call_1"}
	for _, tt := range []struct {
		name   string
		change func(*Event)
		want   string // begin of the error
	}{
		{"good", func(*Event) {}, ""},
		{"one token", func(e *Event) { e.Type = "x" }, ""},
		{"no type", func(e *Event) { e.Type = "" }, "type:"},
		{"wildcard", func(e *Event) { e.Type = "call.*" }, "type:"},
		{"deep", func(e *Event) { e.Type = "a.b.c.d" }, "type:"},
		{"no subject", func(e *Event) { e.Subject = "" }, "subject:"},
		{"a number as subject", func(e *Event) { e.Subject = "+4915112345678" }, "subject:"},
		{"org", func(e *Event) { e.Org = "a b" }, "org:"},
		{"region", func(e *Event) { e.Region = "eu.west" }, "region:"},
		{"header in the id", func(e *Event) { e.ID = "a\r\nb: c" }, "id:"},
		{"source", func(e *Event) { e.Source = strings.Repeat("x", 200) }, "source:"},
		{"trace", func(e *Event) { e.Trace = "ä" }, "trace:"},
		{"list", func(e *Event) { e.Data = json.RawMessage(`[]`) }, "data:"},
		{"not JSON", func(e *Event) { e.Data = json.RawMessage(`{`) }, "data:"},
		{"too long", func(e *Event) { e.Data = json.RawMessage(`{"x":"` + strings.Repeat("x", MaxData) + `"}`) }, "data:"},
	} {
		e := good
		tt.change(&e)
		if got := fmt.Sprint(e.Check()); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "<nil>" {
			t.Errorf("%s: %s, want %s…", tt.name, got, tt.want)
		}
	}
}

func TestMaskNumbers(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{``, ``},
		{`{"a":1}`, `{"a":1}`},
		{`{"a":"+491511234567","b":"+1 202"}`, `{"a":"+49151•••67","b":"+1 202"}`},
		{`{"text":"from +12025550123 to +4930123456, at +02:00"}`, `{"text":"from +12025•••23 to +4930•••56, at +02:00"}`},
		{`{"a":"+1234567"}`, `{"a":"+1•••67"}`},
		{`{"a":"+12345678901234567890"}`, `{"a":"•••"}`},
		{`{"a":"+0000000"}`, `{"a":"•••"}`},
		{`{"a":"++4930123456+"}`, `{"a":"++4930•••56+"}`},
	} {
		in := []byte(tt.in)
		if got := string(maskNumbers(in)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.in, got, tt.want)
		}
		if string(in) != tt.in {
			t.Errorf("%s: the caller's data became %s", tt.in, in)
		}
	}
}

func TestPublishTwice(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		d := &deaf{b: b}
		l := openLog(t, b.JetStream(t, nats.InProcessServer(d)), Config{})
		e := Event{ID: "e1", Type: CallEnded, Subject: "c1"}
		d.now.Store(true)
		checkErr(t, "publish with a lost answer", l.Publish(t.Context(), e), ErrUnavailable)
		d.now.Store(false)
		for range 2 {
			publish(t, l, e)
		}
		if got := types(t, l); len(got) != 1 {
			t.Errorf("stored %v, want one", got)
		}
		publish(t, l, Event{Type: CallEnded, Subject: "c1"}) // without an id: another event
		if got := types(t, l); len(got) != 2 {
			t.Errorf("stored %v, want two", got)
		}
		b.Stop()
		checkErr(t, "publish without a broker", l.Publish(t.Context(), e), ErrUnavailable)
		checkErr(t, "publish", l.Publish(t.Context(), Event{}), ErrInvalid)
		_, err := l.Timeline(t.Context(), "c1", time.Time{}, 0)
		checkErr(t, "timeline without a broker", err, ErrUnavailable)
	})
}

func TestEmit(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		l := openLog(t, natstest.Start(t).JetStream(t), Config{})
		stop := run(t, l)
		start := time.Now()
		for i := range 300 {
			time.Sleep(time.Millisecond)
			if !l.Emit(Event{Type: CallRinging, Subject: fmt.Sprintf("c%d", i%3), Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}) {
				t.Fatal("not taken")
			}
		}
		if l.Emit(Event{Type: "no type", Subject: "c1"}) {
			t.Error("an invalid event was taken")
		}
		for range 20 {
			l.Emit(Event{Type: CallEnded, Subject: "last"})
		}
		stop() // what was taken is stored
		if got, want := l.Stats(), (Stats{Emitted: 321, Published: 320, Refused: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		for c := range 3 {
			got, err := l.Timeline(t.Context(), fmt.Sprintf("c%d", c), start, MaxPage)
			if err != nil || len(got) != 100 {
				t.Fatalf("timeline of c%d: %d events, %v, want 100", c, len(got), err)
			}
			for i, e := range got {
				n := 3*i + c
				if want := fmt.Sprintf(`{"n":%d}`, n); string(e.Data) != want || e.At.Sub(start).Round(time.Millisecond) != time.Duration(n+1)*time.Millisecond {
					t.Fatalf("event %d of c%d: %s at %v, want %s when it was emitted", i, c, e.Data, e.At.Sub(start), want)
				}
			}
		}
	})
}

// While the broker is away Emit does not wait; what the buffers hold is stored when
// it is back, once, and the rest is counted.
func TestEmitWithoutABroker(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		l := openLog(t, b.JetStream(t), Config{Buffer: 80}) // 10 for each worker
		stop := run(t, l)
		b.Stop()
		start, taken := time.Now(), 0
		for i := range 50 {
			if l.Emit(Event{Type: CallRinging, Subject: "c1", Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}) {
				taken++
			}
			synctest.Wait()
		}
		if time.Since(start) != 0 {
			t.Errorf("emitting took %v, want no waiting", time.Since(start))
		}
		if taken != 11 { // one is being published
			t.Errorf("%d taken, want 11", taken)
		}
		if !l.Emit(Event{Type: CallRinging, Subject: "c2"}) { // another worker's
			t.Error("another call was not taken")
		}
		time.Sleep(time.Minute)
		b.Restart()
		time.Sleep(10 * time.Second)
		if got, want := l.Stats(), (Stats{Emitted: 51, Published: 12, Dropped: 39}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		got, err := l.Timeline(t.Context(), "c1", time.Time{}, 0)
		if err != nil || len(got) != 11 {
			t.Fatalf("stored %d, %v, want 11", len(got), err)
		}
		for i, e := range got {
			if want := fmt.Sprintf(`{"n":%d}`, i); string(e.Data) != want {
				t.Errorf("event %d: %s, want %s", i, e.Data, want)
			}
		}

		// A process that ends does not wait for a broker for ever.
		b.Stop()
		l.Emit(Event{Type: CallEnded, Subject: "c1"})
		l.Emit(Event{Type: CallEnded, Subject: "c1"})
		start = time.Now()
		stop()
		if d := time.Since(start); d > 2*leaving {
			t.Errorf("ended after %v, want %v", d, leaving)
		}
		if got := l.Stats(); got.Dropped != 41 || got.Waiting != 0 || got.Emitted != got.Published+got.Dropped+got.Refused {
			t.Errorf("at the end: %+v, want 41 dropped and none uncounted", got)
		}
	})
}

func TestOpen(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		limits := func(cfg Config) [2]int64 {
			t.Helper()
			c := openLog(t, b.JetStream(t), cfg).stream.CachedInfo().Config
			return [2]int64{int64(c.MaxAge), c.MaxBytes}
		}
		for _, tt := range []struct {
			cfg  Config
			want [2]int64
		}{
			{Config{}, [2]int64{int64(defaultMaxAge), defaultMaxBytes}},
			{Config{MaxAge: time.Minute}, [2]int64{int64(time.Minute), defaultMaxBytes}},
			{Config{}, [2]int64{int64(time.Minute), defaultMaxBytes}}, // as it is
			{Config{MaxAge: time.Hour, MaxBytes: 2 << 20}, [2]int64{int64(time.Hour), 2 << 20}},
		} {
			if got := limits(tt.cfg); got != tt.want {
				t.Errorf("%+v: %v, want %v", tt.cfg, got, tt.want)
			}
		}
	})
	for _, tt := range []struct {
		field  string
		change func(*jetstream.StreamConfig)
	}{
		{"Subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"mine"} }},
		{"Retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }},
		{"Discard", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew }},
	} {
		natstest.Bubble(t, func(t *testing.T) {
			js := natstest.Start(t).JetStream(t)
			c := jetstream.StreamConfig{Name: wire.StreamEvents, Subjects: []string{wire.EventsAll()}}
			tt.change(&c)
			if _, err := js.CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), js, Config{})
			if se, ok := errors.AsType[*SettingError](err); !ok || se.Field != tt.field {
				t.Errorf("open: %v, want a SettingError of %s", err, tt.field)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "<nil>"},
		{Config{Source: "https://dibs.example/eu", Replicas: 5, MaxAge: time.Hour, MaxBytes: 1 << 30, Buffer: 100, Timeout: time.Second}, "<nil>"},
		{Config{Source: "a b"}, `events: Source: source: "a b", want at most 128 printable characters`},
		{Config{Replicas: 2}, "events: Replicas: 2, want 1, 3 or 5"},
		{Config{MaxAge: time.Second}, "events: MaxAge: 1s, want 1m0s to 87600h0m0s"},
		{Config{MaxBytes: 1}, "events: MaxBytes: 1, want at least 1048576"},
		{Config{Buffer: 1}, "events: Buffer: 1, want 8 to 1000000"},
		{Config{Timeout: -1}, "events: Timeout: -1ns, want a positive duration"},
	} {
		if got := fmt.Sprint(tt.cfg.Validate()); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.cfg, got, tt.want)
		}
	}
}
