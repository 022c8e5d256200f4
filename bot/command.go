package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"dibs/internal/connect"
	"dibs/warmup"
	"dibs/wire"
)

// Command is the bot as a program: every flag has an environment variable.
// cmd/bot and `dibs bot` run it.
type Command struct {
	NATS connect.Options `embed:""`

	Name     string `env:"POD_NAME" help:"The pod's name; the bot's id is NAME_<start>. Default: the host's name."`
	Region   string `env:"DIBS_REGION" required:"" help:"Region whose calls it takes."`
	Pool     string `env:"DIBS_POOL" default:"default" help:"Pool inside the region."`
	Seats    int    `env:"DIBS_SEATS" default:"1" help:"Calls at once."`
	Revision string `env:"DIBS_REVISION" help:"Revision of the deployment."`

	PodNamespace string `env:"POD_NAMESPACE" help:"For people who look for logs."`
	PodNode      string `env:"NODE_NAME" help:"The node it runs on."`

	MediaAddr string `env:"DIBS_MEDIA_ADDR" default:"127.0.0.1:8081" help:"Where media sockets are listened for."`
	MediaURL  string `env:"DIBS_MEDIA_URL" help:"What the carrier connects to, wss://host. Default with --insecure: ws://MEDIA-ADDR."`
	OpsAddr   string `env:"DIBS_OPS_ADDR" default:"127.0.0.1:9850" help:"Where /livez, /readyz and /metrics are listened for; empty: nowhere."`
	Insecure  bool   `env:"DIBS_INSECURE" help:"Allow ws:// media, which only a simulated carrier takes."`

	Flows        string        `env:"DIBS_FLOWS" help:"Directory with <flow>.json, or an http(s) URL with {id} in it."`
	FlowOrigins  []string      `env:"DIBS_FLOW_ORIGINS" help:"Origins from which a call may bring its own flow URL."`
	Providers    string        `env:"DIBS_PROVIDERS" type:"path" help:"JSON file of providers to open in warm-up."`
	Voice        string        `env:"DIBS_VOICE" default:"auto" enum:"auto,tone,espeak,openai,elevenlabs" help:"Who speaks greetings."`
	VoiceURL     string        `env:"DIBS_VOICE_URL" help:"Base URL of the speech API, for anything compatible."`
	VoiceKey     string        `env:"DIBS_VOICE_KEY" help:"Key of the speech API; by environment only, please."`
	VoiceName    string        `env:"DIBS_VOICE_NAME" help:"Voice when neither call nor flow chooses."`
	VoiceModel   string        `env:"DIBS_VOICE_MODEL" help:"Model of the speech API."`
	WarmupIn     time.Duration `env:"DIBS_WARMUP_TIMEOUT" default:"8s" help:"Budget of a whole warm-up."`
	TagGreetings bool          `env:"DIBS_TAG_GREETINGS" help:"Put the call's dibs_tag in front of its greeting, as a proof."`
	Echo         bool          `env:"DIBS_ECHO" help:"Say back what is heard, instead of only listening."`

	MediaIn time.Duration `env:"DIBS_MEDIA_TIMEOUT" default:"75s" help:"Media must come within, from ready."`
	MaxCall time.Duration `env:"DIBS_MAX_CALL" default:"4h" help:"Longest call."`
	DrainIn time.Duration `env:"DIBS_DRAIN_TIMEOUT" default:"10m" help:"How long a stop waits for calls."`
	CloseIn time.Duration `env:"DIBS_CLOSE_TIMEOUT" default:"60s" help:"And then for sockets to close."`
}

// Run is the whole program: connect, listen, take calls until ctx ends, drain.
func (c *Command) Run(ctx context.Context, log zerolog.Logger) error {
	nc, err := connect.Dial(ctx, "dibs-bot", c.NATS, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	mediaL, err := net.Listen("tcp", c.MediaAddr)
	if err != nil {
		return fmt.Errorf("bot: --media-addr: %w", err)
	}
	defer func() { _ = mediaL.Close() }()
	cfg, err := c.config(mediaL.Addr().String(), log)
	if err != nil {
		return err
	}
	b, err := New(nc, cfg)
	if err != nil {
		return err
	}
	servers := []*http.Server{b.Media()}
	listeners := []net.Listener{mediaL}
	if c.OpsAddr != "" {
		l, err := net.Listen("tcp", c.OpsAddr)
		if err != nil {
			return fmt.Errorf("bot: --ops-addr: %w", err)
		}
		servers = append(servers, &http.Server{Handler: b.Ops(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second})
		listeners = append(listeners, l)
	}
	log.Info().Str("bot", b.ID()).Str("region", cfg.Region).Str("pool", cfg.Pool).Int("seats", cfg.Seats).
		Str("media", cfg.MediaURL).Str("media_addr", listeners[0].Addr().String()).Msg("bot started")
	g, serving := errgroup.WithContext(ctx)
	for i, s := range servers {
		g.Go(func() error {
			if err := s.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("bot: serve %s: %w", listeners[i].Addr(), err)
			}
			return nil
		})
	}
	g.Go(func() error {
		err := b.Run(serving)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		for _, s := range servers {
			_ = s.Shutdown(closing)
		}
		return err
	})
	return g.Wait()
}

func (c *Command) config(mediaAddr string, log zerolog.Logger) (Config, error) {
	host, _ := os.Hostname()
	cfg := Config{
		Name: token(cmp.Or(c.Name, host, "bot")), Region: c.Region, Pool: c.Pool, Seats: c.Seats, Revision: c.Revision,
		Pod:      wire.Pod{Name: cmp.Or(c.Name, host), Namespace: c.PodNamespace, Node: c.PodNode},
		MediaURL: c.MediaURL, Insecure: c.Insecure, Tag: c.TagGreetings, Log: log,
		MediaIn: c.MediaIn, MaxCall: c.MaxCall, DrainIn: c.DrainIn, CloseIn: c.CloseIn,
	}
	if cfg.MediaURL == "" {
		if !c.Insecure {
			return cfg, errors.New("bot: --media-url: missing (wss://…, what the carrier connects to)")
		}
		cfg.MediaURL = "ws://" + mediaAddr
	}
	if c.Echo {
		cfg.Talk = Echo
	}
	voice, err := warmup.NewVoice(warmup.VoiceConfig{Engine: c.Voice, URL: c.VoiceURL, Key: c.VoiceKey, Model: c.VoiceModel, Voice: c.VoiceName})
	if err != nil {
		return cfg, fmt.Errorf("bot: --voice: %w", err)
	}
	cfg.Warmup = warmup.Config{Budget: c.WarmupIn, Voice: voice, Flows: warmup.Flows{Origins: c.FlowOrigins}}
	if isURL.MatchString(c.Flows) {
		cfg.Warmup.Flows.Template = c.Flows
	} else {
		cfg.Warmup.Flows.Dir = c.Flows
	}
	if c.Providers != "" {
		data, err := os.ReadFile(c.Providers)
		if err != nil {
			return cfg, fmt.Errorf("bot: --providers: %w", err)
		}
		if cfg.Warmup.Providers, err = warmup.ParseProviders(data); err != nil {
			return cfg, fmt.Errorf("bot: --providers: %w", err)
		}
	}
	return cfg, nil
}

var (
	isURL    = regexp.MustCompile(`^https?://`)
	notToken = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

// token makes a host's name fit for a subject; the start stamp follows it.
func token(name string) string {
	name = notToken.ReplaceAllString(name, "-")
	return name[:min(len(name), wire.MaxToken-12)]
}

// Echo is a Talk that says back what it hears: for trying a line.
func Echo(ctx context.Context, call *Call) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case frame := <-call.Stream.Audio():
			if err := call.Stream.Send(ctx, frame); err != nil {
				return nil // the call is over; its report says why
			}
		}
	}
}
