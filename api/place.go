package api

import (
	"encoding/json"
	"time"

	"dibs/call"
)

// PlaceCall asks for one outbound call. Only To is always needed; Org is unless the
// token is bound to one, From and Region are unless the server has a default.
type PlaceCall struct {
	To       string     `json:"to" pattern:"^\\+[1-9][0-9]{6,14}$" patternDescription:"E.164: + and 7 to 15 digits" example:"+4915112345678" doc:"Whom to call, E.164."`
	From     string     `json:"from,omitempty" pattern:"^(\\+[1-9][0-9]{6,14})?$" patternDescription:"E.164: + and 7 to 15 digits" example:"+493012345678" doc:"The number that is shown, E.164. Default: the server's."`
	Org      string     `json:"org_id,omitempty" maxLength:"128" example:"acme-dental" doc:"Whose call it is. Default: the token's."`
	Flow     Flow       `json:"flow,omitzero" doc:"What the bot is to say and do."`
	Greeting Greeting   `json:"greeting,omitzero" doc:"Another first sentence than the flow's."`
	Campaign string     `json:"campaign_id,omitempty" maxLength:"128" doc:"The list it belongs to; needed in class campaign."`
	Class    call.Class `json:"class,omitempty" enum:"api,retry,workflow,campaign" doc:"Why it is made, which decides who goes next. Default: campaign with a campaign_id, else api."`
	Region   string     `json:"region,omitempty" maxLength:"128" example:"eu-west" doc:"Whose bots it may have; the call never leaves it. Default: the server's."`
	Pool     string     `json:"pool,omitempty" maxLength:"128" doc:"Whose bots inside the region are asked first. Default: the region's."`

	NotBefore time.Time  `json:"not_before,omitzero" doc:"Not dialled before. Default: at once."`
	NotAfter  time.Time  `json:"not_after,omitzero" doc:"From this moment on it is too late: the call ends as expired. Default: never too late."`
	Hours     call.Hours `json:"hours,omitzero" doc:"When the callee may be called, on the callee's own clock: mon … sun, each a list of [opens, closes]. Default: at any hour."`
	TZ        string     `json:"tz,omitempty" maxLength:"64" example:"Europe/Berlin" doc:"The callee's time zone; needed with hours unless the country of the number has only one."`
	Retry     *Retry     `json:"retry,omitempty" doc:"Whether to call again when nobody was reached. Default: one try."`

	Needs    map[string][]string `json:"needs,omitempty" doc:"Kind (stt, tts, llm) to the providers that would do, the preferred first. The call waits until one of each kind has room."`
	Metadata json.RawMessage     `json:"metadata,omitempty" doc:"An object of at most 8192 bytes, handed to the bot as it came."`

	RingMS    call.Millis `json:"ring_ms,omitempty" doc:"Give up ringing after this, 5000 to 600000. Default: 60000."`
	MaxCallMS call.Millis `json:"max_call_ms,omitempty" doc:"Hard cap of the call's length, 1000 to 86400000. Default: 3600000."`

	Detect string `json:"machine_detection,omitempty" enum:"answer,message_end" doc:"Find out who answers: a person or a machine, at once or when a machine's message is over. Default: do not."`

	CallbackURL string `json:"callback_url,omitempty" maxLength:"2048" doc:"Told how the call ended; http or https."`
	CallBack    bool   `json:"call_back,omitempty" doc:"Ring again when we broke the line."`
	NoWait      bool   `json:"no_wait,omitempty" doc:"Now or not at all: when no bot is idle the call ends as bot_unavailable instead of waiting for one."`
}

// Flow names what the bot is to say and do.
type Flow struct {
	ID      string          `json:"id,omitempty" maxLength:"256" doc:"Its name where the bots load flows from."`
	Version string          `json:"version,omitempty" maxLength:"256" doc:"Pinned, so that warm-up and call agree. Default: the newest."`
	URL     string          `json:"url,omitempty" maxLength:"2048" doc:"Where to load it from; the bots must allow the origin."`
	Inline  json.RawMessage `json:"inline,omitempty" doc:"The flow itself."`
}

// Greeting overrides the flow's first sentence.
type Greeting struct {
	Text   string `json:"text,omitempty" maxLength:"4096" doc:"The sentence."`
	Locale string `json:"locale,omitempty" maxLength:"64" example:"de-DE" doc:"Its language."`
	Voice  string `json:"voice,omitempty" maxLength:"128" doc:"Who says it."`
}

// Retry says whether and when a call that reached nobody is made again.
type Retry struct {
	MaxAttempts int            `json:"max_attempts,omitempty" minimum:"0" maximum:"20" doc:"Dials in all, the first included. Default: 3."`
	BackoffMS   []call.Millis  `json:"backoff_ms,omitempty" nullable:"false" maxItems:"20" doc:"Pause after the first, second … dial; the last one repeats. Default: 30, 60, 120 minutes."`
	On          []call.Outcome `json:"on,omitempty" nullable:"false" maxItems:"12" doc:"After these outcomes. Default: no_answer, busy, failed_temporary."`
}

// Reason is why somebody does something; it is kept where it was done.
type Reason struct {
	Reason string `json:"reason,omitempty" maxLength:"256" example:"customer rang back" doc:"For people who look at it later."`
}
