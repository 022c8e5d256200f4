package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"dibs/api"
)

// orgsCommand is everything about envelopes.
type orgsCommand struct {
	remote `embed:""`

	LS  struct{} `cmd:"" name:"ls" help:"All envelopes, and what is odd about them; exit code 3 when something is."`
	Set struct {
		ID      string `arg:"" help:"The org's id."`
		Floor   int    `help:"This many calls at once are promised."`
		Ceiling *int   `help:"And never more than this many; left out: no ceiling."`
		Reserve int    `help:"Lines of the floor that are kept for inbound."`
	} `cmd:"" help:"Set all of an envelope: what is left out is the default."`
}

func (c *orgsCommand) ask(ctx context.Context, command string, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if command == "orgs set" {
		got, err := client.PutOrg(ctx, api.Org{ID: c.Set.ID, Floor: c.Set.Floor, Ceiling: c.Set.Ceiling, Reserve: c.Set.Reserve})
		if err != nil {
			return err
		}
		return c.show(out, got, func(w io.Writer) {
			row(w, got.ID, "floor", got.Floor, "ceiling", limit(got.Ceiling), "reserve", got.EffectiveReserve)
			warned(w, got.Warnings)
		})
	}
	got, err := client.Orgs(ctx)
	if err != nil {
		return err
	}
	err = c.show(out, got, func(w io.Writer) {
		row(w, "ORG", "FLOOR", "CEILING", "RESERVE")
		for _, o := range got.Orgs {
			row(w, o.ID, o.Floor, limit(o.Ceiling), o.Reserve)
		}
		warned(w, got.Warnings)
	})
	if err == nil && len(got.Warnings) > 0 {
		return errNo
	}
	return err
}

// campaignsCommand is everything about campaigns.
type campaignsCommand struct {
	remote `embed:""`

	LS  struct{} `cmd:"" name:"ls" help:"All campaigns that have a cap."`
	Set struct {
		ID  string `arg:"" help:"The campaign's id."`
		Org string `name:"org" required:"" help:"Whose it is."`
		Cap *int   `help:"Most calls in flight; left out: no cap."`
	} `cmd:"" help:"Set all of a campaign: what is left out is the default."`
	Pause  campaignCommand `cmd:"" help:"No call of it goes; those in flight go on."`
	Resume campaignCommand `cmd:"" help:"Its calls go again, up to its cap."`
}

type campaignCommand struct {
	ID  string `arg:"" help:"The campaign's id."`
	Org string `name:"org" help:"Whose it is; needed when it has no settings yet."`
}

func (c *campaignsCommand) ask(ctx context.Context, command string, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var got api.CampaignState
	switch command {
	case "campaigns ls":
		page, err := client.Campaigns(ctx)
		if err != nil {
			return err
		}
		return c.show(out, page, func(w io.Writer) {
			row(w, "CAMPAIGN", "ORG", "CAP", "")
			for _, k := range page.Campaigns {
				row(w, k.ID, k.Org, limit(k.Cap), paused(k))
			}
			warned(w, page.Warnings)
		})
	case "campaigns set":
		got, err = client.PutCampaign(ctx, api.Campaign{ID: c.Set.ID, Org: c.Set.Org, Cap: c.Set.Cap})
	case "campaigns pause":
		got, err = c.Pause.put(ctx, client, true)
	case "campaigns resume":
		got, err = c.Resume.put(ctx, client, false)
	default:
		return fmt.Errorf("no such command: %s", command)
	}
	if err != nil {
		return err
	}
	return c.show(out, got, func(w io.Writer) {
		row(w, got.ID, got.Org, "cap", limit(got.Cap), paused(got.Campaign))
		warned(w, got.Warnings)
	})
}

// put pauses a campaign, or lets it go on; everything else stays as it is.
func (c campaignCommand) put(ctx context.Context, client *api.Client, pause bool) (api.CampaignState, error) {
	now, err := client.Campaign(ctx, c.ID)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == http.StatusNotFound && c.Org != "" {
		now.Campaign, err = api.Campaign{ID: c.ID, Org: c.Org}, nil
	}
	if err != nil {
		return now, err
	}
	now.Paused = pause
	return client.PutCampaign(ctx, now.Campaign)
}

func limit(n *int) string {
	if n == nil {
		return "–"
	}
	return strconv.Itoa(*n)
}

func paused(k api.Campaign) string {
	if k.Paused {
		return "paused"
	}
	return ""
}

func warned(w io.Writer, ws []api.Warning) {
	for _, x := range ws {
		row(w, "! "+x.Code, x.Scope, x.Detail)
	}
}
