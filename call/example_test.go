package call_test

import (
	"fmt"
	"time"

	"dibs/call"
)

// One dial from the line to its end: decide, store, then act.
func Example() {
	now := time.Date(2026, 11, 4, 12, 0, 0, 0, time.UTC)
	rec := call.New(call.Order{
		V: call.Version, CallID: "c1", Org: "acme", Class: call.ClassAPI, Region: "eu-west",
		From: "+4930123456", To: "+4915112345689",
	}, now)
	step := func(ev call.Event) {
		var effects []call.Effect
		rec, effects = call.Apply(rec, ev, now)
		// Here the record is stored; only then the effects are done.
		fmt.Println(ev.Kind, "→", rec.State, effects)
	}
	step(call.Event{Kind: call.EvAdmitted, Owner: "backend-1"})
	step(call.Event{Kind: call.EvBot, Bot: "bot-7"})
	step(call.Event{Kind: call.EvIntent})
	if call.MaySend(rec, now) {
		// Here the carrier is asked, with the attempt's id.
		step(call.Event{Kind: call.EvPlaced, Attempt: rec.Current().ID, CarrierID: "CA1"})
	}
	step(call.Event{Kind: call.EvEnd, CarrierID: "CA1", Outcome: call.Busy})
	step(call.Event{Kind: call.EvRinging, CarrierID: "CA1"})
	fmt.Println("owed:", call.Pending(rec))

	// Output:
	// admitted → placing []
	// bot → placing []
	// intent → dialing []
	// placed → ringing []
	// end → busy [{release c1-1} {cancel_bot c1-1} {retry? c1-1}]
	// ringing → busy []
	// owed: [{cancel_bot c1-1} {retry? c1-1}]
}

func ExampleHours() {
	hours := call.Hours{"mon": {{Open: 9 * 60, Close: 20 * 60}}}
	berlin, err := call.Zone("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	sunday := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at, ok := hours.Earliest(sunday, berlin)
	fmt.Println(at, ok)
	// Output: 2026-11-02 08:00:00 +0000 UTC true
}

func ExampleMaskNumber() {
	fmt.Println(call.MaskNumber("+4915112345689"))
	// Output: +49151•••89
}
