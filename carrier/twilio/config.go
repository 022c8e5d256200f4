package twilio

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"dibs/carrier"
)

// Config is one Twilio account.
type Config struct {
	AccountSID string // "AC" and 32 hex digits
	AuthToken  string // signs webhooks, and opens the API unless KeySID is set

	// KeySID and KeySecret open the API with an API key instead of the auth token.
	// Empty: account and token.
	KeySID, KeySecret string

	BaseURL string // API; empty: https://api.twilio.com

	// PublicURL is where Twilio reaches us, scheme and host and, behind a proxy that
	// strips one, a path prefix: "https://voice.example.com". Webhook signatures are
	// computed over it. Empty: every webhook is refused.
	PublicURL string

	// StatusPath is the path below which status webhooks carry their attempt id as
	// the last element: "/v1/carriers/twilio/status/". Empty: events have no attempt.
	StatusPath string

	// Insecure allows media sockets without TLS (ws) to loopback hosts, which the
	// simulated carrier accepts and Twilio never does.
	Insecure bool

	Timeout time.Duration // of one request, the body included; 0: 10 s; at most 1 min

	// Client sends the requests; its redirect policy is ignored. Its transport must
	// not repeat a POST. Nil: our own, one connection a request, because a kept one
	// that has died unnoticed turns a harmless failure into an unknown one.
	Client *http.Client
}

const (
	defaultBase    = "https://api.twilio.com"
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute
)

var (
	accountForm = regexp.MustCompile(`^AC[0-9a-f]{32}$`)
	callForm    = regexp.MustCompile(`^CA[0-9a-f]{32}$`)
	numberForm  = regexp.MustCompile(`^\+[1-9][0-9]{4,14}$`)
)

// Validate reports the first field that cannot be used. It quotes no secret.
func (c Config) Validate() error {
	switch {
	case !accountForm.MatchString(c.AccountSID):
		return errors.New(`twilio: AccountSID: want "AC" and 32 hex digits`)
	case c.AuthToken == "":
		return errors.New("twilio: AuthToken: missing")
	case (c.KeySID == "") != (c.KeySecret == ""):
		return errors.New("twilio: KeySID, KeySecret: one without the other")
	case c.StatusPath != "" && !strings.HasPrefix(c.StatusPath, "/"):
		return fmt.Errorf("twilio: StatusPath: %q does not begin with /", c.StatusPath)
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return fmt.Errorf("twilio: Timeout: %v is not within 0 to %v", c.Timeout, maxTimeout)
	}
	for _, f := range []struct{ name, value string }{{"BaseURL", c.BaseURL}, {"PublicURL", c.PublicURL}} {
		if f.value == "" {
			continue
		}
		if err := checkAddress(f.value); err != nil {
			return fmt.Errorf("twilio: %s: %w", f.name, err)
		}
	}
	return nil
}

// checkAddress wants an http(s) URL to which a path can be appended.
func checkAddress(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("want http or https")
	case u.Host == "":
		return errors.New("no host")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return errors.New("want no user, query or fragment")
	}
	return nil
}

// String is the configuration without its secrets, for logs.
func (c Config) String() string {
	return fmt.Sprintf("twilio account %s at %s, webhooks at %s", c.AccountSID, c.BaseURL, c.PublicURL)
}

// GoString is String, so that no verb prints the secrets.
func (c Config) GoString() string { return c.String() }

// Client is one Twilio account. It is safe for concurrent use and holds no state
// but its configuration.
type Client struct {
	account      string
	token        string // of webhooks
	user, secret string // of the API
	base, public string // without a trailing slash
	statusPath   string // with a trailing slash; empty: none
	insecure     bool
	timeout      time.Duration
	http         *http.Client
}

var _ carrier.Carrier = (*Client)(nil)

// New checks cfg and returns its account. Nothing is sent.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{
		account:  cfg.AccountSID,
		token:    cfg.AuthToken,
		user:     cfg.AccountSID,
		secret:   cfg.AuthToken,
		base:     strings.TrimSuffix(cfg.BaseURL, "/"),
		public:   strings.TrimSuffix(cfg.PublicURL, "/"),
		insecure: cfg.Insecure,
		timeout:  cfg.Timeout,
	}
	if cfg.KeySID != "" {
		c.user, c.secret = cfg.KeySID, cfg.KeySecret
	}
	if c.base == "" {
		c.base = defaultBase
	}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if cfg.StatusPath != "" {
		c.statusPath = strings.TrimSuffix(cfg.StatusPath, "/") + "/"
	}
	var hc http.Client
	if cfg.Client != nil {
		hc = *cfg.Client
	}
	if hc.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableKeepAlives = true
		hc.Transport = t
	}
	// A followed 307 would be a second create.
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &hc
	return c, nil
}

// Name is "twilio".
func (c *Client) Name() string { return "twilio" }

// String names the account, never the secrets.
func (c *Client) String() string { return "twilio account " + c.account }

// GoString is String, so that no verb prints the secrets.
func (c *Client) GoString() string { return c.String() }
