package natstest_test

import (
	"context"
	"testing"
	"time"

	"dibs/internal/natstest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A listening broker keeps its port, and its clients come back to it.
func TestListen(t *testing.T) {
	b := natstest.StartWith(t, natstest.Options{Listen: true, User: "u", Password: "p"})
	if _, err := nats.Connect(b.URL()); err == nil {
		t.Error("connected without the password")
	}
	nc, err := nats.Connect(b.URL(), nats.UserInfo("u", "p"), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	before := b.URL()
	b.Restart()
	if got := b.URL(); got != before {
		t.Errorf("URL after the restart is %s, was %s", got, before)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for nc.FlushWithContext(ctx) != nil {
		if ctx.Err() != nil {
			t.Fatal("the client did not come back")
		}
	}
	if !b.Connect(t).IsConnected() {
		t.Error("not connected through memory")
	}
}

// Three nodes: what is stored on them survives each of them.
func TestCluster(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	js := natstest.JetStream(t, c.Connect(t, 0))
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c.StopNode(i)
		put(t, ctx, kv)
		c.RestartNode(i)
		put(t, ctx, kv)
	}
}

// put stores until it succeeds: a leader that has just gone takes a moment to
// be replaced.
func put(t *testing.T, ctx context.Context, kv jetstream.KeyValue) {
	t.Helper()
	for {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := kv.PutString(once, "k", "v")
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("put: %v", err)
		}
	}
}

// Nobody is given a port that another test has been given, used or not.
func TestFreePorts(t *testing.T) {
	seen := map[int]bool{}
	for range 10 { // by chance alone, two of 400 would nearly always be the same
		for _, p := range natstest.FreePorts(t, 40) {
			if seen[p] {
				t.Fatalf("port %d was given twice", p)
			}
			seen[p] = true
		}
	}
}
