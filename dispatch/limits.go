package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"dibs/admission"
	"dibs/api"
)

// limits are the settings as this office has told them to admission.
type limits struct {
	orgs, campaigns map[string]bool
}

// loadLimits reads the settings anew, before the first decision of a term.
func (o *office) loadLimits(ctx context.Context) error {
	if o.d.cfg.Settings == nil {
		return nil
	}
	if err := o.d.cfg.Settings.Refresh(ctx); err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	o.applyLimits()
	return nil
}

// watchLimits is told when the settings have changed, from now on.
func (o *office) watchLimits() (changed <-chan struct{}, done func()) {
	s := o.d.cfg.Settings
	if s == nil {
		return nil, func() {}
	}
	ch := s.Watch()
	o.applyLimits() // what has changed since they were loaded
	return ch, func() { s.Unwatch(ch) }
}

// applyLimits tells admission the settings as they are; the next tick goes by them.
// Nobody in flight is hung up for them.
func (o *office) applyLimits() {
	l, err := o.d.cfg.Settings.Limits()
	if err != nil {
		o.d.cfg.Log.Error().Err(err).Msg("limits stay as they were")
		return
	}
	l.Cap = cmp.Or(o.d.cfg.Cap, l.Cap)
	p, orgs, campaigns := l.Admission()
	o.adm.SetPlatform(p)
	is := limits{orgs: map[string]bool{}, campaigns: map[string]bool{}}
	for _, org := range orgs {
		o.adm.SetOrg(org)
		is.orgs[org.ID] = true
	}
	for _, c := range campaigns {
		o.adm.SetCampaign(c)
		is.campaigns[c.ID] = true
	}
	for id := range o.limits.orgs {
		if !is.orgs[id] {
			o.adm.DeleteOrg(id)
		}
	}
	for id := range o.limits.campaigns {
		if !is.campaigns[id] {
			o.adm.DeleteCampaign(id)
		}
	}
	o.limits = is
	for _, w := range admission.Lint(p, orgs) {
		o.d.cfg.Log.Warn().Str("code", w.Code).Str("scope", w.Scope).Msg(w.Detail)
	}
}

// usage is what is counted of platform, org:<id> or campaign:<id>; of one that nobody
// has heard of, nothing.
func (o *office) usage(scope string) (u api.Usage) {
	r := o.adm.Report()
	kind, id, _ := strings.Cut(scope, ":")
	switch kind {
	case "platform":
		return api.Usage{InFlight: r.Platform.InFlight, Limit: &r.Platform.Cap, Waiting: r.Platform.Waiting, Owed: r.Platform.Owed, FreePool: r.Platform.FreePool}
	case "org":
		for _, x := range r.Orgs {
			if x.ID == id {
				return api.Usage{InFlight: x.InFlight, Limit: x.Ceiling, Waiting: x.Waiting, ByClass: x.ByClass, Owed: x.Owed, Shortfall: x.Shortfall}
			}
		}
	case "campaign":
		for _, x := range r.Campaigns {
			if x.ID == id {
				return api.Usage{InFlight: x.InFlight, Limit: x.Limit(), Waiting: x.Waiting}
			}
		}
	}
	return u
}

// usageIn is how long a question for counts waits: it goes with answers that are
// useful without them.
const usageIn = time.Second

// Usage is what the office counts of a scope: platform, org:<id> or campaign:<id>.
// Errors wrap [api.ErrUnavailable]: nobody in office.
func (d *Desk) Usage(ctx context.Context, scope string) (api.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, usageIn)
	defer cancel()
	r, err := d.askNow(ctx, askUsage, deskRequest{Scope: scope})
	if err != nil {
		return api.Usage{}, fmt.Errorf("dispatch: usage of %s: %w", scope, err)
	}
	if r.Usage == nil {
		return api.Usage{}, fmt.Errorf("dispatch: usage of %s: %w: the desk said nothing", scope, api.ErrUnavailable)
	}
	return *r.Usage, nil
}
