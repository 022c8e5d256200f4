package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
	"dibs/wire"
)

func TestBots(t *testing.T) {
	w := newWorld(t)
	if got := w.ask("GET", "/v1/bots", nil, as(viewer)...); strings.TrimSpace(string(got.body)) != `{"bots":[],"counts":{"bots":0,"seats":0,"idle":0,"claimed":0,"live":0,"draining":0,"broken":0,"stuck":0}}` {
		t.Errorf("no bots: %s", got.body)
	}
	now := time.Now()
	hear := func(ago time.Duration, b wire.Beat) {
		b.V, b.Instance, b.Seq = 1, "1", 1
		if b.Region == "" {
			b.Region = region
		}
		b.Pool = "default"
		w.roster.Hear(now.Add(-ago), b)
	}
	seat := func(s wire.SeatState) []wire.SeatView {
		return []wire.SeatView{{State: s, ForMS: 1000, CallID: "call-" + string(s)}}
	}
	hear(0, wire.Beat{BotID: "a-idle_1", Seats: []wire.SeatView{{State: wire.SeatIdle}}})
	hear(0, wire.Beat{BotID: "b-live_1", Seats: append(seat(wire.SeatLive), wire.SeatView{State: wire.SeatIdle})})
	hear(0, wire.Beat{BotID: "c-stuck_1", Seats: []wire.SeatView{{State: wire.SeatWarming, Stuck: true}}})
	hear(0, wire.Beat{BotID: "d-draining_1", Seats: seat(wire.SeatLive), Draining: true, Cordoned: true})
	hear(0, wire.Beat{BotID: "e-cordoned_1", Seats: seat(wire.SeatAssigned), Cordoned: true})
	hear(0, wire.Beat{BotID: "f-failing_1", Seats: []wire.SeatView{{State: wire.SeatIdle}}, Breaker: &wire.BreakerView{State: "open", Failures: 3, LastError: "429", RetryMS: 100}})
	hear(0, wire.Beat{BotID: "g-deaf_1", Seats: []wire.SeatView{{State: wire.SeatIdle}}, NotReady: "deaf"})
	hear(time.Minute, wire.Beat{BotID: "h-lost_1", Seats: seat(wire.SeatLive)})
	hear(0, wire.Beat{BotID: "i-west_1", Region: "us-west", Seats: seat(wire.SeatWarming), RSS: 7, Minute: wire.Minute{Turns: 20, FirstAudioP95MS: 400}})

	list := func(query string) (ids []string, counts api.Counts) {
		page := read[api.BotPage](t, w.ask("GET", "/v1/bots"+query, nil, as(viewer)...), 200)
		for _, b := range page.Bots {
			ids = append(ids, b.ID+" "+b.State)
		}
		return ids, page.Counts
	}
	all, counts := list("")
	if d := cmp.Diff([]string{
		"a-idle_1 idle", "b-live_1 live", "c-stuck_1 stuck", "d-draining_1 draining", "e-cordoned_1 cordoned", "f-failing_1 failing",
		"g-deaf_1 not_ready", "h-lost_1 lost", "i-west_1 warming",
	}, all); d != "" {
		t.Errorf("all (-want +got):\n%s", d)
	}
	if counts.Bots != 8 || counts.Live != 1 || counts.Draining != 2 || counts.Stuck != 2 {
		t.Errorf("counts %+v, want 8 bots, 1 live, 2 draining, 2 stuck", counts)
	}
	for query, want := range map[string][]string{
		"?region=us-west":            {"i-west_1 warming"},
		"?state=lost":                {"h-lost_1 lost"},
		"?state=live":                {"b-live_1 live", "d-draining_1 draining", "h-lost_1 lost"},
		"?state=idle&region=us-west": nil,
		"?region=nowhere":            nil,
	} {
		if got, _ := list(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	got := read[api.Bot](t, w.ask("GET", "/v1/bots/f-failing_1", nil, as(viewer)...), 200)
	if got.Breaker == nil || got.Breaker.LastError != "429" || got.Region != region || got.Seats[0].State != "idle" {
		t.Errorf("bot %+v", got)
	}
	denied(t, w.ask("GET", "/v1/bots/nobody_1", nil, as(viewer)...), api.CodeBotNotFound)
}

func TestCommandBots(t *testing.T) {
	w := newWorld(t).fleet()
	b := w.bot("bot-a_1", nil)
	for _, tt := range []struct {
		verb, state string
	}{{"cordon", api.BotCordoned}, {"uncordon", "idle"}, {"drain", api.BotDraining}} {
		got := read[api.Bot](t, w.ask("POST", "/v1/bots/bot-a_1/"+tt.verb, map[string]string{"reason": "try " + tt.verb}), 200)
		if got.ID != "bot-a_1" || got.State != tt.state {
			t.Errorf("%s: %s %s, want it %s", tt.verb, got.ID, got.State, tt.state)
		}
		if said := b.said(); said[len(said)-1] != tt.verb+": try "+tt.verb {
			t.Errorf("told %v, want %s with its reason", said, tt.verb)
		}
		eventually(t, "the beat that says "+tt.state, func() bool {
			return read[api.Bot](t, w.ask("GET", "/v1/bots/bot-a_1", nil), 200).State == tt.state
		})
	}
	if !strings.Contains(w.log.String(), `"token":"crm","bot":"bot-a_1","verb":"drain","message":"commanded"`) {
		t.Errorf("the log does not say who commanded what:\n%s", w.log)
	}
	read[api.Bot](t, w.ask("POST", "/v1/bots/bot-a_1/uncordon", nil), 200) // nobody has to say why
	denied(t, w.ask("POST", "/v1/bots/bot-a_1/cordon", nil, as(viewer)...), api.CodeForbidden)
	denied(t, w.ask("POST", "/v1/bots/nobody_1/cordon", nil), api.CodeBotNotFound)
	denied(t, w.ask("POST", "/v1/bots/bot-a_1/explode", nil), api.CodeNotFound)

	b.mu.Lock()
	b.refuse = "not_today"
	b.mu.Unlock()
	if p := denied(t, w.ask("POST", "/v1/bots/bot-a_1/cordon", nil), api.CodeBotRefused); p.Detail != "not_today: this bot is stubborn" {
		t.Errorf("problem %+v, want the bot's words", p)
	}

	// A bot that stands still is not one that is gone.
	b.link.Freeze()
	r := w.ask("POST", "/v1/bots/bot-a_1/cordon", nil)
	if denied(t, r, api.CodeBotSilent); r.header.Get("Retry-After") == "" {
		t.Error("a silent bot: no Retry-After")
	}
	denied(t, w.ask("DELETE", "/v1/claims/c", map[string]string{"bot_id": "bot-a_1"}), api.CodeBotSilent)
	b.link.Thaw()
	b.leave()
	eventually(t, "its goodbye", func() bool { return w.listed("bot-a_1") == nil })
	w.roster.Hear(time.Now(), wire.Beat{V: 1, BotID: "bot-a_1", Instance: "1", Seq: 1, Region: region, Pool: "default", Seats: []wire.SeatView{{State: wire.SeatIdle}}})
	var lost reply // listed, and nobody answers, as soon as the server has heard that too
	eventually(t, "no responders", func() bool {
		lost = w.ask("POST", "/v1/bots/bot-a_1/cordon", nil)
		return lost.status != 503
	})
	denied(t, lost, api.CodeBotLost)

	w.broker.Stop()
	eventually(t, "the loss of NATS", func() bool { return !w.nc.IsConnected() })
	denied(t, w.ask("POST", "/v1/bots/bot-a_1/cordon", nil), api.CodeUnavailable)
	denied(t, w.ask("POST", "/v1/claims", map[string]any{"call_id": "c"}), api.CodeUnavailable)
}
