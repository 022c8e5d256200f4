package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"dibs/call"
)

// Platform is what holds for every org. All of it may change at any time: nothing
// that is in flight is hung up for it.
type Platform struct {
	Cap      int                `json:"cap"`                // most calls in flight, every class, inbound included; 0 or less: nothing is admitted
	Withhold map[call.Class]int `json:"withhold,omitempty"` // class → E: with an admissible call waiting it goes at least once in E; nil: [DefaultWithhold]; absent or 0: not protected
	Full     OverflowPolicy     `json:"full,omitempty"`     // what an inbound caller gets when no provider has room; empty: [Overflow]
}

// OverflowPolicy says what happens to an inbound call that no provider has room for.
type OverflowPolicy string

// The policies.
const (
	Overflow OverflowPolicy = "overflow" // taken on the primary provider anyway, and the decision names it
	Refuse   OverflowPolicy = "refuse"   // refused with provider_capacity
)

// DefaultWithhold is the protection of the lower classes when nothing else is said.
func DefaultWithhold() map[call.Class]int {
	return map[call.Class]int{call.ClassRetry: 4, call.ClassWorkflow: 8, call.ClassCampaign: 8}
}

// Org is the envelope of one customer. An org that was never set has the zero
// envelope: no floor, no ceiling, no reserve, and goes in burst.
type Org struct {
	ID       string             `json:"id"`
	Floor    int                `json:"floor"`              // this many calls at once are promised, ≥ 0
	Ceiling  *int               `json:"ceiling"`            // and never more than this many; nil: none, 0: shut
	Reserve  int                `json:"reserve"`            // lines of the floor that are kept for inbound, ≥ 0
	Withhold map[call.Class]int `json:"withhold,omitempty"` // nil: the platform's
}

// EffectiveReserve is the part of the reserve that is really kept: it is inside
// the floor and always leaves one line under the ceiling. So no stored row, however
// it came to be, can keep an org from dialling for ever.
func (o Org) EffectiveReserve() int {
	r := min(o.Reserve, o.Floor)
	if o.Ceiling != nil {
		r = min(r, *o.Ceiling-1)
	}
	return max(0, r)
}

// Campaign is a customer's list of calls with a cap of its own.
type Campaign struct {
	ID  string `json:"id"`
	Org string `json:"org"` // whose it is now; a call counts for the org it came with
	Cap *int   `json:"cap"` // most calls in flight; nil: no cap, 0: none can go

	Paused bool `json:"paused,omitempty"` // none goes; the cap is remembered
}

// Limit is the cap that holds now: 0 while it is paused, nil for none.
func (c Campaign) Limit() *int {
	if c.Paused {
		return new(0)
	}
	return c.Cap
}

// Invalid is a setting that must not be written. The text holds every number
// that is needed to mend it.
type Invalid struct {
	Scope  string // "platform", "org:acme", "campaign:recall"
	Field  string // as in JSON
	Detail string
}

func (e *Invalid) Error() string {
	return fmt.Sprintf("admission: %s: %s: %s", e.Scope, e.Field, e.Detail)
}

// Validate refuses settings under which somebody could never dial, or that mean
// nothing. It is asked with all orgs and campaigns as they would be after the
// write; the error joins one [*Invalid] for each thing that is wrong.
func Validate(p Platform, orgs []Org, campaigns []Campaign) error {
	var errs []error
	bad := func(scope, field, format string, args ...any) {
		errs = append(errs, &Invalid{Scope: scope, Field: field, Detail: fmt.Sprintf(format, args...)})
	}
	withhold := func(scope string, w map[call.Class]int) {
		for _, c := range slices.Sorted(maps.Keys(w)) {
			if r, ok := rankOf(c); !ok || r <= api {
				bad(scope, "withhold", "%q cannot be protected, only retry, workflow and campaign", c)
			} else if w[c] < 0 || w[c] == 1 {
				bad(scope, "withhold", "%s 1 in %d, want at least 1 in 2 or 0 for none", c, w[c])
			}
		}
	}

	if p.Cap < 1 {
		bad("platform", "cap", "%d, want at least 1", p.Cap)
	}
	if p.Full != "" && p.Full != Overflow && p.Full != Refuse {
		bad("platform", "full", "%q, want overflow or refuse", p.Full)
	}
	withhold("platform", p.Withhold)

	reserves := 0
	for _, o := range orgs {
		scope := "org:" + o.ID
		if o.ID == "" {
			bad(scope, "id", "empty")
		}
		if o.Floor < 0 {
			bad(scope, "floor", "%d, want 0 or more", o.Floor)
		}
		if o.Reserve < 0 {
			bad(scope, "reserve", "%d, want 0 or more", o.Reserve)
		}
		if c := o.Ceiling; c != nil {
			if *c < 0 {
				bad(scope, "ceiling", "%d, want 0 or more", *c)
			}
			if o.Floor > *c {
				bad(scope, "floor", "floor %d is above ceiling %d", o.Floor, *c)
			}
			if o.Reserve > 0 && o.Reserve >= *c {
				bad(scope, "reserve", "reserve %d leaves 0 lines for outbound at ceiling %d", o.Reserve, *c)
			}
		}
		withhold(scope, o.Withhold)
		reserves += o.EffectiveReserve()
	}
	if p.Cap >= 1 && reserves > p.Cap-1 {
		bad("platform", "reserve", "reserves of %d leave 0 lines for outbound at platform cap %d", reserves, p.Cap)
	}
	for _, c := range campaigns {
		scope := "campaign:" + c.ID
		if c.ID == "" {
			bad(scope, "id", "empty")
		}
		if c.Org == "" {
			bad(scope, "org", "empty")
		}
		if c.Cap != nil && *c.Cap < 0 {
			bad(scope, "cap", "%d, want 0 or more", *c.Cap)
		}
	}
	return errors.Join(errs...)
}

// Warning is something legal, or already stored, that does not do what its owner
// may think it does.
type Warning struct {
	Code   string `json:"code"`  // stable: floors_oversubscribed …
	Scope  string `json:"scope"` // as in [Invalid]
	Have   int    `json:"have"`
	Limit  int    `json:"limit"`
	Detail string `json:"detail"` // one sentence with the numbers
}

// The codes of warnings.
const (
	FloorsOversubscribed = "floors_oversubscribed" // the floors are shared pass by pass, nobody gets all of his
	ReservesOverCap      = "reserves_over_cap"     // the reserves together are cut to cap-1
	ReserveCut           = "reserve_cut"           // the reserve is cut by the floor or the ceiling
	OrgShut              = "org_shut"              // ceiling 0: no call of any kind
)

// Lint looks at settings as they are stored, valid or not. Warnings come platform
// first, then by org in the order given.
func Lint(p Platform, orgs []Org) []Warning {
	var ws []Warning
	warn := func(code, scope string, have, limit int, format string, args ...any) {
		ws = append(ws, Warning{Code: code, Scope: scope, Have: have, Limit: limit, Detail: fmt.Sprintf(format, args...)})
	}
	floors, reserves := 0, 0
	for _, o := range orgs {
		floors += max(0, o.Floor)
		reserves += o.EffectiveReserve()
	}
	if floors > p.Cap {
		warn(FloorsOversubscribed, "platform", floors, p.Cap, "floors add up to %d at platform cap %d: below it they are shared one slot at a time", floors, p.Cap)
	}
	if reserves > max(0, p.Cap-1) {
		warn(ReservesOverCap, "platform", reserves, max(0, p.Cap-1), "reserves add up to %d, at most %d are kept at platform cap %d", reserves, max(0, p.Cap-1), p.Cap)
	}
	for _, o := range orgs {
		if r := o.EffectiveReserve(); r < o.Reserve {
			warn(ReserveCut, "org:"+o.ID, o.Reserve, r, "reserve %d is cut to %d by floor %d and ceiling %s", o.Reserve, r, o.Floor, number(o.Ceiling))
		}
		if o.Ceiling != nil && *o.Ceiling <= 0 {
			warn(OrgShut, "org:"+o.ID, 0, *o.Ceiling, "ceiling %d: no call of this org is ever admitted, inbound neither", *o.Ceiling)
		}
	}
	return ws
}

// number is a limit for people.
func number(limit *int) string {
	if limit == nil {
		return "none"
	}
	return fmt.Sprint(*limit)
}
