package api

import "dibs/call"

// Bot is one bot as the server believes it.
type Bot struct {
	ID       string `json:"id" example:"bot-7f9c6-k4m2p_1764500000" doc:"Contains its start: a name that comes back is another bot."`
	Instance string `json:"instance,omitempty" doc:"The start alone."`
	Revision string `json:"revision,omitempty" doc:"Of the deployment."`
	Region   string `json:"region" doc:"Whose calls it takes."`
	Pool     string `json:"pool" doc:"The lane inside the region."`
	Pod      Pod    `json:"pod,omitzero" doc:"Where its logs are."`

	State    string   `json:"state" doc:"In one word: lost, draining, cordoned, failing, not_ready, stuck, or the busiest seat's state: live, wrapup, assigned, warming, claimed, idle."`
	Seats    []Seat   `json:"seats" nullable:"false" doc:"One by one."`
	Cordoned bool     `json:"cordoned,omitempty" doc:"Takes no calls."`
	Draining bool     `json:"draining,omitempty" doc:"Finishes and leaves."`
	NotReady string   `json:"not_ready,omitempty" doc:"Why it says it is not ready."`
	Breaker  *Breaker `json:"breaker,omitempty" doc:"The breaker around its warm-up."`
	Flows    []string `json:"flows,omitempty" nullable:"false" doc:"In its cache, newest first."`

	RSS      int64       `json:"rss_bytes,omitempty" doc:"Resident memory."`
	Calls    int64       `json:"calls_total,omitempty" doc:"Seats taken since its start."`
	Minute   Minute      `json:"minute,omitzero" doc:"Its last minute."`
	UptimeMS call.Millis `json:"uptime_ms,omitempty" doc:"Since its start."`
	HeardMS  call.Millis `json:"heard_ms" doc:"How long ago it was last heard; all else is as of then."`
}

// What a bot can be besides the states of its seats.
const (
	BotLost     = "lost"      // not heard for 30 s
	BotDraining = "draining"  // finishes and leaves
	BotCordoned = "cordoned"  // no new calls
	BotFailing  = "failing"   // its breaker is open
	BotNotReady = "not_ready" // connected and not well
	BotStuck    = "stuck"     // a seat is past the deadline of its state
)

// Pod is where a person finds the bot's logs.
type Pod struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Node      string `json:"node,omitempty"`
}

// Seat is room for one call in a bot.
type Seat struct {
	State string      `json:"state" doc:"idle, claimed, warming, assigned, live, wrapup."`
	ForMS call.Millis `json:"for_ms" doc:"How long in this state."`
	Call  string      `json:"call_id,omitempty" doc:"Who has it."`
	Stuck bool        `json:"stuck,omitempty" doc:"Past the deadline of its state: not counted as capacity."`
}

// Breaker is the breaker around a bot's warm-up.
type Breaker struct {
	State     string      `json:"state" doc:"closed, open, half_open."`
	Failures  int         `json:"failures" doc:"In a row."`
	LastError string      `json:"last_error,omitempty"`
	RetryMS   call.Millis `json:"retry_ms,omitempty" doc:"Open: until it lets one try through."`
}

// Minute is what happened at a bot in the last minute.
type Minute struct {
	Ended           int         `json:"ended,omitempty" doc:"Calls."`
	Failed          int         `json:"failed,omitempty" doc:"Of them."`
	Errors          int         `json:"errors,omitempty"`
	Turns           int         `json:"turns,omitempty"`
	FirstAudioP95MS call.Millis `json:"first_audio_p95_ms,omitempty"`
}

// BotPage is a list of bots, by region, pool and id.
type BotPage struct {
	Bots   []Bot  `json:"bots" nullable:"false"`
	Counts Counts `json:"counts" doc:"The seats of the region that was asked for, or of all."`
}

// Counts are seats by what they can do now.
type Counts struct {
	Bots     int `json:"bots" doc:"Heard within 30 s."`
	Seats    int `json:"seats" doc:"Of those bots."`
	Idle     int `json:"idle" doc:"Would take a call now."`
	Claimed  int `json:"claimed" doc:"Claimed, warming or assigned."`
	Live     int `json:"live" doc:"Live or in wrap-up."`
	Draining int `json:"draining" doc:"Of bots that drain or are cordoned."`
	Broken   int `json:"broken" doc:"Of bots whose breaker is open."`
	Stuck    int `json:"stuck" doc:"Past the deadline of their state, or silent too long."`
}
