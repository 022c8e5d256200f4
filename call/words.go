package call

import (
	"fmt"
	"slices"
	"time"
)

// Class says why a call is made; it decides who goes next.
type Class string

// The classes, in the order in which they go.
const (
	ClassInbound  Class = "inbound"  // somebody called us
	ClassAPI      Class = "api"      // somebody decided just now that this call is to be made
	ClassRetry    Class = "retry"    // the follow-up of a call that reached nobody
	ClassWorkflow Class = "workflow" // a rule of the customer's decided it
	ClassCampaign Class = "campaign" // one of a list
)

// Classes are all classes, first goes first.
func Classes() []Class {
	return []Class{ClassInbound, ClassAPI, ClassRetry, ClassWorkflow, ClassCampaign}
}

// Known reports whether this version knows the class.
func (c Class) Known() bool { return slices.Contains(Classes(), c) }

// Rank is the place of the class in the order, 0 goes first; -1: unknown.
func (c Class) Rank() int { return slices.Index(Classes(), c) }

// Direct reports whether a person waits for this call in particular: every
// class but campaign.
func (c Class) Direct() bool { return c.Known() && c != ClassCampaign }

// HasGap reports whether the class leaves a person alone for a while after a
// call (see [People]).
func (c Class) HasGap() bool {
	return c == ClassCampaign || c == ClassRetry || c == ClassWorkflow
}

// ParseClass reads a class. Older text says "direct" for api.
func ParseClass(s string) (Class, error) {
	var c Class
	_ = c.UnmarshalText([]byte(s))
	if !c.Known() {
		return "", fmt.Errorf("class %.40q is none of %v", s, Classes())
	}
	return c, nil
}

// UnmarshalText takes "direct" for api and keeps every other word as it came.
func (c *Class) UnmarshalText(text []byte) error {
	if *c = Class(text); *c == "direct" {
		*c = ClassAPI
	}
	return nil
}

// State is where a call stands. A terminal state is the word of its [Outcome].
type State string

// The states before the end, in order.
const (
	Scheduled State = "scheduled" // not before a moment that is known
	Queued    State = "queued"    // waits for admission
	Placing   State = "placing"   // admitted; a bot is being found, nobody was dialled
	Dialing   State = "dialing"   // the intent is stored: from here on this attempt is never dialled again
	Ringing   State = "ringing"   // the carrier has the call, nobody has answered
	Live      State = "live"      // somebody is talking with the bot
)

// Outcome is how a call ended; as a [State] the same word is terminal.
type Outcome string

// The outcomes.
const (
	Completed      Outcome = "completed"       // a conversation took place
	NoAnswer       Outcome = "no_answer"       // it rang
	Busy           Outcome = "busy"            // the callee was on the phone
	Failed         Outcome = "failed"          // the carrier could not or would not
	Voicemail      Outcome = "voicemail"       // a machine answered
	Cancelled      Outcome = "cancelled"       // we, or the customer, took it back before anybody answered
	Expired        Outcome = "expired"         // the window closed before it was dialled
	BotUnavailable Outcome = "bot_unavailable" // no bot in 90 s and in one final attempt
	Rejected       Outcome = "rejected"        // we refused it: no room for an inbound call, or no bot can ever take it
	Unknown        Outcome = "unknown"         // a phone may have rung; what cannot be known is said so
	Interrupted    Outcome = "interrupted"     // the bot was lost in the conversation
)

// FailedTemporary is a Failed that may go better later. It stands in retry
// policies and in the end a carrier reports; the record says Failed.
const FailedTemporary Outcome = "failed_temporary"

// Outcomes are all outcomes a call can end with.
func Outcomes() []Outcome {
	return []Outcome{
		Completed, NoAnswer, Busy, Failed, Voicemail, Cancelled, Expired,
		BotUnavailable, Rejected, Unknown, Interrupted,
	}
}

// Known reports whether a call can end with o in this version.
func (o Outcome) Known() bool { return slices.Contains(Outcomes(), o) }

// States are all states, in order, the terminal ones last.
func States() []State {
	all := []State{Scheduled, Queued, Placing, Dialing, Ringing, Live}
	for _, o := range Outcomes() {
		all = append(all, State(o))
	}
	return all
}

// Known reports whether this version knows the state.
func (s State) Known() bool { return s.Rank() >= 0 }

// Rank orders the states: an event never takes a call to a lower rank, except
// for a requeue. All terminal states have the same, highest rank; -1: unknown.
func (s State) Rank() int {
	switch s {
	case Scheduled:
		return 0
	case Queued:
		return 1
	case Placing:
		return 2
	case Dialing:
		return 3
	case Ringing:
		return 4
	case Live:
		return 5
	}
	if s.Terminal() {
		return 6
	}
	return -1
}

// Terminal reports whether nothing follows s.
func (s State) Terminal() bool { return Outcome(s).Known() }

// InFlight reports whether a call in state s holds a slot: from its admission to
// its terminal state. It is the only function that says so; every count of
// calls, of an org, a class, a campaign or the platform, is made with it.
func InFlight(s State) bool {
	switch s {
	case Placing, Dialing, Ringing, Live:
		return true
	}
	return false
}

// Millis is a duration in JSON: an integer of milliseconds, in fields that end in _ms.
type Millis int64

// Duration is d as Go has it.
func (d Millis) Duration() time.Duration { return time.Duration(d) * time.Millisecond }

// ToMillis rounds down to whole milliseconds.
func ToMillis(d time.Duration) Millis { return Millis(d / time.Millisecond) }

// Or is d, or def when d is 0 (not given).
func (d Millis) Or(def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d.Duration()
}
