package call

import (
	"maps"
	"slices"
	"time"
)

// Apply is the one step of the machine: what the record is after an event, and
// what is to be done about it. It is pure: r is not changed. An event that says
// nothing new (late, twice, of an older attempt, or not possible in this state)
// returns r as it was, with the same Changes, and no effects.
//
// Store the result by compare-and-set against the revision of your own last write
// before you do any of the effects; when that fails, forget them.
func Apply(r Record, ev Event, now time.Time) (Record, []Effect) {
	m := machine{r: r, now: clean(now)}
	m.r.Attempts = slices.Clone(r.Attempts)
	m.r.Owed = slices.Clone(r.Owed)
	if !m.apply(ev) {
		return r, nil
	}
	m.r.UpdatedAt = m.now
	m.r.Changes++
	return m.r, m.effects
}

// machine is one step in the making.
type machine struct {
	r       Record
	now     time.Time
	effects []Effect
}

// apply reports whether the event changed anything.
func (m *machine) apply(ev Event) bool {
	switch ev.Kind {
	case EvPlaced, EvRinging, EvLive, EvEnd:
		return m.carrierSays(ev)
	case EvBot:
		return m.bot(ev)
	}
	if m.r.State.Terminal() {
		return false
	}
	switch ev.Kind {
	case EvCancel:
		return m.cancel(ev)
	case EvAdmitted:
		return m.admitted(ev)
	case EvDue:
		if m.r.NextAt.IsZero() || m.now.Before(m.r.NextAt) {
			return false
		}
		m.r.State, m.r.NextAt = Queued, time.Time{}
		return true
	case EvWindowClosed:
		if m.r.State.Rank() > Placing.Rank() || m.r.Order.Inbound() {
			return false // it was dialled in time: it goes on
		}
		m.finish(Expired, "window_closed", false)
		return true
	case EvRejected:
		if m.r.State.Rank() > Placing.Rank() {
			return false
		}
		m.finish(Rejected, ev.Reason, false)
		return true
	}
	a := m.r.Current()
	if a == nil || ev.Attempt != "" && ev.Attempt != a.ID {
		return false
	}
	switch m.r.State {
	case Placing:
		return m.placing(a, ev)
	case Dialing:
		return m.dialing(a, ev)
	default:
		return m.underway(a, ev)
	}
}

func (m *machine) admitted(ev Event) bool {
	if m.r.State != Scheduled && m.r.State != Queued {
		return false
	}
	if ev.Attempt != "" && ev.Attempt != m.r.NextAttemptID() {
		return false // decided on a record that has moved on
	}
	if slices.ContainsFunc(m.r.Attempts, Attempt.Dialled) {
		return false // no record of ours is so; one that was edited must not ring twice
	}
	n := 1
	if a := m.r.Last(); a != nil {
		n = a.N + 1
	}
	m.r.Attempts = append(m.r.Attempts, Attempt{
		N: n, ID: AttemptID(m.r.Order.CallID, n), At: m.now,
		Owner: ev.Owner, Providers: maps.Clone(ev.Providers), CarrierID: ev.CarrierID,
	})
	m.trim()
	m.r.State, m.r.NextAt = Placing, time.Time{}
	return true
}

// trim forgets the oldest attempts of which nothing is owed, never the newest.
func (m *machine) trim() {
	drop, last := len(m.r.Attempts)-MaxAttempts, m.r.Last().N
	m.r.Attempts = slices.DeleteFunc(m.r.Attempts, func(a Attempt) bool {
		owed := slices.ContainsFunc(m.r.Owed, func(e Effect) bool { return e.Attempt == a.ID })
		if drop <= 0 || owed || a.N == last {
			return false
		}
		drop--
		return true
	})
}

// placing: a bot is being found. Nobody was dialled, so everything can be undone.
func (m *machine) placing(a *Attempt, ev Event) bool {
	inbound := m.r.Order.Inbound()
	switch ev.Kind {
	case EvNoBot, EvWorkerLost:
		if inbound || m.r.Final || m.r.Order.NoWait {
			m.finish(BotUnavailable, ev.Reason, false)
			return true
		}
		if m.r.BotWaitSince.IsZero() {
			m.r.BotWaitSince = m.now
		}
		m.r.Final = m.now.Sub(m.r.BotWaitSince) >= m.r.Order.BotWait()
		m.requeue(WhyNoBot, Queued, time.Time{})
	case EvDeadline:
		if m.now.Sub(a.At) < PlacingLimit {
			return false
		}
		if inbound {
			m.finish(BotUnavailable, "deadline", false)
			return true
		}
		m.requeue(WhyDeadline, Queued, time.Time{})
	case EvOwnerGone:
		if inbound || !ownedBy(a, ev) {
			return false // an inbound call is held by its caller, not by an owner
		}
		m.requeue(WhyOwnerGone, Queued, time.Time{})
	case EvIntent:
		if inbound {
			return false
		}
		opens, ok := m.r.Order.Opens(m.now)
		if !ok {
			m.finish(Expired, "window_closed", false)
			return true
		}
		if opens.After(m.now) {
			m.requeue(WhyHours, Scheduled, opens)
			return true
		}
		m.r.State, a.IntentAt = Dialing, m.now
		m.r.BotWaitSince, m.r.Final = time.Time{}, false
	default:
		return false
	}
	return true
}

// dialing: the intent is stored and the carrier has not said a word. Only what is
// certain leads to another dial.
func (m *machine) dialing(a *Attempt, ev Event) bool {
	switch ev.Kind {
	case EvRefused429:
		m.undialled(WhyRefused, m.now.Add(ev.RetryAfter.Or(Pace)))
	case EvTakenBack:
		m.undialled(WhyTakenBack, time.Time{})
	case EvNotPlaced:
		if !ev.OwnerGone && !a.OwnerGone || m.now.Sub(a.IntentAt) < NotPlacedFrom {
			return false
		}
		m.undialled(WhyNotPlaced, time.Time{})
	case EvRefused:
		if !m.r.CancelAt.IsZero() {
			m.finish(Cancelled, m.r.CancelReason, false)
			return true
		}
		m.finish(Failed, ev.Reason, false)
	case EvUnknown:
		m.finish(Unknown, ev.Reason, false)
	case EvOwnerGone:
		if a.OwnerGone || !ownedBy(a, ev) {
			return false
		}
		a.OwnerGone = true
	case EvWorkerLost:
		return m.botLost(a)
	default:
		return false
	}
	return true
}

// underway: the carrier has the call.
func (m *machine) underway(a *Attempt, ev Event) bool {
	switch ev.Kind {
	case EvWorkerLost:
		if m.r.State != Live {
			return m.botLost(a)
		}
		if ev.Saying {
			changed := !a.BotLost
			a.BotLost = true // so the end that the carrier reports is interrupted
			return changed
		}
		m.finish(Interrupted, ev.Reason, true)
	case EvUnknown:
		if m.now.Sub(a.base()) < m.r.Order.SilentLimit() {
			return false
		}
		m.finish(Unknown, ev.Reason, a.CarrierID != "") // past its cap: whatever is left of it ends
	default:
		return false // owner_gone too: the carrier and the bot hold the call up
	}
	return true
}

// ownedBy reports whether the office that ended is that of the attempt's owner.
func ownedBy(a *Attempt, ev Event) bool {
	return ev.Owner == "" || a.Owner == "" || ev.Owner == a.Owner
}

// botLost: the bot died before anybody answered. The call is stopped as soon as
// there is something to stop; an answer into silence is worse than a missed call.
func (m *machine) botLost(a *Attempt) bool {
	if a.BotLost {
		return false
	}
	a.BotLost = true
	m.hangupIfDue(a)
	return true
}

func (m *machine) cancel(ev Event) bool {
	if !m.r.CancelAt.IsZero() {
		return false
	}
	m.r.CancelAt, m.r.CancelReason = m.now, ev.Reason
	a := m.r.Current()
	if m.r.State.Rank() <= Placing.Rank() {
		m.finish(Cancelled, ev.Reason, a != nil && a.CarrierID != "")
		return true
	}
	m.hangupIfDue(a)
	return true
}

// bot: who has the attempt. One that comes for an attempt that is over is sent home.
func (m *machine) bot(ev Event) bool {
	a := m.r.Last() // one without an attempt that comes too late is meant for the last
	if ev.Attempt != "" {
		a = m.r.Attempt(ev.Attempt)
	}
	if a == nil || ev.Bot == "" || a.Bot == ev.Bot {
		return false
	}
	a.Bot = ev.Bot
	if !a.Open() || a.BotLost {
		m.emit(CancelBot, a.ID)
		return true
	}
	a.BotAt = m.now
	if m.r.Order.Inbound() && m.r.State == Placing {
		m.r.State = Ringing // the caller has been ringing all the time; media comes next
	}
	return true
}

// undialled requeues an attempt of which it is certain that no phone rang, unless
// nobody wants the call any more, or an older attempt turned out to have rung.
func (m *machine) undialled(why Why, next time.Time) {
	rang := slices.ContainsFunc(m.r.Attempts, func(a Attempt) bool { return a.Why.undialled() && !a.PlacedAt.IsZero() })
	if m.r.CancelAt.IsZero() && !rang {
		m.requeue(why, Queued, next)
		return
	}
	m.r.Current().Why = why
	if rang {
		m.finish(Unknown, lateWord, false)
		return
	}
	m.finish(Cancelled, m.r.CancelReason, false)
}

// requeue closes the attempt and lets the call wait again.
func (m *machine) requeue(why Why, to State, next time.Time) {
	a := m.r.Current()
	m.emit(Release, a.ID)
	if a.Bot != "" {
		m.emit(CancelBot, a.ID)
	}
	m.emit(Requeue, a.ID)
	a.Why, a.ClosedAt = why, m.now
	m.r.State, m.r.NextAt = to, time.Time{}
	if !next.IsZero() {
		m.r.NextAt = clean(next)
	}
}

// finish ends the call.
func (m *machine) finish(o Outcome, reason string, hangup bool) {
	a := m.r.Current()
	if a == nil {
		m.emit(Release, "")
	} else {
		if hangup && a.HangupAt.IsZero() {
			m.hangup(a)
		}
		m.emit(Release, a.ID)
		if a.LiveAt.IsZero() && (a.Bot != "" || !a.IntentAt.IsZero()) {
			m.emit(CancelBot, a.ID)
		}
		if a.Why == "" {
			a.Why = Why(o)
		}
		a.ClosedAt = m.now
	}
	m.end(o, reason)
}

// end makes the record terminal and asks what may follow.
func (m *machine) end(o Outcome, reason string) {
	m.r.State, m.r.EndedAt, m.r.Reason = State(o), m.now, reason
	m.r.NextAt, m.r.BotWaitSince, m.r.Final = time.Time{}, time.Time{}, false
	id, live := "", false
	if a := m.r.Last(); a != nil {
		id, live = a.ID, !a.LiveAt.IsZero()
	}
	order := m.r.Order
	if !order.Inbound() {
		switch o {
		case NoAnswer, Busy, Failed, Voicemail, BotUnavailable:
			m.emit(AskRetry, id)
		default:
			if order.Retry != nil && order.Retry.withDefaults().names(o) {
				m.emit(AskRetry, id)
			}
		}
	}
	turnedAway := order.Inbound() && (o == Rejected || o == BotUnavailable)
	if order.CallbackOf == "" && (turnedAway || o == Interrupted && live) {
		m.emit(AskCallback, id)
	}
}

// hangupIfDue hangs up what is to be stopped, once, as soon as there is something
// to hang up.
func (m *machine) hangupIfDue(a *Attempt) {
	stop := !m.r.CancelAt.IsZero() || a.BotLost
	up := a.CarrierID != "" || m.r.State == Ringing || m.r.State == Live
	if stop && up && a.HangupAt.IsZero() {
		m.hangup(a)
	}
}

func (m *machine) hangup(a *Attempt) {
	a.HangupAt = m.now
	m.emit(Hangup, a.ID)
}

// emit adds an effect, and writes it into the record when it must survive us.
func (m *machine) emit(act Act, attempt string) {
	e := Effect{Act: act, Attempt: attempt}
	m.effects = append(m.effects, e)
	if !act.owed() || slices.Contains(m.r.Owed, e) {
		return
	}
	if len(m.r.Owed) >= MaxOwed { // nobody has settled anything for long; bots free themselves
		if i := slices.IndexFunc(m.r.Owed, func(e Effect) bool { return e.Act == CancelBot }); i >= 0 {
			m.r.Owed = slices.Delete(m.r.Owed, i, i+1)
		}
	}
	m.r.Owed = append(m.r.Owed, e)
}
