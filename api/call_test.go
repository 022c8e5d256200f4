package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
	"dibs/call"
)

var t0 = time.Date(2026, 11, 4, 12, 0, 0, 0, time.UTC)

func order() call.Order {
	return call.Order{
		V: 1, CallID: "call_1", Org: "acme", Class: call.ClassAPI, Region: "eu-west", From: "+493012345678", To: "+4915112345678",
		Flow:     call.Flow{ID: "recall", Version: "7", URL: "https://flows.example/7", Inline: json.RawMessage(`{"say":"words"}`)},
		Greeting: call.Greeting{Text: "Hello Mr X"}, Metadata: json.RawMessage(`{"patient":4711}`), CallbackURL: "https://crm.example/?k=s3cret",
		Retry: &call.RetryPolicy{MaxAttempts: 2}, QueuedAt: t0, RequestHash: "abc",
	}
}

func TestCallOf(t *testing.T) {
	after := func(r call.Record, at time.Time, events ...call.Event) call.Record {
		for _, ev := range events {
			r, _ = call.Apply(r, ev, at)
		}
		return r
	}
	queued := call.New(order(), t0)
	later := order()
	later.NotBefore = t0.Add(time.Hour)
	placing := after(queued, t0, call.Event{Kind: call.EvAdmitted})
	waiting := after(placing, t0, call.Event{Kind: call.EvNoBot})
	withBot := after(placing, t0, call.Event{Kind: call.EvBot, Bot: "bot_1"})
	dialing := after(withBot, t0, call.Event{Kind: call.EvIntent})
	paused := after(dialing, t0, call.Event{Kind: call.EvRefused429, RetryAfter: 3000})
	for _, tt := range []struct {
		name    string
		rec     call.Record
		now     time.Time
		state   call.State
		waits   string
		botWait *api.BotWait
	}{
		{"queued", queued, t0, "queued", api.ForAdmission, nil},
		{"scheduled", call.New(later, t0), t0, "scheduled", api.ForTime, nil},
		{"placing", placing, t0, "placing", api.ForBot, nil},
		{"with a bot", withBot, t0, "placing", "", nil},
		{"dialing", dialing, t0, "dialing", "", nil},
		{"no bot, at once", waiting, t0, "queued", api.ForBot, &api.BotWait{Since: t0, RemainingMS: 90000}},
		{"no bot, half a minute on", waiting, t0.Add(30 * time.Second), "queued", api.ForBot, &api.BotWait{Since: t0, RemainingMS: 60000}},
		{"no bot, long after", waiting, t0.Add(time.Hour), "queued", api.ForBot, &api.BotWait{Since: t0}},
		{"no bot, on a clock that is behind", waiting, t0.Add(-time.Hour), "queued", api.ForBot, &api.BotWait{Since: t0, RemainingMS: 90000}},
		{"paused by the carrier", paused, t0, "queued", api.ForCarrier, nil},
		{"the pause is over", paused, t0.Add(3 * time.Second), "queued", api.ForAdmission, nil},
		{"cancelled", after(queued, t0, call.Event{Kind: call.EvCancel, Reason: "why"}), t0, "cancelled", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := api.CallOf(tt.rec, tt.now, false)
			if got.State != tt.state || got.WaitingFor != tt.waits || !cmp.Equal(got.BotWait, tt.botWait) {
				t.Errorf("%s waits for %q, %+v, want %s %q %+v", got.State, got.WaitingFor, got.BotWait, tt.state, tt.waits, tt.botWait)
			}
			if want := tt.rec.Outcome(); got.Outcome != want || len(got.Attempts) != len(tt.rec.Attempts) {
				t.Errorf("outcome %q, %d attempts, want %q and %d", got.Outcome, len(got.Attempts), want, len(tt.rec.Attempts))
			}
		})
	}
}

func TestReveal(t *testing.T) {
	secrets := []string{"+4915112345678", "+493012345678", "Mr X", "4711", "words", "s3cret", "flows.example"}
	for _, reveal := range []bool{false, true} {
		data, err := json.Marshal(api.CallOf(call.New(order(), t0), t0, reveal))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets {
			if strings.Contains(string(data), s) != reveal {
				t.Errorf("reveal %v: %q in %s", reveal, s, data)
			}
		}
		if strings.Contains(string(data), "abc") || !strings.Contains(string(data), `"max_attempts":2`) {
			t.Errorf("reveal %v: %s", reveal, data)
		}
	}
}

func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	last := 0
	for _, c := range api.Codes() {
		switch {
		case seen[c.Code]:
			t.Errorf("%s occurs twice", c.Code)
		case c.Status < last || c.Status < 400 || c.Status > 599:
			t.Errorf("%s: status %d behind %d", c.Code, c.Status, last)
		case c.Title == "" || c.Advice == "" || strings.HasSuffix(c.Title, ".") || !strings.HasSuffix(c.Advice, "."):
			t.Errorf("%s: title %q, advice %q", c.Code, c.Title, c.Advice)
		case api.CodeOf(c.Code) != c:
			t.Errorf("%s is not found", c.Code)
		}
		seen[c.Code], last = true, c.Status
	}
	if got := api.CodeOf("unheard_of"); got.Code != api.CodeInternal {
		t.Errorf("an unknown word is %s", got.Code)
	}
}

func TestProblemText(t *testing.T) {
	p := api.NewProblem(api.CodeInvalidRetry, "")
	p.Errors = []api.FieldProblem{{Path: "retry.on", Detail: "bad"}, {Detail: "worse"}}
	if got, want := p.Error(), "invalid_retry: retry.on: bad; worse"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := api.NewProblem(api.CodeCallEnded, "completed").Error(), "call_ended: completed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
