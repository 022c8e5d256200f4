package call

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Record is all that is known of one call, and the truth about it. It is stored
// as JSON and advanced only by compare-and-set against the writer's own last
// revision; the store keeps the revision, not the record.
type Record struct {
	V     int   `json:"v"`
	Order Order `json:"order"`
	State State `json:"state"`

	Attempts []Attempt `json:"attempts,omitempty"` // oldest first; at most MaxAttempts are kept

	NextAt       time.Time `json:"next_at,omitzero"`        // scheduled, queued: not offered to admission before
	BotWaitSince time.Time `json:"bot_wait_since,omitzero"` // the first time in a row that no bot was found
	Final        bool      `json:"final_attempt,omitempty"` // the bot-wait is used up: the next admission is the last
	CancelAt     time.Time `json:"cancel_at,omitzero"`      // when somebody asked for the call to be stopped
	CancelReason string    `json:"cancel_reason,omitempty"`

	Owed []Effect `json:"owed,omitempty"` // decided and not yet done, see Pending

	EndedAt   time.Time `json:"ended_at,omitzero"` // terminal: when we learnt it
	Reason    string    `json:"reason,omitempty"`  // terminal: a word for why, where the outcome does not say it
	UpdatedAt time.Time `json:"updated_at"`        // of the last change
	Changes   int       `json:"changes,omitempty"` // goes up with every change: unchanged means there is nothing to store
}

// MaxAttempts is how many attempts a record keeps. Older ones are dropped; their
// numbers do not come back.
const MaxAttempts = 50

// Attempt is one admission of the call and the one dial it may lead to. Times are
// those at which we learnt of it; a zero time says that it has not happened.
type Attempt struct {
	N         int               `json:"n"`                   // from 1, only goes up
	ID        string            `json:"id"`                  // AttemptID(call, n): what the carrier and the bot are told
	Owner     string            `json:"owner,omitempty"`     // the dispatcher that admitted it
	Providers map[string]string `json:"providers,omitempty"` // kind → the provider whose slot it holds while open

	At        time.Time `json:"at"`                  // admitted
	BotAt     time.Time `json:"bot_at,omitzero"`     // a bot said ready
	IntentAt  time.Time `json:"intent_at,omitzero"`  // outbound: from here on it counts as dialled
	PlacedAt  time.Time `json:"placed_at,omitzero"`  // the carrier has it
	RingingAt time.Time `json:"ringing_at,omitzero"` // it rings
	LiveAt    time.Time `json:"live_at,omitzero"`    // answered
	HangupAt  time.Time `json:"hangup_at,omitzero"`  // we decided to hang up
	ClosedAt  time.Time `json:"closed_at,omitzero"`  // it holds nothing any more

	Bot       string `json:"bot,omitempty"`
	CarrierID string `json:"carrier_id,omitempty"`

	// AnsweredBy is what the carrier found out of who answered, when it was asked to:
	// human, machine_start, machine_end_beep, fax, unknown …; the first word counts.
	AnsweredBy string `json:"answered_by,omitempty"`

	OwnerGone bool    `json:"owner_gone,omitempty"` // its owner's office ended while the dial was undecided
	BotLost   bool    `json:"bot_lost,omitempty"`   // its bot died before anybody answered, and no other came
	Ended     Outcome `json:"ended,omitempty"`      // how the carrier said it ended; empty: it did not say
	Temporary bool    `json:"temporary,omitempty"`  // a failure that may pass
	Why       Why     `json:"why,omitempty"`        // closed: how
}

// Why says how an attempt was closed.
type Why string

// The ways. An outcome's word is one too: the attempt ended the call.
const (
	WhyNoBot     Why = "no_bot"      // none was found, or it was lost before the dial
	WhyDeadline  Why = "deadline"    // no bot and no intent within [PlacingLimit]
	WhyOwnerGone Why = "owner_gone"  // its dispatcher left before the intent
	WhyHours     Why = "hours"       // the callee's hours had closed before the intent
	WhyRefused   Why = "refused_429" // the carrier did not process the dial
	WhyTakenBack Why = "taken_back"  // its dispatcher did not send it
	WhyNotPlaced Why = "not_placed"  // the carrier says it knows of no such dial
)

// undialled reports whether an attempt closed so has certainly rung nowhere, although
// its intent was stored.
func (w Why) undialled() bool {
	return w == WhyRefused || w == WhyTakenBack || w == WhyNotPlaced
}

// Open reports whether the attempt holds its slot, its leases and the person.
func (a Attempt) Open() bool { return a.ClosedAt.IsZero() }

// machine reports whether it is known that a machine answered.
func (a Attempt) machine() bool { return strings.HasPrefix(a.AnsweredBy, "machine") }

// Dialled reports whether a phone may have rung for this attempt.
func (a Attempt) Dialled() bool { return !a.IntentAt.IsZero() && !a.Why.undialled() }

// base is where the attempt's long deadlines are counted from.
func (a Attempt) base() time.Time {
	if a.IntentAt.IsZero() {
		return a.At
	}
	return a.IntentAt
}

// news is when anything was last heard of the attempt.
func (a Attempt) news() time.Time {
	return slices.MaxFunc([]time.Time{a.At, a.BotAt, a.IntentAt, a.PlacedAt, a.RingingAt, a.LiveAt}, time.Time.Compare)
}

// AttemptID is the id of attempt n of a call. Different calls and numbers have
// different ids.
func AttemptID(callID string, n int) string { return callID + "-" + strconv.Itoa(n) }

// New is the record of a call that has not been tried.
func New(o Order, now time.Time) Record {
	now = clean(now)
	r := Record{V: Version, Order: o, State: Queued, UpdatedAt: now}
	if at, ok := o.Opens(now); ok && at.After(now) {
		r.State, r.NextAt = Scheduled, clean(at)
	}
	return r
}

// clean makes a time as JSON gives it back.
func clean(t time.Time) time.Time { return t.UTC().Round(0) }

// Outcome is how the call ended, "" while it has not.
func (r Record) Outcome() Outcome {
	if r.State.Terminal() {
		return Outcome(r.State)
	}
	return ""
}

// InFlight reports whether the call holds a slot; see the function of that name.
func (r Record) InFlight() bool { return InFlight(r.State) }

// Last is the newest attempt, nil before the first. It points into r.
func (r Record) Last() *Attempt {
	if len(r.Attempts) == 0 {
		return nil
	}
	return &r.Attempts[len(r.Attempts)-1]
}

// Current is the attempt that is going on, nil when there is none. It points into r.
func (r Record) Current() *Attempt {
	if a := r.Last(); a != nil && a.Open() {
		return a
	}
	return nil
}

// Attempt finds an attempt by its id, nil when it is not kept. It points into r.
func (r Record) Attempt(id string) *Attempt {
	for i := range r.Attempts {
		if r.Attempts[i].ID == id {
			return &r.Attempts[i]
		}
	}
	return nil
}

// NextAttemptID is the id that the next admission will create.
func (r Record) NextAttemptID() string {
	n := 1
	if a := r.Last(); a != nil {
		n = a.N + 1
	}
	return AttemptID(r.Order.CallID, n)
}

// Reached reports whether the person has heard from us in this call: a phone may
// have rung, or they called. Only then does the call count for their gap.
func (r Record) Reached() bool {
	return slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return a.Dialled() || !a.LiveAt.IsZero() })
}

// Pending are the effects that [Apply] decided and nobody has struck off yet, in
// order. They are a part of the record, so they survive whoever decided them; doing
// one twice is harmless. Release and requeue are never among them: that a call
// holds nothing is what its state says, and a queued call is still on the line.
func Pending(r Record) []Effect { return slices.Clone(r.Owed) }

// Settle strikes off effects that were done, or given up.
func Settle(r Record, now time.Time, done ...Effect) Record {
	left := slices.DeleteFunc(slices.Clone(r.Owed), func(e Effect) bool { return slices.Contains(done, e) })
	if len(left) == len(r.Owed) {
		return r
	}
	if len(left) == 0 {
		left = nil
	}
	r.Owed = left
	r.UpdatedAt = clean(now)
	r.Changes++
	return r
}

// Check reports the first field that nobody could go on with, as a [*FieldError].
// It knows every combination that [Apply] can make and refuses the rest, so a record
// that was edited by hand into another dial of the same attempt is recognised.
func (r Record) Check() error {
	if r.V < 1 || r.V > Version {
		return field("v", "%d, want 1 to %d", r.V, Version)
	}
	if err := r.Order.Check(); err != nil {
		return field("order", "%v", err)
	}
	if !r.State.Known() {
		return field("state", "%.40q is not known", string(r.State))
	}
	if r.UpdatedAt.IsZero() {
		return field("updated_at", "missing")
	}
	if r.State.Terminal() != !r.EndedAt.IsZero() {
		return field("ended_at", "does not go with state %s", r.State)
	}
	if r.Final && r.BotWaitSince.IsZero() {
		return field("final_attempt", "without bot_wait_since")
	}
	if !r.NextAt.IsZero() && r.State != Scheduled && r.State != Queued {
		return field("next_at", "does not go with state %s", r.State)
	}
	if r.State == Scheduled && r.NextAt.IsZero() {
		return field("next_at", "missing in state scheduled")
	}
	if r.Changes < 0 {
		return field("changes", "%d", r.Changes)
	}
	if len(r.Attempts) > MaxAttempts+MaxOwed {
		return field("attempts", "%d, at most %d", len(r.Attempts), MaxAttempts+MaxOwed)
	}
	before := 0
	for i := range r.Attempts {
		if err := r.checkAttempt(i, before); err != nil {
			return err
		}
		before = r.Attempts[i].N
	}
	if err := r.checkCurrent(); err != nil {
		return err
	}
	if len(r.Owed) > MaxOwed {
		return field("owed", "%d, at most %d", len(r.Owed), MaxOwed)
	}
	for _, e := range r.Owed {
		if !e.Act.owed() {
			return field("owed", "%.40q cannot be owed", string(e.Act))
		}
		if e.Attempt != "" && r.Attempt(e.Attempt) == nil {
			return field("owed", "of an attempt that is not there")
		}
	}
	return nil
}

// checkAttempt is the part of Check about one attempt; before is the number of the one before it.
func (r Record) checkAttempt(i, before int) error {
	a := &r.Attempts[i]
	name := "attempts[" + strconv.Itoa(i) + "]"
	switch {
	case a.N <= before:
		return field(name+".n", "%d after %d", a.N, before)
	case a.ID != AttemptID(r.Order.CallID, a.N):
		return field(name+".id", "is not that of attempt %d", a.N)
	case a.At.IsZero():
		return field(name+".at", "missing")
	case a.Open() && i != len(r.Attempts)-1:
		return field(name+".closed_at", "missing in an older attempt")
	case a.Open() != (a.Why == ""):
		return field(name+".why", "does not go with closed_at")
	case a.Ended != "" && !a.Ended.Known():
		return field(name+".ended", "%.40q is not known", string(a.Ended))
	case a.Dialled() && !a.Open() && !r.State.Terminal():
		return field(name+".intent_at", "dialled and closed, in state %s", r.State)
	case a.IntentAt.IsZero() && !r.Order.Inbound() && (!a.PlacedAt.IsZero() || !a.RingingAt.IsZero() || !a.LiveAt.IsZero()):
		return field(name+".intent_at", "missing in an attempt the carrier knows")
	}
	return nil
}

// checkCurrent is the part of Check about the attempt that goes on.
func (r Record) checkCurrent() error {
	a := r.Current()
	if (a != nil) != r.InFlight() {
		return field("state", "%s does not go with the attempts", r.State)
	}
	if a == nil {
		return nil
	}
	intent := !a.IntentAt.IsZero()
	if !r.Order.Inbound() && intent != (r.State.Rank() >= Dialing.Rank()) || r.Order.Inbound() && (intent || r.State == Dialing) {
		return field("state", "%s does not go with intent_at", r.State)
	}
	if (r.State == Live) == a.LiveAt.IsZero() {
		return field("state", "%s does not go with live_at", r.State)
	}
	return nil
}
