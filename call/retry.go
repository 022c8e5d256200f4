package call

import (
	"fmt"
	"slices"
	"time"
)

// RetryPolicy says whether and when a call that reached nobody is made again.
// Every zero field has the default that stands beside it.
type RetryPolicy struct {
	MaxAttempts int       `json:"max_attempts,omitempty"` // dials in all, the first included, to MaxTries; 0: 3
	BackoffMS   []Millis  `json:"backoff_ms,omitempty"`   // after the first, second … dial, to 7 days; the last repeats; none: 30, 60, 120 min
	On          []Outcome `json:"on,omitempty"`           // after these outcomes; none: no_answer, busy, failed_temporary
	Hours       Hours     `json:"hours,omitzero"`         // inside these hours too; none: those of the order
	MinGapMS    Millis    `json:"min_gap_ms,omitempty"`   // no backoff is shorter, to 7 days; 0: 15 min
}

// DefaultRetry is what the zero RetryPolicy means.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{
		MaxAttempts: 3,
		BackoffMS:   []Millis{ToMillis(30 * time.Minute), ToMillis(time.Hour), ToMillis(2 * time.Hour)},
		On:          []Outcome{NoAnswer, Busy, FailedTemporary},
		MinGapMS:    ToMillis(PersonGap),
	}
}

// withDefaults fills in what is not given.
func (p RetryPolicy) withDefaults() RetryPolicy {
	def := DefaultRetry()
	if p.MaxAttempts == 0 {
		p.MaxAttempts = def.MaxAttempts
	}
	if len(p.BackoffMS) == 0 {
		p.BackoffMS = def.BackoffMS
	}
	if len(p.On) == 0 {
		p.On = def.On
	}
	if p.MinGapMS == 0 {
		p.MinGapMS = def.MinGapMS
	}
	return p
}

// check reports the first field that cannot be used beside the order's hours.
func (p RetryPolicy) check(order Hours) error {
	if p.MaxAttempts < 0 || p.MaxAttempts > MaxTries {
		return field("retry.max_attempts", "%d, want 0 to %d", p.MaxAttempts, MaxTries)
	}
	const week = Millis(7 * 24 * time.Hour / time.Millisecond)
	if len(p.BackoffMS) > MaxTries {
		return field("retry.backoff_ms", "%d values, at most %d", len(p.BackoffMS), MaxTries)
	}
	for _, b := range p.BackoffMS {
		if b < 0 || b > week {
			return field("retry.backoff_ms", "%d, want 0 to %d", int64(b), int64(week))
		}
	}
	if p.MinGapMS < 0 || p.MinGapMS > week {
		return field("retry.min_gap_ms", "%d, want 0 to %d", int64(p.MinGapMS), int64(week))
	}
	never := []Outcome{Completed, Cancelled, Expired}
	for _, o := range p.On {
		if !o.Known() && o != FailedTemporary || slices.Contains(never, o) {
			return field("retry.on", "%.40q is no outcome that can be retried", string(o))
		}
	}
	if err := p.Hours.Check(); err != nil {
		return field("retry.hours", "%v", err)
	}
	if both := p.Hours.And(order); both.Check() != nil {
		return field("retry.hours", "never open while the order's hours are")
	}
	return nil
}

// names reports whether the policy asks for another try after o; failed covers
// failed_temporary.
func (p RetryPolicy) names(o Outcome) bool {
	return slices.Contains(p.On, o) || o == FailedTemporary && slices.Contains(p.On, Failed)
}

// WhyNot says why there is no next attempt; "" when there is one.
type WhyNot string

// The reasons.
const (
	NoPolicy     WhyNot = "no_policy"           // the order asks for one try
	NotRetried   WhyNot = "outcome_not_retried" // the policy does not name this outcome
	AttemptsUsed WhyNot = "attempts_used"       // that was the last
	NeverOpen    WhyNot = "no_calling_hours"    // no hour at which the callee may be called
	WindowClosed WhyNot = "window_closed"       // it would come at or after the end of the window
)

// NextAttempt is when the next dial may go, after dial number attempt (from 1)
// ended so at ended. loc is the callee's zone; a zero notAfter is no end. A dial that
// would come too late is not made late: it is not made.
func NextAttempt(p RetryPolicy, o Outcome, attempt int, ended time.Time, loc *time.Location, notAfter time.Time) (time.Time, WhyNot) {
	p = p.withDefaults()
	if !p.names(o) {
		return time.Time{}, NotRetried
	}
	if attempt >= p.MaxAttempts {
		return time.Time{}, AttemptsUsed
	}
	backoff := p.BackoffMS[min(max(attempt, 1), len(p.BackoffMS))-1]
	at, ok := p.Hours.Earliest(ended.Add(max(backoff, p.MinGapMS).Duration()), loc)
	switch {
	case !ok:
		return time.Time{}, NeverOpen
	case !notAfter.IsZero() && !at.Before(notAfter):
		return time.Time{}, WindowClosed
	}
	return at, ""
}

// NextTry is the order that follows a call which has ended, or why there is none.
// It is a call of its own, in class retry. Its id and its time follow from the
// record alone, so whoever puts it on the line twice after a crash puts the same.
func NextTry(r Record) (Order, WhyNot) {
	o := r.Order
	if !r.State.Terminal() || o.Inbound() {
		return Order{}, NotRetried
	}
	if o.Retry == nil {
		return Order{}, NoPolicy
	}
	p := *o.Retry
	if p.Hours = p.Hours.And(o.Hours); p.Hours != nil {
		o.Hours = p.Hours // the follow-up may only go when both are open
	}
	loc, err := o.Zone()
	if err != nil {
		return Order{}, NeverOpen
	}
	outcome := r.Outcome()
	if a := r.Last(); outcome == Failed && a != nil && a.Temporary {
		outcome = FailedTemporary
	}
	at, why := NextAttempt(p, outcome, o.TryNumber(), r.EndedAt, loc, o.NotAfter)
	if why != "" {
		return Order{}, why
	}
	if o.Root == "" {
		o.Root = o.CallID
	}
	o.Try = o.TryNumber() + 1
	o.RetryOf = o.CallID
	o.CallID = fmt.Sprintf("%s-r%d", o.Root, o.Try)
	o.Class = ClassRetry
	o.RequestHash = "" // nobody requested this one
	o.NotBefore, o.QueuedAt = at, r.EndedAt
	return o, ""
}

// Callback is the order that calls a person back whose call we broke or turned
// away, and whether there can be one: their number must be known, and nobody is
// called back about a callback. It lives for [CallbackLife] from the end of r. Whether
// they want it is a matter of the order and the org; one per person is a matter of
// [People].
func Callback(r Record) (Order, bool) {
	o := r.Order
	who := o.Person().Number
	if !r.State.Terminal() || o.CallbackOf != "" || !E164(who) {
		return Order{}, false
	}
	if o.Inbound() {
		o.From, o.To = o.To, who
	}
	o.CallbackOf = o.CallID
	o.CallID += "-cb"
	o.Class = ClassAPI
	o.NoWait, o.RequestHash = false, ""
	o.Retry, o.Root, o.RetryOf, o.Try = nil, "", "", 0
	o.MediaMS = 0 // the phone has to ring first
	o.NotBefore, o.QueuedAt = time.Time{}, r.EndedAt
	o.NotAfter = r.EndedAt.Add(CallbackLife)
	return o, true
}

// TemporaryFailure reports whether a carrier's final SIP response (0: none) tells
// of a trouble that passes: the number exists and may be tried again.
func TemporaryFailure(sip int) bool {
	switch sip {
	case 408, 480, 500, 502, 503, 504:
		return true
	}
	return false
}
