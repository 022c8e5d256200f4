package media

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/coder/websocket"
)

// closeGrace is how long a carrier has to answer our closing of the socket.
const closeGrace = time.Second

// sendBuffer is what the system may hold for a carrier, in bytes: six seconds of
// sound, and enough for any round trip.
const sendBuffer = 64 << 10

var errStalled = errors.New("nothing was taken")

// socket is the connection below the WebSocket. It is kept because only here are
// there deadlines that bind every byte, and a close that nothing can hold up: the
// WebSocket's own waits for as long as a peer takes to send the frame it announced.
type socket struct {
	net.Conn
	write time.Duration
}

// Write gives each write its own deadline, so that pongs and close frames, which
// the WebSocket sends of itself, are bound by it too.
func (s *socket) Write(p []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(s.write)); err != nil {
		return 0, err
	}
	n, err := s.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w for %v", errStalled, s.write)
	}
	return n, err
}

// accept upgrades the request and keeps hold of the connection below.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, *socket, error) {
	h := &hijack{ResponseWriter: w, write: s.cfg.Write}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the token is what lets in, and no browser has it
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, nil, err
	}
	conn.SetReadLimit(s.cfg.MaxMessage)
	return conn, h.socket, nil
}

// hijack puts a socket between the connection and who takes it over.
type hijack struct {
	http.ResponseWriter
	write  time.Duration
	socket *socket
}

func (h *hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, brw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if c, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		// Megabytes of speech would go into a carrier that takes none, unnoticed. An
		// error leaves the system's own size.
		_ = c.SetWriteBuffer(sendBuffer)
	}
	h.socket = &socket{Conn: conn, write: h.write}
	brw.Writer.Reset(h.socket)
	return h.socket, brw, nil
}

// shut closes the socket: politely if the other side can still hear it, and at
// the latest after closeGrace.
func shut(conn *websocket.Conn, below net.Conn, reason Reason) {
	cut := time.AfterFunc(closeGrace, func() { below.Close() })
	defer cut.Stop()
	code := websocket.StatusNormalClosure
	switch reason {
	case WriteTimeout:
		below.Close()
	case Malformed, TooLarge, TimeoutStart, TimeoutIdle:
		code = websocket.StatusPolicyViolation
	}
	conn.Close(code, string(reason)) // what it cannot say any more, nobody needs
}

// ended is the reason that stands behind an error of the socket, and the error if
// it tells more.
func ended(err error, started bool) (Reason, error) {
	switch {
	case errors.Is(err, errStalled):
		return WriteTimeout, err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		if started {
			return TimeoutIdle, nil
		}
		return TimeoutStart, nil
	case errors.Is(err, websocket.ErrMessageTooBig):
		return TooLarge, err
	}
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
		return PeerClosed, nil
	case -1: // no close frame
	default:
		return PeerClosed, err
	}
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return PeerClosed, err
	}
	return Malformed, err // the WebSocket protocol was broken
}
