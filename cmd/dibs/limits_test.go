package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
)

func TestOrgsLS(t *testing.T) {
	ceiling := 1
	page := api.OrgPage{Orgs: []api.Org{{ID: "acme", Floor: 2, Ceiling: &ceiling}, {ID: "zahn"}}, Warnings: []api.Warning{}}
	c := orgsCommand{remote: answering(t, 200, page)}
	var out bytes.Buffer
	if err := c.ask(t.Context(), "orgs ls", &out); err != nil {
		t.Error(err)
	}
	if want := "ORG   FLOOR  CEILING  RESERVE\nacme  2      1        0\nzahn  0      –        0\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	page.Warnings = []api.Warning{{Code: "org_shut", Scope: "org:acme", Detail: "cannot dial"}}
	c.remote = answering(t, 200, page)
	out.Reset()
	if err := c.ask(t.Context(), "orgs ls", &out); !errors.Is(err, errNo) || !strings.Contains(out.String(), "! org_shut") {
		t.Errorf("with a warning: %v\n%s", err, out.String())
	}
}

// A campaign is paused and goes on with the cap it had; one without settings is
// paused when it is said whose it is.
func TestCampaignsPause(t *testing.T) {
	five := 5
	kept := map[string]api.Campaign{"/v1/campaigns/recall": {ID: "recall", Org: "acme", Cap: &five}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			var k api.Campaign
			if err := json.NewDecoder(r.Body).Decode(&k); err != nil {
				t.Error(err)
			}
			kept[r.URL.Path] = k
		}
		k, ok := kept[r.URL.Path]
		if !ok {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(api.NewProblem(api.CodeCampaignNotFound, ""))
			return
		}
		_ = json.NewEncoder(w).Encode(api.CampaignState{Campaign: k})
	}))
	t.Cleanup(s.Close)
	c := campaignsCommand{remote: remote{Server: s.URL, Token: "a-token-of-a-test", Output: "table"}}
	does := func(command string, want api.Campaign) {
		t.Helper()
		if err := c.ask(t.Context(), command, new(bytes.Buffer)); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		if diff := cmp.Diff(want, kept["/v1/campaigns/"+want.ID]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
	c.Pause.ID, c.Resume.ID = "recall", "recall"
	does("campaigns pause", api.Campaign{ID: "recall", Org: "acme", Cap: &five, Paused: true})
	does("campaigns resume", api.Campaign{ID: "recall", Org: "acme", Cap: &five})
	c.Pause.ID = "new"
	if err := c.ask(t.Context(), "campaigns pause", new(bytes.Buffer)); err == nil {
		t.Error("paused a campaign of nobody")
	}
	c.Pause.Org = "acme"
	does("campaigns pause", api.Campaign{ID: "new", Org: "acme", Paused: true})
}
