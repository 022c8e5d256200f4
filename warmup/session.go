package warmup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	inboxSize = 64          // messages that wait for a reader
	maxInbox  = 64 << 10    // bytes of one of them
	closeWait = time.Second // for the other side's half of a polite end
)

// ErrClosed is the end of a session that was closed on purpose.
var ErrClosed = errors.New("warm-up: session closed")

// Session is an open connection to a provider. It is kept open by pings until
// [Session.Close], and says so when it dies first. Safe for concurrent use.
type Session struct {
	Kind     string // STT, TTS, LLM
	Provider string // its name
	First    []byte // the message that Provider.Expect waited for; shared, do not change

	conn    *websocket.Conn // nil: HTTP
	wire    net.Conn        // under conn, for when a polite end takes too long
	client  *http.Client    // nil: WebSocket
	inbox   chan Message
	dropped atomic.Int64

	cancel context.CancelFunc // ends the goroutines, and with them the connection
	wg     sync.WaitGroup
	done   chan struct{}

	ended   sync.Once
	err     error // why it ended; set before done is closed
	closing sync.Once
}

// Message is one message on a WebSocket.
type Message struct {
	Binary bool
	Data   []byte
}

// newSession makes a session, and the context that ends with it.
func newSession(p *provider) (*Session, context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	return &Session{Kind: p.Kind, Provider: p.Name, cancel: cancel, done: make(chan struct{})}, ctx
}

func keepSocket(p *provider, conn *websocket.Conn, wire net.Conn, first []byte) *Session {
	s, ctx := newSession(p)
	s.conn, s.wire, s.First, s.inbox = conn, wire, first, make(chan Message, inboxSize)
	s.wg.Go(func() { s.receive(ctx) })
	if p.Ping > 0 {
		s.wg.Go(func() {
			every(ctx, p.Ping, func() bool {
				ctx, stop := context.WithTimeout(ctx, p.Timeout)
				defer stop()
				if err := conn.Ping(ctx); err != nil {
					s.end(&Error{Code: ProviderSilent, Provider: p.Name, Detail: p.Name + " does not answer a ping", Err: err})
					return false
				}
				return true
			})
		})
	}
	return s
}

// receive reads until the connection ends: only so are pings, pongs and the
// other side's close seen.
func (s *Session) receive(ctx context.Context) {
	for {
		typ, data, err := s.conn.Read(ctx)
		if err != nil {
			s.end(&Error{Code: ProviderClosed, Provider: s.Provider, Detail: s.Provider + " closed the session" + closeReason(err), Err: err})
			s.conn.CloseNow()
			return
		}
		m := Message{typ == websocket.MessageBinary, data}
		for sent := false; !sent; {
			select {
			case s.inbox <- m:
				sent = true
			default:
				select { // full: nobody reads, or not fast enough; the oldest goes
				case <-s.inbox:
					s.dropped.Add(1)
				default:
				}
			}
		}
	}
}

// end is called by whoever first knows that the session is over.
func (s *Session) end(err error) {
	s.ended.Do(func() {
		s.err = err
		close(s.done)
		s.cancel()
	})
}

// Done is closed when the session is over, for whatever reason.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is nil while the session lives, [ErrClosed] after Close, and an [*Error]
// with provider_closed or provider_silent if it died.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Client speaks over the warm connection of an HTTP session and adds the
// provider's headers to requests to its origin; after Close it refuses. It is nil
// for a WebSocket.
func (s *Session) Client() *http.Client { return s.client }

// Read is the next message from the WebSocket, also one that came before its
// end. A reader who falls 64 messages behind loses the oldest ([Session.Dropped]):
// a session that nobody reads must stay open, not fill up.
func (s *Session) Read(ctx context.Context) (Message, error) {
	if s.conn == nil {
		return Message{}, errors.ErrUnsupported
	}
	select {
	case m := <-s.inbox:
		return m, nil
	default:
	}
	select {
	case m := <-s.inbox:
		return m, nil
	case <-s.done:
		return Message{}, s.err
	case <-ctx.Done():
		return Message{}, ctx.Err()
	}
}

// Write sends one message. An end of ctx in the middle of it ends the session.
func (s *Session) Write(ctx context.Context, m Message) error {
	if s.conn == nil {
		return errors.ErrUnsupported
	}
	if err := s.Err(); err != nil {
		return err
	}
	typ := websocket.MessageText
	if m.Binary {
		typ = websocket.MessageBinary
	}
	if err := s.conn.Write(ctx, typ, m.Data); err != nil {
		return fmt.Errorf("warm-up: write to %s: %w", s.Provider, err)
	}
	return nil
}

// Dropped is how many messages were lost because nobody read them.
func (s *Session) Dropped() int64 { return s.dropped.Load() }

// Close says goodbye, for at most a second, and ends everything that belongs to
// the session. Calling it again does nothing.
func (s *Session) Close() {
	s.closing.Do(func() {
		if s.conn != nil && s.Err() == nil {
			patience := time.AfterFunc(closeWait, func() { s.wire.Close() })
			defer patience.Stop()
			s.ended.Do(func() { // not through end: the goodbye still needs the reader
				s.err = ErrClosed
				close(s.done)
			})
			_ = s.conn.Close(websocket.StatusNormalClosure, "")
		}
		s.abort()
	})
}

// abort ends the session without a goodbye, at once.
func (s *Session) abort() {
	s.end(ErrClosed)
	s.cancel()
	if s.conn != nil {
		_ = s.conn.CloseNow()
	}
	s.wg.Wait()
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
}

// every calls f each time d has passed, until it says no or ctx ends.
func every(ctx context.Context, d time.Duration, f func() bool) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if !f() {
				return
			}
		}
	}
}
