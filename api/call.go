package api

import (
	"encoding/json"
	"time"

	"dibs/call"
)

// Call is one call as the server shows it.
type Call struct {
	ID      string       `json:"id" example:"call_b5q2v7k3n6x4d9r1t8w0y2z5ca" doc:"The call's id."`
	State   call.State   `json:"state" example:"queued" doc:"Where it stands: scheduled, queued, placing, dialing, ringing, live, or one of the outcomes."`
	Outcome call.Outcome `json:"outcome,omitempty" doc:"How it ended: completed, no_answer, busy, failed, voicemail, cancelled, expired, bot_unavailable, rejected, unknown, interrupted."`
	Reason  string       `json:"reason,omitempty" doc:"Why it ended so, where the outcome does not say it."`

	WaitingFor string   `json:"waiting_for,omitempty" doc:"What a call that is not dialled yet waits for: time, carrier, bot, admission. More words may come."`
	BotWait    *BotWait `json:"bot_wait,omitempty" doc:"How long it may go on waiting for a bot."`

	Org      string     `json:"org_id" doc:"Whose call it is."`
	Campaign string     `json:"campaign_id,omitempty" doc:"The list it belongs to."`
	Class    call.Class `json:"class" doc:"Why it is made: inbound, api, retry, workflow, campaign."`
	Region   string     `json:"region" doc:"Whose bots it may have."`
	Pool     string     `json:"pool,omitempty" doc:"Whose bots inside the region are asked first."`
	Carrier  string     `json:"carrier,omitempty" doc:"Over which carrier it goes."`
	From     string     `json:"from,omitempty" example:"+49301•••78" doc:"E.164, masked unless revealed."`
	To       string     `json:"to" example:"+49151•••78" doc:"E.164, masked unless revealed."`

	Flow        Flow            `json:"flow,omitzero" doc:"What the bot is to say and do; its text only when revealed."`
	Greeting    Greeting        `json:"greeting,omitzero" doc:"Only when revealed."`
	Metadata    json.RawMessage `json:"metadata,omitempty" doc:"Only when revealed."`
	CallbackURL string          `json:"callback_url,omitempty" doc:"Only when revealed."`

	NotBefore time.Time           `json:"not_before,omitzero" doc:"Not dialled before."`
	NotAfter  time.Time           `json:"not_after,omitzero" doc:"From then on it is too late."`
	Hours     call.Hours          `json:"hours,omitzero" doc:"When the callee may be called."`
	TZ        string              `json:"tz,omitempty" doc:"The callee's time zone, where it was said."`
	Retry     *Retry              `json:"retry,omitempty" doc:"Whether it is made again when nobody was reached."`
	Needs     map[string][]string `json:"needs,omitempty" doc:"Kind to the providers that would do."`
	RingMS    call.Millis         `json:"ring_ms,omitempty" doc:"How long it may ring."`
	MaxCallMS call.Millis         `json:"max_call_ms,omitempty" doc:"How long it may last."`
	CallBack  bool                `json:"call_back,omitempty" doc:"Rung again when we break the line."`
	NoWait    bool                `json:"no_wait,omitempty" doc:"Does not wait for a bot."`

	QueuedAt  time.Time `json:"queued_at,omitzero" doc:"When it was accepted."`
	NextAt    time.Time `json:"next_at,omitzero" doc:"Not tried before."`
	CancelAt  time.Time `json:"cancel_at,omitzero" doc:"When somebody asked for it to be stopped."`
	EndedAt   time.Time `json:"ended_at,omitzero" doc:"When we learnt that it is over."`
	UpdatedAt time.Time `json:"updated_at" doc:"Of the last change."`

	Try        int    `json:"try" doc:"Which dial of the retry policy this call is, from 1."`
	Root       string `json:"root,omitempty" doc:"The first try."`
	RetryOf    string `json:"retry_of,omitempty" doc:"The try before this one."`
	CallbackOf string `json:"callback_of,omitempty" doc:"The call that was broken or turned away."`

	Attempts []Attempt       `json:"attempts,omitempty" nullable:"false" doc:"Every admission, oldest first; the newest 50."`
	Timeline []TimelineEntry `json:"timeline,omitempty" nullable:"false" doc:"What happened, oldest first. Only where one call was asked for."`

	// TimelineMissing says that the timeline could not be read; the rest is whole.
	TimelineMissing bool `json:"timeline_missing,omitempty" doc:"The timeline could not be read now; the rest is whole."`
}

// What a call that is not dialled yet waits for.
const (
	ForTime      = "time"      // not_before, or the callee's hours
	ForCarrier   = "carrier"   // the carrier asked for a pause
	ForBot       = "bot"       // none was idle when it was its turn
	ForAdmission = "admission" // its turn
)

// BotWait is the time a call may wait for a bot: 90 s (a callback: half an hour) from the first miss, then
// one final attempt.
type BotWait struct {
	Since       time.Time   `json:"since" doc:"The first time in a row that no bot was found."`
	RemainingMS call.Millis `json:"remaining_ms" doc:"How much of the budget is left; 0: none."`
	Final       bool        `json:"final,omitempty" doc:"The next attempt is the last."`
}

// Attempt is one admission of a call and the one dial it may lead to. A time that
// is left out has not come.
type Attempt struct {
	N         int               `json:"n" doc:"From 1, only goes up."`
	ID        string            `json:"id" doc:"What the carrier and the bot are told."`
	Bot       string            `json:"bot,omitempty" doc:"Who had it."`
	Carrier   string            `json:"carrier_id,omitempty" doc:"The carrier's id of the call."`
	Providers map[string]string `json:"providers,omitempty" doc:"Kind to the provider whose slot it held."`

	At        time.Time `json:"at" doc:"Admitted."`
	BotAt     time.Time `json:"bot_at,omitzero" doc:"A bot was ready."`
	IntentAt  time.Time `json:"intent_at,omitzero" doc:"From here on it counts as dialled."`
	PlacedAt  time.Time `json:"placed_at,omitzero" doc:"The carrier had it."`
	RingingAt time.Time `json:"ringing_at,omitzero" doc:"It rang."`
	LiveAt    time.Time `json:"live_at,omitzero" doc:"Somebody answered."`
	HangupAt  time.Time `json:"hangup_at,omitzero" doc:"We hung up."`
	ClosedAt  time.Time `json:"closed_at,omitzero" doc:"It held nothing any more."`

	Answered string `json:"answered_by,omitempty" doc:"Who answered, when machine_detection was asked for: human, machine_start, machine_end_beep, machine_end_silence, machine_end_other, fax, unknown."`

	Ended     call.Outcome `json:"ended,omitempty" doc:"How the carrier said it ended."`
	Temporary bool         `json:"temporary,omitempty" doc:"A failure that may pass."`
	BotLost   bool         `json:"bot_lost,omitempty" doc:"Its bot died before anybody answered."`
	Why       call.Why     `json:"why,omitempty" doc:"How it was closed: an outcome, no_bot, deadline, owner_gone, hours, refused_429, taken_back, not_placed."`
}

// CallPage is a part of a list of calls, newest first.
type CallPage struct {
	Calls []Call `json:"calls" nullable:"false" doc:"Without timelines."`
	Next  string `json:"next,omitempty" doc:"The cursor of the page that follows; left out on the last."`
}

// CallOf is a record as it is shown at now. What identifies a person or was said
// about one is masked or left out unless reveal is set.
func CallOf(r call.Record, now time.Time, reveal bool) Call {
	o := r.Order
	c := Call{
		ID: o.CallID, State: r.State, Outcome: r.Outcome(), Reason: r.Reason, WaitingFor: waitingFor(r, now),
		Org: o.Org, Campaign: o.Campaign, Class: o.Class, Region: o.Region, Pool: o.Pool, Carrier: o.Carrier,
		From: call.MaskNumber(o.From), To: call.MaskNumber(o.To), Flow: Flow{ID: o.Flow.ID, Version: o.Flow.Version},
		NotBefore: o.NotBefore, NotAfter: o.NotAfter, Hours: o.Hours, TZ: o.TZ, Needs: o.Needs,
		RingMS: o.RingMS, MaxCallMS: o.MaxCallMS, CallBack: o.CallBack, NoWait: o.NoWait,
		QueuedAt: o.QueuedAt, NextAt: r.NextAt, CancelAt: r.CancelAt, EndedAt: r.EndedAt, UpdatedAt: r.UpdatedAt,
		Try: o.TryNumber(), Root: o.Root, RetryOf: o.RetryOf, CallbackOf: o.CallbackOf,
	}
	if p := o.Retry; p != nil {
		c.Retry = &Retry{MaxAttempts: p.MaxAttempts, BackoffMS: p.BackoffMS, On: p.On}
	}
	if reveal {
		c.From, c.To, c.Flow, c.Greeting = o.From, o.To, Flow(o.Flow), Greeting(o.Greeting)
		c.Metadata, c.CallbackURL = o.Metadata, o.CallbackURL
	}
	if !r.BotWaitSince.IsZero() {
		c.BotWait = &BotWait{
			Since: r.BotWaitSince, Final: r.Final,
			RemainingMS: call.ToMillis(min(o.BotWait(), max(0, o.BotWait()-now.Sub(r.BotWaitSince)))),
		}
	}
	for _, a := range r.Attempts {
		c.Attempts = append(c.Attempts, Attempt{
			N: a.N, ID: a.ID, Bot: a.Bot, Carrier: a.CarrierID, Answered: a.AnsweredBy, Providers: a.Providers,
			At: a.At, BotAt: a.BotAt, IntentAt: a.IntentAt, PlacedAt: a.PlacedAt,
			RingingAt: a.RingingAt, LiveAt: a.LiveAt, HangupAt: a.HangupAt, ClosedAt: a.ClosedAt,
			Ended: a.Ended, Temporary: a.Temporary, BotLost: a.BotLost, Why: a.Why,
		})
	}
	return c
}

// waitingFor is as much as the record alone tells.
func waitingFor(r call.Record, now time.Time) string {
	switch r.State {
	case call.Scheduled:
		return ForTime
	case call.Placing:
		if a := r.Current(); a != nil && a.Bot == "" {
			return ForBot
		}
	case call.Queued:
		switch {
		case r.NextAt.After(now):
			return ForCarrier // a queued call has a next_at only after a 429
		case !r.BotWaitSince.IsZero():
			return ForBot
		}
		return ForAdmission
	}
	return ""
}
