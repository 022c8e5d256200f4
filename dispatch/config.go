package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/call"
	"dibs/carrier"
	"dibs/cdr"
	"dibs/claim"
	"dibs/internal/leader"
	"dibs/pool"
	"dibs/queue"
	"dibs/settings"
	"dibs/wire"
)

// Step is a point of a dispatch at which a crash must leave the call in order
// (package call has the table). Config.At is told of each.
type Step int

// The steps.
const (
	StepReceived  Step = 1  // the message was read
	StepGuards    Step = 2  // window, hours and person looked at
	StepSlot      Step = 3  // it has a slot
	StepPerson    Step = 4  // and the person
	StepPlacing   Step = 5  // placing stored
	StepBot       Step = 6  // a bot is ready, and stored
	StepIntent    Step = 7  // the intent to dial stored
	StepAccepted  Step = 8  // the carrier has the call, its answer is not stored
	StepCarrierID Step = 9  // the carrier's id stored
	StepAcked     Step = 10 // the message has left the line
)

// Config is what a dispatcher works with.
type Config struct {
	NC      *nats.Conn
	Leader  *leader.Leader
	Line    *queue.Line
	Records *cdr.Store
	Roster  *pool.Roster
	Asker   *claim.Asker
	Carrier carrier.Carrier

	ID        string // of this process, a token; in consumers and attempts
	PublicURL string // where the carrier reaches us, without a trailing slash
	Cap       int    // most calls in flight, as long as Settings do not say it; default 1000
	// Settings have the envelopes of orgs, campaigns and platform. Nil: nobody has any.
	Settings *settings.Store
	// CPS is how many dials a second each of our numbers may make; 0: no limit. The
	// carrier's own limit queues or refuses what is faster.
	CPS float64
	// Sorry is what a caller hears whose bot was lost, when no other is free. Nil:
	// [DefaultSorry].
	Sorry func(ctx context.Context, o call.Order) (say, language string)
	// Checkpoint is what the bot of a call last left for the one after it. Nil: nothing.
	Checkpoint func(ctx context.Context, callID string) json.RawMessage

	// Media asks the bots' media servers whether they are there. Nil: a client that
	// follows no redirect and keeps no connection.
	Media *http.Client

	// Emit is told of everything that happens to a call; it must not block. Nil:
	// nobody listens.
	Emit func(Happening)
	// At is told of each step as it is done; the crash harness ends the process
	// there. Nil in production.
	At func(Step, string)
	// Hurry lets the dispatcher's time pass so many times faster: for the crash
	// harness. 0 is 1.
	Hurry float64

	Log zerolog.Logger
}

// Happening is one thing that happened to a call: a line of its timeline.
type Happening struct {
	Type   string // call.admitted, call.claimed, call.ended …
	Order  call.Order
	At     time.Time
	Record *call.Record // as it is afterwards; nil when it has none
	Detail map[string]any
	ID     string // of an end: when it is told again after a crash it is the same one
}

func (c Config) validate() error {
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"NC", c.NC == nil},
		{"Leader", c.Leader == nil},
		{"Line", c.Line == nil},
		{"Records", c.Records == nil},
		{"Roster", c.Roster == nil},
		{"Asker", c.Asker == nil},
		{"Carrier", c.Carrier == nil},
	} {
		if f.missing {
			return fmt.Errorf("dispatch: %s: missing", f.name)
		}
	}
	if err := wire.CheckToken(c.ID); err != nil {
		return fmt.Errorf("dispatch: ID: %w", err)
	}
	if c.PublicURL == "" || strings.HasSuffix(c.PublicURL, "/") {
		return fmt.Errorf("dispatch: PublicURL: %q, want an address without a slash at its end", c.PublicURL)
	}
	if c.Cap < 0 {
		return fmt.Errorf("dispatch: Cap: %d is negative", c.Cap)
	}
	if !(c.CPS >= 0) {
		return fmt.Errorf("dispatch: CPS: %v is negative", c.CPS)
	}
	return nil
}

// statusURL is where the carrier sends the status of one attempt.
func (c Config) statusURL(attempt string) string {
	return c.PublicURL + "/v1/carriers/" + c.Carrier.Name() + "/status/" + attempt
}
