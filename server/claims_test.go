package server_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
	"dibs/claim"
	"dibs/wire"
)

func TestClaim(t *testing.T) {
	w := newWorld(t).fleet()
	b := w.bot("bot-a_1", nil)
	got := read[api.Assignment](t, w.ask("POST", "/v1/claims", map[string]any{
		"call_id": "call-1", "org_id": "acme", "class": "inbound", "direction": "inbound", "from": to, "to": from, "pool": "default",
		"flow": map[string]any{"id": "recall", "version": "7"}, "greeting": map[string]any{"text": "Hello"}, "media": map[string]any{"kind": "twilio", "sample_rate": 8000},
		"providers": map[string]string{"stt": "deepgram"}, "metadata": map[string]any{"patient": 4711}, "media_ms": 60000, "max_call_ms": 600000, "ready_ms": 5000, "waited_ms": 12,
	}), 200)
	if got.CallID != "call-1" || got.Bot != "bot-a_1" || got.Pod.Name != "bot-a_1" || got.ClaimID == "" || got.TookMS < 0 ||
		got.Media.URL != "wss://bot.example/m/bot-a_1/one-time" || got.Media.Params["call"] != "call-1" || got.Media.ExpiresMS != 75000 ||
		got.Warmup.Steps["flow"] != 2 || !got.Warmup.GreetingReady || got.Providers["stt"] != "deepgram" {
		t.Errorf("assignment %+v", got)
	}
	if len(got.Attempts) != 1 || got.Attempts[0].Phase != "pool" || got.Attempts[0].Answer != "ready" || got.Attempts[0].Bot != "bot-a_1" {
		t.Errorf("attempts %+v, want one, of the pool, ready", got.Attempts)
	}
	req := b.asked()[0]
	req.V, req.ClaimID, req.Attempt = 0, "", 0
	if d := cmp.Diff(wire.ClaimRequest{
		CallID: "call-1", Phase: wire.PhasePool, AcceptMS: 150, ReadyMS: 5000, MediaMS: 60000, MaxCallMS: 600000, WaitedMS: 12, Region: region, Pool: "default",
		Org: "acme", Class: "inbound", Direction: "inbound", From: to, To: from, Flow: wire.Flow{ID: "recall", Version: "7"}, Greeting: wire.Greeting{Text: "Hello"},
		Media: wire.MediaKind{Kind: "twilio", SampleRate: 8000}, Providers: map[string]string{"stt": "deepgram"}, Metadata: []byte(`{"patient":4711}`),
	}, req); d != "" {
		t.Errorf("what the bot was asked (-want +got):\n%s", d)
	}

	// The only seat is taken now. Its other offer may stand for a moment and say busy.
	var r reply
	eventually(t, "the other offer is withdrawn", func() bool {
		r = w.ask("POST", "/v1/claims", map[string]any{"call_id": "call-2"})
		return !strings.Contains(string(r.body), api.CodeBotsBusy)
	})
	p := denied(t, r, api.CodeNoIdleBot)
	if len(p.Attempts) == 0 || p.Attempts[0].Answer != "no_responders" || p.Counts == nil || p.Counts.Bots != 1 || r.header.Get("Retry-After") != "5" || p.RetryAfterMS != 5000 {
		t.Errorf("problem %+v, Retry-After %q: want the attempts, the counts and 5 s", p, r.header.Get("Retry-After"))
	}

	if r := w.ask("DELETE", "/v1/claims/call-1", map[string]string{"bot_id": "bot-a_1", "reason": "no answer"}); r.status != 204 || len(r.body) != 0 {
		t.Fatalf("release: %d %s, want 204", r.status, r.body)
	}
	if !b.idle() || b.said()[0] != "release: no answer" {
		t.Errorf("idle %v, told %v", b.idle(), b.said())
	}
	denied(t, w.ask("DELETE", "/v1/claims/call-1", nil), api.CodeClaimNotFound)
	denied(t, w.ask("DELETE", "/v1/claims/call-1", map[string]string{"bot_id": "bot-a_1"}), api.CodeClaimNotFound)
	denied(t, w.ask("DELETE", "/v1/claims/call-1", map[string]string{"bot_id": "bot-gone_1"}), api.CodeClaimNotFound)

	// Whoever does not say which bot has it leaves it to the roster.
	eventually(t, "an offer", func() bool { return w.ask("POST", "/v1/claims", map[string]any{"call_id": "call-3"}).status == 200 })
	eventually(t, "the release", func() bool { return w.ask("DELETE", "/v1/claims/call-3", nil).status == 204 })
	if !b.idle() {
		t.Error("the seat is not idle after its release")
	}
}

func TestClaimNobody(t *testing.T) {
	w := newWorld(t).fleet()
	p := denied(t, w.ask("POST", "/v1/claims", map[string]any{"call_id": "c"}), api.CodeNoBotRegistered)
	if p.Counts == nil || p.Counts.Bots != 0 || p.Detail == "" {
		t.Errorf("problem %+v, want the counts", p)
	}
	w.bot("bot-a_1", func(context.Context, wire.ClaimRequest) (wire.Reply, error) {
		return wire.Reply{}, &claim.Failure{Code: "flow_not_found", Detail: "no flow of this name", CallsFault: true}
	})
	p = denied(t, w.ask("POST", "/v1/claims", map[string]any{"call_id": "c", "pool": "default"}), api.CodeCallRejected)
	if p.Reason != "flow_not_found" || p.Detail != "no flow of this name" || p.RetryAfterMS != 0 || len(p.Attempts) != 1 {
		t.Errorf("problem %+v, want the bot's words, one attempt and no retry", p)
	}
}

func TestClaimWarmupFails(t *testing.T) {
	w := newWorld(t).fleet()
	w.bot("bot-a_1", func(context.Context, wire.ClaimRequest) (wire.Reply, error) {
		return wire.Reply{}, &claim.Failure{Code: "provider_refused", Detail: "deepgram said 429"}
	})
	p := denied(t, w.ask("POST", "/v1/claims", map[string]any{"call_id": "c"}), api.CodeWarmupFailed)
	if p.Detail != "deepgram said 429" || p.Attempts[0].Code != "provider_refused" {
		t.Errorf("problem %+v, want the bot's words", p)
	}
}

func TestBadClaims(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name, path, code string
		body             map[string]any
	}{
		{"no call", "call_id", api.CodeInvalidField, map[string]any{}},
		{"a call with a dot", "call_id", api.CodeInvalidField, map[string]any{"call_id": "a.b"}},
		{"a region like a wildcard", "region", api.CodeInvalidField, map[string]any{"call_id": "c", "region": "*"}},
		{"a pool like a wildcard", "pool", api.CodeInvalidField, map[string]any{"call_id": "c", "pool": ">"}},
		{"an unknown field", "claim_id", api.CodeUnknownField, map[string]any{"call_id": "c", "claim_id": "mine"}},
		{"huge metadata", "metadata", api.CodeInvalidMetadata, map[string]any{"call_id": "c", "metadata": map[string]any{"x": strings.Repeat("a", 8<<10)}}},
		{"a flow of 70 KiB", "", api.CodeInvalidField, map[string]any{"call_id": "c", "flow": map[string]any{"inline": strings.Repeat("a", 70<<10)}}},
		{"a minute to be ready", "ready_ms", api.CodeInvalidField, map[string]any{"call_id": "c", "ready_ms": 60000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if p := denied(t, w.ask("POST", "/v1/claims", tt.body), tt.code); len(p.Errors) != 1 || p.Errors[0].Path != tt.path {
				t.Errorf("errors %+v, want %q", p.Errors, tt.path)
			}
		})
	}
}

// TestClaimOutlivesTheReadDeadline has a warm-up that is longer than a request may
// take to arrive: net/http ends a request's context when its read deadline passes, and
// the claim must not be withdrawn by that.
func TestClaimOutlivesTheReadDeadline(t *testing.T) {
	w := newWorld(t).fleet()
	const deadline = 300 * time.Millisecond
	b := w.bot("bot-a_1", func(ctx context.Context, _ wire.ClaimRequest) (wire.Reply, error) {
		select {
		case <-time.After(3 * deadline):
			return wire.Reply{Media: wire.Media{URL: "wss://bot/m/1"}}, nil
		case <-ctx.Done():
			return wire.Reply{}, context.Cause(ctx)
		}
	})
	web := w.srv.HTTP()
	web.ReadTimeout = deadline
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	defer func() {
		_ = web.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	c, err := api.NewClient(api.ClientConfig{BaseURL: "http://" + l.Addr().String(), Token: operator, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Claim(t.Context(), api.Claim{CallID: "c"})
	if err != nil || got.Bot != b.id {
		t.Errorf("claim: %+v, %v, want %s", got, err, b.id)
	}
}

// TestClaimerGone: whoever hangs up in the middle of a claim holds no seat.
func TestClaimerGone(t *testing.T) {
	w := newWorld(t).fleet()
	warming := make(chan struct{})
	b := w.bot("bot-a_1", func(ctx context.Context, _ wire.ClaimRequest) (wire.Reply, error) {
		close(warming)
		<-ctx.Done()
		return wire.Reply{}, context.Cause(ctx)
	})
	c, err := api.NewClient(api.ClientConfig{BaseURL: w.http.URL, Token: operator, HTTP: w.http.Client()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Claim(ctx, api.Claim{CallID: "c"})
		done <- err
	}()
	<-warming
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("claim: %v, want cancelled", err)
	}
	eventually(t, "an idle seat", b.idle)
	if s := w.log.String(); strings.Contains(s, `"level":"error"`) {
		t.Errorf("a caller who left is logged as our fault:\n%s", s)
	}
}
