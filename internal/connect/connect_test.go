package connect_test

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dibs/internal/connect"
	"dibs/internal/natstest"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

func TestDial(t *testing.T) {
	b := natstest.StartWith(t, natstest.Options{Listen: true})
	nc, err := connect.Dial(t.Context(), "test", connect.Options{URL: b.URL(), Wait: 10 * time.Second}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// NATS is away at the start: a bounded wait, and an error that says where we
// looked, without the password.
func TestDialNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, err = connect.Dial(t.Context(), "test", connect.Options{URL: "nats://me:secret@" + addr, Wait: time.Millisecond}, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestValidate(t *testing.T) {
	for name, o := range map[string]connect.Options{
		"--nats":       {},
		"--nats-cert":  {URL: "x", Cert: "c"},
		"--nats-creds": {URL: "x", Creds: "c", NKey: "n"},
		"--nats-wait":  {URL: "x", Wait: -1},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
