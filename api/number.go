package api

import (
	"encoding/json"

	"dibs/call"
)

// Number is one of our telephone numbers: what happens to a call that comes in there.
type Number struct {
	Number string `json:"number,omitempty" pattern:"^(\\+[1-9][0-9]{6,14})?$" patternDescription:"E.164: + and 7 to 15 digits" example:"+493012345678" doc:"E.164. In the body it may be left out; the path says it."`
	Org    string `json:"org_id" minLength:"1" maxLength:"128" example:"acme-dental" doc:"Whose calls they are."`
	Region string `json:"region,omitempty" maxLength:"128" example:"eu-west" doc:"Whose bots they may have. Default: the server's."`
	Pool   string `json:"pool,omitempty" maxLength:"128" doc:"Whose bots inside the region are asked first."`

	Flow      Flow            `json:"flow,omitzero" doc:"What the bot is to say and do."`
	Greeting  Greeting        `json:"greeting,omitzero" doc:"Another first sentence than the flow's."`
	Metadata  json.RawMessage `json:"metadata,omitempty" doc:"An object of at most 8192 bytes, handed to the bot as it came."`
	MaxCallMS call.Millis     `json:"max_call_ms,omitempty" doc:"Hard cap of a call's length, 1000 to 86400000. Default: 3600000."`

	CallBack bool   `json:"call_back,omitempty" doc:"Callers who find no bot, or whose bot is lost, are called back within 30 minutes, as soon as a bot is free."`
	Overflow string `json:"overflow,omitempty" maxLength:"500" doc:"Said to a caller who finds no bot, before we hang up. Empty: the call is refused unanswered, and the caller hears the busy tone."`
	Sorry    string `json:"sorry,omitempty" maxLength:"500" doc:"Said to a caller whose bot is lost when no other is free. Default: an apology in English."`
	Language string `json:"language,omitempty" maxLength:"20" example:"de-DE" doc:"Of overflow and sorry, as the carrier knows it."`
}

// NumberPage are all our numbers.
type NumberPage struct {
	Numbers []Number `json:"numbers" nullable:"false" doc:"By number."`
}
