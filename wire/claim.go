package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// ClaimRequest asks one idle seat for one call. It is also what the bot knows of
// the call afterwards, so it carries all that a bot may need to prepare.
type ClaimRequest struct {
	V       int    `json:"v"`
	ClaimID string `json:"claim_id"` // one claim, all its asks: the same claim_id asked twice of a bot gets the same answer
	CallID  string `json:"call_id"`
	Phase   Phase  `json:"phase"`
	Attempt int    `json:"attempt"` // ask number inside the claim, from 1

	AcceptMS  Millis `json:"accept_ms"`             // the asker waits this long for accepted
	ReadyMS   Millis `json:"ready_ms"`              // and this long, from the request, for ready
	MediaMS   Millis `json:"media_ms,omitempty"`    // no media socket for this long: the seat frees itself
	MaxCallMS Millis `json:"max_call_ms,omitempty"` // hard cap of the call's length, 0: the bot's own
	WaitedMS  Millis `json:"waited_ms,omitempty"`   // how long the call has waited already, for the bot's logs

	Region     string `json:"region"`
	Pool       string `json:"pool,omitempty"`
	Org        string `json:"org_id,omitempty"`
	Campaign   string `json:"campaign_id,omitempty"`
	Class      string `json:"class,omitempty"`     // inbound, api, retry, workflow, campaign
	Direction  string `json:"direction,omitempty"` // inbound, outbound
	From       string `json:"from,omitempty"`      // E.164
	To         string `json:"to,omitempty"`        // E.164
	MinVersion string `json:"revision_min,omitempty"`

	Flow      Flow              `json:"flow,omitzero"`
	Greeting  Greeting          `json:"greeting,omitzero"`
	Media     MediaKind         `json:"media,omitzero"`
	Providers map[string]string `json:"providers,omitempty"` // kind (stt, tts, llm) → provider chosen by admission
	Metadata  json.RawMessage   `json:"metadata,omitempty"`  // ≤ MaxMetadata bytes, delivered as it came

	// A call that goes on: its bot was lost, and this claim is for another one.
	Rescue     bool            `json:"rescue,omitempty"`
	ElapsedMS  Millis          `json:"elapsed_ms,omitempty"` // since the call was answered
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"` // ≤ MaxCheckpoint bytes: what the bot before it last left
}

// Phase says whom an ask goes to; its values are those of the attempt record.
type Phase string

// The phases of a claim, in order.
const (
	PhaseDirected Phase = "directed" // one bot, chosen from the roster
	PhasePool     Phase = "pool"     // any idle seat of the pool
	PhaseRegion   Phase = "region"   // any idle seat of the region
)

// Flow names what the bot is to say and do. The version is pinned, so warm-up
// and call agree.
type Flow struct {
	ID      string          `json:"id,omitempty"`
	Version string          `json:"version,omitempty"`
	URL     string          `json:"url,omitempty"`
	Inline  json.RawMessage `json:"inline,omitempty"`
}

// Greeting overrides the flow's first sentence.
type Greeting struct {
	Text   string `json:"text,omitempty"`
	Locale string `json:"locale,omitempty"`
	Voice  string `json:"voice,omitempty"`
}

// MediaKind is the dialect of the media socket; zero means Twilio Media Streams, 8 kHz µ-law.
type MediaKind struct {
	Kind       string `json:"kind,omitempty"` // twilio, telnyx, plivo, livekit, raw
	Encoding   string `json:"encoding,omitempty"`
	SampleRate int    `json:"sample_rate,omitempty"`
}

func (r ClaimRequest) version() int { return r.V }

// Check reports the first field that no bot could use.
func (r ClaimRequest) Check() error {
	for _, f := range []struct{ name, token string }{{"claim_id", r.ClaimID}, {"call_id", r.CallID}, {"region", r.Region}} {
		if err := CheckToken(f.token); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if r.Pool != "" {
		if err := CheckToken(r.Pool); err != nil {
			return fmt.Errorf("pool: %w", err)
		}
	}
	if r.AcceptMS == 0 {
		return errors.New("accept_ms: missing")
	}
	if r.ReadyMS == 0 {
		return errors.New("ready_ms: missing")
	}
	return cmp.Or(
		r.AcceptMS.timeout("accept_ms"),
		r.ReadyMS.timeout("ready_ms"),
		r.MediaMS.timeout("media_ms"),
		r.MaxCallMS.timeout("max_call_ms"),
		r.WaitedMS.age("waited_ms"),
		r.ElapsedMS.age("elapsed_ms"),
		CheckMetadata(r.Metadata),
		CheckCheckpoint(r.Checkpoint),
	)
}

// Status is the kind of a [Reply]. A status this version does not know is kept
// and treated as an answer that is no yes: the asker pauses and asks again.
type Status string

// The statuses of a reply.
const (
	Accepted    Status = "accepted"     // the seat is yours if you confirm; warm-up has begun
	Ready       Status = "ready"        // media may come; ack it
	Busy        Status = "busy"         // seat taken meanwhile: ask again after 150 ms
	Draining    Status = "draining"     // the bot finishes and leaves
	Cordoned    Status = "cordoned"     // an operator or an ejection took the bot out
	BreakerOpen Status = "breaker_open" // warm-up keeps failing here: ask another at once
	Rejected    Status = "rejected"     // the call's own fault: no bot would take it (Code says why)
	Failed      Status = "failed"       // warm-up failed after accepted (Code says why)
)

// Reply is anything a bot answers to an ask.
type Reply struct {
	V       int    `json:"v"`
	Status  Status `json:"status"`
	ClaimID string `json:"claim_id"`
	BotID   string `json:"bot_id"`

	Instance string `json:"instance,omitempty"` // start stamp: a name can come back, an instance cannot
	Revision string `json:"revision,omitempty"`
	Pod      Pod    `json:"pod,omitzero"`
	Seat     int    `json:"seat"`
	Seats    InUse  `json:"seats,omitzero"`

	Media     Media             `json:"media,omitzero"`      // ready
	Warmup    Warmup            `json:"warmup,omitzero"`     // ready, failed
	Providers map[string]string `json:"providers,omitempty"` // ready: what was really connected

	Busy         *BusyWith    `json:"busy,omitempty"`
	Breaker      *BreakerView `json:"breaker,omitempty"`
	Code         string       `json:"code,omitempty"`   // rejected, failed: a stable word
	Detail       string       `json:"detail,omitempty"` // one sentence for people
	RetryAfterMS Millis       `json:"retry_after_ms,omitempty"`
}

// Pod is where a person finds the bot's logs.
type Pod struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Node      string `json:"node,omitempty"`
}

// InUse counts a bot's seats.
type InUse struct {
	Total int `json:"total"`
	InUse int `json:"in_use"`
}

// Media is where the call's audio goes.
type Media struct {
	URL       string            `json:"url,omitempty"`        // the one-time token is in its path
	Params    map[string]string `json:"params,omitempty"`     // become <Parameter>s
	ExpiresMS Millis            `json:"expires_ms,omitempty"` // the token dies and the seat frees itself, from now
}

// Warmup tells how long each step took.
type Warmup struct {
	TotalMS       Millis            `json:"total_ms,omitempty"`
	Steps         map[string]Millis `json:"steps,omitempty"` // step name → ms
	GreetingReady bool              `json:"greeting_ready,omitempty"`
}

// BusyWith says who has the seat, without another question.
type BusyWith struct {
	CallID  string `json:"call_id"`
	SinceMS Millis `json:"since_ms"`
}

func (b *BusyWith) check() error {
	if b == nil {
		return nil
	}
	return b.SinceMS.age("busy.since_ms")
}

// BreakerView is a breaker as others see it.
type BreakerView struct {
	State     string `json:"state"` // closed, open, half_open
	Failures  int    `json:"failures"`
	LastError string `json:"last_error,omitempty"`
	RetryMS   Millis `json:"retry_ms,omitempty"` // open: until it lets one try through
}

func (b *BreakerView) check() error {
	if b == nil {
		return nil
	}
	return cmp.Or(
		word("breaker.state", b.State, maxState),
		note("breaker.last_error", b.LastError),
		b.RetryMS.age("breaker.retry_ms"),
	)
}

func (r Reply) version() int { return r.V }

// Check reports the first field that an asker could not use.
func (r Reply) Check() error {
	if r.Status == "" {
		return errors.New("status: missing")
	}
	if err := CheckToken(r.ClaimID); err != nil {
		return fmt.Errorf("claim_id: %w", err)
	}
	if err := CheckToken(r.BotID); err != nil {
		return fmt.Errorf("bot_id: %w", err)
	}
	if r.Status == Ready && r.Media.URL == "" {
		return errors.New("media.url: missing in a ready")
	}
	for _, ms := range r.Warmup.Steps {
		if err := ms.age("warmup.steps"); err != nil {
			return err
		}
	}
	return cmp.Or(
		r.Media.ExpiresMS.timeout("media.expires_ms"),
		r.Warmup.TotalMS.age("warmup.total_ms"),
		r.Busy.check(),
		r.Breaker.check(),
		r.RetryAfterMS.age("retry_after_ms"),
	)
}

// Say is what an asker says to a bot that answered.
type Say string

// The words of a [Control].
const (
	Confirm  Say = "confirm"  // to accepted: I am here and I want the seat
	Withdraw Say = "withdraw" // to accepted or ready: not any more; free the seat
	Ack      Say = "ack"      // to ready: I have it, media will come
)

// Control is published to the reply subject of accepted and of ready.
type Control struct {
	V       int    `json:"v"`
	ClaimID string `json:"claim_id"`
	Say     Say    `json:"say"`
}

func (c Control) version() int { return c.V }

// Check reports the first missing field.
func (c Control) Check() error {
	if c.Say == "" {
		return errors.New("say: missing")
	}
	if err := CheckToken(c.ClaimID); err != nil {
		return fmt.Errorf("claim_id: %w", err)
	}
	return nil
}
