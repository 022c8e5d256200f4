package admission

import "dibs/call"

// Basis is why a call was let go.
type Basis string

// The bases.
const (
	ByFloor    Basis = "floor"    // its org is below the floor
	ByBurst    Basis = "burst"    // there is room for more
	ByReserve  Basis = "reserve"  // inbound, on a line that was kept for it
	ByOverflow Basis = "overflow" // inbound, on a provider that is full
)

// Reason is the stable word for a no.
type Reason string

// The reasons, in the order in which they lead.
const (
	ProviderCapacity Reason = "provider_capacity" // no alternative of some need has room; the scope names the primary
	OrgCeiling       Reason = "org_ceiling"       // the org runs its ceiling
	InboundReserve   Reason = "inbound_reserve"   // the org's remaining lines are owed to its inbound
	CampaignPaused   Reason = "campaign_paused"   // the campaign is paused, whatever its cap
	CampaignCap      Reason = "campaign_cap"      // the campaign runs its cap
	PlatformFull     Reason = "platform_full"     // the platform runs its cap
	PlatformReserve  Reason = "platform_reserve"  // the platform's remaining slots are owed to inbound
	TickLimit        Reason = "tick_limit"        // nothing says no: the tick was limited, or is still to come
)

// No is one question that was answered with no, and its numbers.
type No struct {
	Scope  string `json:"scope"` // "provider:stt:dg", "org:acme", "campaign:recall", "platform"
	Reason Reason `json:"reason"`
	InUse  int    `json:"in_use"`
	Limit  int    `json:"limit"`
	Owed   int    `json:"owed,omitempty"` // to inbound, beside what is in use
}

// Decision is the answer for one call: admitted with a basis, or the verdict of
// one that was not.
type Decision struct {
	Call     string     `json:"call"`
	Org      string     `json:"org"`
	Class    call.Class `json:"class"`
	Region   string     `json:"region,omitempty"`
	Campaign string     `json:"campaign,omitempty"`
	Admitted bool       `json:"admitted"`

	Basis       Basis      `json:"basis,omitempty"`
	Providers   []string   `json:"providers,omitempty"`    // one for each need
	Overflow    []string   `json:"overflow,omitempty"`     // those of them that were full
	WithheldFor call.Class `json:"withheld_for,omitempty"` // a protected class went ahead of a higher one

	Reason    Reason `json:"reason,omitempty"` // the first of BlockedBy
	Scope     string `json:"scope,omitempty"`
	BlockedBy []No   `json:"blocked_by,omitempty"` // every no: providers, org, campaign, platform
}

// Gate is one question and its answer, yes or no.
type Gate struct {
	Scope     string   `json:"scope"`
	OK        bool     `json:"ok"`
	Reason    Reason   `json:"reason,omitempty"` // not OK: why
	InUse     int      `json:"in_use"`
	Limit     *int     `json:"limit"`               // nil: none
	Owed      int      `json:"owed,omitempty"`      // org and platform: to inbound, beside what is in use
	Providers []Option `json:"providers,omitempty"` // the alternatives of a need, in order
}

// Option is one alternative of a need.
type Option struct {
	Provider string `json:"provider"`
	InUse    int    `json:"in_use"`
	Limit    *int   `json:"limit"`
	Chosen   bool   `json:"chosen"`
}

// answer is all gates of one call, and what it would hold if they let it go.
type answer struct {
	gates     []Gate
	providers []string
	overflow  []string
}

// ask puts the four questions to the state as it is. c is nil for a call that
// counts for no campaign; owed is [State.owed], which many calls can be asked with.
func (s *State) ask(o *org, r rank, c *crowd, needs [][]string, owed int) answer {
	var a answer
	overflow := r == inbound && s.platform.Full != Refuse
	for _, alternatives := range needs {
		g := Gate{Scope: "provider:" + alternatives[0]}
		chosen := -1
		for i, p := range alternatives {
			load := s.vendors.Load(p)
			op := Option{Provider: p, InUse: load.Used}
			if load.Limit != Uncounted {
				op.Limit = new(load.Limit)
			}
			if chosen < 0 && load.Room() > 0 {
				chosen, op.Chosen = i, true
			}
			g.Providers = append(g.Providers, op)
		}
		g.OK = chosen >= 0
		if chosen < 0 && overflow {
			chosen, g.OK, g.Providers[0].Chosen = 0, true, true
			a.overflow = append(a.overflow, alternatives[0])
		}
		show := max(0, chosen)
		g.InUse, g.Limit = g.Providers[show].InUse, g.Providers[show].Limit
		if !g.OK {
			g.Reason = ProviderCapacity
		} else {
			a.providers = append(a.providers, alternatives[chosen])
		}
		a.gates = append(a.gates, g)
	}

	g := Gate{Scope: "org:" + o.ID, InUse: o.inFlight(), Limit: o.Ceiling, Owed: o.owed()}
	switch {
	case o.Ceiling != nil && g.InUse >= *o.Ceiling:
		g.Reason = OrgCeiling
	case o.Ceiling != nil && r != inbound && g.InUse+g.Owed >= *o.Ceiling:
		g.Reason = InboundReserve
	}
	g.OK = g.Reason == ""
	a.gates = append(a.gates, g)

	if c != nil && c.ID != "" {
		g := Gate{Scope: "campaign:" + c.ID, OK: !c.full(0), InUse: len(c.live), Limit: c.Limit()}
		switch {
		case c.Paused:
			g.Reason = CampaignPaused
		case !g.OK:
			g.Reason = CampaignCap
		}
		a.gates = append(a.gates, g)
	}

	g = Gate{Scope: "platform", InUse: len(s.live), Limit: new(s.platform.Cap), Owed: owed}
	switch {
	case g.InUse >= s.platform.Cap:
		g.Reason = PlatformFull
	case g.InUse+g.Owed >= s.platform.Cap && (r != inbound || o.usable() == 0):
		g.Reason = PlatformReserve
	}
	g.OK = g.Reason == ""
	a.gates = append(a.gates, g)
	return a
}

// full says whether more calls of the campaign would be too many.
func (c *crowd) full(more int) bool {
	limit := c.Limit()
	return limit != nil && len(c.live)+more >= *limit
}

// blockedBy is every no of a, in order.
func (a answer) blockedBy() []No {
	var nos []No
	for _, g := range a.gates {
		if !g.OK {
			nos = append(nos, No{Scope: g.Scope, Reason: g.Reason, InUse: g.InUse, Limit: *g.Limit, Owed: g.Owed})
		}
	}
	return nos
}

// refuse makes d a verdict.
func (d Decision) refuse(nos []No) Decision {
	if len(nos) == 0 {
		nos = []No{{Scope: "platform", Reason: TickLimit}}
	}
	d.Reason, d.Scope, d.BlockedBy = nos[0].Reason, nos[0].Scope, nos
	return d
}

// Inbound decides an inbound call at once and for good: admitted, it is in flight
// from here on; refused, it is forgotten. Its class is always inbound. A call that
// is in flight already gets the answer it was let in with, and no second slot.
func (s *State) Inbound(c Call) Decision {
	c.Class = call.ClassInbound
	d := Decision{Call: c.ID, Org: c.Org, Class: call.ClassInbound, Region: c.Region, Campaign: c.Campaign}
	if l := s.live[c.ID]; l != nil {
		d.Admitted, d.Basis, d.Providers, d.Overflow = true, l.Basis, l.Providers, l.Overflow
		return d
	}
	s.Remove(c.ID)

	o, k := s.orgs[c.Org], s.campaigns[c.Campaign]
	if o == nil {
		o = &org{Org: Org{ID: c.Org}}
	}
	a := s.ask(o, inbound, k, c.Needs, s.owed())
	if nos := a.blockedBy(); nos != nil {
		return d.refuse(nos)
	}
	d.Admitted, d.Providers, d.Overflow = true, a.providers, a.overflow
	switch {
	case a.overflow != nil:
		d.Basis = ByOverflow
	case o.usable() > 0:
		d.Basis = ByReserve
	case o.shortfall() > 0:
		d.Basis = ByFloor
	default:
		d.Basis = ByBurst
	}
	s.served++
	s.hold(Live{Call: c, Basis: d.Basis, Providers: d.Providers, Overflow: d.Overflow, Admitted: s.served}, inbound)
	s.orgs[c.Org].last = s.served
	return d
}
