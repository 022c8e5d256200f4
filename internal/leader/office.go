package leader

import (
	"errors"
	"time"
)

// Why an office ended: the cause of the context that the function in office was given.
var (
	ErrDoubted = errors.New("office not renewed in time")
	ErrTaken   = errors.New("office held by another, or taken away")
)

// What a write of the key can come to, other than being stored or unclear.
var (
	errRefused = errors.New("the key has another revision")
	errBusy    = errors.New("an earlier write of the key is still in process")
)

// record is the key as it was read: the revision to write over, and who holds it.
type record struct {
	rev      uint64 // 0: the key is not there at all
	id       string // the holder's name, for people
	instance string // one Run of the holder; empty: vacant
	safe     bool   // vacant because its holder said so, or because it expired
}

// act is what an office wants done next.
type act int

const (
	wait  act = iota // until step.at
	look             // at the key, giving up at step.at
	write            // the key over revision step.rev, giving up at step.at
	leave            // the office, because of step.cause
)

type step struct {
	act   act
	at    time.Time
	rev   uint64
	cause error
}

// office decides what one process does about the office. It knows no network and
// no clock: its owner asks next, does that, and reports what came of it.
type office struct {
	instance          string
	ttl, renew, trust time.Duration

	key    record    // as last looked at
	free   time.Time // when to take it, if this revision stays; zero: never looked
	lookAt time.Time // when to look again; zero: now
	holdOn time.Time // no write before; after one that was busy or failed

	term  uint64    // 0: candidate
	rev   uint64    // in office: of the last write known to be stored
	sent  time.Time // in office: when that write was sent
	doubt bool      // a write's fate is unclear: look before writing again
	lost  error     // in office: why it must be left
}

// pause is how long to hold back after anything went wrong.
func (o *office) pause() time.Duration { return o.renew / 10 }

// until is the end of the trusted time.
func (o *office) until() time.Time { return o.sent.Add(o.trust) }

// leading reports whether the office is held and trusted at now.
func (o *office) leading(now time.Time) bool {
	return o.term != 0 && o.lost == nil && before(now, o.until())
}

// before reports whether now is before t by both clocks. The monotonic one stands
// still while a machine is suspended, the other one may be set back.
func before(now, t time.Time) bool {
	return now.Before(t) && now.Round(0).Before(t.Round(0))
}

// next says what to do at now.
func (o *office) next(now time.Time) step {
	if o.term != 0 {
		return o.nextInOffice(now)
	}
	if !now.Before(o.lookAt) {
		return step{act: look, at: now.Add(o.renew)}
	}
	free := o.free
	if free.Before(o.holdOn) {
		free = o.holdOn
	}
	if !now.Before(free) {
		return step{act: write, rev: o.key.rev, at: now.Add(o.renew)}
	}
	return step{act: wait, at: earlier(free, o.lookAt)}
}

func (o *office) nextInOffice(now time.Time) step {
	if o.lost == nil && !o.leading(now) {
		o.lost = ErrDoubted
	}
	if o.lost != nil {
		s := step{act: leave, cause: o.lost}
		o.doubt = o.lost == ErrDoubted // the key may well be ours still
		o.term, o.lost, o.lookAt = 0, nil, now
		return s
	}
	due := o.sent.Add(o.renew)
	if due.Before(o.holdOn) {
		due = o.holdOn
	}
	switch {
	case now.Before(due):
		return step{act: wait, at: earlier(due, o.until())}
	case o.doubt:
		return step{act: look, at: earlier(now.Add(o.renew), o.until())}
	default:
		return step{act: write, rev: o.rev, at: earlier(now.Add(o.renew), o.until())}
	}
}

// looked reports what the key was, or why it could not be read.
func (o *office) looked(now time.Time, r record, err error) {
	if err != nil {
		o.lookAt, o.holdOn = now.Add(o.pause()), now.Add(o.pause())
		return
	}
	if o.term != 0 && r.rev != 0 && r.rev < o.rev {
		o.holdOn = now.Add(o.pause()) // an answer from a replica that lags behind
		return
	}
	if r.rev != o.key.rev || o.free.IsZero() {
		o.free = now.Add(o.patience(r))
	}
	o.key, o.lookAt, o.doubt = r, now.Add(o.renew/5), false
	if o.term == 0 {
		return
	}
	if r.instance == o.instance {
		o.rev = r.rev // a write whose reply was lost; it adds no trusted time
	} else {
		o.lost = ErrTaken
	}
}

// patience is how long a key that has just been found as r must be left alone.
func (o *office) patience(r record) time.Duration {
	switch {
	case r.instance == o.instance:
		return 0 // taken or renewed by a write whose reply was lost
	case r.instance != "":
		// Its holder has stopped to trust it by then, even if its clock is an eighth
		// slower than ours; should it have renewed it unseen, our write is refused.
		return o.trust + o.trust/8
	case r.safe, r.rev == 0 && o.key.instance == "":
		return 0
	default:
		return o.ttl // vacated by hand: its holder may not know it yet
	}
}

// overdue reports that the trusted time ended before a renewal was known.
func (o *office) overdue() { o.lost = ErrDoubted }

// wrote reports what came of a write sent at sent: stored as rev, or err
// ([errRefused], [errBusy]; anything else leaves its fate unclear).
func (o *office) wrote(sent, now time.Time, rev uint64, err error) {
	switch {
	case err == nil && o.leading(now):
		o.rev, o.sent = rev, sent
	case err == nil && o.term != 0:
		o.overdue()
	case err == nil && before(now, sent.Add(o.trust)):
		o.term, o.rev, o.sent = rev, rev, sent
	case err == nil: // stored too long ago to be trusted; look, and take it again
		o.lookAt = now
	case errors.Is(err, errBusy):
		o.holdOn = now.Add(o.pause())
	default:
		// Refused says that our picture is old, anything else says nothing.
		o.doubt = o.term != 0 || !errors.Is(err, errRefused)
		o.lookAt, o.holdOn = now.Add(o.pause()), now.Add(o.pause())
	}
}

// resign forgets the office, if held, and reports whether the key may still name
// this process.
func (o *office) resign() bool {
	mine := o.term != 0 || o.doubt
	o.term, o.lost, o.doubt = 0, nil, false
	return mine
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
