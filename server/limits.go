package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"dibs/api"
	"dibs/events"
	"dibs/settings"
	"dibs/wire"
)

// Limits keeps what admission is told. Its errors are those of package settings; a
// put and a delete return what was there before.
type Limits interface {
	Limits() (settings.Limits, error)
	PutOrg(ctx context.Context, o api.Org) (old *api.Org, err error)
	DeleteOrg(ctx context.Context, id string) (old *api.Org, err error)
	PutCampaign(ctx context.Context, c api.Campaign) (old *api.Campaign, err error)
	DeleteCampaign(ctx context.Context, id string) (old *api.Campaign, err error)
	PutPlatform(ctx context.Context, p api.Platform) (old *api.Platform, err error)
}

type (
	idInput struct {
		ID string `path:"id" maxLength:"128"`
	}
	putOrgInput struct {
		ID   string `path:"id" maxLength:"128"`
		Body api.Org
	}
	putCampaignInput struct {
		ID   string `path:"id" maxLength:"128"`
		Body api.Campaign
	}
	putPlatformInput struct{ Body api.Platform }
	orgOutput        struct{ Body api.OrgState }
	orgsOutput       struct{ Body api.OrgPage }
	campaignsOutput  struct{ Body api.CampaignPage }
	campaignOutput   struct{ Body api.CampaignState }
	platformOutput   struct{ Body api.PlatformState }
)

func (s *Server) limitRoutes() {
	reads := []string{api.CodeForbidden, api.CodeInvalidField, api.CodeUnknownField, api.CodeUnavailable}
	puts := append([]string{api.CodeMalformedJSON, api.CodeBodyTooLarge, api.CodeMediaType, api.CodeOrgDeadlock}, reads...)
	op := func(method, path, id, tag, summary string) huma.Operation {
		o := huma.Operation{OperationID: id, Method: method, Path: path, Tags: []string{tag}, Summary: summary}
		switch method {
		case http.MethodPut:
			o.Description = "All of it is set: what is left out is the default. Judged together with all other limits; the dispatcher goes by it within moments, and hangs nobody up. Told as an event with the token's name, the old and the new values."
		case http.MethodDelete:
			o.DefaultStatus = http.StatusNoContent
		}
		return o
	}
	org, campaign := "/v1/orgs/{id}", "/v1/campaigns/{id}"
	register(s, Viewer, op(http.MethodGet, "/v1/orgs", "list-orgs", "limits", "All envelopes"), reads, s.orgs)
	register(s, Viewer, op(http.MethodGet, "/v1/campaigns", "list-campaigns", "limits", "All campaigns that have a cap"), reads, s.campaigns)
	register(s, Viewer, op(http.MethodGet, org, "get-org", "limits", "An org's envelope and how it is used"), append(reads, api.CodeOrgNotFound), s.org)
	register(s, Admin, op(http.MethodPut, org, "put-org", "limits", "Set an org's envelope"), puts, s.putOrg)
	register(s, Admin, op(http.MethodDelete, org, "delete-org", "limits", "Take an org's envelope away; its calls go on without one"), append(reads, api.CodeOrgNotFound), s.deleteOrg)
	register(s, Viewer, op(http.MethodGet, campaign, "get-campaign", "limits", "A campaign's cap and how it is used"), append(reads, api.CodeCampaignNotFound), s.campaign)
	register(s, Admin, op(http.MethodPut, campaign, "put-campaign", "limits", "Set a campaign's cap, or pause it"), puts, s.putCampaign)
	register(s, Admin, op(http.MethodDelete, campaign, "delete-campaign", "limits", "Take a campaign's cap away; its calls go on without one"), append(reads, api.CodeCampaignNotFound), s.deleteCampaign)
	register(s, Viewer, op(http.MethodGet, "/v1/platform", "get-platform", "limits", "What holds for all orgs together, and every warning"), reads, s.platform)
	register(s, Admin, op(http.MethodPut, "/v1/platform", "put-platform", "limits", "Set what holds for all orgs together"), puts, s.putPlatform)
}

// limits are the limits as they are, or why there are none here.
func (s *Server) limits() (settings.Limits, error) {
	if s.cfg.Limits == nil {
		return settings.Limits{}, problem{api.NewProblem(api.CodeUnavailable, "no limits are kept here")}
	}
	l, err := s.cfg.Limits.Limits()
	if err != nil {
		return l, problem{again(api.CodeUnavailable, "", time.Second)}
	}
	return l, nil
}

// mayLimit refuses to change limits where that cannot be, or by whom it may not.
func (s *Server) mayLimit(ctx context.Context) error {
	if err := bound(ctx); err != nil {
		return err
	}
	_, err := s.limits()
	return err
}

// counts asks the dispatcher what it counts of a scope.
func (s *Server) counts(ctx context.Context, scope string) (c api.Counted) {
	if s.cfg.Usage == nil {
		return c
	}
	if u, err := s.cfg.Usage(ctx, scope); err == nil {
		c.Counted, c.Usage = true, &u
	}
	return c
}

// unlimited is a problem of putting or deleting a limit; gone is the code when it was
// not there.
func unlimited(ctx context.Context, err error, gone string) error {
	if bad, ok := errors.AsType[*settings.Invalid](err); ok {
		code := api.CodeInvalidField
		if bad.Deadlock {
			code = api.CodeOrgDeadlock
		}
		p := api.NewProblem(code, "")
		p.Errors = invalid(bad.Fields...).Errors
		return problem{p}
	}
	switch {
	case errors.Is(err, settings.ErrNotFound):
		return problem{api.NewProblem(gone, "")}
	case errors.Is(err, settings.ErrUnavailable):
		err = errors.Join(api.ErrUnavailable, err)
	}
	return fail(ctx, err, api.CodeUnavailable)
}

// audit tells who has changed what. What did not change is not told.
func (s *Server) audit(ctx context.Context, typ, what, subject, org string, old, now any) {
	was, err1 := json.Marshal(old)
	is, err2 := json.Marshal(now)
	if err1 != nil || err2 != nil || bytes.Equal(was, is) {
		return
	}
	v := visitOf(ctx)
	s.cfg.Log.Info().Str("request", v.id).Str("token", who(ctx).Name).Str("what", what).Str("subject", subject).RawJSON("old", was).RawJSON("new", is).Msg("limits changed")
	if s.cfg.Tell == nil {
		return
	}
	data, err := json.Marshal(map[string]any{"what": what, "token": who(ctx).Name, "request": v.id, "old": json.RawMessage(was), "new": json.RawMessage(is)})
	if err == nil {
		s.cfg.Tell(events.Event{Type: typ, Subject: subject, Org: org, At: time.Now(), Data: data})
	}
}

func (s *Server) orgState(ctx context.Context, l settings.Limits, o api.Org) *orgOutput {
	return &orgOutput{api.OrgState{
		Org: o, EffectiveReserve: settings.OrgOf(o).EffectiveReserve(), Warnings: l.Warnings("org:" + o.ID), Counted: s.counts(ctx, "org:"+o.ID),
	}}
}

// orgs lists envelopes: all, or the one of a token that is bound to an org.
func (s *Server) orgs(ctx context.Context, _ *struct{}) (*orgsOutput, error) {
	l, err := s.limits()
	if err != nil {
		return nil, err
	}
	orgs, warnings := list(l, l.Orgs, "org:", func(id string, _ api.Org) bool {
		mine := who(ctx).Org
		return mine == "" || mine == id
	})
	return &orgsOutput{api.OrgPage{Orgs: orgs, Warnings: warnings}}, nil
}

// campaigns is as orgs.
func (s *Server) campaigns(ctx context.Context, _ *struct{}) (*campaignsOutput, error) {
	l, err := s.limits()
	if err != nil {
		return nil, err
	}
	campaigns, warnings := list(l, l.Campaigns, "campaign:", func(_ string, k api.Campaign) bool {
		mine := who(ctx).Org
		return mine == "" || mine == k.Org
	})
	return &campaignsOutput{api.CampaignPage{Campaigns: campaigns, Warnings: warnings}}, nil
}

// list is those settings, by id, that may be shown, and the warnings about them.
func list[T any](l settings.Limits, all map[string]T, scope string, may func(id string, v T) bool) ([]T, []api.Warning) {
	out, shown := []T{}, map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if may(id, all[id]) {
			out = append(out, all[id])
			shown[scope+id] = true
		}
	}
	return out, slices.DeleteFunc(l.Warnings(""), func(w api.Warning) bool { return !shown[w.Scope] })
}

func (s *Server) org(ctx context.Context, in *idInput) (*orgOutput, error) {
	if mine := who(ctx).Org; mine != "" && mine != in.ID {
		return nil, problem{api.NewProblem(api.CodeOrgNotFound, "")}
	}
	l, err := s.limits()
	if err != nil {
		return nil, err
	}
	o, ok := l.Orgs[in.ID]
	if !ok {
		return nil, problem{api.NewProblem(api.CodeOrgNotFound, "")}
	}
	return s.orgState(ctx, l, o), nil
}

func (s *Server) putOrg(ctx context.Context, in *putOrgInput) (*orgOutput, error) {
	if err := s.mayLimit(ctx); err != nil {
		return nil, err
	}
	o := in.Body
	if o.ID = cmp.Or(o.ID, in.ID); o.ID != in.ID {
		return nil, field("id", "is not that of the path")
	}
	old, err := s.cfg.Limits.PutOrg(ctx, o)
	if err != nil {
		return nil, unlimited(ctx, err, api.CodeOrgNotFound)
	}
	s.audit(ctx, events.OrgEnvelopeChanged, "org.put", o.ID, o.ID, old, o)
	l, err := s.limits()
	if err != nil {
		return nil, err
	}
	return s.orgState(ctx, l, o), nil
}

func (s *Server) deleteOrg(ctx context.Context, in *idInput) (*struct{}, error) {
	if err := s.mayLimit(ctx); err != nil {
		return nil, err
	}
	if wire.CheckToken(in.ID) != nil {
		return nil, problem{api.NewProblem(api.CodeOrgNotFound, "")}
	}
	old, err := s.cfg.Limits.DeleteOrg(ctx, in.ID)
	if err != nil {
		return nil, unlimited(ctx, err, api.CodeOrgNotFound)
	}
	s.audit(ctx, events.OrgEnvelopeChanged, "org.delete", in.ID, in.ID, old, nil)
	return nil, nil
}

func (s *Server) campaignState(ctx context.Context, l settings.Limits, c api.Campaign) *campaignOutput {
	return &campaignOutput{api.CampaignState{Campaign: c, Warnings: l.Warnings("campaign:" + c.ID), Counted: s.counts(ctx, "campaign:"+c.ID)}}
}

func (s *Server) campaign(ctx context.Context, in *idInput) (*campaignOutput, error) {
	l, err := s.limits()
	if err != nil {
		return nil, err
	}
	c, ok := l.Campaigns[in.ID]
	if mine := who(ctx).Org; !ok || mine != "" && mine != c.Org {
		return nil, problem{api.NewProblem(api.CodeCampaignNotFound, "")}
	}
	return s.campaignState(ctx, l, c), nil
}

func (s *Server) putCampaign(ctx context.Context, in *putCampaignInput) (*campaignOutput, error) {
	if err := s.mayLimit(ctx); err != nil {
		return nil, err
	}
	c := in.Body
	if c.ID = cmp.Or(c.ID, in.ID); c.ID != in.ID {
		return nil, field("id", "is not that of the path")
	}
	old, err := s.cfg.Limits.PutCampaign(ctx, c)
	if err != nil {
		return nil, unlimited(ctx, err, api.CodeCampaignNotFound)
	}
	s.audit(ctx, events.OperatorAction, "campaign.put", c.ID, c.Org, old, c)
	l, err := s.limits()
	if err != nil {
		return nil, err
	}
	return s.campaignState(ctx, l, c), nil
}

func (s *Server) deleteCampaign(ctx context.Context, in *idInput) (*struct{}, error) {
	if err := s.mayLimit(ctx); err != nil {
		return nil, err
	}
	if wire.CheckToken(in.ID) != nil {
		return nil, problem{api.NewProblem(api.CodeCampaignNotFound, "")}
	}
	old, err := s.cfg.Limits.DeleteCampaign(ctx, in.ID)
	if err != nil {
		return nil, unlimited(ctx, err, api.CodeCampaignNotFound)
	}
	s.audit(ctx, events.OperatorAction, "campaign.delete", in.ID, old.Org, old, nil)
	return nil, nil
}

func (s *Server) platformState(ctx context.Context, l settings.Limits) *platformOutput {
	return &platformOutput{api.PlatformState{Platform: l.Platform, EffectiveCap: l.EffectiveCap(), Warnings: l.Warnings(""), Counted: s.counts(ctx, "platform")}}
}

func (s *Server) platform(ctx context.Context, _ *struct{}) (*platformOutput, error) {
	if err := bound(ctx); err != nil {
		return nil, err
	}
	l, err := s.limits()
	if err != nil {
		return nil, err
	}
	return s.platformState(ctx, l), nil
}

func (s *Server) putPlatform(ctx context.Context, in *putPlatformInput) (*platformOutput, error) {
	if err := s.mayLimit(ctx); err != nil {
		return nil, err
	}
	old, err := s.cfg.Limits.PutPlatform(ctx, in.Body)
	if err != nil {
		return nil, unlimited(ctx, err, api.CodeUnavailable)
	}
	s.audit(ctx, events.OperatorAction, "platform.put", "platform", "", old, in.Body)
	l, err := s.limits()
	if err != nil {
		return nil, err
	}
	l.Platform = in.Body
	return s.platformState(ctx, l), nil
}
