package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"dibs/call"
	"dibs/carrier"
	"dibs/cdr"
	"dibs/claim"
	"dibs/queue"
)

// caller is one call in flight: it owns the record, from the admission to the end
// or until the call waits again. Everything that happens to the call reaches it as
// a letter or as the answer to something it asked; each becomes an event, the
// event a new record, the record is stored, and only then acted upon.
type caller struct {
	o      *office
	id     string
	region string
	first  *call.Event  // applied instead of an admission
	re     chan<- error // told how first went

	providers map[string]string // kind → what admission chose
	ups       int               // of its region's room when it was let go
	missed    bool              // no bot was found

	letters chan letter
	seeking atomic.Bool   // asks for a seat, or has one that the roster does not show yet: room leaves one for it
	over    chan struct{} // closed when nobody reads letters any more

	// owned by run while it runs, by the office before and afterwards
	rec  call.Record
	rev  cdr.Rev // 0: not stored yet
	item *queue.Item
	seq  uint64
	lost error // the office is another's

	claimed   chan claimed
	unclaim   context.CancelFunc // nil: no claim runs
	bot       *claim.Assignment
	placed    chan dialled
	dialling  bool
	looked    chan call.Evidence
	looking   bool
	lookAgain time.Time
	doubtful  bool      // the carrier's answer to the dial says nothing: look at once
	turn      time.Time // when it may be dialled, by the pace of its number; zero: not asked yet
	following

	talking atomic.Bool // it is live; any goroutine
}

// letter is something that happened to a call, or its message come back.
type letter struct {
	ev   call.Event
	item *queue.Item
	re   chan<- error
	next chan<- carrier.Instruction // the carrier asks how to go on; room for one
	ask  string                     // with next: which question it is, see deskRequest
}

type claimed struct {
	got *claim.Assignment
	err error
}

type dialled struct {
	attempt string
	got     carrier.Placed
	err     error
}

func newCaller(o *office, r call.Record, rev cdr.Rev) *caller {
	return &caller{
		o: o, id: r.Order.CallID, region: r.Order.Region, rec: r, rev: rev,
		letters: make(chan letter, 16), over: make(chan struct{}),
		claimed: make(chan claimed, 1), placed: make(chan dialled, 1), looked: make(chan call.Evidence, 1),
		following: following{stood: make(chan standing, 1), checks: make(chan finding, 1)},
	}
}

// clearLetters is for the office, when the caller is done: the call's message may
// have come in its last moment. Who waits for an answer sees that the call is over.
func (c *caller) clearLetters() {
	for {
		select {
		case l := <-c.letters:
			if l.item != nil {
				c.item, c.seq = l.item, l.item.Seq
			}
		default:
			return
		}
	}
}

// send delivers a letter unless the call is over or floods; who needs an answer
// asks again then.
func (c *caller) send(l letter) bool {
	select {
	case c.letters <- l:
		return true
	default:
		return false
	}
}

func (c *caller) now() time.Time { return c.o.d.clock.now() }

func (c *caller) run(ctx context.Context) {
	defer close(c.over)
	defer c.seeking.Store(false)
	defer c.giveUpClaim()
	defer c.giveUpTurn()
	defer func() { c.reply(carrier.Instruction{}) }() // who asks how to go on with a call that is over
	if !c.open(ctx) {
		return
	}
	for c.rec.InFlight() {
		c.act(ctx)
		var wait <-chan time.Time
		if d, ok := c.deadline(); ok {
			at := d.At
			if d.Do == call.DoLookUp && c.lookAgain.After(at) {
				at = c.lookAgain
			}
			if !at.After(c.now()) && !c.looking {
				if !c.due(ctx, d.Do) {
					return
				}
				continue
			}
			if !c.looking {
				wait = time.After(c.o.d.clock.until(at))
			}
		}
		var chore, turn <-chan time.Time
		if at := c.chore(); !at.IsZero() {
			chore = time.After(max(0, time.Until(at)))
		}
		if c.unclaim == nil && c.bot == nil && !c.turn.IsZero() && c.rec.State == call.Placing {
			turn = time.After(time.Until(c.turn))
		}
		ok := true
		select {
		case <-ctx.Done():
			c.lastWords()
			return
		case l := <-c.letters:
			ok = c.read(ctx, l)
		case got := <-c.claimed:
			c.unclaim = nil
			ok = c.gotBot(ctx, got)
		case got := <-c.placed:
			c.dialling = false
			ok = c.gotCarrier(ctx, got)
		case e := <-c.looked:
			c.looking = false
			c.lookAgain = c.now().Add(call.LookEvery)
			if ev, do := call.Reconcile(c.rec, e, c.now()); do {
				ok = c.apply(ctx, ev)
			}
		case s := <-c.stood:
			ok = c.settled(ctx, s)
		case f := <-c.checks:
			ok = c.checked(ctx, f)
		case <-chore:
			ok = c.doChores(ctx)
		case <-wait:
		case <-turn:
		}
		if !ok {
			return
		}
	}
	c.ack(ctx)
}

// deadline is the next thing to do if nothing happens.
func (c *caller) deadline() (call.Due, bool) {
	d, ok := call.Deadline(c.rec, c.now())
	if c.doubtful && c.rec.State == call.Dialing && (!ok || d.At.After(c.lookAgain)) {
		return call.Due{At: c.lookAgain, Do: call.DoLookUp}, true
	}
	return d, ok
}

// open is the first thing: an admission, the event it was begun for, or, for a
// call of an earlier term, what that term's end means. False: nothing follows.
func (c *caller) open(ctx context.Context) bool {
	switch {
	case c.first != nil:
		ok := c.apply(ctx, *c.first)
		if c.re != nil {
			c.re <- c.answerTo(ok)
		}
		if !ok {
			return false
		}
	case c.rec.InFlight(): // of an earlier term: we have the office, so it is over
		if a := c.rec.Current(); a != nil && a.Owner != c.o.owner {
			if !c.apply(ctx, call.Event{Kind: call.EvOwnerGone, Attempt: a.ID, Owner: a.Owner}) {
				return false
			}
		}
	case c.rec.State.Terminal(): // it only owes something
	default:
		if !c.apply(ctx, call.Event{Kind: call.EvAdmitted, Attempt: c.rec.NextAttemptID(), Owner: c.o.owner, Providers: c.providers}) {
			return false
		}
		c.o.d.cfg.At(StepPlacing, c.id)
	}
	return c.settle(ctx, call.Pending(c.rec))
}

// act starts what the state asks for and nobody does yet.
func (c *caller) act(ctx context.Context) {
	if c.rec.State != call.Placing || c.unclaim != nil || c.bot != nil {
		return
	}
	if c.turn.IsZero() {
		c.turn = c.o.d.pace.take(c.rec.Order.From, time.Now())
	}
	if !time.Now().Before(c.turn) { // no seat is held while others of the number have their turn
		c.claim(ctx)
	}
}

// due does what a deadline asks for.
func (c *caller) due(ctx context.Context, do call.Todo) bool {
	switch do {
	case call.DoDeadline:
		return c.apply(ctx, call.Event{Kind: call.EvDeadline})
	case call.DoWindowClose:
		return c.apply(ctx, call.Event{Kind: call.EvWindowClosed})
	case call.DoLookUp:
		c.lookUp(ctx)
	}
	return true
}

// read takes one letter.
func (c *caller) read(ctx context.Context, l letter) bool {
	if l.item != nil {
		c.item, c.seq = l.item, l.item.Seq
		if a := c.rec.Current(); a != nil && !a.PlacedAt.IsZero() {
			c.ack(ctx) // it left the line while its message was on its way back
		}
		return true
	}
	if l.next != nil {
		return c.next(ctx, l)
	}
	ok := c.apply(ctx, l.ev)
	if l.re != nil {
		l.re <- c.answerTo(ok)
	}
	return ok
}

var errLost = errors.New("the office is another's now")

func (c *caller) answerTo(ok bool) error {
	if ok {
		return nil
	}
	if c.lost != nil {
		return c.lost
	}
	return errLost
}

// lastWords is the end of the office while the call is in flight: an answer of the
// carrier that is on its way is still worth storing, and nobody else is asked.
func (c *caller) lastWords() {
	if !c.dialling {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), placeIn+2*time.Second)
	defer cancel()
	select {
	case got := <-c.placed:
		c.gotCarrier(ctx, got)
	case <-ctx.Done():
	}
}

// ack takes the call's message off the line, wherever it is.
func (c *caller) ack(ctx context.Context) {
	if c.rec.State == call.Queued || c.rec.State == call.Scheduled {
		return
	}
	var err error
	switch {
	case c.item != nil:
		err = retry(ctx, func() error { return c.item.Ack(ctx) }, queue.ErrLost)
	case c.seq != 0: // given back with a delay, and not here again yet
		err = retry(ctx, func() error {
			_, err := c.o.d.cfg.Line.CancelSeq(ctx, c.seq)
			return err
		})
	default:
		return
	}
	if err != nil {
		if ctx.Err() == nil {
			c.o.d.cfg.Log.Warn().Err(err).Str("call", c.id).Msg("message not taken off the line; the next term does it")
		}
		return
	}
	c.item, c.seq = nil, 0
	c.o.d.cfg.At(StepAcked, c.id)
}
