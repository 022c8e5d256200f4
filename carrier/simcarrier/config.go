package simcarrier

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Config is one simulated account.
type Config struct {
	AccountSID string // "AC" and 32 hex digits; empty: [AccountSID]
	AuthToken  string // opens the API and signs webhooks; empty: [AuthToken]

	// Listener serves the API. Nil: Run serves nothing, and whoever has the Server
	// uses it as a handler.
	Listener net.Listener

	// Client fetches TwiML, sends callbacks and opens media sockets; its time-out
	// must be 0, as a media socket outlives any. Nil: our own.
	Client *http.Client

	// Insecure allows media sockets without TLS (ws) to loopback hosts. Otherwise
	// they are refused, as Twilio does.
	Insecure bool

	Seed    uint64             // of all chance; 0 is a seed like any other
	Profile Profile            // callees without one of their own; zero: [DefaultProfile]
	Numbers map[string]Profile // number, or the digits it ends with → its callee; the longest fits best
	Lines   map[string]Line    // our numbers (E.164) → where their inbound calls are announced

	CPS           float64 // calls put through per second, the others stay queued; 0: no limit
	CallbackTries int     // of one callback; 0: 3
	Record        string  // folder for what callees heard, <call>.wav each; empty: nothing is kept
	Keep          int     // ended calls remembered; 0: 100,000
}

// The account of a Config that names none, so that a demo needs no settings.
const (
	AccountSID = "AC00000000000000000000000000000000"
	AuthToken  = "simulated-auth-token"
)

// Line is one of our numbers at the carrier.
type Line struct {
	VoiceURL    string `json:"voice_url"`              // asked for TwiML when somebody calls
	FallbackURL string `json:"fallback_url,omitempty"` // asked when VoiceURL fails; empty: the call ends
	StatusURL   string `json:"status_url,omitempty"`   // told when the call has ended; empty: nobody
}

// Profile is how a callee behaves. The chances of Busy, NoAnswer and Fail are
// within 0 to 1 together; what is left is the chance of an answer.
type Profile struct {
	Busy, NoAnswer, Fail float64

	Queue   time.Duration // waits this long in the carrier's own queue first
	Ring    Range         // until it picks up or is found busy; zero: at once
	Talk    Range         // until it hangs up; zero: it stays for an hour
	GivesUp time.Duration // no answer after this even if the caller would let it ring; 0: never

	// Machine is the chance that who picks up is an answering machine. Whoever asks for
	// machine detection learns it. Message is how long it speaks until the beep; 0: 2 s.
	Machine float64
	Message time.Duration

	Tone   bool   // speaks (a tone); otherwise it is silent
	Digits string // presses these, one a second, once its stream is open
}

// Range is evenly spread chance between two times. A Max under Min counts as Min.
type Range struct{ Min, Max time.Duration }

// DefaultProfile is most people: 70 % answer within 2 s and talk for some seconds.
func DefaultProfile() Profile {
	return Profile{
		Busy: 0.10, NoAnswer: 0.15, Fail: 0.05,
		Ring:    Range{500 * time.Millisecond, 2 * time.Second},
		Talk:    Range{3 * time.Second, 8 * time.Second},
		GivesUp: 3 * time.Second,
	}
}

var (
	accountForm = regexp.MustCompile(`^AC[0-9a-f]{32}$`)
	suffixForm  = regexp.MustCompile(`^\+?[0-9]+$`)
	numberForm  = regexp.MustCompile(`^\+[1-9][0-9]{4,14}$`)
	digitsForm  = regexp.MustCompile(`^[0-9*#]{0,64}$`)
)

// Validate reports the first field that cannot be used.
func (c Config) Validate() error {
	switch {
	case c.AccountSID != "" && !accountForm.MatchString(c.AccountSID):
		return errors.New(`simcarrier: AccountSID: want "AC" and 32 hex digits`)
	case c.CPS < 0:
		return errors.New("simcarrier: CPS: negative")
	case c.CallbackTries < 0:
		return errors.New("simcarrier: CallbackTries: negative")
	case c.Keep < 0:
		return errors.New("simcarrier: Keep: negative")
	case c.Client != nil && c.Client.Timeout != 0:
		return errors.New("simcarrier: Client: its time-out would cut every call")
	}
	if err := c.Profile.check(); err != nil {
		return fmt.Errorf("simcarrier: Profile: %w", err)
	}
	for n, p := range c.Numbers {
		if !suffixForm.MatchString(n) {
			return fmt.Errorf("simcarrier: Numbers: %q is neither a number nor its last digits", n)
		}
		if err := p.check(); err != nil {
			return fmt.Errorf("simcarrier: Numbers: %s: %w", n, err)
		}
	}
	for n, l := range c.Lines {
		if !numberForm.MatchString(n) {
			return fmt.Errorf("simcarrier: Lines: %q is not an E.164 number", n)
		}
		if !httpAddress(l.VoiceURL) {
			return fmt.Errorf("simcarrier: Lines: %s: the voice url is no http address", n)
		}
	}
	return nil
}

func (p Profile) check() error {
	for _, c := range []float64{p.Busy, p.NoAnswer, p.Fail, p.Machine} {
		if !(c >= 0 && c <= 1) {
			return errors.New("a chance is not within 0 to 1")
		}
	}
	if p.Busy+p.NoAnswer+p.Fail > 1+1e-9 {
		return errors.New("the chances are more than 1 together")
	}
	for _, d := range []time.Duration{p.Ring.Min, p.Ring.Max, p.Talk.Min, p.Talk.Max, p.Queue, p.GivesUp, p.Message} {
		if d < 0 {
			return errors.New("a time is negative")
		}
	}
	if !digitsForm.MatchString(p.Digits) {
		return errors.New("digits: at most 64 of 0-9, * and #")
	}
	return nil
}

// plan is what one callee will do on one call.
type plan struct {
	end     string // busy, no-answer, failed; empty: it answers
	queue   time.Duration
	ring    time.Duration // until end, or until it picks up
	talk    time.Duration
	machine bool
	message time.Duration
	tone    bool
	digits  string
	patient time.Duration // inbound: hangs up if nobody has answered; 0: waits
}

const longTalk = time.Hour

// draw makes the plan of the n-th dial of a number. It depends on nothing else,
// so calls at the same time do not change each other's luck.
func (p Profile) draw(seed uint64, number string, n int) plan {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", number, n)
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	d := plan{queue: p.Queue, message: p.Message, tone: p.Tone, digits: p.Digits}
	switch x := rng.Float64(); {
	case x < p.Busy:
		d.end = statusBusy
	case x < p.Busy+p.NoAnswer:
		d.end = statusNoAnswer
	case x < p.Busy+p.NoAnswer+p.Fail:
		d.end = statusFailed
	}
	d.ring = p.Ring.draw(rng)
	d.talk = p.Talk.draw(rng)
	if p.Talk.Max == 0 && p.Talk.Min == 0 {
		d.talk = longTalk
	}
	d.machine = rng.Float64() < p.Machine // drawn last: the rest of a seed stays as it was
	if d.end == statusNoAnswer {
		d.ring = p.GivesUp // 0: until the caller gives up
	}
	return d
}

func (r Range) draw(rng *rand.Rand) time.Duration {
	if r.Max <= r.Min {
		return r.Min
	}
	return r.Min + time.Duration(rng.Int64N(int64(r.Max-r.Min)+1))
}

// profile is the callee of a number: the longest key of Numbers it ends with.
func (c Config) profile(number string) Profile {
	best, p := -1, c.Profile
	for key, q := range c.Numbers {
		if strings.HasSuffix(number, key) && len(key) > best {
			best, p = len(key), q
		}
	}
	return p
}
