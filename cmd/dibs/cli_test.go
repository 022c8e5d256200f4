package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"dibs/api"
	"dibs/call"
)

// answering is a server that says one thing.
func answering(t *testing.T, status int, v any) remote {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status != http.StatusOK {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}))
	t.Cleanup(s.Close)
	return remote{Server: s.URL, Token: "a-token-of-a-test", Output: "table"}
}

func TestCallsWhy(t *testing.T) {
	limit := 5
	no := api.Why{
		Call: "c1", State: call.Queued, Reason: "campaign_cap", Gates: []api.WhyGate{
			{Gate: "time", OK: true}, {Gate: "campaign", Code: "campaign_cap", Scope: "campaign:recall", InUse: 5, Limit: &limit},
		},
	}
	yes := api.Why{Call: "c1", State: call.Queued, WouldDial: true, Gates: []api.WhyGate{{Gate: "time", OK: true}}}
	for _, tc := range []struct {
		name string
		why  api.Why
		want []string
		err  error
	}{
		{"no", no, []string{"dialled now?", "NO", "✘ campaign_cap", "5 of 5", "campaign:recall"}, errNo},
		{"yes", yes, []string{"yes", "✔"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := callsCommand{remote: answering(t, 200, tc.why)}
			c.Why.ID = "c1"
			var out bytes.Buffer
			if err := c.ask(t.Context(), "calls why", &out); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
			c.Output = "json"
			out.Reset()
			_ = c.ask(t.Context(), "calls why", &out)
			var got api.Why
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Call != "c1" {
				t.Errorf("-o json: %v in %s", err, out.String())
			}
		})
	}
}

// What the server does not know is an error that says so, and nothing on stdout.
func TestScaleUnknown(t *testing.T) {
	c := scaleCommand{remote: answering(t, 503, api.NewProblem(api.CodeDemandUnknown, "no numbers"))}
	c.Explain.Region = "eu-west"
	var out bytes.Buffer
	err := c.ask(t.Context(), "scale explain", &out)
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || p.Code != api.CodeDemandUnknown || out.Len() > 0 {
		t.Errorf("error %v, stdout %q", err, out.String())
	}
}
