package simcarrier_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"dibs/carrier/simcarrier"
	"dibs/internal/audio"
)

// hanging is a webhook that never answers.
func hanging(t testing.TB) string {
	t.Helper()
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	t.Cleanup(func() {
		close(done)
		srv.Close()
	})
	return srv.URL
}

// send writes a message of the bot.
func send(c *websocket.Conn, format string, args ...any) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...)) == nil
}

func sendAudio(c *websocket.Conn, sid string, ulaw []byte) bool {
	return send(c, `{"event":"media","streamSid":%q,"media":{"payload":%q}}`, sid, base64.StdEncoding.EncodeToString(ulaw))
}

// greeting is a tag, as a bot sends it: with the first message it gets.
func greeting(t testing.TB, tag string) []byte {
	t.Helper()
	pcm, err := audio.Tag(tag)
	if err != nil {
		t.Fatal(err)
	}
	return audio.EncodeMuLaw(pcm)
}

func TestStream(t *testing.T) {
	hello := greeting(t, "4711")
	b := newBot(t, func(c *websocket.Conn, m message) bool {
		if m.Event != "start" {
			return true
		}
		return sendAudio(c, m.SID, hello) && send(c, `{"event":"mark","streamSid":%q,"mark":{"name":"said"}}`, m.SID)
	})
	h := newHooks(t, nil)
	out := t.TempDir()
	s := start(t, simcarrier.Config{Insecure: true, Record: out, Profile: simcarrier.Profile{Tone: true, Digits: "5#"}})
	began := time.Now()
	twiml := strings.Replace(b.twiml(""), "<Stream ", `<Stream statusCallback="`+h.URL+`/stream" `, 1)
	sid := create(t, s, "Twiml", twiml)
	eventually(t, "the tag, its mark and a digit", func() bool {
		c, _ := s.Call(sid)
		return c.Heard.Tag == "4711" && len(b.of("mark")) == 1 && len(b.of("dtmf")) > 0
	})
	s.Hangup(sid)
	c := until(t, s, sid, "completed")
	lasted := time.Since(began)
	eventually(t, "the stop message", func() bool { return len(b.of("stop")) == 1 })

	if c.EndedBy != "callee" || c.Heard.Tag != "4711" || !c.Heard.Sound || c.Heard.Marks != 1 || c.Heard.Bytes != len(hello) {
		t.Errorf("heard %+v, ended by %s", c.Heard, c.EndedBy)
	}
	// The far end of the range is a loaded machine.
	if f := c.Heard.FirstAudio; f < 0 || f > 10*time.Second || c.Heard.AfterAnswer < f {
		t.Errorf("first audio after %v, %v after the answer", f, c.Heard.AfterAnswer)
	}
	if st := c.Streams; len(st) != 1 || st[0].Params["claim"] != "c1" || strings.Contains(st[0].URL, "token") || st[0].Closed.IsZero() {
		t.Errorf("streams: %+v", st)
	}

	b.mu.Lock()
	all, signed := slices.Clone(b.messages), slices.Clone(b.upgrades)
	b.mu.Unlock()
	if len(signed) != 1 || !signed[0] {
		t.Errorf("upgrade signed: %v", signed)
	}
	if all[0].Raw != `{"event":"connected","protocol":"Call","version":"1.0.0"}` {
		t.Errorf("first message: %s", all[0].Raw)
	}
	st := all[1]
	if st.Event != "start" || st.Seq != "1" || st.Start.CallSID != sid || st.Start.AccountSID != simcarrier.AccountSID ||
		st.Start.Params["claim"] != "c1" || len(st.Start.Tracks) != 1 || st.Start.Tracks[0] != "inbound" ||
		st.Start.MediaFormat.Encoding != "audio/x-mulaw" || st.Start.MediaFormat.SampleRate != 8000 || st.Start.MediaFormat.Channels != 1 {
		t.Errorf("start: %s", st.Raw)
	}
	for i, m := range all[1:] {
		if m.Seq != strconv.Itoa(i+1) || m.SID != st.SID {
			t.Fatalf("message %d: %s", i+1, m.Raw)
		}
	}
	if last := all[len(all)-1]; last.Event != "stop" || !strings.Contains(last.Raw, sid) {
		t.Errorf("last message: %s", last.Raw)
	}
	media := b.of("media")
	for i, m := range media {
		payload, err := base64.StdEncoding.DecodeString(m.Media.Payload)
		if err != nil || len(payload) != 160 || m.Media.Track != "inbound" || m.Media.Chunk != strconv.Itoa(i+1) || m.Media.Timestamp != strconv.Itoa(i*20) {
			t.Fatalf("frame %d: %s", i, m.Raw)
		}
		if !audio.Loud(audio.DecodeMuLaw(payload)) {
			t.Fatalf("frame %d is silent, want a tone", i)
		}
	}
	if n := len(media); n < 20 || n > int(lasted/(20*time.Millisecond))+2 {
		t.Errorf("%d frames in %v", n, lasted)
	}
	if marks := b.of("mark"); len(marks) != 1 || marks[0].Mark.Name != "said" || marks[0].At.Sub(st.At) < 400*time.Millisecond {
		t.Errorf("marks: %+v, want one when 400 ms of audio have been played", marks)
	}
	if d := b.of("dtmf"); len(d) == 0 || d[0].DTMF.Digit != "5" {
		t.Errorf("digits: %+v, want 5 after a second", d)
	}
	eventually(t, "both stream callbacks", func() bool { return len(h.told("/stream")) == 2 })
	if p := h.told("/stream"); p[0].form.Get("StreamEvent") != "stream-started" || p[1].form.Get("StreamEvent") != "stream-stopped" || !p[0].signed {
		t.Errorf("stream callbacks: %+v", p)
	}

	eventually(t, "the recording", func() bool {
		fi, err := os.Stat(filepath.Join(out, sid+".wav"))
		return err == nil && fi.Size() > 44+2*3000
	})
	wav, err := os.ReadFile(filepath.Join(out, sid+".wav"))
	if err != nil {
		t.Fatal(err)
	}
	pcm, rate, err := audio.ReadWAV(wav)
	var d audio.Detector
	d.Write(pcm)
	if err != nil || rate != 8000 || d.Digits() != "4711" {
		t.Errorf("recording: %v, %d Hz, digits %q", err, rate, d.Digits())
	}
}

// The bot closes: the next verb has its turn, and a second bot takes over.
func TestRescue(t *testing.T) {
	hello, again := greeting(t, "12"), greeting(t, "34")
	first := newBot(t, func(c *websocket.Conn, m message) bool {
		if m.Event == "start" {
			return sendAudio(c, m.SID, hello) && send(c, `{"event":"mark","streamSid":%q,"mark":{"name":"x"}}`, m.SID)
		}
		return m.Event != "mark" // said all, and dies
	})
	second := newBot(t, func(c *websocket.Conn, m message) bool {
		return m.Event != "start" || sendAudio(c, m.SID, again)
	})
	h := newHooks(t, map[string]string{"/next": second.twiml("")})
	s := start(t, simcarrier.Config{Insecure: true})
	sid := create(t, s, "Twiml", first.twiml(`<Redirect>`+h.URL+`/next</Redirect>`))
	var c simcarrier.Call
	eventually(t, "both greetings", func() bool { c, _ = s.Call(sid); return c.Heard.Tag == "1234" })
	if len(c.Streams) != 2 || c.Streams[0].Heard.Tag != "12" || c.Streams[1].Heard.Tag != "34" || c.Status != "in-progress" {
		t.Errorf("streams: %+v", c.Streams)
	}
	s.Hangup(sid)
	until(t, s, sid, "completed")
	eventually(t, "the second bot is told to stop", func() bool { return len(second.of("stop")) == 1 })
}

func TestClear(t *testing.T) {
	tone := func(d time.Duration) []byte { return audio.EncodeMuLaw(audio.Tone([]float64{400}, d, 0.5)) }
	b := newBot(t, func(c *websocket.Conn, m message) bool {
		switch {
		case m.Event == "start":
			return sendAudio(c, m.SID, tone(100*time.Millisecond)) &&
				send(c, `{"event":"mark","streamSid":%q,"mark":{"name":"heard"}}`, m.SID) &&
				sendAudio(c, m.SID, tone(time.Minute)) &&
				send(c, `{"event":"mark","streamSid":%q,"mark":{"name":"in a minute"}}`, m.SID)
		case m.Event == "mark" && m.Mark.Name == "heard":
			return send(c, `{"event":"clear","streamSid":%q}`, m.SID)
		}
		return true
	})
	s := start(t, simcarrier.Config{Insecure: true})
	sid := create(t, s, "Twiml", b.twiml(""))
	eventually(t, "the mark of what was cleared", func() bool { return len(b.of("mark")) == 2 })
	eventually(t, "the books", func() bool { c, _ := s.Call(sid); return c.Heard.Clears == 1 })
	if c, _ := s.Call(sid); c.Heard.Bytes > 30*8000 || !c.Heard.Sound || c.Heard.Marks != 2 {
		t.Errorf("heard %+v of a minute that was cleared", c.Heard)
	}
}

func TestMediaIsRefused(t *testing.T) {
	b := newBot(t, nil)
	closed := httptest.NewServer(http.NotFoundHandler())
	defer closed.Close()
	for _, test := range []struct {
		name, url string
		insecure  bool
		code      int
	}{
		{"query string", b.url() + "?token=1", true, 31920},
		{"ws", b.url(), false, 31922},
		{"ws, not loopback", "ws://10.0.0.1/m", true, 31922},
		{"http", "http://127.0.0.1/m", true, 31922},
		{"no host", "wss://", true, 31920},
		{"no socket there", "ws" + strings.TrimPrefix(closed.URL, "http") + "/m", true, 31920},
		{"nobody there", "ws://127.0.0.1:1/m", true, 31920},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHooks(t, nil)
			s := start(t, simcarrier.Config{Insecure: test.insecure})
			c := until(t, s, create(t, s, "Twiml", `<Response><Connect><Stream url="`+test.url+`" statusCallback="`+h.URL+`/s"/></Connect></Response>`), "completed")
			if len(c.Streams) != 1 || c.Streams[0].Error != test.code || !slices.Equal(codes(c), []int{test.code}) || c.EndedBy != "twiml" {
				t.Errorf("got %+v, warnings %v; want %d", c.Streams, c.Warnings, test.code)
			}
			eventually(t, "the stream's callback", func() bool {
				p := h.told("/s")
				return len(p) == 1 && p[0].form.Get("StreamEvent") == "stream-error"
			})
		})
	}
	if n := len(b.of("connected")); n != 0 {
		t.Errorf("%d sockets were opened all the same", n)
	}
}

func TestNonsenseFromTheBot(t *testing.T) {
	hello := greeting(t, "9")
	b := newBot(t, func(c *websocket.Conn, m message) bool {
		if m.Event != "start" {
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c.Write(ctx, websocket.MessageBinary, bytes.Repeat([]byte{1}, 100))
		return send(c, `not json`) && send(c, `{"event":"media","streamSid":"MZother","media":{"payload":""}}`) &&
			send(c, `{"event":"media","streamSid":%q,"media":{"payload":"%%"}}`, m.SID) &&
			send(c, `{"event":"dance","streamSid":%q}`, m.SID) && sendAudio(c, m.SID, hello)
	})
	s := start(t, simcarrier.Config{Insecure: true})
	sid := create(t, s, "Twiml", b.twiml(""))
	eventually(t, "what made sense", func() bool { c, _ := s.Call(sid); return c.Heard.Tag == "9" })
	if c, _ := s.Call(sid); !slices.Equal(codes(c), []int{31950, 31924, 31924, 31924, 31924}) {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

func TestMediaFaults(t *testing.T) {
	talk := simcarrier.Profile{Talk: simcarrier.Range{Min: 300 * time.Millisecond}}
	t.Run("never", func(t *testing.T) {
		b := newBot(t, nil)
		s := start(t, simcarrier.Config{Insecure: true, Profile: talk})
		s.SetFaults(simcarrier.Faults{Media: simcarrier.MediaNever})
		c := until(t, s, create(t, s, "Twiml", b.twiml("")), "completed")
		if c.EndedBy != "callee" || c.Heard.Sound || len(b.of("connected")) != 0 {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("half a handshake", func(t *testing.T) {
		b := newBot(t, nil)
		s := start(t, simcarrier.Config{Insecure: true, Profile: talk})
		s.SetFaults(simcarrier.Faults{Media: simcarrier.MediaHalf})
		c := until(t, s, create(t, s, "Twiml", b.twiml("")), "completed")
		if c.EndedBy != "callee" || len(b.of("connected")) != 0 {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("stall", func(t *testing.T) {
		full := make(chan time.Duration, 1)
		minute := audio.EncodeMuLaw(audio.Tone([]float64{400}, time.Minute, 0.5))
		b := newBot(t, func(c *websocket.Conn, m message) bool {
			if m.Event != "start" {
				return true
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			for ctx.Err() == nil { // the peer does not read: the kernel's buffers end somewhere
				msg := fmt.Appendf(nil, `{"event":"media","streamSid":%q,"media":{"payload":%q}}`, m.SID, base64.StdEncoding.EncodeToString(minute))
				if c.Write(ctx, websocket.MessageText, msg) != nil {
					break
				}
			}
			full <- time.Since(began)
			return false
		})
		s := start(t, simcarrier.Config{Insecure: true})
		s.SetFaults(simcarrier.Faults{Media: simcarrier.MediaStall})
		sid := create(t, s, "Twiml", b.twiml(""))
		if d := <-full; d < 900*time.Millisecond {
			t.Errorf("the bot's writes failed after %v, want them to wait for a reader", d)
		}
		if c, _ := s.Call(sid); c.Heard.Sound {
			t.Errorf("heard %+v of what was not read", c.Heard)
		}
		until(t, s, sid, "completed")
	})
}
