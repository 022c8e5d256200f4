package call

import (
	"slices"
	"time"
)

// MaySend reports whether the owner of the current attempt may ask the carrier to
// dial it now: the intent is stored, at most [IntentFresh] ago, nothing has been heard
// of it and nobody wants it stopped. Ask as the last thing before sending, with the
// record whose write of the intent succeeded; if the answer is no, apply
// [EvTakenBack]. A clock that was set back says no.
func MaySend(r Record, now time.Time) bool {
	a := r.Current()
	if a == nil || r.State != Dialing || !r.CancelAt.IsZero() || a.BotLost || a.OwnerGone {
		return false
	}
	age := clean(now).Sub(a.IntentAt)
	return age >= 0 && age <= IntentFresh
}

// Lookup is what a carrier's look-up brought.
type Lookup string

// The answers.
const (
	NotAsked    Lookup = ""      // nobody has asked
	LookupFound Lookup = "found" // there is such a call: CarrierID, Status
	LookupNone  Lookup = "none"  // the carrier said that there is none
	LookupDown  Lookup = "down"  // no answer, or one that says nothing
)

// Evidence is what can be found out about an attempt.
type Evidence struct {
	Lookup    Lookup
	CarrierID string // found
	Status    string // found: see [StatusEvent]
	Answered  string // found: who answered, see [Attempt.AnsweredBy]
	OwnerGone bool   // the office of the attempt's owner has ended
	Talking   bool   // a bot reports the call as live
}

// Reconcile decides what follows from the evidence about the current attempt: an
// event to apply, or ok false, which is to wait and look again.
//
// What the carrier knows is believed at once. That it knows nothing is believed only
// when all three hold: it answered the look-up with nothing, [NotPlacedFrom] has passed
// since the intent, and the owner's office has ended, so that nobody can be about to
// send. Silence alone is never "not placed": after [UnknownFrom] it is unknown.
func Reconcile(r Record, e Evidence, now time.Time) (ev Event, ok bool) {
	a := r.Current()
	if a == nil {
		return Event{}, false
	}
	now = clean(now)
	ev = Event{Attempt: a.ID}
	if e.Lookup == LookupFound {
		if usable(r, a, e) {
			return found(r, a, e)
		}
		e.Lookup = LookupDown
	}
	switch r.State {
	case Placing:
		if ev.Kind = EvOwnerGone; e.OwnerGone && !r.Order.Inbound() {
			return ev, true
		}
		ev.Kind = EvDeadline
		return ev, now.Sub(a.At) >= PlacingLimit
	case Dialing:
		age, gone := now.Sub(a.IntentAt), e.OwnerGone || a.OwnerGone
		if e.Lookup == LookupNone && gone && age >= NotPlacedFrom {
			ev.Kind, ev.OwnerGone = EvNotPlaced, true
			return ev, true
		}
		if e.Lookup != NotAsked && !e.Talking && age >= UnknownFrom {
			ev.Kind, ev.Reason = EvUnknown, "no_evidence"
			return ev, true
		}
		if gone && !a.OwnerGone {
			ev.Kind = EvOwnerGone // written down: whoever decides later need not find it out again
			return ev, true
		}
	case Ringing, Live:
		if e.Lookup != NotAsked && !e.Talking && now.Sub(a.base()) >= r.Order.SilentLimit() {
			ev.Kind, ev.Reason = EvUnknown, "end_not_reported"
			return ev, true
		}
	}
	return Event{}, false
}

// usable reports whether what was found can be the attempt's call. A search by
// numbers and time may bring that of an older attempt.
func usable(r Record, a *Attempt, e Evidence) bool {
	return e.CarrierID != "" && !slices.ContainsFunc(r.Attempts, func(b Attempt) bool {
		return b.N != a.N && b.CarrierID == e.CarrierID
	})
}

// found makes an event of a call that the carrier knows, when it is news.
func found(r Record, a *Attempt, e Evidence) (Event, bool) {
	ev, ok := StatusEvent(e.Status)
	if !ok {
		ev.Kind = EvPlaced // it exists, whatever that word means
	}
	ev.Attempt, ev.CarrierID, ev.Answered = a.ID, e.CarrierID, e.Answered
	to := Ringing
	switch ev.Kind {
	case EvLive:
		to = Live
	case EvEnd:
		to = State(ev.Outcome)
	}
	return ev, to.Rank() > r.State.Rank() || a.CarrierID != e.CarrierID
}

// Todo says what to do when a deadline is over.
type Todo string

// What there is to do.
const (
	DoDue         Todo = "due"           // apply EvDue, offer it to admission
	DoAdmit       Todo = "admit"         // offer it to admission, see BotWaitOver
	DoWindowClose Todo = "window_closed" // apply EvWindowClosed
	DoDeadline    Todo = "deadline"      // apply EvDeadline
	DoLookUp      Todo = "look_up"       // ask the carrier, then Reconcile; again every LookEvery
)

// Due is a deadline: what to do, and from when.
type Due struct {
	At time.Time
	Do Todo
}

// BotWaitOver reports whether a queued call has waited long enough for a bot: it is
// to be offered to admission even if no bot seems to be idle, so that it ends.
func BotWaitOver(r Record, now time.Time) bool {
	return r.State == Queued && !r.BotWaitSince.IsZero() && now.Sub(r.BotWaitSince) >= r.Order.BotWait()
}

// Deadline is the next thing to do about the call if nothing happens; it may be
// overdue. ok is false when there is none: the call has ended, or it is queued without a
// window. No state that holds a slot is without one. DoAdmit only wakes: it is not
// returned again once its moment is over.
func Deadline(r Record, now time.Time) (d Due, ok bool) {
	add := func(at time.Time, do Todo) {
		if !at.IsZero() && (!ok || at.Before(d.At)) {
			d, ok = Due{at, do}, true
		}
	}
	window := r.Order.NotAfter
	if r.Order.Inbound() {
		window = time.Time{}
	}
	a := r.Current()
	switch r.State {
	case Scheduled:
		if !window.IsZero() && !r.NextAt.Before(window) {
			add(r.UpdatedAt, DoWindowClose) // it would come too late: say so now
			break
		}
		add(r.NextAt, DoDue)
	case Queued:
		add(window, DoWindowClose)
		add(r.NextAt, DoDue)
		if !r.BotWaitSince.IsZero() && !BotWaitOver(r, now) {
			add(r.BotWaitSince.Add(r.Order.BotWait()), DoAdmit)
		}
	case Placing:
		add(window, DoWindowClose)
		add(a.At.Add(PlacingLimit), DoDeadline)
	case Dialing:
		if a.OwnerGone {
			add(a.IntentAt, DoLookUp)
		}
		add(a.IntentAt.Add(NotPlacedFrom), DoLookUp)
	case Ringing:
		add(a.news().Add(RingSilence), DoLookUp)
	case Live:
		add(a.news().Add(LiveSilence), DoLookUp)
	}
	if r.InFlight() && !a.HangupAt.IsZero() {
		add(a.HangupAt.Add(HangupSilence), DoLookUp)
	}
	return d, ok
}
