package api

import "dibs/call"

// MaxCalls is the largest limit of calls: no floor, ceiling, reserve or cap is larger.
const MaxCalls = 1_000_000

// Org is the envelope of one customer: how many calls at once it is promised, and
// how many it may have. An org without one goes when there is room.
type Org struct {
	ID       string             `json:"id,omitempty" maxLength:"128" example:"acme-dental" doc:"In the body it may be left out; the path says it."`
	Floor    int                `json:"floor" minimum:"0" maximum:"1000000" required:"false" doc:"This many calls at once are promised. Default: 0."`
	Ceiling  *int               `json:"ceiling,omitempty" minimum:"0" maximum:"1000000" doc:"And never more than this many, inbound included; 0: none at all. Left out: no ceiling."`
	Reserve  int                `json:"reserve" minimum:"0" maximum:"1000000" required:"false" doc:"Lines of the floor that are kept for inbound; must leave one below the ceiling. Default: 0."`
	Withhold map[call.Class]int `json:"withhold,omitempty" doc:"Class (retry, workflow, campaign) → N: with a call waiting that could go, it goes at least once in N of the org's; 0: not protected. Left out: the platform's."`
}

// Campaign is a customer's list of calls with a cap of its own.
type Campaign struct {
	ID     string `json:"id,omitempty" maxLength:"128" example:"recall-nov" doc:"In the body it may be left out; the path says it."`
	Org    string `json:"org_id" minLength:"1" maxLength:"128" doc:"Whose it is. Its calls count for the org that they name themselves."`
	Cap    *int   `json:"cap,omitempty" minimum:"0" maximum:"1000000" doc:"Most calls in flight. Left out: no cap."`
	Paused bool   `json:"paused,omitempty" doc:"No call of it goes; those in flight go on, and the cap is remembered."`
}

// Platform is what holds for all orgs together.
type Platform struct {
	Cap      int                `json:"cap,omitempty" minimum:"0" maximum:"1000000" doc:"Most calls in flight, every class, inbound included. 0 or left out: as the backends were started."`
	Withhold map[call.Class]int `json:"withhold,omitempty" doc:"As of an org, for those that say nothing. Left out: retry 4, workflow 8, campaign 8."`
	Full     string             `json:"full,omitempty" enum:",overflow,refuse" doc:"What an inbound call gets when no provider has room: a place anyway, or a refusal. Default: overflow."`
}

// Warning is something legal that does not do what its owner may think it does.
type Warning struct {
	Code   string `json:"code" example:"floors_oversubscribed" doc:"floors_oversubscribed, reserves_over_cap, reserve_cut, org_shut, org_without_envelope."`
	Scope  string `json:"scope" example:"platform" doc:"platform, org:<id>, campaign:<id>."`
	Have   int    `json:"have"`
	Limit  int    `json:"limit"`
	Detail string `json:"detail" doc:"One sentence with the numbers."`
}

// Usage is what the dispatcher counts of an org, a campaign or the platform, all
// from one set of calls.
type Usage struct {
	InFlight  int                `json:"in_flight" doc:"Calls from their admission to their end."`
	Limit     *int               `json:"limit,omitempty" doc:"The cap or ceiling that it goes by now; left out: none. A change takes a moment."`
	Waiting   int                `json:"waiting" doc:"Calls that wait and are due."`
	ByClass   map[call.Class]int `json:"by_class,omitempty" doc:"Of an org: in flight, by class."`
	Owed      int                `json:"owed,omitempty" doc:"Of org and platform: kept for inbound beside what is in flight."`
	Shortfall int                `json:"shortfall,omitempty" doc:"Of an org: how far outbound is below its part of the floor."`
	FreePool  int                `json:"free_pool,omitempty" doc:"Of the platform: its cap less all floors."`
}

// Counted is the part of an answer that only the dispatcher knows.
type Counted struct {
	Counted bool   `json:"counted" doc:"False: no dispatcher answered just now, and usage is left out."`
	Usage   *Usage `json:"usage,omitempty" doc:"As it is now."`
}

// OrgState is an org's envelope and how it is used.
type OrgState struct {
	Org
	EffectiveReserve int       `json:"effective_reserve" doc:"The part of the reserve that is really kept: inside the floor, one line below the ceiling."`
	Warnings         []Warning `json:"warnings" nullable:"false"`
	Counted
}

// OrgPage are all envelopes; how one is used, it says itself.
type OrgPage struct {
	Orgs     []Org     `json:"orgs" nullable:"false" doc:"By id."`
	Warnings []Warning `json:"warnings" nullable:"false" doc:"Of these orgs."`
}

// CampaignPage are all campaigns with a cap of their own.
type CampaignPage struct {
	Campaigns []Campaign `json:"campaigns" nullable:"false" doc:"By id."`
	Warnings  []Warning  `json:"warnings" nullable:"false" doc:"Of these campaigns."`
}

// CampaignState is a campaign and how it is used.
type CampaignState struct {
	Campaign
	Warnings []Warning `json:"warnings" nullable:"false"`
	Counted
}

// PlatformState is the platform and how it is used.
type PlatformState struct {
	Platform
	EffectiveCap int       `json:"effective_cap" doc:"The cap that holds: this one, or that of the backends."`
	Warnings     []Warning `json:"warnings" nullable:"false" doc:"Of all orgs, too."`
	Counted
}
