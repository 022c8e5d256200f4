package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"dibs/carrier/twilio"
	"dibs/demand"
	"dibs/dispatch"
	"dibs/internal/connect"
	"dibs/server"
	"dibs/settings"
)

// Command is the backend as a program: every flag has an environment variable.
// cmd/backend and `dibs backend` run it.
type Command struct {
	NATS connect.Options `embed:""`

	Name      string `env:"POD_NAME" help:"Of this process, in logs and in the office. Default: the host's name."`
	Addr      string `env:"DIBS_ADDR" default:"127.0.0.1:8080" help:"Where the API is listened for."`
	PublicURL string `env:"DIBS_PUBLIC_URL" help:"Where the carrier reaches us: https://host. Signatures are checked against it."`
	Region    string `env:"DIBS_REGION" help:"Region of calls that name none."`
	From      string `env:"DIBS_FROM" help:"Number shown by calls that name none, E.164."`

	Token  string `env:"DIBS_TOKEN" help:"One admin token for the API, at least 16 characters; by environment only, please."`
	Tokens string `env:"DIBS_TOKENS" type:"path" help:"JSON file with the tokens of the API: [{\"name\", \"sha256\" or \"token\", \"role\", \"org_id\"}]."`

	AccountSID string `env:"TWILIO_ACCOUNT_SID" help:"Twilio account."`
	AuthToken  string `env:"TWILIO_AUTH_TOKEN" help:"Its auth token; by environment only, please."`
	KeySID     string `env:"TWILIO_API_KEY" help:"API key in place of the auth token, for requests."`
	KeySecret  string `env:"TWILIO_API_SECRET" help:"Its secret; by environment only, please."`
	TwilioURL  string `env:"TWILIO_BASE_URL" help:"Another API than Twilio's own: a simulated carrier."`
	Insecure   bool   `env:"DIBS_INSECURE" help:"Allow ws:// media to loopback, which only a simulated carrier takes."`

	Replicas  int           `env:"DIBS_REPLICAS" default:"0" help:"Copies of line, records and events: 1, or 3 on a cluster. 0: as they are, 1 for new ones."`
	Retention time.Duration `env:"DIBS_RETENTION" default:"720h" help:"How long records of ended calls are kept."`
	Cap       int           `env:"DIBS_CAP" default:"1000" help:"Most calls in flight."`
	CPS       float64       `env:"DIBS_CPS" default:"0" help:"Dials a second that each of our numbers may make, as the carrier's account allows; 0: as fast as it goes."`
	Settings  string        `env:"DIBS_SETTINGS" type:"path" help:"YAML or JSON file of our numbers, for calls that come in, and of limits: {\"numbers\": […], \"orgs\": […], \"campaigns\": […], \"platform\": {…}}. What has changed in it is put at the start."`
	Policy    string        `env:"DIBS_DEMAND_POLICY" default:"headroom" enum:"headroom,active+4,raw" help:"What a campaign's backlog counts for in the demand."`
	Floor     int           `env:"DIBS_FLOOR" default:"3" help:"Least bots a region wants."`
	Ceiling   int           `env:"DIBS_CEILING" default:"50" help:"Most bots a region wants."`
	StopIn    time.Duration `env:"DIBS_STOP_TIMEOUT" default:"20s" help:"How long a stop waits for what runs."`

	Hurry   float64 `env:"DIBS_HURRY" hidden:"" help:"The dispatcher's time passes so many times faster; for the crash harness."`
	CrashAt int     `env:"DIBS_CRASH_AT" hidden:"" help:"The process kills itself at this step of a dispatch; for the crash harness."`
	StopAt  int     `env:"DIBS_STOP_AT" hidden:"" help:"The process stops itself at this step of a dispatch, once, until somebody continues it; for the crash harness."`
}

// Run is the whole program.
func (c *Command) Run(ctx context.Context, log zerolog.Logger) error {
	cfg, err := c.config(log)
	if err != nil {
		return err
	}
	nc, err := connect.Dial(ctx, "dibs-backend", c.NATS, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	l, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("backend: --addr: %w", err)
	}
	defer func() { _ = l.Close() }()
	cfg.NC, cfg.Listener = nc, l
	if cfg.PublicURL == "" {
		if !c.Insecure {
			return errors.New("backend: --public-url: missing (https://…, where the carrier reaches us)")
		}
		cfg.PublicURL = "http://" + l.Addr().String()
	}
	cfg.Twilio.PublicURL = cfg.PublicURL
	return Run(ctx, cfg)
}

var notToken = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func (c *Command) config(log zerolog.Logger) (Config, error) {
	host, _ := os.Hostname()
	name := notToken.ReplaceAllString(cmp.Or(c.Name, host, "backend"), "-")
	cfg := Config{
		ID: name[:min(len(name), 64)], PublicURL: strings.TrimSuffix(c.PublicURL, "/"), Region: c.Region, From: c.From,
		Replicas: c.Replicas, Retention: c.Retention, Cap: c.Cap, CPS: c.CPS, Demand: demand.Config{Policy: demand.Policy(c.Policy), Floor: c.Floor, Ceiling: c.Ceiling}, StopIn: c.StopIn, Hurry: c.Hurry, Log: log,
		Twilio: twilio.Config{
			AccountSID: c.AccountSID, AuthToken: c.AuthToken, KeySID: c.KeySID, KeySecret: c.KeySecret,
			BaseURL: c.TwilioURL, StatusPath: "/v1/carriers/twilio/status/", Insecure: c.Insecure,
		},
	}
	if c.Tokens != "" {
		data, err := os.ReadFile(c.Tokens)
		if err != nil {
			return cfg, fmt.Errorf("backend: --tokens: %w", err)
		}
		dec := json.NewDecoder(strings.NewReader(string(data)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&cfg.Tokens); err != nil {
			return cfg, fmt.Errorf("backend: --tokens: %s: not a list of tokens", c.Tokens) // the error itself may quote a secret
		}
	}
	if c.Token != "" {
		cfg.Tokens = append(cfg.Tokens, server.Token{Name: "env", Secret: c.Token, Role: server.Admin})
	}
	if len(cfg.Tokens) == 0 {
		return cfg, errors.New("backend: no token: nobody could use the API (DIBS_TOKEN, or --tokens)")
	}
	if c.Settings != "" {
		data, err := os.ReadFile(c.Settings)
		if err == nil {
			cfg.Settings, err = settings.Parse(data, c.Region)
		}
		if err != nil {
			return cfg, fmt.Errorf("backend: --settings: %w", err)
		}
	}
	if c.CrashAt > 0 || c.StopAt > 0 {
		var once sync.Once
		cfg.At = func(s dispatch.Step, id string) {
			switch int(s) {
			case c.CrashAt:
				log.Warn().Int("step", int(s)).Str("call", id).Msg("crash harness: killing this process")
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // until the signal is there
			case c.StopAt:
				once.Do(func() {
					log.Warn().Int("step", int(s)).Str("call", id).Msg("crash harness: stopping this process")
					begun := time.Now()
					_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
					for time.Since(begun) < 10*time.Millisecond { // until the signal is there, and not longer
					}
				})
			}
		}
	}
	return cfg, nil
}
