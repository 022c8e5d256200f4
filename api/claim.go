package api

import (
	"encoding/json"

	"dibs/call"
)

// Claim asks for one bot for one call, now. It is for backends that place calls
// themselves and are not written in Go.
type Claim struct {
	CallID   string `json:"call_id" maxLength:"128" example:"call-4711" doc:"Your id of the call: letters, digits, _ and -."`
	Region   string `json:"region,omitempty" maxLength:"128" example:"eu-west" doc:"Whose bots are asked. Default: the server's."`
	Pool     string `json:"pool,omitempty" maxLength:"128" doc:"Asked first, the region after it. Default: the pool default."`
	Org      string `json:"org_id,omitempty" maxLength:"128"`
	Campaign string `json:"campaign_id,omitempty" maxLength:"128"`
	Class    string `json:"class,omitempty" enum:"inbound,api,retry,workflow,campaign"`

	Direction string            `json:"direction,omitempty" enum:"inbound,outbound"`
	From      string            `json:"from,omitempty" maxLength:"32" doc:"E.164, for the bot."`
	To        string            `json:"to,omitempty" maxLength:"32" doc:"E.164, for the bot."`
	Flow      Flow              `json:"flow,omitzero" doc:"What the bot is to say and do."`
	Greeting  Greeting          `json:"greeting,omitzero" doc:"Another first sentence than the flow's."`
	Media     MediaKind         `json:"media,omitzero" doc:"The dialect of the media socket. Default: Twilio Media Streams, 8 kHz µ-law."`
	Providers map[string]string `json:"providers,omitempty" doc:"Kind (stt, tts, llm) to the provider to use."`
	Metadata  json.RawMessage   `json:"metadata,omitempty" doc:"An object of at most 8192 bytes, handed to the bot as it came."`

	ReadyMS   call.Millis `json:"ready_ms,omitempty" minimum:"1000" maximum:"30000" doc:"How long one bot may take to be ready. Default: 10000."`
	MediaMS   call.Millis `json:"media_ms,omitempty" minimum:"0" maximum:"3600000" doc:"Without media for this long the seat frees itself. Default: the bot's own."`
	MaxCallMS call.Millis `json:"max_call_ms,omitempty" minimum:"0" maximum:"86400000" doc:"Hard cap of the call's length. Default: the bot's own."`
	WaitedMS  call.Millis `json:"waited_ms,omitempty" minimum:"0" maximum:"86400000" doc:"How long the call has waited already, for the bot's logs."`
}

// MediaKind is the dialect of a media socket.
type MediaKind struct {
	Kind       string `json:"kind,omitempty" maxLength:"32" example:"twilio"`
	Encoding   string `json:"encoding,omitempty" maxLength:"32"`
	SampleRate int    `json:"sample_rate,omitempty" minimum:"0" maximum:"192000"`
}

// Assignment is a bot that is ready for the call: media may come.
type Assignment struct {
	CallID    string            `json:"call_id"`
	ClaimID   string            `json:"claim_id"`
	Bot       string            `json:"bot_id"`
	Instance  string            `json:"instance,omitempty"`
	Revision  string            `json:"revision,omitempty"`
	Pod       Pod               `json:"pod,omitzero" doc:"Where its logs are."`
	Seat      int               `json:"seat"`
	Media     Media             `json:"media" doc:"Where the audio goes."`
	Warmup    Warmup            `json:"warmup,omitzero" doc:"What was prepared, and how long it took."`
	Providers map[string]string `json:"providers,omitempty" doc:"What was really connected."`
	Attempts  []ClaimAttempt    `json:"attempts" nullable:"false" doc:"Every ask, in order: who took the call, and why."`
	TookMS    call.Millis       `json:"took_ms" doc:"From the first ask to ready."`
}

// Media is where a call's audio goes.
type Media struct {
	URL       string            `json:"url,omitempty" doc:"With a one-time token in its path: a secret."`
	Params    map[string]string `json:"params,omitempty" doc:"To be sent along as stream parameters."`
	ExpiresMS call.Millis       `json:"expires_ms,omitempty" doc:"From now: the token dies and the seat frees itself."`
}

// Warmup tells how long each step took.
type Warmup struct {
	TotalMS       call.Millis            `json:"total_ms,omitempty"`
	Steps         map[string]call.Millis `json:"steps,omitempty" doc:"Step to ms."`
	GreetingReady bool                   `json:"greeting_ready,omitempty"`
}

// ClaimAttempt is one ask inside a claim.
type ClaimAttempt struct {
	Phase  string      `json:"phase" doc:"directed, pool, region."`
	Bot    string      `json:"bot,omitempty" doc:"Left out: nobody answered."`
	Answer string      `json:"answer" doc:"ready, busy, draining, cordoned, breaker_open, rejected, failed; or no_responders, silence, lost, cancelled."`
	MS     call.Millis `json:"ms"`
	Code   string      `json:"code,omitempty" doc:"Of rejected and failed."`
	Detail string      `json:"detail,omitempty"`
}

// Release gives a claimed seat back.
type Release struct {
	Bot    string `json:"bot_id,omitempty" maxLength:"128" doc:"Who has the call. Default: whoever the server believes has it."`
	Reason string `json:"reason,omitempty" maxLength:"256" example:"no answer" doc:"For the bot."`
}
