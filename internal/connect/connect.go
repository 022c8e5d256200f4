// Package connect is how every Dibs program connects to NATS: the same flags,
// the same environment, the same patience, the same error.
//
// A program that starts while NATS is away waits for it, at most [Options.Wait],
// and then says where it looked and what happened. What waiting does not mend (a
// wrong password, a file that is not there) ends it at once. Once connected it reconnects
// for ever, with a jittered pause; the server is pinged every 5 s and given up
// after two pings without an answer, so that a machine that vanished without a
// word is noticed within 15 s (the server's own default is several minutes).
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// Options are the flags; every one has an environment variable.
type Options struct {
	URL      string        `name:"nats" env:"NATS_URL" default:"nats://127.0.0.1:4222" help:"NATS servers, separated by commas."`
	Creds    string        `name:"nats-creds" env:"NATS_CREDS" type:"path" help:"Credentials file of the environment's account."`
	NKey     string        `name:"nats-nkey" env:"NATS_NKEY" type:"path" help:"File with an nkey seed."`
	User     string        `name:"nats-user" env:"NATS_USER" help:"User name."`
	Password string        `name:"nats-password" env:"NATS_PASSWORD" help:"Password; better by environment than by flag."`
	CA       string        `name:"nats-ca" env:"NATS_CA" type:"path" help:"CA certificates, PEM."`
	Cert     string        `name:"nats-cert" env:"NATS_CERT" type:"path" help:"Client certificate, PEM; needs --nats-key."`
	Key      string        `name:"nats-key" env:"NATS_KEY" type:"path" help:"Key of the client certificate, PEM."`
	Wait     time.Duration `name:"nats-wait" env:"NATS_WAIT" default:"30s" help:"How long to wait for NATS at the start."`
}

// Validate names the field that is wrong; kong calls it.
func (o Options) Validate() error {
	switch {
	case o.URL == "":
		return errors.New("--nats: empty")
	case (o.Cert == "") != (o.Key == ""):
		return errors.New("--nats-cert and --nats-key go together")
	case o.Creds != "" && o.NKey != "":
		return errors.New("--nats-creds and --nats-nkey exclude each other")
	case o.Wait < 0:
		return fmt.Errorf("--nats-wait: %v is negative", o.Wait)
	}
	for i, s := range strings.Split(o.URL, ",") {
		if _, err := parse(s); err != nil { // err has the URL in it, and a URL may have a password
			return fmt.Errorf("--nats: server %d of the list is no URL", i+1)
		}
	}
	return nil
}

// parse reads one server as nats.go does.
func parse(server string) (*url.URL, error) {
	server = strings.TrimSpace(server)
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	return url.Parse(server)
}

// Dial connects, waiting at most o.Wait for the first connection. The error
// names the servers without their credentials.
func Dial(ctx context.Context, name string, o Options, log zerolog.Logger) (*nats.Conn, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	opts := []nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond),
		nats.ReconnectJitter(500*time.Millisecond, time.Second), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.Timeout(2 * time.Second), nats.FlusherTimeout(10 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.Warn().Err(err).Msg("NATS lost") }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info().Msg("NATS is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn().Err(err).Msg("NATS error") }),
	}
	if err := o.checkFiles(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if o.Creds != "" {
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("connect: --nats-nkey: %w", err)
		}
		opts = append(opts, key)
	}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	if o.CA != "" {
		opts = append(opts, nats.RootCAs(o.CA))
	}
	if o.Cert != "" {
		opts = append(opts, nats.ClientCert(o.Cert, o.Key))
	}
	deadline := time.Now().Add(o.Wait)
	for tries := 1; ; tries++ {
		nc, err := nats.Connect(o.URL, opts...)
		if err == nil {
			return nc, nil
		}
		if hopeless(err) || time.Now().After(deadline) {
			return nil, fmt.Errorf("connect: no NATS at %s after %d tries in %v: %w", safe(o.URL), tries, o.Wait, err)
		}
		if tries == 1 {
			log.Warn().Err(err).Str("servers", safe(o.URL)).Dur("patience", o.Wait).Msg("waiting for NATS")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect: %w", context.Cause(ctx))
		case <-time.After(min(500*time.Millisecond, max(time.Until(deadline), time.Millisecond))):
		}
	}
}

// hopeless says that waiting does not mend it.
func hopeless(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrSecureConnRequired)
}

// checkFiles reads what nats.go would complain of only as it connects. The error
// names the flag.
func (o Options) checkFiles() error {
	if o.Creds != "" {
		if _, err := os.Stat(o.Creds); err != nil {
			return fmt.Errorf("--nats-creds: %w", err)
		}
	}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = fmt.Errorf("no certificate in %s", o.CA)
		}
		if err != nil {
			return fmt.Errorf("--nats-ca: %w", err)
		}
	}
	if o.Cert != "" {
		if _, err := tls.LoadX509KeyPair(o.Cert, o.Key); err != nil {
			return fmt.Errorf("--nats-cert, --nats-key: %w", err)
		}
	}
	return nil
}

// safe is a list of servers without user names and passwords.
func safe(servers string) string {
	out := strings.Split(servers, ",")
	for i, s := range out {
		u, err := parse(s)
		if err != nil {
			out[i] = "(a URL that cannot be read)"
			continue
		}
		u.User = nil
		out[i] = u.String()
	}
	return strings.Join(out, ",")
}
