package call_test

import (
	"time"

	"dibs/call"
)

// t0 is a Wednesday noon in London, in winter.
var t0 = time.Date(2026, 11, 4, 12, 0, 0, 0, time.UTC)

// order is a valid order with nothing in it that need not be.
func order() call.Order {
	return call.Order{
		V: call.Version, CallID: "c", Org: "acme", Campaign: "recall", Class: call.ClassCampaign,
		Region: "eu-west", From: "+15550199", To: "+15550100", QueuedAt: t0,
	}
}

// sec is t0 and s seconds.
func sec(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

// after applies events one second apart.
func after(r call.Record, evs ...call.Event) call.Record {
	for _, ev := range evs {
		r, _ = call.Apply(r, ev, r.UpdatedAt.Add(time.Second))
	}
	return r
}

// ev makes events without fields.
func ev(kinds ...call.Kind) []call.Event {
	var evs []call.Event
	for _, k := range kinds {
		evs = append(evs, call.Event{Kind: k})
	}
	return evs
}
