package simcarrier

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"dibs/internal/audio"
)

// stream is one open media socket. All of it belongs to the goroutine of run,
// except the socket, on which another one reads.
type stream struct {
	server *Server
	call   *call
	view   *StreamView
	conn   *websocket.Conn
	digits string // to be pressed, one a second
	tone   bool

	ear    ear
	begun  time.Time
	now    time.Time // of the newest thing that was dealt with; never goes back
	seq    int       // of the last message
	sent   int       // media frames
	missed int       // frames that were left out after a standstill
	late   time.Duration
	told   Heard // what the view knows
}

// fromBot is a message of the bot, when it came, or why it cannot be used.
type fromBot struct {
	at    time.Time
	event string
	audio []byte
	name  string
	code  int // a warning instead
}

// maxCatchUp is how many frames are sent at once after a standstill; older ones
// are left out, as a telephone network would.
const maxCatchUp = 50

// run sends and hears until the bot closes, the socket breaks or ctx ends. It
// closes left as soon as the call may go on, and returns when the socket is gone.
func (st *stream) run(ctx context.Context, media *mediaSide, params map[string]string, left chan<- struct{}) {
	in := make(chan fromBot, 16)
	done := make(chan struct{})
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	media.open.Go(func() { st.read(reading, in, done) })

	over := st.talk(ctx, params, in)
	if over {
		st.event(ctx, "stop", map[string]any{"accountSid": st.server.cfg.AccountSID, "callSid": st.call.sid})
	}
	st.publish(true)
	media.keep(st.ear.record)
	close(left)
	close(done)
	if endOf(ctx) == shutdown && ctx.Err() != nil {
		st.conn.CloseNow()
		return
	}
	t := time.AfterFunc(closeTime, cancel) // which breaks the socket off
	defer t.Stop()
	st.conn.Close(websocket.StatusNormalClosure, "")
}

// keep appends a stream's recording to the call's.
func (m *mediaSide) keep(record []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record = append(m.record, record[:min(len(record), maxRecord-len(m.record))]...)
}

// talk is the stream while it is open. It reports whether the call ended it.
func (st *stream) talk(ctx context.Context, params map[string]string, in <-chan fromBot) (over bool) {
	connected := `{"event":"connected","protocol":"Call","version":"1.0.0"}`
	if st.write(ctx, []byte(connected)) != nil {
		return false
	}
	err := st.event(ctx, "start", map[string]any{
		"streamSid": st.view.SID, "accountSid": st.server.cfg.AccountSID, "callSid": st.call.sid,
		"tracks":           []string{"inbound"},
		"mediaFormat":      map[string]any{"encoding": "audio/x-mulaw", "sampleRate": audio.Rate, "channels": 1},
		"customParameters": params,
	})
	if err != nil {
		return false
	}
	st.begun = time.Now()
	st.now, st.ear.begun = st.begun, st.begun
	wake, leave := st.server.pace.join()
	defer leave()
	for {
		select {
		case <-ctx.Done():
			st.advance(time.Now())
			st.ear.play(st.now)
			return true
		case m, ok := <-in:
			if !ok {
				st.advance(time.Now())
				st.ear.play(st.now)
				return false
			}
			err = st.hear(ctx, m)
		case <-wake:
			err = st.tick(ctx)
		}
		if err != nil {
			return false
		}
	}
}

// advance moves the stream's time; messages carry their own, which may be older
// than a wake-up that was dealt with first.
func (st *stream) advance(t time.Time) {
	if t.After(st.now) {
		st.now = t
	}
}

// tick sends the frames that are due, the marks that were reached, and the next digit.
func (st *stream) tick(ctx context.Context) error {
	st.advance(time.Now())
	since := st.now.Sub(st.begun)
	due := int(since/frameTime) + 1
	if behind := due - st.sent - st.missed; behind > maxCatchUp {
		st.missed += behind - maxCatchUp
	}
	for st.sent+st.missed < due {
		if err := st.frame(ctx, since); err != nil {
			return err
		}
	}
	if err := st.marks(ctx, st.ear.due(st.now)); err != nil {
		return err
	}
	if n := int(since / time.Second); n > 0 && len(st.digits) > 0 {
		digit := st.digits[:1]
		pressed := len(st.call.plan.digits) - len(st.digits)
		if pressed < n {
			st.digits = st.digits[1:]
			return st.event(ctx, "dtmf", map[string]any{"track": "inbound_track", "digit": digit})
		}
	}
	st.publish(false)
	return nil
}

// What a callee says, 20 ms of it: nothing, or 400 Hz, which fits into a frame in
// whole waves and so has no seams.
var (
	silent = base64.StdEncoding.EncodeToString(audio.Silence(frameBytes))
	toned  = base64.StdEncoding.EncodeToString(audio.EncodeMuLaw(audio.Tone([]float64{400}, frameTime, 0.2)))
)

// frame sends one frame of the callee's voice. Written by hand: it is nearly all
// that is ever sent.
func (st *stream) frame(ctx context.Context, since time.Duration) error {
	n := st.sent + st.missed
	if l := since - time.Duration(n)*frameTime; l > st.late {
		st.late = l
	}
	payload := silent
	if st.tone {
		payload = toned
	}
	st.seq++
	st.sent++
	return st.write(ctx, fmt.Appendf(nil,
		`{"event":"media","sequenceNumber":"%d","media":{"track":"inbound","chunk":"%d","timestamp":"%d","payload":"%s"},"streamSid":"%s"}`,
		st.seq, st.sent, (time.Duration(n)*frameTime).Milliseconds(), payload, st.view.SID))
}

// event sends any other message; its body goes under the event's own name.
func (st *stream) event(ctx context.Context, name string, body map[string]any) error {
	st.seq++
	b, err := json.Marshal(map[string]any{
		"event": name, "sequenceNumber": fmt.Sprint(st.seq), "streamSid": st.view.SID, name: body,
	})
	if err != nil {
		return err
	}
	return st.write(ctx, b)
}

func (st *stream) marks(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := st.event(ctx, "mark", map[string]any{"name": name}); err != nil {
			return err
		}
	}
	return nil
}

// write gives a bot that does not read five seconds. The end of the call must not
// break off a message, hence the context of its own.
func (st *stream) write(ctx context.Context, b []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	return st.conn.Write(ctx, websocket.MessageText, b)
}

// hear deals with one message of the bot.
func (st *stream) hear(ctx context.Context, m fromBot) error {
	st.advance(m.at)
	switch {
	case m.code != 0:
		st.server.warn(st.call, m.code, "media: %s", m.name)
	case m.event == "media":
		if !st.ear.media(st.now, m.audio) {
			st.server.warn(st.call, warnMessage, "media: more than ten minutes wait to be played")
		}
	case m.event == "mark":
		st.ear.mark(st.now, m.name)
		return st.marks(ctx, st.ear.due(st.now))
	case m.event == "clear":
		return st.marks(ctx, st.ear.clear(st.now))
	}
	return nil
}

// read reads the bot's messages until the socket is closed, and closes in. While
// media is to stall, it does not.
func (st *stream) read(ctx context.Context, in chan<- fromBot, done <-chan struct{}) {
	defer close(in)
	for {
		for st.server.Faults().Media == MediaStall {
			if !waitOr(done, 50*time.Millisecond) {
				return
			}
		}
		kind, b, err := st.conn.Read(ctx)
		if err != nil {
			return
		}
		m := readMessage(kind, b, st.view.SID)
		m.at = time.Now()
		select {
		case in <- m:
		case <-done: // nobody listens any more; read on, for the closing handshake
		}
	}
}

// waitOr waits for d; false: done came first.
func waitOr(done <-chan struct{}, d time.Duration) bool {
	return !waitFor(done, d)
}

// readMessage reads what a bot may send: media, mark and clear.
func readMessage(kind websocket.MessageType, b []byte, sid string) fromBot {
	if kind != websocket.MessageText {
		return fromBot{code: warnBinary, name: "a binary message"}
	}
	var m struct {
		Event string `json:"event"`
		SID   string `json:"streamSid"`
		Media struct {
			Payload string `json:"payload"`
		} `json:"media"`
		Mark struct {
			Name string `json:"name"`
		} `json:"mark"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return fromBot{code: warnMessage, name: "not JSON"}
	}
	if m.SID != sid {
		return fromBot{code: warnMessage, name: "streamSid of another stream, or none"}
	}
	switch m.Event {
	case "media":
		ulaw, err := base64.StdEncoding.DecodeString(m.Media.Payload)
		if err != nil {
			return fromBot{code: warnMessage, name: "payload is not base64"}
		}
		return fromBot{event: m.Event, audio: ulaw}
	case "mark":
		return fromBot{event: m.Event, name: m.Mark.Name}
	case "clear":
		return fromBot{event: m.Event}
	}
	return fromBot{code: warnMessage, name: fmt.Sprintf("event %.40q", m.Event)}
}
