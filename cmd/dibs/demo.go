package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"dibs/api"
	"dibs/carrier/simcarrier"
	"dibs/internal/natsd"
)

// demoCommand runs the whole system on loopback and checks what it shows.
type demoCommand struct {
	Bots   int    `default:"6" help:"Bots."`
	Calls  int    `default:"12" help:"Calls of the first act."`
	Burst  int    `default:"20" help:"Calls of a burst."`
	Seed   uint64 `default:"1" help:"Of the callees' behaviour."`
	Keep   bool   `help:"Leave everything running afterwards, until Ctrl-C."`
	Record bool   `help:"Write what every callee heard to demo/out/*.wav."`
	Port   int    `default:"8080" help:"Of the API; another one is taken when it is not free."`
}

const (
	demoRegion = "eu-west"
	demoFrom   = "+15005550006"
)

// demo is a running system.
type demo struct {
	demoCommand
	out      string // folder for logs and recordings
	token    string
	natsURL  string
	api      *api.Client
	base     string
	carrier  string // address of the simulated carrier
	backend  *child
	children []*child
	placed   int // calls so far, for numbers and tags

	totals totals
}

// Run plays the acts and ends with an error when one of them was not as it should.
func (c *demoCommand) Run(ctx context.Context) (err error) {
	if c.Bots < 1 || c.Bots > 50 || c.Calls < 1 || c.Burst < 1 || c.Calls > 500 || c.Burst > 500 {
		return errors.New("--bots 1 to 50, --calls and --burst 1 to 500, please")
	}
	begun := time.Now()
	d := &demo{demoCommand: *c, token: rand.Text()}
	if d.out, err = outDir(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	defer func() {
		d.stopChildren()
		cancel()
		<-stopped
		if err != nil && !errors.Is(err, context.Canceled) {
			fmt.Printf("\nlogs of every process: %s\n", d.out)
		}
	}()
	if err := d.startNATS(ctx, stopped); err != nil {
		return err
	}
	if err := d.startAll(ctx); err != nil {
		return err
	}
	if err := d.play(ctx); err != nil {
		return err
	}
	if err := d.totals.judge(time.Since(begun)); err != nil {
		return err
	}
	if c.Record {
		fmt.Printf("recordings  %s\n", filepath.Join(d.out, "*.wav"))
	}
	if c.Keep {
		fmt.Printf("running     %s, token %s; Ctrl-C ends it\n", d.base, d.token)
		<-ctx.Done()
		return nil
	}
	fmt.Println("keep it running:  make demo ARGS=--keep")
	return nil
}

func outDir() (string, error) {
	dir := filepath.Join("demo", "out")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// startNATS runs the embedded server in this process, and the store in a folder
// that goes with it.
func (d *demo) startNATS(ctx context.Context, stopped chan struct{}) error {
	begun := time.Now()
	store, err := os.MkdirTemp("", "dibs-demo-")
	if err != nil {
		close(stopped)
		return err
	}
	s, err := natsd.New(natsd.Config{StoreDir: store, Port: natsd.RandomPort})
	if err != nil {
		close(stopped)
		return err
	}
	failed := make(chan error, 1)
	go func() {
		defer close(stopped)
		failed <- s.Run(ctx)
		_ = os.RemoveAll(store)
	}()
	select {
	case <-s.Ready():
	case err := <-failed:
		return fmt.Errorf("NATS did not start: %w", err)
	}
	d.natsURL = s.URL()
	say("nats", "embedded, JetStream, "+d.natsURL, begun)
	return nil
}

// startAll starts carrier, backend and bots, and waits until a call could come.
func (d *demo) startAll(ctx context.Context) error {
	begun := time.Now()
	port, err := freePort(0)
	if err != nil {
		return err
	}
	d.carrier = fmt.Sprintf("http://127.0.0.1:%d", port)
	args := []string{
		"carrier", "serve", "--addr", fmt.Sprintf("127.0.0.1:%d", port), "--seed", fmt.Sprint(d.Seed), "--insecure",
		"--ring-min", "300ms", "--ring-max", "1s", "--talk-min", "1500ms", "--talk-max", "4s", "--gives-up", "1500ms",
	}
	if d.Record {
		args = append(args, "--record", d.out)
	}
	if _, err := d.child("carrier", args, nil); err != nil {
		return err
	}
	if err := until(ctx, 20*time.Second, "the simulated carrier", func() bool { return listens(port) }); err != nil {
		return err
	}
	say("carrier", "simulated Twilio on "+d.carrier+" (REST, TwiML, Media Streams)", begun)

	begun = time.Now()
	apiPort, err := freePort(d.Port)
	if err != nil {
		return err
	}
	d.base = fmt.Sprintf("http://127.0.0.1:%d", apiPort)
	d.backend, err = d.child("backend", []string{
		"backend", "--addr", fmt.Sprintf("127.0.0.1:%d", apiPort), "--region", demoRegion, "--from", demoFrom, "--insecure",
	}, []string{
		"DIBS_TOKEN=" + d.token, "TWILIO_ACCOUNT_SID=" + simcarrier.AccountSID, "TWILIO_AUTH_TOKEN=" + simcarrier.AuthToken, "TWILIO_BASE_URL=" + d.carrier,
	})
	if err != nil {
		return err
	}
	if d.api, err = api.NewClient(api.ClientConfig{BaseURL: d.base, Token: d.token, Timeout: 20 * time.Second}); err != nil {
		return err
	}
	if err := until(ctx, 30*time.Second, "the backend", d.backendReady); err != nil {
		return err
	}
	say("backend", d.base+"  API, /metrics, /openapi.json", begun)

	begun = time.Now()
	for i := range d.Bots {
		if _, err := d.child(fmt.Sprintf("bot-%d", i+1), []string{
			"bot", "--region", demoRegion, "--name", fmt.Sprintf("bot-%d", i+1), "--media-addr", "127.0.0.1:0", "--ops-addr", "", "--insecure",
			"--voice", "tone", "--tag-greetings", "--drain-in", "5s", "--close-in", "2s",
		}, nil); err != nil {
			return err
		}
	}
	if err := until(ctx, 30*time.Second, "every bot", func() bool { return d.idle(ctx) == d.Bots }); err != nil {
		return err
	}
	say("bots", fmt.Sprintf("%d ready in %s (Go media server, µ-law 8 kHz), one process each", d.Bots, demoRegion), begun)
	return nil
}

func say(what, text string, begun time.Time) {
	fmt.Printf("%-11s %-72s %s\n", what, text, time.Since(begun).Round(time.Millisecond))
}

// child starts one more process.
func (d *demo) child(name string, args, env []string) (*child, error) {
	c := &child{name: name, args: args, env: append(env, "NATS_URL="+d.natsURL), logs: d.out}
	if err := c.start(); err != nil {
		return nil, err
	}
	d.children = append(d.children, c)
	return c, nil
}

// stopChildren stops them in the order of their use: bots drain while the rest is
// still there.
func (d *demo) stopChildren() {
	for i := len(d.children) - 1; i >= 0; i-- {
		c := d.children[i]
		if c.cmd != nil && c.cmd.Process != nil {
			_ = c.cmd.Process.Signal(os.Interrupt)
		}
	}
	for i := len(d.children) - 1; i >= 0; i-- {
		d.children[i].stop(10 * time.Second)
	}
}

func listens(port int) bool {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func (d *demo) backendReady() bool {
	resp, err := http.Get(d.base + "/readyz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// idle is how many seats the backend believes to be idle; -1: it did not say.
func (d *demo) idle(ctx context.Context) int {
	page, err := d.api.Bots(ctx, demoRegion, "")
	if err != nil {
		return -1
	}
	return page.Counts.Idle
}
