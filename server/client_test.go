package server_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"dibs/api"
	"dibs/claim"
	"dibs/server"
)

// TestClient takes every way of the client to a real server and back.
func TestClient(t *testing.T) {
	w := newWorld(t).fleet()
	w.bot("bot-a_1", nil)
	c, err := api.NewClient(api.ClientConfig{BaseURL: w.http.URL, Token: operator, HTTP: w.http.Client()})
	if err != nil {
		t.Fatal(err)
	}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	ctx := t.Context()
	order := api.PlaceCall{To: to, Org: "acme", Class: "workflow", Flow: api.Flow{ID: "recall"}, Retry: &api.Retry{MaxAttempts: 2}, Metadata: json.RawMessage(`{"a":1}`)}
	placed, replayed, err := c.PlaceCall(ctx, order, "k")
	must("place", err)
	again, twice, err := c.PlaceCall(ctx, order, "k")
	must("place again", err)
	if again.ID != placed.ID || replayed || !twice {
		t.Errorf("placed %s %v and %s %v, want one call, replayed", placed.ID, replayed, again.ID, twice)
	}
	got, err := c.Call(ctx, placed.ID, true)
	must("look up", err)
	if got.To != to || string(got.Metadata) != `{"a":1}` || got.Class != "workflow" || len(got.Timeline) != 1 {
		t.Errorf("looked up %+v", got)
	}
	page, err := c.Calls(ctx, api.ListQuery{Org: "acme", Limit: 1}, false)
	must("list", err)
	if len(page.Calls) != 1 || page.Next != "" {
		t.Errorf("listed %+v", page)
	}
	gone, err := c.CancelCall(ctx, placed.ID, "done")
	must("cancel", err)
	if gone.Outcome != "cancelled" {
		t.Errorf("cancelled: %+v", gone)
	}
	bots, err := c.Bots(ctx, region, "idle")
	must("bots", err)
	if len(bots.Bots) != 1 || bots.Counts.Idle != 1 {
		t.Errorf("bots %+v", bots)
	}
	assigned, err := c.Claim(ctx, api.Claim{CallID: "c-1", Pool: "default"})
	must("claim", err)
	must("release", c.Release(ctx, "c-1", api.Release{Bot: assigned.Bot}))
	for what, tell := range map[string]func() (api.Bot, error){
		"look":     func() (api.Bot, error) { return c.Bot(ctx, "bot-a_1") },
		"cordon":   func() (api.Bot, error) { return c.CordonBot(ctx, "bot-a_1", "r") },
		"uncordon": func() (api.Bot, error) { return c.UncordonBot(ctx, "bot-a_1", "") },
		"drain":    func() (api.Bot, error) { return c.DrainBot(ctx, "bot-a_1", "r") },
	} {
		b, err := tell()
		if must(what, err); b.ID != "bot-a_1" {
			t.Errorf("%s: %+v", what, b)
		}
	}
}

// TestPaper sends what docs/API.md shows.
func TestPaper(t *testing.T) {
	w := newWorld(t).fleet()
	w.bot("bot-a_1", nil)
	paper, err := os.ReadFile("../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?s)curl -X POST https://voice\.example\.com(\S+).*?-d '(.*?)'`).FindAllStringSubmatch(string(paper), -1)
	if len(shown) != 2 {
		t.Fatalf("%d requests in the paper, want 2", len(shown))
	}
	for _, m := range shown {
		if r := w.ask("POST", m[1], m[2]); r.status != 202 && r.status != 200 {
			t.Errorf("%s %s: %d %s", m[1], m[2], r.status, r.body)
		}
	}
	list := regexp.MustCompile("(?s)```json\n(\\[.*?\\])\n```").FindStringSubmatch(string(paper))
	if list == nil {
		t.Fatal("no list of tokens in the paper")
	}
	full := regexp.MustCompile(`"sha256": "(....)…"`).ReplaceAllString(list[1], `"sha256": "${1}`+"000000000000000000000000000000000000000000000000000000000000"+`"`)
	if _, err := server.ParseTokens([]byte(full)); err != nil {
		t.Errorf("the paper's tokens: %v", err)
	}
}

// TestClaimCodes: what package claim may say has a code of ours.
func TestClaimCodes(t *testing.T) {
	for _, code := range []string{
		claim.CodeNoBotRegistered, claim.CodeNoIdleBot, claim.CodeBotsBusy, claim.CodeBotsDraining, claim.CodeBreakerOpen, claim.CodeClaimTimeout, claim.CodeWarmupFailed,
	} {
		if c := api.CodeOf(code); c.Code != code || c.Status != 503 {
			t.Errorf("%s is answered as %s %d, want itself with 503", code, c.Code, c.Status)
		}
	}
}
