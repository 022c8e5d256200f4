package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Item is one message that was handed over. Its methods may be called from any
// goroutine and say whether the server did it: nil, done; [ErrLost], the office is
// another's, who has read the message again; [ErrUnavailable], not known: do it
// again, it is harmless when it was done. After Ack, Term, Park and Nak the item
// is spent.
type Item struct {
	Key        Key       // zero when the subject is none that [Key.Subject] makes
	Seq        uint64    // the message's number in line
	Order      []byte    // may be set to nil by whoever has read it
	Enqueued   time.Time // by the server's clock
	Deliveries int       // 1: the first in this term

	office  *Office
	subject string
	reply   string
}

// Subject is where the message was published.
func (it *Item) Subject() string { return it.subject }

// Ack says that the call has left the line: its record owns it now, or it is over.
func (it *Item) Ack(ctx context.Context) error { return it.settle(ctx, "ack", "+ACK") }

// Nak puts the call back in line: it is handed over again after delay (at least 0).
// A new term does not wait for the delay.
func (it *Item) Nak(ctx context.Context, delay time.Duration) error {
	word := "-NAK"
	if delay > 0 {
		word = fmt.Sprintf(`-NAK {"delay": %d}`, delay.Nanoseconds())
	}
	return it.settle(ctx, "nak", word)
}

// Term takes the call off the line for a reason that the server publishes as an
// advisory of the consumer; it is made one line of at most 200 bytes.
func (it *Item) Term(ctx context.Context, reason string) error {
	return it.settle(ctx, "term", "+TERM "+oneLine(reason))
}

// settle tells the server and waits for its word.
func (it *Item) settle(ctx context.Context, op, word string) error {
	o := it.office
	o.mu.Lock()
	lost, nak := o.lost, op == "nak"
	if nak {
		// Before the server may deliver it again.
		delete(o.held, it.Seq)
	}
	o.mu.Unlock()
	err := error(nil)
	if lost {
		err = ErrLost
	} else {
		err = o.tell(ctx, it.reply, word)
	}
	if err != nil {
		return fmt.Errorf("queue: %s %d: %w", op, it.Seq, err)
	}
	if !nak {
		o.mu.Lock()
		delete(o.held, it.Seq)
		o.mu.Unlock()
	}
	return nil
}

func (o *Office) tell(ctx context.Context, reply, word string) error {
	ctx, cancel := o.line.deadline(ctx)
	defer cancel()
	_, err := o.line.js.Conn().RequestWithContext(ctx, reply, []byte(word))
	if err == nil {
		return nil
	}
	if errors.Is(err, nats.ErrNoResponders) {
		// Nobody listens to this consumer's confirmations: it is gone, or a cluster
		// is electing its leader.
		if _, ierr := o.cons.Info(ctx); gone(ierr) {
			signal(o.trouble)
			return o.lose()
		}
	}
	return unavailable(ctx, err)
}

const maxReason = 200

// oneLine makes a reason fit for a header.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.ToValidUTF8(s[:min(len(s), maxReason)], "")
}
