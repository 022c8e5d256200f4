package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dibs/internal/audio"
)

// A whole call: the greeting, both directions, keys, marks, an interruption, and
// the bot hangs up.
func TestCall(t *testing.T) {
	s, url := serve(t, Config{})
	greeting := audio.EncodeMuLaw(audio.Tone([]float64{440}, 1010*time.Millisecond, 0.5)) // not whole frames
	connected, first := make(chan struct{}, 1), make(chan time.Duration, 2)
	path, ended := open(t, s, Call{
		ID:         "call-1",
		Greeting:   greeting,
		Connected:  func() { connected <- struct{}{} },
		FirstAudio: func(d time.Duration) { first <- d },
		Talk: func(ctx context.Context, st *Stream) error {
			want := Start{CallSID: "CA1", StreamSID: "MZ1", AccountSID: "AC1", Params: map[string]string{"claim": "c-1"}}
			if diff := cmp.Diff(want, st.Start()); diff != "" {
				return fmt.Errorf("start (-want +got):\n%s", diff)
			}
			if got := wait(t, st.Marks(), "greeting's mark"); got != GreetingMark {
				return fmt.Errorf("mark %q, want %q", got, GreetingMark)
			}
			if got := wait(t, st.Audio(), "audio"); !bytes.Equal(got, []byte{1, 2, 3}) {
				return fmt.Errorf("audio %v", got)
			}
			if got := wait(t, st.Digits(), "digit"); got != "7" {
				return fmt.Errorf("digit %q", got)
			}
			return errors.Join(st.Send(ctx, audio.Silence(5000)), st.Mark(ctx, `a "name"`), st.Clear(ctx))
		},
	})
	c := dial(t, url+path)
	c.start()
	wait(t, connected, "connected")

	h := c.hear()
	if h.Event != "media" || len(h.Media.Payload) != audio.FrameBytes {
		t.Fatalf("first message: %s of %d bytes, want media of %d", h.Event, len(h.Media.Payload), audio.FrameBytes)
	}
	said := h.Media.Payload
	for h = c.hear(); h.Event == "media"; h = c.hear() {
		said = append(said, h.Media.Payload...)
	}
	if !bytes.Equal(said, greeting) {
		t.Errorf("greeting of %d bytes is not the one given, of %d", len(said), len(greeting))
	}
	if h.Event != "mark" || h.Mark.Name != GreetingMark {
		t.Errorf("after the greeting: %+v, want its mark", h)
	}
	c.say(`{"event":"mark","sequenceNumber":"2","streamSid":"MZ1","mark":{"name":"greeting"}}`)
	c.media(3, []byte{1, 2, 3})
	c.say(`{"event":"dtmf","streamSid":"MZ1","sequenceNumber":"4","dtmf":{"track":"inbound_track","digit":"7"}}`)

	n := 0
	for h = c.hear(); h.Event == "media"; h = c.hear() {
		n += len(h.Media.Payload)
	}
	if n != 5000 || h.Event != "mark" || h.Mark.Name != `a "name"` {
		t.Errorf("%d bytes and then %+v, want 5000 and the mark", n, h)
	}
	if h = c.hear(); h.Event != "clear" {
		t.Errorf("%q, want clear", h.Event)
	}
	if got := c.closed(); got != websocket.StatusNormalClosure {
		t.Errorf("closed with %d, want %d", got, websocket.StatusNormalClosure)
	}

	got := wait(t, ended, "report")
	want := Report{CallID: "call-1", Reason: HungUp, Connected: true, FramesIn: 1, FramesOut: 51 + 32}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Report{}, "Started", "FirstAudio", "Length")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if d := wait(t, first, "first audio"); d != got.FirstAudio || d <= 0 {
		t.Errorf("first audio %v, in the report %v", d, got.FirstAudio)
	}
	if got.Started <= 0 || got.Length < got.Started+got.FirstAudio {
		t.Errorf("started %v, first audio %v, length %v do not fit", got.Started, got.FirstAudio, got.Length)
	}
	if len(first) != 0 || len(ended) != 0 {
		t.Error("first audio or the end was told twice")
	}
	if st := s.Stats(); st.Streams != 0 || st.Ended[HungUp] != 1 || st.FramesOut != 83 || st.FirstAudio.Count != 1 {
		t.Errorf("stats %+v", st)
	}
}

// Every way in which a call can end, told by what happens after the upgrade.
func TestEnds(t *testing.T) {
	hold := func(ctx context.Context, _ *Stream) error { <-ctx.Done(); return ctx.Err() }
	loose := func(c *carrier, s *Server) { c.say(`{"event":"connected"}`) }
	started := func(after func(c *carrier, s *Server)) func(*carrier, *Server) {
		return func(c *carrier, s *Server) { c.start(); c.hear(); after(c, s) }
	}
	says := func(message string) func(*carrier, *Server) {
		return func(c *carrier, _ *Server) { c.say("%s", message) }
	}
	with := func(old, new string) string {
		if !strings.Contains(startMessage, old) {
			t.Fatalf("no %q to replace", old)
		}
		return strings.ReplaceAll(startMessage, old, new)
	}
	const polite, policy = websocket.StatusNormalClosure, websocket.StatusPolicyViolation
	for _, tc := range []struct {
		name   string
		do     func(*carrier, *Server)
		want   Reason
		status websocket.StatusCode // what the carrier sees; 0 is not looked at
		call   Call
		cfg    Config
	}{
		{name: "stop", do: started(says(`{"event":"stop","streamSid":"MZ1","stop":{"accountSid":"AC1","callSid":"CA1"}}`)), want: Stopped, status: polite},
		{name: "stop before start", do: says(`{"event":"stop"}`), want: Stopped, status: polite},
		{name: "the carrier closes", do: started(func(c *carrier, _ *Server) { c.conn.Close(websocket.StatusNormalClosure, "") }), want: PeerClosed},
		{name: "the carrier closes with a fault", do: started(func(c *carrier, _ *Server) { c.conn.Close(websocket.StatusInternalError, "") }), want: PeerClosed},
		{name: "the carrier closes before start", do: func(c *carrier, _ *Server) { c.conn.Close(websocket.StatusNormalClosure, "") }, want: PeerClosed},
		{name: "the connection breaks", do: started(func(c *carrier, _ *Server) { c.conn.CloseNow() }), want: PeerClosed},
		{name: "we close", do: started(func(_ *carrier, s *Server) { s.Close("call"); s.Close("call") }), want: HungUp, status: polite},
		{name: "we close before start", do: func(_ *carrier, s *Server) { s.Close("call") }, want: HungUp, status: polite},
		{name: "talk returns", do: started(loose), call: Call{Talk: func(context.Context, *Stream) error { return nil }}, want: HungUp, status: polite},
		{name: "talk fails", do: started(loose), call: Call{Talk: func(context.Context, *Stream) error { return io.ErrNoProgress }}, want: TalkError, status: polite},
		{name: "talk panics", do: started(loose), call: Call{Talk: func(context.Context, *Stream) error { panic("oh") }}, want: TalkError, status: polite},
		{name: "too long", do: started(loose), call: Call{MaxCall: time.Second}, want: MaxCall, status: polite},
		{name: "silence", do: started(loose), cfg: Config{Idle: 50 * time.Millisecond}, want: TimeoutIdle, status: policy},
		{name: "no start", do: loose, cfg: Config{Handshake: time.Second}, want: TimeoutStart, status: policy},
		{name: "2 MB", do: started(says(`{"event":"media","media":{"payload":"` + strings.Repeat("A", 2<<20) + `"}}`)), want: TooLarge},
		{name: "a byte too much", do: started(says(strings.Repeat(" ", 64<<10+1))), want: TooLarge, status: websocket.StatusMessageTooBig},
		{name: "2 MB before start", do: says(strings.Repeat(" ", 2<<20)), want: TooLarge},
		{name: "binary", do: started(func(c *carrier, _ *Server) { c.write(websocket.MessageBinary, []byte{1}) }), want: Malformed, status: policy},
		{name: "no JSON", do: started(says(`{"event":`)), want: Malformed, status: policy},
		{name: "empty message", do: started(says("")), want: Malformed, status: policy},
		{name: "no event", do: started(says(`{}`)), want: Malformed, status: policy},
		{name: "wrong base64", do: started(says(`{"event":"media","media":{"payload":"A?=="}}`)), want: Malformed, status: policy},
		{name: "no payload", do: started(says(`{"event":"media","media":{}}`)), want: Malformed, status: policy},
		{name: "no media", do: started(says(`{"event":"media"}`)), want: Malformed, status: policy},
		{name: "another stream's media", do: started(says(`{"event":"media","streamSid":"MZ2","media":{"payload":""}}`)), want: Malformed, status: policy},
		{name: "media before start", do: says(`{"event":"media","media":{"payload":""}}`), want: Malformed, status: policy},
		{name: "a key before start", do: says(`{"event":"dtmf","dtmf":{"digit":"1"}}`), want: Malformed, status: policy},
		{name: "start twice", do: started(says(startMessage)), want: Malformed, status: policy},
		{name: "start without its part", do: says(`{"event":"start","streamSid":"MZ1"}`), want: Malformed, status: policy},
		{name: "start without an id", do: says(`{"event":"start","start":{}}`), want: Malformed, status: policy},
		{name: "start with two ids", do: says(strings.Replace(startMessage, "MZ1", "MZ2", 1)), want: Malformed, status: policy},
		{name: "a long id", do: says(with("MZ1", strings.Repeat("M", 300))), want: Malformed, status: policy},
		{name: "another sound", do: says(with("audio/x-mulaw", "audio/opus")), want: Malformed, status: policy},
		{name: "another rate", do: says(with("8000", "16000")), want: Malformed, status: policy},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, url := serve(t, tc.cfg)
			call := tc.call
			call.ID, call.Greeting = "call", audio.Silence(audio.FrameBytes)
			if call.Talk == nil {
				call.Talk = hold
			}
			path, ended := open(t, s, call)
			c := dial(t, url+path)
			tc.do(c, s)
			if got := c.closed(); tc.status != 0 && got != tc.status {
				t.Errorf("closed with %d, want %d", got, tc.status)
			}
			if got := wait(t, ended, "report"); got.Reason != tc.want || !got.Connected {
				t.Errorf("report %+v, want reason %s", got, tc.want)
			}
			if got := s.Stats().Ended[tc.want]; got != 1 {
				t.Errorf("%d calls counted, want 1", got)
			}
		})
	}
}

// All that a carrier may do without losing the call.
func TestTolerates(t *testing.T) {
	s, url := serve(t, Config{})
	path, ended := open(t, s, Call{ID: "call", Talk: func(ctx context.Context, st *Stream) error {
		for _, want := range []int{160, 1, 159, 161, 30_000, 7, 8} {
			if got := len(wait(t, st.Audio(), "audio")); got != want {
				return fmt.Errorf("%d bytes, want %d", got, want)
			}
		}
		return nil
	}})
	c := dial(t, url+path)
	c.say(`{"event":"from the future","streamSid":5,"media":7}`)
	c.say(`{"event":"connected"}`)
	c.start()
	c.say(`{"event":"connected"}`)
	c.say(`{"event":"from the future","sequenceNumber":{}}`)
	c.say(`{"event":"media","media":{"payload":""}}`)
	c.say(`{"event":"media","media":{"track":"outbound","payload":"AAAA"}}`)
	c.say(`{"event":"dtmf","dtmf":{"digit":"123"}}`)
	for i, n := range []int{160, 1, 159, 161, 30_000} {
		c.media(i+2, audio.Silence(n))
	}
	c.media(3, audio.Silence(7))                                                     // again
	c.say(`{"event":"media","sequenceNumber":2,"media":{"payload":"AAAAAAAAAAA="}}`) // a number, and older still
	c.closed()
	got := wait(t, ended, "report")
	if got.Reason != HungUp || got.FramesIn != 7 || got.OutOfOrder != 2 || got.Err != nil {
		t.Errorf("report %+v, want 7 frames and 2 out of order", got)
	}
}

// A Talk that does not read loses the oldest frames, and the call goes on.
func TestDropsOldest(t *testing.T) {
	s, url := serve(t, Config{})
	const sent = audioDepth + 50
	path, ended := open(t, s, Call{ID: "call", Talk: func(ctx context.Context, st *Stream) error {
		wait(t, st.Digits(), "the digit after all frames")
		for want := 50; want < sent; want++ {
			if got := wait(t, st.Audio(), "audio"); int(got[0]) != want {
				return fmt.Errorf("frame %d, want %d", got[0], want)
			}
		}
		return nil
	}})
	c := dial(t, url+path)
	c.start()
	for i := range sent {
		c.media(i+2, []byte{byte(i)})
	}
	c.say(`{"event":"dtmf","dtmf":{"digit":"#"}}`)
	c.closed()
	if got := wait(t, ended, "report"); got.Err != nil || got.Dropped != 50 || got.FramesIn != sent {
		t.Errorf("report %+v, want %d frames, 50 of them dropped", got, sent)
	}
	if got := s.Stats().Dropped; got != 50 {
		t.Errorf("%d dropped, want 50", got)
	}
}

// A sentence that is called off is not the end of the call; an ended call refuses.
func TestSend(t *testing.T) {
	s, url := serve(t, Config{})
	kept := make(chan *Stream, 1)
	path, ended := open(t, s, Call{ID: "call", Talk: func(ctx context.Context, st *Stream) error {
		off, cancel := context.WithCancel(ctx)
		cancel()
		if err := st.Send(off, audio.Silence(10_000)); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("called off: %w", err)
		}
		if err := st.Mark(ctx, ""); err == nil {
			return errors.New("a mark without a name: no error")
		}
		kept <- st
		return errors.Join(st.Send(ctx, nil), st.Mark(ctx, "still here"))
	}})
	c := dial(t, url+path)
	c.start()
	if h := c.hear(); h.Mark.Name != "still here" {
		t.Errorf("%+v, want the mark", h)
	}
	c.closed()
	if got := wait(t, ended, "report"); got.Reason != HungUp || got.FirstAudio != 0 || got.FramesOut != 0 {
		t.Errorf("report %+v, want hung_up and no audio", got)
	}
	st := wait(t, kept, "stream")
	for what, err := range map[string]error{
		"send":  st.Send(t.Context(), audio.Silence(1)),
		"mark":  st.Mark(t.Context(), "x"),
		"clear": st.Clear(t.Context()),
	} {
		if !errors.Is(err, ErrEnded) {
			t.Errorf("%s after the end: %v, want ErrEnded", what, err)
		}
	}
	if _, open := <-st.Audio(); open {
		t.Error("audio after the end")
	}
}

// Talk is waited for, but not for ever.
func TestTalkThatDoesNotReturn(t *testing.T) {
	if testing.Short() {
		t.Skip("waits 5 s")
	}
	t.Parallel()
	s, url := serve(t, Config{})
	let := make(chan struct{})
	path, ended := open(t, s, Call{ID: "call", Talk: func(context.Context, *Stream) error { <-let; return nil }})
	c := dial(t, url+path)
	c.start()
	c.say(`{"event":"stop"}`)
	got := wait(t, ended, "report")
	close(let)
	if got.Reason != Stopped || got.Err == nil {
		t.Errorf("report %+v, want stopped, and that talk has not returned", got)
	}
}

func TestOpenAndShutdown(t *testing.T) {
	s, url := serve(t, Config{})
	path, live := open(t, s, Call{ID: "live"})
	_, waiting := open(t, s, Call{ID: "waiting"})
	for _, bad := range []Call{{}, {ID: "live"}, {ID: "x", MaxCall: -1}} {
		if _, err := s.Open(bad); err == nil {
			t.Errorf("Open(%q): no error", bad.ID)
		}
	}
	dial(t, url+path).start()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := wait(t, live, "live"); r.Reason != HungUp {
		t.Errorf("live call: %s", r.Reason)
	}
	if r := wait(t, waiting, "waiting"); r.Reason != Withdrawn {
		t.Errorf("waiting call: %s", r.Reason)
	}
	if _, err := s.Open(Call{ID: "late"}); !errors.Is(err, ErrClosed) {
		t.Errorf("Open after the end: %v, want ErrClosed", err)
	}
}

// A server whose base context ends takes its calls with it.
func TestBaseContext(t *testing.T) {
	s, err := New(Config{Bot: "bot-1"})
	if err != nil {
		t.Fatal(err)
	}
	base, cancel := context.WithCancel(t.Context())
	web := httptest.NewUnstartedServer(nil)
	web.Config = s.HTTP(nil)
	web.Config.BaseContext = func(net.Listener) context.Context { return base }
	web.Start()
	defer web.Close()
	path, ended := open(t, s, Call{ID: "call", Connected: cancel})
	c := dial(t, web.URL+path)
	c.closed()
	if r := wait(t, ended, "report"); r.Reason != HungUp {
		t.Errorf("report %+v, want hung_up", r)
	}
}

func TestConfig(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Bot":        {Bot: "a/b"},
		"Bot:":       {},
		"Handshake":  {Bot: "b", Handshake: -1},
		"Write":      {Bot: "b", Write: -1},
		"Idle":       {Bot: "b", Idle: -1},
		"MaxMessage": {Bot: "b", MaxMessage: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%+v: error %v, want one that names %s", cfg, err, field)
		}
	}
}
