package api

import (
	"encoding/json"
	"time"
)

// TimelineEntry is one thing that happened to a call.
type TimelineEntry struct {
	At      time.Time       `json:"at" doc:"When."`
	Type    string          `json:"type" doc:"What: the type of the event." example:"call.answered"`
	Attempt string          `json:"attempt,omitempty" doc:"The attempt it is about."`
	Bot     string          `json:"bot,omitempty" doc:"The bot it is about."`
	Text    string          `json:"text,omitempty" doc:"One sentence for people."`
	Data    json.RawMessage `json:"data,omitempty" doc:"The event's own fields."`
}
