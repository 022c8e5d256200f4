package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"dibs/api"
	"dibs/events"
	"dibs/internal/natstest"
	"dibs/server"
	"dibs/settings"
)

// limited is a world with real settings, an office that counts what it is told to,
// and somebody who hears events.
type limited struct {
	*world
	store *settings.Store

	mu    sync.Mutex
	told  []events.Event
	usage func(scope string) (api.Usage, error)
}

func newLimited(t *testing.T) *limited {
	l := &limited{usage: func(string) (api.Usage, error) { return api.Usage{}, fmt.Errorf("office: %w", api.ErrUnavailable) }}
	w := newWorld(t, func(c *server.Config) {
		store, err := settings.Open(t.Context(), natstest.JetStream(t, c.NC), settings.Config{Cap: 100})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.store, c.Limits = store, store
		c.Usage = func(_ context.Context, scope string) (api.Usage, error) { return l.usage(scope) }
		c.Tell = func(e events.Event) { l.mu.Lock(); defer l.mu.Unlock(); l.told = append(l.told, e) }
	})
	l.world = w
	return l
}

func TestLimits(t *testing.T) {
	w := newLimited(t)
	denied(t, w.ask("GET", "/v1/orgs/acme", nil, as(viewer)...), api.CodeOrgNotFound)
	denied(t, w.ask("DELETE", "/v1/orgs/acme", nil, as(admin)...), api.CodeOrgNotFound)
	put := read[api.OrgState](t, w.ask("PUT", "/v1/orgs/acme", `{"floor":4,"ceiling":10,"reserve":6}`, as(admin)...), 200)
	if put.ID != "acme" || put.EffectiveReserve != 4 || put.Counted.Counted || put.Usage != nil || len(put.Warnings) != 1 || put.Warnings[0].Code != "reserve_cut" {
		t.Errorf("put: %+v", put)
	}
	w.usage = func(scope string) (api.Usage, error) {
		return map[string]api.Usage{"org:acme": {InFlight: 3, Owed: 2, Shortfall: 1}, "platform": {InFlight: 7}, "campaign:recall": {InFlight: 1}}[scope], nil
	}
	got := read[api.OrgState](t, w.ask("GET", "/v1/orgs/acme", nil, as(viewer)...), 200)
	if !got.Counted.Counted || got.Usage.InFlight != 3 || got.Usage.Owed != 2 || got.Usage.Shortfall != 1 || *got.Ceiling != 10 {
		t.Errorf("get: %+v", got)
	}
	read[api.OrgState](t, w.ask("PUT", "/v1/orgs/acme", `{"id":"acme","floor":4,"ceiling":8}`, as(admin)...), 200)
	read[api.OrgState](t, w.ask("PUT", "/v1/orgs/acme", `{"floor":4,"ceiling":8}`, as(admin)...), 200) // again: nothing to tell
	camp := read[api.CampaignState](t, w.ask("PUT", "/v1/campaigns/recall", `{"org_id":"ghost","cap":2}`, as(admin)...), 200)
	if camp.Usage.InFlight != 1 || len(camp.Warnings) != 1 || camp.Warnings[0].Code != "org_without_envelope" {
		t.Errorf("campaign: %+v", camp)
	}
	read[api.CampaignState](t, w.ask("PUT", "/v1/campaigns/recall", `{"org_id":"acme","cap":2,"paused":true}`, as(admin)...), 200) // moved
	p := read[api.PlatformState](t, w.ask("PUT", "/v1/platform", `{"full":"refuse"}`, as(admin)...), 200)
	if p.EffectiveCap != 100 || p.Full != "refuse" || p.Usage.InFlight != 7 {
		t.Errorf("platform: %+v", p)
	}
	p = read[api.PlatformState](t, w.ask("PUT", "/v1/platform", `{"cap":3}`, as(admin)...), 200)
	if got := read[api.PlatformState](t, w.ask("GET", "/v1/platform", nil, as(viewer)...), 200); got.EffectiveCap != 3 || len(got.Warnings) != 1 || got.Warnings[0].Code != "floors_oversubscribed" {
		t.Errorf("platform: %+v", got)
	}
	read[api.OrgState](t, w.ask("PUT", "/v1/orgs/zahn", `{"ceiling":0}`, as(admin)...), 200)
	if all := read[api.OrgPage](t, w.ask("GET", "/v1/orgs", nil, as(viewer)...), 200); len(all.Orgs) != 2 || all.Orgs[0].ID != "acme" || *all.Orgs[0].Ceiling != 8 || len(all.Warnings) != 1 || all.Warnings[0].Scope != "org:zahn" {
		t.Errorf("orgs: %+v", all)
	}
	if all := read[api.CampaignPage](t, w.ask("GET", "/v1/campaigns", nil, as(viewer)...), 200); len(all.Campaigns) != 1 || !all.Campaigns[0].Paused || len(all.Warnings) != 0 {
		t.Errorf("campaigns: %+v", all)
	}
	if own := read[api.OrgPage](t, w.ask("GET", "/v1/orgs", nil, as(acme)...), 200); len(own.Orgs) != 1 || own.Orgs[0].ID != "acme" || len(own.Warnings) != 0 {
		t.Errorf("a token's own org: %+v", own)
	}
	// A token of one org sees its own.
	read[api.OrgState](t, w.ask("GET", "/v1/orgs/acme", nil, as(acme)...), 200)
	read[api.CampaignState](t, w.ask("GET", "/v1/campaigns/recall", nil, as(acme)...), 200)
	denied(t, w.ask("GET", "/v1/orgs/other", nil, as(acme)...), api.CodeOrgNotFound)
	denied(t, w.ask("GET", "/v1/platform", nil, as(acme)...), api.CodeForbidden)
	for _, path := range []string{"/v1/orgs/acme", "/v1/campaigns/recall"} {
		if r := w.ask("DELETE", path, nil, as(admin)...); r.status != 204 {
			t.Errorf("DELETE %s: %d %s", path, r.status, r.body)
		}
	}
	denied(t, w.ask("GET", "/v1/campaigns/recall", nil, as(viewer)...), api.CodeCampaignNotFound)

	var told []string
	for _, e := range w.told {
		var d struct {
			What, Token string
			Old, New    json.RawMessage
		}
		if err := json.Unmarshal(e.Data, &d); err != nil || d.Token != "root" {
			t.Errorf("event %s: %s", e.Type, e.Data)
		}
		told = append(told, strings.Join([]string{e.Type, e.Subject, e.Org, d.What}, " "))
		if err := e.Check(); err != nil {
			t.Errorf("event %+v: %v", e, err)
		}
	}
	want := []string{
		"org.envelope_changed acme acme org.put", "org.envelope_changed acme acme org.put", "operator.action recall ghost campaign.put",
		"operator.action recall acme campaign.put", "operator.action platform  platform.put", "operator.action platform  platform.put",
		"org.envelope_changed zahn zahn org.put", "org.envelope_changed acme acme org.delete", "operator.action recall acme campaign.delete",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q\nwant %q", told, want)
	}
}

func TestBadLimits(t *testing.T) {
	w := newLimited(t)
	for _, tt := range []struct {
		path, body, code, path2, detail string
	}{
		{"orgs/a", `{"floor":1,"ceiling":1,"reserve":1}`, api.CodeOrgDeadlock, "reserve", "reserve 1 leaves 0 lines for outbound at ceiling 1"},
		{"orgs/a", `{"floor":200,"reserve":200}`, api.CodeOrgDeadlock, "reserve", "reserves of 200 leave 0 lines for outbound at platform cap 100"},
		{"orgs/a", `{"floor":5,"ceiling":4}`, api.CodeInvalidField, "floor", "floor 5 is above ceiling 4"},
		{"orgs/a", `{"floor":-1}`, api.CodeInvalidField, "floor", ""},
		{"orgs/a", `{"ceiling":1e30}`, api.CodeInvalidField, "ceiling", ""},
		{"orgs/a", `{"ceiling":1000001}`, api.CodeInvalidField, "ceiling", ""},
		{"orgs/a", `{"ceiling":2.5}`, api.CodeInvalidField, "ceiling", ""},
		{"orgs/a", `{"ceiling":"many"}`, api.CodeInvalidField, "ceiling", ""},
		{"orgs/a", `{"id":"b"}`, api.CodeInvalidField, "id", ""},
		{"orgs/a.b", `{}`, api.CodeInvalidField, "id", ""},
		{"orgs/a", `{"flor":1}`, api.CodeUnknownField, "flor", ""},
		{"orgs/a", `{"withhold":{"inbound":3}}`, api.CodeInvalidField, "withhold", `"inbound" cannot be protected`},
		{"orgs/a", `{"withhold":{"retry":-3}}`, api.CodeInvalidField, "withhold.retry", ""},
		{"orgs/a", `{`, api.CodeMalformedJSON, "", ""},
		{"campaigns/k", `{}`, api.CodeInvalidField, "org_id", ""},
		{"campaigns/k", `{"org_id":"a b"}`, api.CodeInvalidField, "org_id", ""},
		{"campaigns/k", `{"org_id":"a","cap":-1}`, api.CodeInvalidField, "cap", ""},
		{"platform", `{"cap":-5}`, api.CodeInvalidField, "cap", ""},
		{"platform", `{"full":"queue"}`, api.CodeInvalidField, "full", ""},
	} {
		t.Run(tt.path+" "+tt.body, func(t *testing.T) {
			p := denied(t, w.ask("PUT", "/v1/"+tt.path, tt.body, as(admin)...), tt.code)
			if tt.path2 != "" && (len(p.Errors) == 0 || p.Errors[0].Path != tt.path2 || !strings.Contains(p.Errors[0].Detail, tt.detail)) {
				t.Errorf("errors %+v, want %s: %s", p.Errors, tt.path2, tt.detail)
			}
		})
	}
	for _, role := range []string{viewer, operator, acme} {
		denied(t, w.ask("PUT", "/v1/orgs/a", `{"floor":1}`, as(role)...), api.CodeForbidden)
		denied(t, w.ask("DELETE", "/v1/campaigns/k", nil, as(role)...), api.CodeForbidden)
		denied(t, w.ask("PUT", "/v1/platform", `{}`, as(role)...), api.CodeForbidden)
	}
	if len(w.told) != 0 {
		t.Errorf("what was refused is told: %+v", w.told)
	}
	bare := newWorld(t)
	denied(t, bare.ask("GET", "/v1/platform", nil, as(viewer)...), api.CodeUnavailable)
	denied(t, bare.ask("PUT", "/v1/orgs/a", `{"floor":1}`, as(admin)...), api.CodeUnavailable)
}
