package media

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"dibs/internal/audio"
)

// chunk is the most sound in one message: 300 ms. As base64 it fits the 4 KiB in
// which a connection is buffered, so that a message is one write.
const chunk = 15 * audio.FrameBytes

// lastWords is how long the reader has to find out why nothing can be written.
const lastWords = 250 * time.Millisecond

// Send hands µ-law at 8 kHz to the carrier, which plays it after what it has. It
// does not wait for the playing: seconds of speech are gone in milliseconds. Two
// Sends do not mix. A ctx that ends stops it between messages and leaves the call
// alone. The error is ctx's, or an [ErrEnded].
func (s *Stream) Send(ctx context.Context, ulaw []byte) error {
	if len(ulaw) == 0 {
		return nil
	}
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	first := s.first.Load() == 0
	err := s.sendLocked(ctx, ulaw)
	s.unlock()
	if after := s.first.Load(); first && after != 0 {
		s.totals.heard(time.Duration(after))
		if s.heard != nil {
			s.heard(time.Duration(after))
		}
	}
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

func (s *Stream) sendLocked(ctx context.Context, ulaw []byte) error {
	for len(ulaw) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(len(ulaw), chunk)
		if err := s.write(s.enc.media(ulaw[:n])); err != nil {
			return err
		}
		if s.first.Load() == 0 {
			s.first.Store(max(1, int64(time.Since(s.began))))
		}
		frames := (n + audio.FrameBytes - 1) / audio.FrameBytes
		s.framesOut.Add(int64(frames))
		s.totals.framesOut.Add(uint64(frames))
		ulaw = ulaw[n:]
	}
	return nil
}

// Mark asks the carrier to send name back, on [Stream.Marks], when all that was
// sent before has been played or cleared.
func (s *Stream) Mark(ctx context.Context, name string) error {
	if name == "" {
		return errors.New("mark: no name")
	}
	return s.one(ctx, "mark", func() []byte { return s.enc.mark(name) })
}

// Clear drops what the carrier has not played yet: the caller interrupts. Marks
// that waited come back.
func (s *Stream) Clear(ctx context.Context) error {
	return s.one(ctx, "clear", s.enc.clear)
}

// one sends a single message, made under the lock.
func (s *Stream) one(ctx context.Context, what string, encode func() []byte) error {
	err := s.lock(ctx)
	if err == nil {
		err = s.write(encode())
		s.unlock()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (s *Stream) lock(ctx context.Context) error {
	select {
	case <-s.done: // before the rest: an ended call is ended, whatever ctx says
		return ErrEnded
	default:
	}
	select {
	case s.writing <- struct{}{}:
		return nil
	case <-s.done:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Stream) unlock() { <-s.writing }

// write is bound by the socket's deadline and by no context: the WebSocket closes
// the connection of a write whose context ends, and a sentence that is called off
// is not the end of the call.
func (s *Stream) write(b []byte) error {
	err := s.conn.Write(context.Background(), websocket.MessageText, b)
	if err == nil {
		return nil
	}
	reason, why := ended(err, true)
	if reason == PeerClosed {
		// What it said before it left may still be read, and may be stop.
		select {
		case <-s.done:
		case <-time.After(lastWords):
		}
	}
	s.end(reason, why)
	return fmt.Errorf("%w: %w", ErrEnded, err)
}
