package natstest

import (
	"errors"
	"net"
	"sync"
	"testing"
)

// Link is a way to a broker that can be frozen: bytes of both directions are
// then held back and nobody is told, as when a machine vanishes, a process is
// stopped or a network is cut. It is a [nats.InProcessConnProvider]; use it as
//
//	b.Connect(t, nats.InProcessServer(link))
type Link struct {
	b *Broker

	mu     sync.Mutex
	moved  *sync.Cond // something of what mu guards has changed
	frozen bool
}

// Link gives a link to the broker that thaws when the test tb ends. Freezing it
// concerns the connections made through it and no other.
func (b *Broker) Link(tb testing.TB) *Link {
	l := &Link{b: b}
	l.moved = sync.NewCond(&l.mu)
	tb.Cleanup(l.Thaw)
	return l
}

// Freeze holds back every byte from now on, in both directions, and refuses new
// connections.
func (l *Link) Freeze() { l.set(true) }

// Thaw delivers what was held back, in order, and lets bytes pass again.
func (l *Link) Thaw() { l.set(false) }

func (l *Link) set(frozen bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = frozen
	l.moved.Broadcast()
}

// InProcessConn is a new connection to the broker through the link.
func (l *Link) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	if frozen {
		return nil, errors.New("the link is frozen")
	}
	far, err := l.b.InProcessConn()
	if err != nil {
		return nil, err
	}
	near, inner := net.Pipe()
	l.pump(inner, far)
	l.pump(far, inner)
	return near, nil
}

// pump carries bytes from one end to the other through a buffer without limit,
// which stands for those of the kernel: a writer never learns of a frozen link.
// Its goroutines end when both ends are closed and the link is not frozen.
func (l *Link) pump(from, to net.Conn) {
	var held []byte // guarded by l.mu, as is ended
	var ended bool
	go func() {
		chunk := make([]byte, 32<<10)
		for {
			n, err := from.Read(chunk)
			l.mu.Lock()
			held = append(held, chunk[:n]...)
			ended = err != nil
			l.moved.Broadcast()
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		for {
			l.mu.Lock()
			for l.frozen || len(held) == 0 && !ended {
				l.moved.Wait()
			}
			batch, last := held, ended
			held = nil
			l.mu.Unlock()
			var err error
			if len(batch) > 0 { // an empty write to a net.Pipe waits for a reader
				_, err = to.Write(batch)
			}
			if err != nil || last {
				to.Close()
				from.Close()
				return
			}
		}
	}()
}
