package api

import (
	"time"

	"dibs/call"
)

// Why is everything there is to say about a call that has not gone out: every gate
// as it is now, its place, and what happened to its verdict.
type Why struct {
	Call  string     `json:"call_id" doc:"The call."`
	State call.State `json:"state" doc:"Where it stands."`

	WouldDial bool      `json:"would_dial" doc:"It would be dialled now."`
	Reason    string    `json:"reason,omitempty" doc:"The first no: time, carrier, person_busy, person_gap, no_idle_bot, provider_capacity, org_ceiling, inbound_reserve, campaign_paused, campaign_cap, platform_full, platform_reserve. More words may come."`
	Scope     string    `json:"scope,omitempty" doc:"Whose no it is: org:acme, campaign:recall, provider:stt:deepgram, platform, bots:eu-west."`
	Gates     []WhyGate `json:"gates" nullable:"false" doc:"Every question, asked now."`

	Position   int `json:"position,omitempty" doc:"Its rank, from 1, if the platform had room. Left out: something stops it that room would not cure."`
	Of         int `json:"of" doc:"Calls that wait."`
	AheadFloor int `json:"ahead_floor,omitempty" doc:"Of those ahead, go because their org is below its floor."`
	AheadBurst int `json:"ahead_burst,omitempty" doc:"Of those ahead, go by fewest running."`

	NextCheckAt time.Time       `json:"next_check_at,omitzero" doc:"Looked at again then; everything that could make room is looked at at once."`
	BotWait     *BotWait        `json:"bot_wait,omitempty" doc:"How long it may go on waiting for a bot."`
	Verdicts    []VerdictChange `json:"verdicts" nullable:"false" doc:"How the verdict changed, newest last; the last 20."`
}

// WhyGate is one question and its answer.
type WhyGate struct {
	Gate  string `json:"gate" doc:"time, person, provider, bot, org, campaign, platform."`
	OK    bool   `json:"ok"`
	Code  string `json:"code,omitempty" doc:"Not OK: why."`
	Scope string `json:"scope,omitempty"`
	InUse int    `json:"in_use"`
	Limit *int   `json:"limit,omitempty" doc:"Left out: none."`
	Owed  int    `json:"owed,omitempty" doc:"Kept for inbound, beside what is in use."`
}

// VerdictChange is one change of why a call waits.
type VerdictChange struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Scope  string    `json:"scope,omitempty"`
	InUse  int       `json:"in_use"`
	Limit  int       `json:"limit"`
}

// Scale is how many bots a region wants, and why.
type Scale struct {
	Region    string       `json:"region"`
	Wanted    int          `json:"wanted" doc:"Bots."`
	Demand    int          `json:"demand" doc:"Calls that bots must serve: the sum of what the terms count."`
	Terms     []ScaleTerm  `json:"terms" nullable:"false"`
	Clamps    []ScaleClamp `json:"clamps" nullable:"false" doc:"Limits that changed a number."`
	Policy    string       `json:"policy" doc:"headroom, active+4, raw."`
	PerBot    string       `json:"per_bot" doc:"Calls that one bot is to carry." example:"0.7"`
	Floor     int          `json:"floor"`
	Ceiling   int          `json:"ceiling"`
	Unclamped int          `json:"unclamped" doc:"Bots if every call that was seen counted and nothing were clamped."`
	Sentence  string       `json:"sentence" doc:"All of it, for people."`
	Bots      Counts       `json:"bots" doc:"Who is there."`
	AgeMS     call.Millis  `json:"age_ms" doc:"How old the dispatcher's numbers are; older than 15 s they are unknown."`
}

// ScaleTerm is one summand.
type ScaleTerm struct {
	Name   string `json:"term" doc:"in_flight, direct, campaign."`
	Seen   int    `json:"seen"`
	Counts int    `json:"counts"`
}

// ScaleClamp is one limit that changed a number.
type ScaleClamp struct {
	Name string `json:"clamp"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// ScaleValue is the demand alone, for an autoscaler that reads JSON.
type ScaleValue struct {
	Value int `json:"value" doc:"Calls; divided by 0.7 they are bots."`
}
