package call

import (
	"slices"
	"time"
)

// carrierSays applies the carrier's word about one attempt. A word only ever adds
// to what is known: by rank, never backwards, the end for good.
func (m *machine) carrierSays(ev Event) bool {
	if ev.Kind == EvEnd && !reportable(ev.Outcome) {
		return false
	}
	a := m.about(ev)
	if a == nil {
		return false
	}
	if !a.Open() {
		return m.tooLate(a, ev)
	}
	changed := false
	if ev.CarrierID != "" && a.CarrierID != ev.CarrierID {
		a.CarrierID, changed = ev.CarrierID, true // it knows our attempt id, so this is the call
	}
	if a.IntentAt.IsZero() && !m.r.Order.Inbound() {
		a.IntentAt, changed = m.now, true // whatever our own notes say: it was dialled
		m.r.BotWaitSince, m.r.Final = time.Time{}, false
	}
	if ev.Answered != "" && a.AnsweredBy == "" {
		a.AnsweredBy, changed = ev.Answered, true
	}
	switch ev.Kind {
	case EvPlaced:
		changed = m.reach(&a.PlacedAt, Ringing) || changed
	case EvRinging:
		changed = m.reach(&a.RingingAt, Ringing) || changed
	case EvLive:
		changed = m.reach(&a.LiveAt, Live) || changed
	case EvEnd:
		m.ended(a, ev)
		return true
	}
	if changed {
		m.hangupIfDue(a)
	}
	return changed
}

// reach notes when a state was reached and takes the call there, unless it is known
// already or past it.
func (m *machine) reach(at *time.Time, s State) bool {
	if !at.IsZero() || m.r.State.Rank() > s.Rank() {
		return false
	}
	*at, m.r.State = m.now, s
	return true
}

// about finds the attempt that a carrier's word is about, nil when there is none.
func (m *machine) about(ev Event) *Attempt {
	if ev.Attempt != "" {
		return m.r.Attempt(ev.Attempt)
	}
	if ev.CarrierID == "" {
		return m.r.Current()
	}
	for i := range m.r.Attempts {
		if m.r.Attempts[i].CarrierID == ev.CarrierID {
			return &m.r.Attempts[i]
		}
	}
	return nil
}

// reportable reports whether a carrier can say that a call ended so.
func reportable(o Outcome) bool {
	switch o {
	case Completed, NoAnswer, Busy, Failed, FailedTemporary, Voicemail, Cancelled:
		return true
	}
	return false
}

// noteEnd strikes off the hang-up of an attempt that the carrier says is over, and
// reports whether there was one.
func (m *machine) noteEnd(a *Attempt) bool {
	n := len(m.r.Owed)
	m.r.Owed = slices.DeleteFunc(m.r.Owed, func(e Effect) bool { return e.Act == Hangup && e.Attempt == a.ID })
	if len(m.r.Owed) == 0 {
		m.r.Owed = nil
	}
	return len(m.r.Owed) < n
}

// ended ends the call with the carrier's word, unless we know better why.
func (m *machine) ended(a *Attempt, ev Event) {
	m.noteEnd(a)
	a.setEnded(ev.Outcome)
	if a.Ended == Completed && a.machine() {
		a.Ended = Voicemail
	}
	answered := !a.LiveAt.IsZero() || a.Ended == Completed || a.Ended == Voicemail
	switch {
	case !m.r.CancelAt.IsZero() && !answered:
		m.finish(Cancelled, m.r.CancelReason, false)
	case a.BotLost:
		m.finish(Interrupted, "bot_lost", false)
	default:
		m.finish(a.Ended, ev.Reason, false)
	}
}

// setEnded writes down how the carrier said the attempt ended.
func (a *Attempt) setEnded(o Outcome) {
	if a.Ended = o; o == FailedTemporary {
		a.Ended, a.Temporary = Failed, true
	}
}

// tooLate is the carrier's word about an attempt that is closed here. Nearly always
// it repeats what is known. But it may also tell of a dial that we had concluded was
// never made: then a phone rings, its bot is gone, and above all nobody may dial that
// person again.
func (m *machine) tooLate(a *Attempt, ev Event) bool {
	if a.IntentAt.IsZero() || a.Ended != "" {
		return false
	}
	up, cur, changed := ev.Kind != EvEnd, m.r.Current(), false
	if ev.CarrierID != "" && a.CarrierID == "" {
		a.CarrierID, changed = ev.CarrierID, true
	}
	if m.r.State.Terminal() {
		if !up {
			return m.noteEnd(a) || changed
		}
		return m.hangupLate(a) || changed
	}
	if a.PlacedAt.IsZero() {
		a.PlacedAt, changed = m.now, true
	}
	if cur != nil && !cur.IntentAt.IsZero() {
		// The next dial is out already. End this one; there will not be a third, see undialled.
		if !up {
			m.noteEnd(a)
			a.setEnded(ev.Outcome)
			return true
		}
		return m.hangupLate(a) || changed
	}
	if cur != nil { // admitted again, not dialled again
		m.emit(Release, cur.ID)
		if cur.Bot != "" {
			m.emit(CancelBot, cur.ID)
		}
		cur.Why, cur.ClosedAt = Why(Cancelled), m.now
	} else {
		m.emit(Release, "")
	}
	if up {
		a.Why = Why(Unknown)
		m.hangupLate(a)
		m.end(Unknown, lateWord)
		return true
	}
	a.setEnded(ev.Outcome)
	a.Why = Why(a.Ended)
	m.end(a.Ended, lateWord)
	return true
}

// lateWord is the reason of a call that ended because a dial had been made after all.
const lateWord = "late_word"

// hangupLate hangs up the call of a closed attempt, once, if it can be named.
func (m *machine) hangupLate(a *Attempt) bool {
	if a.CarrierID == "" || !a.HangupAt.IsZero() {
		return false
	}
	m.hangup(a)
	return true
}
