package media

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"dibs/internal/audio"
)

const (
	audioDepth = 100 // frames that wait for Talk: 2 s
	wordDepth  = 32  // digits, and marks, that wait for it

	talkGrace = 5 * time.Second // for Talk to return when the call is over
)

// GreetingMark is the mark that comes back when the greeting has been played, or
// was cleared.
const GreetingMark = "greeting"

// ErrEnded is what a [Stream] answers when the call is over.
var ErrEnded = errors.New("media: the call is over")

// Stream is a call that has started, as its Talk sees it. It is safe for
// concurrent use.
type Stream struct {
	// Set before anybody sees them.
	done   <-chan struct{}
	cancel context.CancelCauseFunc
	audio  chan []byte
	digits chan string
	marks  chan string
	totals *totals
	heard  func(time.Duration) // Call.FirstAudio; may be nil
	conn   *websocket.Conn
	start  Start
	began  time.Time // when start was read

	// Held by who writes; see lock.
	writing chan struct{}
	enc     encoder

	first     atomic.Int64 // nanoseconds from start to the first sound written; 0 none yet
	framesOut atomic.Int64

	// Owned by the reader.
	listening  bool
	sequence   int64
	framesIn   int64
	dropped    int64
	outOfOrder int64
}

func newStream(done <-chan struct{}, cancel context.CancelCauseFunc, t *totals) *Stream {
	return &Stream{
		done:    done,
		cancel:  cancel,
		totals:  t,
		audio:   make(chan []byte, audioDepth),
		digits:  make(chan string, wordDepth),
		marks:   make(chan string, wordDepth),
		writing: make(chan struct{}, 1),
	}
}

// Start is what the carrier said as the stream began.
func (s *Stream) Start() Start { return s.start }

// Audio is what the caller says: µ-law at 8 kHz, in the pieces in which it comes,
// most often 20 ms. Two seconds wait for a reader; then the oldest piece is
// dropped for each new one. Closed when the call is over.
func (s *Stream) Audio() <-chan []byte { return s.audio }

// Digits are the keys that the caller presses, one each ("0" to "9", "*", "#").
// 32 wait, then the oldest is dropped. Closed when the call is over.
func (s *Stream) Digits() <-chan string { return s.digits }

// Marks are the names of marks that came back: all sound sent before has been
// played, or was cleared. 32 wait, then the oldest is dropped. Closed when the
// call is over.
func (s *Stream) Marks() <-chan string { return s.marks }

// end ends the call; only the first reason counts.
func (s *Stream) end(reason Reason, err error) { s.cancel(&ending{reason, err}) }

// serve is a call's life from the used token to the closed socket.
func (s *Server) serve(ctx context.Context, c *call, w http.ResponseWriter, r *http.Request) Report {
	st, report := c.stream, Report{CallID: c.ID}
	conn, below, err := s.accept(w, r)
	if err != nil {
		report.Reason, report.Err = PeerClosed, fmt.Errorf("upgrade: %w", err)
		return report
	}
	connected := time.Now()
	report.Connected = true
	st.conn, st.heard, st.listening = conn, c.FirstAudio, c.Talk != nil
	s.totals.streams.Add(1)
	defer s.totals.streams.Add(-1)
	s.cfg.Log.Info().Str("call", c.ID).Msg("media connected")

	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		shut(conn, below, cause(ctx).reason)
	})
	if c.Connected != nil {
		c.Connected()
	}

	if s.awaitStart(st, below, connected) {
		report.Started = st.began.Sub(connected)
		limit := time.AfterFunc(c.MaxCall-time.Since(st.began), func() { st.end(MaxCall, nil) })
		defer limit.Stop()
		// The first frame goes out from here: no goroutine has to wake up for it.
		head := min(len(c.Greeting), audio.FrameBytes)
		st.Send(ctx, c.Greeting[:head])
		talked := make(chan struct{})
		go func() {
			defer close(talked)
			s.talk(ctx, c, c.Greeting[head:])
		}()
		s.listen(st, below)
		report.Length = time.Since(connected)
		st.over()
		select {
		case <-talked:
		case <-time.After(talkGrace):
			report.Err = fmt.Errorf("talk has not returned %v after the end", talkGrace)
		}
	}
	report.Length = cmp.Or(report.Length, time.Since(connected))
	<-closed

	why := cause(ctx)
	report.Reason = why.reason
	if report.Err == nil {
		report.Err = why.err
	}
	report.FirstAudio = time.Duration(st.first.Load())
	report.FramesIn, report.FramesOut = st.framesIn, st.framesOut.Load()
	report.Dropped, report.OutOfOrder = st.dropped, st.outOfOrder
	return report
}

// cause is why ctx ended. One that ended from above is a server going down.
func cause(ctx context.Context) *ending {
	if e, ok := errors.AsType[*ending](context.Cause(ctx)); ok {
		return e
	}
	return &ending{HungUp, context.Cause(ctx)}
}

// talk says the rest of the greeting and then lets the bot speak.
func (s *Server) talk(ctx context.Context, c *call, greeting []byte) {
	st := c.stream
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.Error().Str("call", c.ID).Bytes("stack", debug.Stack()).Msg("talk panicked")
			st.end(TalkError, fmt.Errorf("talk panicked: %v", p))
		}
	}()
	if len(c.Greeting) > 0 {
		if st.Send(ctx, greeting) != nil || st.Mark(ctx, GreetingMark) != nil {
			return // the stream has ended, and says why
		}
	}
	if c.Talk == nil {
		return
	}
	if err := c.Talk(ctx, st); err != nil {
		st.end(TalkError, err)
		return
	}
	st.end(HungUp, nil)
}

// awaitStart reads until start, and reports whether it came.
func (s *Server) awaitStart(st *Stream, below *socket, connected time.Time) bool {
	var buf bytes.Buffer
	deadline := connected.Add(s.cfg.Handshake) // for all of it, not for each message
	for {
		m, ok := st.read(&buf, below, deadline, false)
		if !ok {
			return false
		}
		switch m.event {
		case eventStart:
			st.began = time.Now()
			st.start, st.enc = m.start, newEncoder(m.start.StreamSID)
			return true
		case eventMedia, eventDTMF, eventMark:
			st.end(Malformed, fmt.Errorf("%s before start", m.event))
			return false
		case eventStop:
			st.end(Stopped, nil)
			return false
		}
	}
}

// listen reads until the call is over.
func (s *Server) listen(st *Stream, below *socket) {
	var buf bytes.Buffer
	for {
		m, ok := st.read(&buf, below, time.Now().Add(s.cfg.Idle), true)
		if !ok {
			return
		}
		if m.streamSID != "" && m.streamSID != st.start.StreamSID {
			st.end(Malformed, fmt.Errorf("%s of another stream", m.event))
			return
		}
		switch m.event {
		case eventStart:
			st.end(Malformed, errors.New("a second start"))
			return
		case eventStop:
			st.end(Stopped, nil)
			return
		case eventMedia:
			if m.outbound || len(m.payload) == 0 {
				continue
			}
			st.framesIn++
			s.totals.framesIn.Add(1)
			if st.listening && !push(st.audio, m.payload) {
				st.dropped++
				s.totals.dropped.Add(1)
			}
		case eventDTMF:
			if len(m.digit) == 1 {
				push(st.digits, m.digit)
			}
		case eventMark:
			push(st.marks, m.mark)
		}
	}
}

// read is the next message, by the deadline. If there is none, the call has ended.
func (s *Stream) read(buf *bytes.Buffer, below *socket, deadline time.Time, started bool) (message, bool) {
	// Deadlines are the socket's: they cost nothing, while a context would be
	// watched anew with every frame.
	err := below.SetReadDeadline(deadline)
	var kind websocket.MessageType
	var r io.Reader
	if err == nil {
		kind, r, err = s.conn.Reader(context.Background())
	}
	if err == nil {
		buf.Reset()
		_, err = buf.ReadFrom(r)
	}
	if err != nil {
		s.end(ended(err, started))
		return message{}, false
	}
	if kind != websocket.MessageText {
		s.end(Malformed, errors.New("binary message"))
		return message{}, false
	}
	m, err := decode(buf.Bytes())
	if err != nil {
		s.end(Malformed, err)
		return message{}, false
	}
	if m.sequence != 0 {
		if m.sequence <= s.sequence {
			s.outOfOrder++
			s.totals.outOfOrder.Add(1)
		}
		s.sequence = m.sequence
	}
	return m, true
}

// over tells readers that there is no more.
func (s *Stream) over() {
	close(s.audio)
	close(s.digits)
	close(s.marks)
}

// push is for the only sender on ch: if it is full, the oldest makes room, and
// push reports false.
func push[T any](ch chan T, v T) bool {
	kept := true
	for {
		select {
		case ch <- v:
			return kept
		default:
		}
		select {
		case <-ch:
			kept = false
		default:
		}
	}
}
