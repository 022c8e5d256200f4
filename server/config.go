package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/call"
	"dibs/carrier"
	"dibs/claim"
	"dibs/demand"
	"dibs/events"
	"dibs/pool"
	"dibs/wire"
)

// Calls is whoever keeps the calls. Its errors wrap the sentinels of package api;
// any other is answered as our fault. Every method honours ctx.
type Calls interface {
	// Put takes an order in. [api.ErrDuplicate]: its id is known; [api.ErrUnavailable]:
	// not known whether it was taken; putting it again is safe.
	Put(ctx context.Context, o call.Order) error
	// Get is the record of a call, or what its order alone tells when it was never
	// tried; [api.ErrNotFound].
	Get(ctx context.Context, id string) (call.Record, error)
	// List is one page, newest first, and the cursor of the next; "": the last.
	List(ctx context.Context, q api.ListQuery) (records []call.Record, next string, err error)
	// Cancel asks for a call to be stopped and says how it stands then;
	// [api.ErrNotFound], [api.ErrEnded], [api.ErrUnavailable] (nobody in office).
	Cancel(ctx context.Context, id, reason string) (call.Record, error)
	// CarrierEvent applies what a carrier said; again, late or out of order it changes
	// nothing. [api.ErrNotFound] is harmless, [api.ErrUnavailable] is to be repeated.
	CarrierEvent(ctx context.Context, ev carrier.Event) error
	// Why explains why a call has not gone out; [api.ErrNotFound], [api.ErrEnded],
	// [api.ErrUnavailable] (nobody in office).
	Why(ctx context.Context, id string) (api.Why, error)
	// Timeline is what happened to a call, oldest first, the newest limit entries.
	Timeline(ctx context.Context, id string, limit int) ([]api.TimelineEntry, error)
}

// Config says what the server serves. Calls, Asker, Roster and NC are required.
type Config struct {
	Calls   Calls
	Asker   *claim.Asker
	Roster  *pool.Roster
	NC      *nats.Conn      // for commands to bots
	Carrier carrier.Carrier // whose webhooks are taken; nil: none

	// Reception answers a carrier that asks what to do with a call; nil: its questions
	// are refused. Numbers and Checkpoints are kept there; nil: not at all.
	Reception   Reception
	Numbers     Numbers
	Checkpoints Checkpoints

	// Limits are kept there; nil: none can be set or seen. Usage is what the dispatcher
	// counts of a scope (platform, org:<id>, campaign:<id>); nil, or an error: it is left
	// out. Tell takes events of who has changed what; it must not block; nil: nobody hears.
	Limits Limits
	Usage  func(ctx context.Context, scope string) (api.Usage, error)
	Tell   func(events.Event)

	// Tokens say who may come in. None: nobody may, webhooks and /livez aside.
	Tokens []Token

	PublicURL string // where we are reached from outside, for the OpenAPI description; empty: left out
	Region    string // of calls and claims that name none; empty: they must
	From      string // E.164, of calls that name none; empty: they must

	// Scale is how many bots a region wants at now, and how old the numbers are;
	// [demand.ErrUnknown]. Nil: it is never known.
	Scale func(region string, now time.Time) (demand.Wanted, time.Duration, error)

	// Checks are asked by /readyz besides NATS: name → nil when well. Each has a
	// second and runs beside the others.
	Checks map[string]func(context.Context) error

	// Registerer takes the server's metrics and Gatherer is what /metrics shows; both
	// nil: a registry of the server's own.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer

	Log zerolog.Logger // one line a request; the zero value is silent
}

// Validate reports the first field that cannot be used. It quotes no secret.
func (c Config) Validate() error {
	for _, f := range []struct {
		name string
		ok   bool
	}{{"Calls", c.Calls != nil}, {"Asker", c.Asker != nil}, {"Roster", c.Roster != nil}, {"NC", c.NC != nil}} {
		if !f.ok {
			return fmt.Errorf("server: %s: missing", f.name)
		}
	}
	if (c.Registerer == nil) != (c.Gatherer == nil) {
		return errors.New("server: Registerer, Gatherer: one without the other")
	}
	if c.Region != "" && wire.CheckToken(c.Region) != nil {
		return fmt.Errorf("server: Region: %.40q is no name of a region", c.Region)
	}
	if c.From != "" && !call.E164(c.From) {
		return errors.New("server: From: want E.164: + and 7 to 15 digits")
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return errors.New("server: PublicURL: want http(s)://host, without user, query and fragment")
		}
	}
	return checkTokens(c.Tokens)
}

func checkTokens(tokens []Token) error {
	names := map[string]bool{}
	for i, t := range tokens {
		field, why := t.check()
		if field == "" && names[t.Name] {
			field, why = "Name", "occurs twice"
		}
		if field != "" {
			return fmt.Errorf("server: Tokens[%d].%s: %s", i, field, why)
		}
		names[t.Name] = true
	}
	return nil
}

// Role is how far a token reaches; each may what the ones before it may.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // looks, and sees masked numbers
	Operator Role = "operator" // makes and cancels calls, claims, commands bots, reveals numbers
	Admin    Role = "admin"    // everything
)

// rank orders the roles; 0: none.
func (r Role) rank() int {
	switch r {
	case Viewer:
		return 1
	case Operator:
		return 2
	case Admin:
		return 3
	}
	return 0
}

// Token is one who may come in. Of SHA256 and Secret exactly one is given; with
// the first nobody who reads the configuration can come in with what they read.
type Token struct {
	Name   string `json:"name"`             // in logs, and a part of idempotency; letters, digits, _ and -
	SHA256 string `json:"sha256,omitempty"` // of the secret, 64 hex digits
	Secret string `json:"token,omitempty"`  // the secret itself, at least 16 characters without white space
	Role   Role   `json:"role"`
	Org    string `json:"org_id,omitempty"` // only this org's calls, and no claims and bots; empty: everybody's
}

// MinSecret is the length of the shortest secret.
const MinSecret = 16

var secretForm = regexp.MustCompile(`^[!-~]+$`)

// check is the first field that cannot be used, and why; both empty: there is none.
func (t Token) check() (field, why string) {
	switch {
	case wire.CheckToken(t.Name) != nil:
		return "Name", "want 1 to 128 letters, digits, _ or -"
	case (t.SHA256 == "") == (t.Secret == ""):
		return "Secret", "want exactly one of Secret and SHA256"
	case t.Secret != "" && (len(t.Secret) < MinSecret || !secretForm.MatchString(t.Secret)):
		return "Secret", fmt.Sprintf("want at least %d characters, visible ASCII", MinSecret)
	case t.Role.rank() == 0:
		return "Role", fmt.Sprintf("%.20q, want viewer, operator or admin", string(t.Role))
	case t.Org != "" && wire.CheckToken(t.Org) != nil:
		return "Org", fmt.Sprintf("%.40q is no name of an org", t.Org)
	}
	if _, err := t.hash(); err != nil {
		return "SHA256", fmt.Sprintf("want %d hex digits", 2*sha256.Size)
	}
	return "", ""
}

// hash is the SHA-256 of the secret.
func (t Token) hash() (sum [sha256.Size]byte, err error) {
	if t.Secret != "" {
		return sha256.Sum256([]byte(t.Secret)), nil
	}
	raw, err := hex.DecodeString(t.SHA256)
	if err != nil || len(raw) != len(sum) {
		return sum, errors.New("not a SHA-256")
	}
	copy(sum[:], raw)
	return sum, nil
}

// String names the token, never the secret.
func (t Token) String() string { return fmt.Sprintf("token %s (%s)", t.Name, t.Role) }

// GoString is String, so that no verb prints the secret.
func (t Token) GoString() string { return t.String() }
