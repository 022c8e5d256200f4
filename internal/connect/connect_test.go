package connect_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dibs/internal/connect"
	"dibs/internal/natstest"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

// patience is how long a program of these tests would wait for NATS, and far longer
// than anything takes.
const patience = time.Minute

func TestDial(t *testing.T) {
	b := natstest.StartWith(t, natstest.Options{Listen: true, User: "me", Password: "secret"})
	nc, err := connect.Dial(t.Context(), "test", connect.Options{URL: b.URL(), User: "me", Password: "secret", Wait: patience}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := nc.Opts.Name; got != "test" {
		t.Errorf("the connection's name is %q", got)
	}
	// It comes back however often NATS goes.
	for range 2 {
		b.Restart()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for nc.FlushWithContext(ctx) != nil {
			if ctx.Err() != nil {
				t.Fatal("it does not come back")
			}
		}
		cancel()
	}
}

// The first server of a list is away, another one is there.
func TestDialList(t *testing.T) {
	b := natstest.StartWith(t, natstest.Options{Listen: true})
	nc, err := connect.Dial(t.Context(), "test", connect.Options{URL: nobody(t) + ", " + b.URL(), Wait: patience}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// NATS is away at the start and comes: the program has waited for it.
func TestDialWaits(t *testing.T) {
	b := natstest.StartWith(t, natstest.Options{Listen: true})
	url := b.URL()
	b.Stop()
	waiting := newLines("waiting for NATS")
	done := make(chan error, 1)
	go func() {
		nc, err := connect.Dial(t.Context(), "test", connect.Options{URL: url, Wait: patience}, zerolog.New(waiting))
		if err == nil {
			nc.Close()
		}
		done <- err
	}()
	wait(t, waiting.seen, "a word that it waits")
	b.Restart()
	if err := wait(t, done, "the connection"); err != nil {
		t.Error(err)
	}
}

// Told to stop, it waits no longer.
func TestDialCancelled(t *testing.T) {
	waiting := newLines("waiting for NATS")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := connect.Dial(ctx, "test", connect.Options{URL: nobody(t), Wait: patience}, zerolog.New(waiting))
		done <- err
	}()
	wait(t, waiting.seen, "a word that it waits")
	cancel()
	if err := wait(t, done, "the end"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// NATS is away and stays so: a bounded wait, and an error that says where we
// looked, without the password.
func TestDialNobody(t *testing.T) {
	at := nobody(t)
	addr := strings.TrimPrefix(at, "nats://")
	for _, url := range []string{"nats://me:secret@" + addr, "nats://other:1, nats://me:secret@" + addr} {
		_, err := connect.Dial(t.Context(), "test", connect.Options{URL: url, Wait: time.Millisecond}, zerolog.Nop())
		if err == nil || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
}

// What waiting does not mend is said at once, with the flag or the reason.
func TestDialHopeless(t *testing.T) {
	b := natstest.StartWith(t, natstest.Options{Listen: true, User: "me", Password: "secret"})
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tc := range []struct {
		name string
		o    connect.Options
		want string
	}{
		{"a wrong password", connect.Options{User: "me", Password: "guess"}, "Authorization Violation"},
		{"no password", connect.Options{}, "Authorization Violation"},
		{"no credentials file", connect.Options{Creds: missing}, "--nats-creds"},
		{"no nkey file", connect.Options{NKey: missing}, "--nats-nkey"},
		{"no CA file", connect.Options{CA: missing}, "--nats-ca"},
		{"a CA file without a certificate", connect.Options{CA: empty}, "--nats-ca"},
		{"no certificate file", connect.Options{Cert: missing, Key: missing}, "--nats-cert"},
		{"no URL", connect.Options{URL: "nats://127.0.0.1, nats://me:guess@%zz"}, "--nats: server 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.Wait = patience
			if tc.o.URL == "" {
				tc.o.URL = b.URL()
			}
			begun := time.Now()
			nc, err := connect.Dial(t.Context(), "test", tc.o, zerolog.Nop())
			if err == nil {
				nc.Close()
				t.Fatal("connected")
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "guess") {
				t.Errorf("got %v, want it to say %q", err, tc.want)
			}
			if took := time.Since(begun); took > patience/2 {
				t.Errorf("it was waited for %v", took)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for name, o := range map[string]connect.Options{
		"--nats":       {},
		"--nats-cert":  {URL: "x", Cert: "c"},
		"--nats-key":   {URL: "x", Key: "k"},
		"--nats-creds": {URL: "x", Creds: "c", NKey: "n"},
		"--nats-wait":  {URL: "x", Wait: -1},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := connect.Dial(t.Context(), "test", o, zerolog.Nop()); err == nil {
			t.Errorf("%s: connected", name)
		}
	}
}

// nobody is an address on which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "nats://" + l.Addr().String()
}

// lines is a log in which one text is looked for.
type lines struct {
	text string
	seen chan struct{}
}

func newLines(text string) lines { return lines{text, make(chan struct{}, 16)} }

func (l lines) Write(p []byte) (int, error) {
	if strings.Contains(string(p), l.text) {
		select {
		case l.seen <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

func wait[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("%s: nothing came", what)
	}
	return v
}
