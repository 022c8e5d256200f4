package carrier

import (
	"context"
	"net/http"
	"time"
)

// Carrier is one account at one telephone company. Implementations are safe
// for concurrent use; every method honours ctx and adds no retry of its own.
type Carrier interface {
	// Name is the word for it in URLs, records and metrics: "twilio".
	Name() string

	// Place asks for one outbound call. It is called at most once per Dial.Attempt.
	// A nil error means the carrier has the call; an error is an [*Error], and only
	// its Verdict says whether a phone may ring all the same.
	Place(ctx context.Context, d Dial) (Placed, error)

	// Cancel stops a call that is not answered yet; Hangup ends it in any state.
	// A call that has already ended is success for both. Cancel leaves an answered
	// call alone and says [ErrAnswered]. Other errors are an [*Error].
	Cancel(ctx context.Context, id string) error
	Hangup(ctx context.Context, id string) error

	// Find looks calls up, newest first. It answers an empty list only when the
	// carrier said that there is none; an error is an [*Error] and says nothing of
	// the call. By numbers it may also answer a call that began a few seconds before
	// StartedSince, because two clocks are compared: leave out ids you know.
	Find(ctx context.Context, q Query) ([]Found, error)

	// Event authenticates a status webhook and reads it. The body is bounded. The
	// error is [ErrSignature], [ErrAccount] or [ErrMalformed].
	Event(r *http.Request) (Event, error)
}

// Dial is one attempt to reach one person.
type Dial struct {
	Attempt   string // our id of this dial; goes up, never comes back
	To, From  string // E.164
	Media     Media
	NextURL   string        // asked what to do when the media socket closes and the call is still on; empty: the call ends
	StatusURL string        // where status events go; carries the attempt id as the last element of its path
	Ring      time.Duration // give up ringing after this; 0: the carrier's default
	MaxCall   time.Duration // hard cap of the call's length, enforced by the carrier too; 0: none
	Detect    string        // whether to find out who answered: see DetectAnswer; empty: do not
}

// What a carrier may find out of who answered; [Event.Answered] tells it.
const (
	// DetectAnswer is a person or a machine, found out while they talk already: the media
	// is connected at once.
	DetectAnswer = "answer"
	// DetectMessageEnd connects the media when a machine's message is over, so that the
	// bot can leave one, and to a person when it is known that it is one: some seconds of
	// silence, [DetectTime] at most.
	DetectMessageEnd = "message_end"
)

// DetectTime is how long it may take to find out who answered (Twilio's default).
const DetectTime = 30 * time.Second

// AnsweredBy are the words for who answered.
func AnsweredBy() []string {
	return []string{"human", "machine_start", "machine_end_beep", "machine_end_silence", "machine_end_other", "fax", "unknown"}
}

// Media is the socket to which the carrier connects an answered call.
type Media struct {
	URL    string            // wss, no query string
	Params map[string]string // handed over in the stream's start message
}

// Placed is what the carrier says of a call it took.
type Placed struct {
	ID     string // the carrier's id ("CA…")
	Status Status
}

// Query finds calls: by ID alone, or by the numbers and a lower bound of the start.
type Query struct {
	ID           string
	To, From     string    // E.164; To is required without an ID, an empty From is any
	StartedSince time.Time // required without an ID
}

// Found is a call as the carrier knows it.
type Found struct {
	ID      string
	To      string
	From    string
	Status  Status
	Started time.Time // zero: not started
	Length  time.Duration

	Answered string // as in [Event]
}

// Event is one authenticated status webhook.
type Event struct {
	Carrier  string
	ID       string // the carrier's id of the call
	Attempt  string // ours, from the webhook's path; empty when the path has none
	Status   Status
	Seq      int // the carrier's number of the event, from 0; -1: none
	Length   time.Duration
	SIPCode  int    // terminal events: the carrier's SIP response, 0: none
	Answered string // who answered, when detection was on: one of [AnsweredBy]; empty: not asked, or not known yet
}

// Status is a carrier's word for where a call stands, the same for all carriers.
type Status string

// The statuses; the last five are terminal.
const (
	Queued     Status = "queued"
	Initiated  Status = "initiated"
	Ringing    Status = "ringing"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
	Busy       Status = "busy"
	NoAnswer   Status = "no_answer"
	Canceled   Status = "canceled"
	Failed     Status = "failed"
)

// Terminal reports whether nothing follows s.
func (s Status) Terminal() bool {
	switch s {
	case Completed, Busy, NoAnswer, Canceled, Failed:
		return true
	}
	return false
}
