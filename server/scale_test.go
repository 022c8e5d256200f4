package server_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
	"dibs/demand"
	"dibs/server"
)

// What is known is told term by term; what is not known is 503 and never 0.
func TestScale(t *testing.T) {
	var fail error
	w := newWorld(t, func(c *server.Config) {
		c.Scale = func(region string, _ time.Time) (demand.Wanted, time.Duration, error) {
			five, zero := 5, 0
			w, err := demand.Compute(demand.Config{}, demand.Input{InFlight: &five, Direct: &zero, Ready: &zero, Queued: &zero})
			return w, 1500 * time.Millisecond, errors.Join(err, fail)
		}
	})
	got := read[api.Scale](t, w.ask("GET", "/v1/scale/eu-west", nil), 200)
	if got.Wanted != 8 || got.Demand != 5 || got.Region != "eu-west" || got.AgeMS != 1500 || got.Sentence == "" {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]api.ScaleTerm{{Name: "in_flight", Seen: 5, Counts: 5}, {Name: "direct"}, {Name: "campaign"}}, got.Terms); diff != "" {
		t.Error(diff)
	}
	if v := read[api.ScaleValue](t, w.ask("GET", "/v1/scale/eu-west/value", nil), 200); v.Value != 5 {
		t.Errorf("value %d, want 5", v.Value)
	}
	denied(t, w.ask("GET", "/v1/scale/eu.west", nil), api.CodeInvalidField)
	denied(t, w.ask("GET", "/v1/scale/eu-west", nil, as("")...), api.CodeUnauthorized)
	fail = fmt.Errorf("stale: %w", demand.ErrUnknown)
	for _, path := range []string{"/v1/scale/eu-west", "/v1/scale/eu-west/value"} {
		if p := denied(t, w.ask("GET", path, nil), api.CodeDemandUnknown); p.RetryAfterMS == 0 {
			t.Errorf("%s: no retry_after_ms", path)
		}
	}
}

func TestScaleWithoutDispatcher(t *testing.T) {
	w := newWorld(t)
	denied(t, w.ask("GET", "/v1/scale/eu-west/value", nil), api.CodeDemandUnknown)
}

func TestWhy(t *testing.T) {
	w := newWorld(t)
	placed := read[api.Call](t, w.ask("POST", "/v1/calls", `{"to":"+4915112345678","from":"+493012345678","org_id":"acme","region":"eu-west"}`), 202)
	why := read[api.Why](t, w.ask("GET", "/v1/calls/"+placed.ID+"/why", nil), 200)
	if why.Call != placed.ID || why.WouldDial || why.Reason != "no_idle_bot" {
		t.Errorf("got %+v", why)
	}
	denied(t, w.ask("GET", "/v1/calls/nobody/why", nil), api.CodeCallNotFound)
	w.calls.onOther = func(string) error { return fmt.Errorf("office: %w", api.ErrUnavailable) }
	denied(t, w.ask("GET", "/v1/calls/"+placed.ID+"/why", nil), api.CodeNobodyInOffice)
}
