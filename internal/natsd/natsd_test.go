package natsd_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/natsd"
	"dibs/internal/natstest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

// run runs a server until stop is called, which gives what Run returned. The
// server ends with the test in any case.
func run(t *testing.T, cfg natsd.Config) (s *natsd.Server, stop func() error) {
	t.Helper()
	s, err := natsd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); err = s.Run(ctx) }()
	stop = func() error { cancel(); <-ended; return err }
	t.Cleanup(func() { stop() })
	select {
	case <-s.Ready():
	case <-ended:
		t.Fatalf("Run: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("not ready")
	}
	return s, stop
}

// fails runs a server that must not come up, and gives its error.
func fails(t *testing.T, cfg natsd.Config) error {
	t.Helper()
	s, err := natsd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = s.Run(ctx)
	if err == nil {
		t.Fatal("Run: no error")
	}
	select {
	case <-s.Ready():
		t.Error("ready, although Run failed")
	default:
	}
	return err
}

func connect(t *testing.T, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.Timeout(10 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Clients through the port and through memory share one broker; it stops while
// they are connected, and what was stored is there for the next one.
func TestStopAndStartAgain(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("", func(t *testing.T) {
		cfg := natsd.Config{StoreDir: filepath.Join(t.TempDir(), "made", "here"), Port: natsd.RandomPort}
		s, stop := run(t, cfg)
		host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "nats://"))
		if err != nil || host != "127.0.0.1" {
			t.Fatalf("URL %s, want one on 127.0.0.1", s.URL())
		}
		lost := make(chan struct{}, 1)
		far := connect(t, s.URL(), nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) {
			if !nc.IsClosed() {
				lost <- struct{}{}
			}
		}))
		near := connect(t, "", nats.InProcessServer(s.InProcess()))
		kv, err := natstest.JetStream(t, near).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.PutString(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}

		if err := stop(); err != nil {
			t.Errorf("Run after a clean stop: %v, want nil", err)
		}
		<-lost
		if got := s.URL(); got != "" {
			t.Errorf("URL of a stopped server: %q, want none", got)
		}
		if _, err := s.InProcess().InProcessConn(); err == nil {
			t.Error("a stopped server took a connection")
		}

		cfg.Port = atoi(t, port)
		run(t, cfg)
		kv, err = natstest.JetStream(t, far).KeyValue(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if e, err := kv.Get(t.Context(), "k"); err != nil || string(e.Value()) != "v" {
			t.Errorf("after the restart: %v, %v; want the value stored before", e, err)
		}
	})
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for name, cfg := range map[string]natsd.Config{
		"client":  {Port: atoi(t, port)},
		"cluster": {ServerName: "a", Port: natsd.RandomPort, Cluster: &natsd.Cluster{Name: "c", Port: atoi(t, port), Routes: []string{"127.0.0.1:1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.StoreDir = t.TempDir()
			err := fails(t, cfg)
			if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), name+" port "+port) {
				t.Errorf("got %q, want one that names the %s port %s", err, name, port)
			}
		})
	}
}

func TestStoreDirectory(t *testing.T) {
	t.Run("used by another", func(t *testing.T) {
		dir := t.TempDir()
		_, stop := run(t, natsd.Config{StoreDir: dir})
		if err := fails(t, natsd.Config{StoreDir: dir}); !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %q, want one that says the directory is in use", err)
		}
		stop()
		run(t, natsd.Config{StoreDir: dir})
	})
	t.Run("below a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := fails(t, natsd.Config{StoreDir: filepath.Join(file, "store")}); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("got %q, want %v", err, syscall.ENOTDIR)
		}
	})
	t.Run("not writable", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root can write anywhere")
		}
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if err := fails(t, natsd.Config{StoreDir: filepath.Join(dir, "store")}); !errors.Is(err, os.ErrPermission) {
			t.Errorf("got %q, want %v", err, os.ErrPermission)
		}
	})
	// What only the server finds out: where its own directory should be is a file.
	t.Run("broken inside", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var lines bytes.Buffer
		err := fails(t, natsd.Config{StoreDir: dir, Logger: zerolog.New(zerolog.SyncWriter(&lines))})
		if !strings.Contains(err.Error(), "JetStream") {
			t.Errorf("got %q, want the server's own reason", err)
		}
	})
}

func TestPassword(t *testing.T) {
	s, _ := run(t, natsd.Config{StoreDir: t.TempDir(), Port: natsd.RandomPort, Username: "u", Password: "secret"})
	if strings.Contains(s.URL(), "secret") {
		t.Error("the URL shows the password")
	}
	if _, err := nats.Connect(s.URL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without the password: %v, want %v", err, nats.ErrAuthorization)
	}
	connect(t, s.URL(), nats.UserInfo("u", "secret"))
	connect(t, "", nats.InProcessServer(s.InProcess()), nats.UserInfo("u", "secret"))
}

// Three servers find each other, with a password, and keep three copies.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("a real cluster in real time")
	}
	ports := natstest.FreePorts(t, 3)
	var routes []string
	for _, p := range ports {
		routes = append(routes, net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
	}
	var first *natsd.Server
	for i := range 3 {
		s, _ := run(t, natsd.Config{
			StoreDir: t.TempDir(), ServerName: "node" + strconv.Itoa(i), Port: natsd.RandomPort,
			Cluster: &natsd.Cluster{
				Name: "c", Port: ports[i], Username: "route", Password: "secret",
				Routes: slices.Concat(routes[:i], routes[i+1:]),
			},
		})
		first = cmp.Or(first, s)
	}
	js := natstest.JetStream(t, connect(t, "", nats.InProcessServer(first.InProcess())))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		// Nobody answers while there is no leader, and so each try needs an end.
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, err := js.CreateKeyValue(once, jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
		cancel()
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no bucket of three copies within a minute: %v", err)
		}
	}
}

// Ending the context while the server starts ends Run as well.
func TestStopAtOnce(t *testing.T) {
	s, err := natsd.New(natsd.Config{StoreDir: t.TempDir(), Port: natsd.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run: %v, want nil", err)
	}
}

// A quiet client whose machine vanished is dropped within 15 s.
func TestVanishedClient(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		s, _ := run(t, natsd.Config{StoreDir: t.TempDir()})
		conn, err := s.InProcess().InProcessConn()
		if err != nil {
			t.Fatal(err)
		}
		// It says hello and is never heard of again, though it takes what it is sent.
		go conn.Write([]byte("CONNECT {}\r\nPING\r\n"))
		start := time.Now()
		var got bytes.Buffer
		if _, err := got.ReadFrom(conn); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 10*time.Second || d > 16*time.Second {
			t.Errorf("dropped after %v, want about 15 s", d)
		}
		if !strings.Contains(got.String(), "Stale Connection") {
			t.Errorf("dropped for another reason: %q", got.String())
		}
	})
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	cluster := func(c natsd.Cluster) *natsd.Cluster { return &c }
	for _, tc := range []struct {
		want string
		cfg  natsd.Config
	}{
		{"StoreDir:", natsd.Config{}},
		{"Port:", natsd.Config{StoreDir: dir, Port: 70000}},
		{"Username, Password:", natsd.Config{StoreDir: dir, Username: "u"}},
		{"Password:", natsd.Config{StoreDir: dir, Host: "0.0.0.0", Port: 4222}},
		{"Password:", natsd.Config{StoreDir: dir, Host: "example.net", Port: 4222}},
		{"MaxMemory, MaxStore:", natsd.Config{StoreDir: dir, MaxStore: -1}},
		{"PingInterval:", natsd.Config{StoreDir: dir, PingInterval: -1}},
		{"StartTimeout:", natsd.Config{StoreDir: dir, StartTimeout: -1}},
		{"ServerName:", natsd.Config{StoreDir: dir, Cluster: cluster(natsd.Cluster{})}},
		{"Port:", natsd.Config{StoreDir: dir, ServerName: "a", Cluster: cluster(natsd.Cluster{})}},
		{"Cluster.Name:", natsd.Config{StoreDir: dir, ServerName: "a", Port: -1, Cluster: cluster(natsd.Cluster{})}},
		{"Cluster.Port:", natsd.Config{StoreDir: dir, ServerName: "a", Port: -1, Cluster: cluster(natsd.Cluster{Name: "c"})}},
		{"Cluster.Password:", natsd.Config{StoreDir: dir, ServerName: "a", Port: -1, Cluster: cluster(natsd.Cluster{Name: "c", Host: "::", Port: 6222})}},
		{"Cluster.Routes:", natsd.Config{StoreDir: dir, ServerName: "a", Port: -1, Cluster: cluster(natsd.Cluster{Name: "c", Port: 6222})}},
		{"Cluster.Routes:", natsd.Config{StoreDir: dir, ServerName: "a", Port: -1, Cluster: cluster(natsd.Cluster{Name: "c", Port: 6222, Routes: []string{"b"}})}},
	} {
		if _, err := natsd.New(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got error %v, want one with %q", tc.cfg, err, tc.want)
		}
	}
	for name, cfg := range map[string]natsd.Config{
		"in process": {StoreDir: dir},
		"loopback":   {StoreDir: dir, Host: "::1", Port: 4222},
		"open":       {StoreDir: dir, Host: "0.0.0.0", Port: 4222, Username: "u", Password: "p"},
	} {
		if _, err := natsd.New(cfg); err != nil {
			t.Errorf("%s: %v, want no error", name, err)
		}
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
