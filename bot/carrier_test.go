package bot_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"dibs/internal/audio"
)

// carrier is the far end of a call's media stream.
type carrier struct {
	t    *testing.T
	conn *websocket.Conn
}

// dial opens the media socket of a call.
func dial(t *testing.T, url string) *carrier {
	t.Helper()
	c, status := tryDial(t, url)
	if c == nil {
		t.Fatalf("dial: HTTP %d", status)
	}
	return c
}

// tryDial opens a media socket, or tells the status with which it is refused.
func tryDial(t *testing.T, url string) (*carrier, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	conn, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: web})
	if err != nil {
		if resp == nil {
			t.Fatalf("dial: %v", err)
		}
		return nil, resp.StatusCode
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return &carrier{t, conn}, resp.StatusCode
}

// say sends one message. That nobody listens any more is not its concern.
func (c *carrier) say(message string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	_ = c.conn.Write(ctx, websocket.MessageText, []byte(message))
}

func (c *carrier) start() {
	c.t.Helper()
	c.say(`{"event":"connected","protocol":"Call","version":"1.0.0"}`)
	c.say(`{"event":"start","sequenceNumber":"1","streamSid":"MZ1","start":{"streamSid":"MZ1","accountSid":"AC1","callSid":"CA1",` +
		`"tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000,"channels":1},"customParameters":{}}}`)
}

// speak sends one piece of sound.
func (c *carrier) speak(ulaw []byte) {
	c.t.Helper()
	c.say(`{"event":"media","sequenceNumber":"2","streamSid":"MZ1","media":{"track":"inbound","chunk":"1","timestamp":"5","payload":"` +
		base64.StdEncoding.EncodeToString(ulaw) + `"}}`)
}

// hangUp is what a carrier says when the caller has gone.
func (c *carrier) hangUp() {
	c.t.Helper()
	c.say(`{"event":"stop","sequenceNumber":"3","streamSid":"MZ1","stop":{"accountSid":"AC1","callSid":"CA1"}}`)
}

type message struct {
	Event string `json:"event"`
	Media struct {
		Payload []byte `json:"payload"`
	} `json:"media"`
	Mark struct {
		Name string `json:"name"`
	} `json:"mark"`
}

func (c *carrier) hear() (message, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	_, data, err := c.conn.Read(ctx)
	if err != nil {
		return message{}, err
	}
	var m message
	return m, json.Unmarshal(data, &m)
}

// greeting listens to the end of the greeting and returns the proof in it: the
// digits by which a call knows its own.
func (c *carrier) greeting() string {
	c.t.Helper()
	var d audio.Detector
	for {
		m, err := c.hear()
		if err != nil {
			c.t.Fatalf("the greeting: %v", err)
		}
		switch m.Event {
		case "media":
			d.Write(audio.DecodeMuLaw(m.Media.Payload))
		case "mark":
			return d.Digits()
		}
	}
}

// closed reads until the bot has closed the socket, and says with which status.
func (c *carrier) closed() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, err := c.hear(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				c.t.Fatal("the bot does not close")
			}
			return websocket.CloseStatus(err)
		}
	}
}

// onCall claims a bot for a call and brings its media there: the call is live.
func (w *world) onCall(id string) (*carrier, string) {
	w.t.Helper()
	got := w.claim(call(id))
	c := dial(w.t, got.Media.URL)
	c.start()
	if heard := c.greeting(); heard != tagOf(id) {
		w.t.Fatalf("%s heard %q, want its own greeting %q", id, heard, tagOf(id))
	}
	return c, got.BotID
}
