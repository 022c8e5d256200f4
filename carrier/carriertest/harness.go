package carriertest

import (
	"net/http"
	"testing"
	"time"

	"dibs/carrier"
)

// Patience is how long the suite waits for anything that must happen.
const Patience = 20 * time.Second

// Callee is how the person at the far end behaves.
type Callee string

// The callees. They ring for as short as the far end can, unless said otherwise.
const (
	Answers Callee = "answers" // and talks for about 200 ms
	Stays   Callee = "stays"   // answers and does not hang up
	Rings   Callee = "rings"   // for ever
	Machine Callee = "machine" // answers, is a machine, and does not hang up
	IsBusy  Callee = "busy"
	Nobody  Callee = "nobody" // no answer, after a short while
	Dead    Callee = "dead"   // the call fails
	Queued  Callee = "queued" // stays in the carrier's own queue
)

// Fault is what goes wrong at the far end.
type Fault string

// The faults of a create, and of a look-up.
const (
	NoFault      Fault = ""
	LoseReply    Fault = "lose reply"   // the call is made, the connection breaks
	Truncate     Fault = "truncate"     // the call is made, half of the reply comes
	LoseRequest  Fault = "lose request" // not made, the connection breaks
	RateLimit    Fault = "rate limit"   // not made
	ServerError  Fault = "server error" // not made, 5xx
	ErrorButMade Fault = "error, made"  // made, 5xx
	Slow         Fault = "slow"         // made, the reply comes after seconds
	LookupDown   Fault = "look-up down"
)

// Forgery is a status webhook that may be wrong in one way.
type Forgery string

// The webhooks. All but Genuine must be refused.
const (
	Genuine      Forgery = "genuine"
	Unsigned     Forgery = "unsigned"      // no signature at all
	OtherKey     Forgery = "other key"     // signed with another secret
	OtherAccount Forgery = "other account" // signed with ours, about another account
	OtherPath    Forgery = "other path"    // ours, sent to another address
	Tampered     Forgery = "tampered"      // ours, then one field changed
	Huge         Forgery = "huge"          // 5 MB, signed with ours
	NoForm       Forgery = "no form"       // signed with ours, no status in it
)

// Harness is a carrier under test with its far end.
type Harness struct {
	Carrier carrier.Carrier
	Refused carrier.Carrier // the same with an address where nobody listens
	From    string          // a number that may call

	// Number is a fresh number whose callee behaves so, one nobody has called yet.
	Number func(Callee) string

	// BadNumber is a well-formed number that the carrier refuses (4xx).
	BadNumber string

	// Calls is how many calls the far end has made to a number; their carrier ids.
	Calls func(number string) []string

	// Fault replaces what goes wrong.
	Fault func(t *testing.T, f Fault)

	// Receiver takes webhooks and media. Its address is the carrier's public address.
	Receiver *Receiver

	// StartOf reads a media socket's message: the parameters, if it is the start.
	StartOf func(message []byte) (params map[string]string, ok bool)

	// Webhook is a status event "completed" of the attempt, to Receiver's address.
	Webhook func(f Forgery, attempt string) *http.Request
}
