package call

import "time"

// Event is something that happened to a call. Which fields it needs stands with
// its kind.
type Event struct {
	Kind Kind `json:"ev"`

	// Attempt is the id of the attempt it is about. Empty means the current one, which
	// only the owner of the call, who has just read the record, may leave it to; with
	// a CarrierID it means the attempt that has this id.
	Attempt string `json:"attempt,omitempty"`

	CarrierID string  `json:"carrier_id,omitempty"` // placed, ringing, live, end, inbound admitted: the carrier's id of the call
	Outcome   Outcome `json:"outcome,omitempty"`    // end: completed, no_answer, busy, failed, failed_temporary, voicemail, cancelled
	Answered  string  `json:"answered,omitempty"`   // live, end: who answered, see [Attempt.AnsweredBy]
	Bot       string  `json:"bot,omitempty"`        // bot: who it is
	Owner     string  `json:"owner,omitempty"`      // admitted: the dispatcher; owner_gone: whose office ended ("": the attempt's)
	OwnerGone bool    `json:"owner_gone,omitempty"` // not_placed: the office of the attempt's owner has ended

	// Saying is for worker_lost: a sentence is being said to the caller, and the
	// carrier ends the call after it.
	Saying bool `json:"saying,omitempty"`

	Providers  map[string]string `json:"providers,omitempty"`      // admitted: kind → the provider whose slot was taken
	RetryAfter Millis            `json:"retry_after_ms,omitempty"` // refused_429: the carrier's wish; 0: Pace
	Reason     string            `json:"reason,omitempty"`         // a word for people
}

// Kind says what happened.
type Kind string

// What the dispatcher decides or observes.
const (
	EvDue          Kind = "due"           // NextAt has come
	EvAdmitted     Kind = "admitted"      // admission gave it a slot; Attempt, if set, must be NextAttemptID
	EvRejected     Kind = "rejected"      // admission refused an inbound call, or no bot can ever take this call
	EvNoBot        Kind = "no_bot"        // the claim ended without a bot
	EvBot          Kind = "bot"           // a bot is ready for the attempt; again later: another took over
	EvIntent       Kind = "intent"        // about to dial; store the result, see [MaySend], then ask the carrier
	EvRefused429   Kind = "refused_429"   // the carrier did not process the dial: too fast, or too many
	EvRefused      Kind = "refused"       // the carrier refused the dial for good (4xx)
	EvTakenBack    Kind = "taken_back"    // the owner did not send the dial, or the connection was refused: certain
	EvWindowClosed Kind = "window_closed" // NotAfter has come
	EvCancel       Kind = "cancel"        // somebody asks for the call to be stopped, in whatever state
	EvWorkerLost   Kind = "worker_lost"   // the bot has died and no other can take over
	EvOwnerGone    Kind = "owner_gone"    // the office of the dispatcher that owns the attempt has ended
	EvDeadline     Kind = "deadline"      // PlacingLimit is over
)

// What the carrier says: by answer, status event or look-up, in any order, more
// than once, and late. [StatusEvent] makes them.
const (
	EvPlaced  Kind = "placed"  // it has the call
	EvRinging Kind = "ringing" // it rings
	EvLive    Kind = "live"    // answered, or media has come
	EvEnd     Kind = "end"     // over; Outcome says how
)

// What only [Reconcile] may conclude.
const (
	EvUnknown   Kind = "unknown"    // nothing can be known any more
	EvNotPlaced Kind = "not_placed" // the carrier knows of no such dial, 120 s on, and its owner is gone
)

// Effect is something to do about a decision. Store the record first.
type Effect struct {
	Act     Act    `json:"act"`
	Attempt string `json:"attempt,omitempty"` // the attempt it is about; empty: the call never had one
}

// Act says what is to be done.
type Act string

// The acts. Those with a question mark are done if the policy says so: ask
// [NextTry] and [Callback].
const (
	Release     Act = "release"    // the slot, the leases and the person are free; idempotent by attempt
	Requeue     Act = "requeue"    // let the message return to the line
	Hangup      Act = "hangup"     // end the carrier's call; one that has ended already is success
	CancelBot   Act = "cancel_bot" // release the attempt's bot; one that does not know the call is success
	AskRetry    Act = "retry?"
	AskCallback Act = "callback?"
)

// MaxOwed bounds what a record owes.
const MaxOwed = 100

// owed reports whether the effect stays in the record until it is settled.
func (a Act) owed() bool {
	switch a {
	case Hangup, CancelBot, AskRetry, AskCallback:
		return true
	}
	return false
}

// Deadlines. Each starts at the moment named.
const (
	BotWait       = 90 * time.Second  // from the first miss: after that one final attempt
	PlacingLimit  = 30 * time.Second  // from admission to the intent
	IntentFresh   = 5 * time.Second   // from the intent: the owner may send
	NotPlacedFrom = 120 * time.Second // from the intent: "no such call" may be believed
	UnknownFrom   = 300 * time.Second // from the intent: without evidence it stays unknown
	RingSilence   = 20 * time.Second  // from the last news of a ringing call: ask the carrier
	LiveSilence   = 60 * time.Second  // from the last news of a live call: ask the carrier
	HangupSilence = 10 * time.Second  // from a hang-up: ask whether it has ended
	LookEvery     = 10 * time.Second  // a look-up that brought nothing is repeated after this
	Pace          = 5 * time.Second   // after a 429 that named no time
)

// SilentLimit is how long after its dial a call whose end nobody reports counts
// as unknown: an hour, or what its own cap allows and five minutes.
func (o Order) SilentLimit() time.Duration {
	if o.MaxCallMS == 0 {
		return DefaultMaxCall
	}
	return o.MaxCallMS.Duration() + 5*time.Minute
}

// StatusEvent reads a carrier's status, in the words that all carriers share:
// queued, initiated, ringing, in_progress, completed, busy, no_answer, canceled,
// failed. ok is false for any other.
func StatusEvent(status string) (ev Event, ok bool) {
	switch status {
	case "queued", "initiated":
		return Event{Kind: EvPlaced}, true
	case "ringing":
		return Event{Kind: EvRinging}, true
	case "in_progress":
		return Event{Kind: EvLive}, true
	case "completed":
		return Event{Kind: EvEnd, Outcome: Completed}, true
	case "busy":
		return Event{Kind: EvEnd, Outcome: Busy}, true
	case "no_answer":
		return Event{Kind: EvEnd, Outcome: NoAnswer}, true
	case "canceled":
		return Event{Kind: EvEnd, Outcome: Cancelled}, true
	case "failed":
		return Event{Kind: EvEnd, Outcome: Failed}, true
	}
	return Event{}, false
}
