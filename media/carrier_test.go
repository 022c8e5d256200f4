package media

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test; nothing takes a part of it.
const patience = 30 * time.Second

// serve runs a server on loopback until the test is over.
func serve(t testing.TB, cfg Config) (*Server, string) {
	t.Helper()
	cfg.Bot = "bot-1"
	if _, bench := t.(*testing.B); !bench {
		cfg.Log = zerolog.New(zerolog.NewTestWriter(t))
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(nil)
	web.Config = s.HTTP(nil)
	web.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		web.Close()
	})
	return s, web.URL
}

// open opens c and returns its path and where its report will be.
func open(t testing.TB, s *Server, c Call) (path string, ended <-chan Report) {
	t.Helper()
	ch := make(chan Report, 2) // room to see it called twice
	c.Ended = func(r Report) { ch <- r }
	path, err := s.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return path, ch
}

// wait is the next value of ch.
func wait[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatalf("%s: closed", what)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing came", what)
	}
	panic("unreachable")
}

// carrier is the other end of a media stream.
type carrier struct {
	t    testing.TB
	conn *websocket.Conn
}

func dial(t testing.TB, url string) *carrier {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1), nil)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return &carrier{t: t, conn: conn}
}

// say sends one message. That nobody listens any more is not its concern.
func (c *carrier) say(format string, args ...any) {
	c.t.Helper()
	c.write(websocket.MessageText, fmt.Appendf(nil, format, args...))
}

func (c *carrier) write(kind websocket.MessageType, b []byte) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if err := c.conn.Write(ctx, kind, b); err != nil {
		c.t.Logf("say: %v", err)
	}
}

func (c *carrier) read() (websocket.MessageType, []byte, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	return c.conn.Read(ctx)
}

const startMessage = `{"event":"start","sequenceNumber":"1","streamSid":"MZ1","start":{"streamSid":"MZ1","accountSid":"AC1",` +
	`"callSid":"CA1","tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000,"channels":1},"customParameters":{"claim":"c-1"}}}`

func (c *carrier) start() {
	c.t.Helper()
	c.say(`{"event":"connected","protocol":"Call","version":"1.0.0"}`)
	c.say(startMessage)
}

func (c *carrier) media(sequence int, ulaw []byte) {
	c.t.Helper()
	c.say(`{"event":"media","sequenceNumber":"%d","streamSid":"MZ1","media":{"track":"inbound","chunk":"%d","timestamp":"5","payload":"%s"}}`,
		sequence, sequence, base64.StdEncoding.EncodeToString(ulaw))
}

// heard is a message from the bot.
type heard struct {
	Event     string `json:"event"`
	StreamSID string `json:"streamSid"`
	Media     struct {
		Payload []byte `json:"payload"`
	} `json:"media"`
	Mark struct {
		Name string `json:"name"`
	} `json:"mark"`
}

func (c *carrier) hear() heard {
	c.t.Helper()
	kind, b, err := c.read()
	if err != nil {
		c.t.Fatalf("hear: %v", err)
	}
	var h heard
	if err := json.Unmarshal(b, &h); err != nil || kind != websocket.MessageText {
		c.t.Fatalf("hear %v %q: %v", kind, b, err)
	}
	if h.StreamSID != "MZ1" {
		c.t.Fatalf("heard %q of stream %q, want MZ1", h.Event, h.StreamSID)
	}
	return h
}

// closed reads until the bot has closed, and says with which status.
func (c *carrier) closed() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, _, err := c.read(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				c.t.Fatal("the bot does not close")
			}
			return websocket.CloseStatus(err)
		}
	}
}
