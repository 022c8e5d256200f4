package natstest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/natstest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

// The canaries: each states one thing that the tests of other packages stand on.
// When one fails after a new version of the server, the client or Go, look here
// before looking there.

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

// Bubbles and real time in turn, each with JetStream, with requests (which use
// pooled timers) and, in a bubble, with hours of fake time: nothing hangs and
// nothing is left for the next.
func TestBubblesInARow(t *testing.T) {
	work := func(pause func()) func(*testing.T) {
		return func(t *testing.T) {
			b := natstest.Start(t)
			kv := bucket(t, b.JetStream(t), jetstream.KeyValueConfig{Bucket: "b", TTL: time.Hour, Storage: jetstream.FileStorage})
			nc := b.Connect(t)
			if _, err := nc.Subscribe("echo", func(m *nats.Msg) { m.Respond(m.Data) }); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if _, err := kv.PutString(t.Context(), "k", "v"); err != nil {
					t.Fatal(err)
				}
				if _, err := nc.Request("echo", []byte("x"), 30*time.Second); err != nil {
					t.Fatal(err)
				}
				if err := nc.Flush(); err != nil {
					t.Fatal(err)
				}
				pause()
			}
		}
	}
	for i := range 3 {
		t.Run(fmt.Sprintf("bubble %d", i), func(t *testing.T) {
			natstest.Bubble(t, work(func() { time.Sleep(10 * time.Minute) }))
		})
		t.Run(fmt.Sprintf("real %d", i), work(func() {}))
	}
}

// A stopped broker and its closed connections leave no goroutine, in real time
// either.
func TestNothingIsLeft(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("broker", func(t *testing.T) {
		bucket(t, natstest.Start(t).JetStream(t), jetstream.KeyValueConfig{Bucket: "b"})
	})
	t.Run("frozen link", func(t *testing.T) {
		b := natstest.Start(t)
		link := b.Link(t)
		nc := b.Connect(t, nats.InProcessServer(link))
		link.Freeze()
		if err := nc.Publish("x", []byte("held back")); err != nil {
			t.Fatal(err)
		}
	})
}

// A key with a TTL goes at its time, not before, and a watcher is told.
func TestKeyExpiresOnTime(t *testing.T) {
	for _, storage := range []jetstream.StorageType{jetstream.MemoryStorage, jetstream.FileStorage} {
		t.Run(storage.String(), func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				kv := bucket(t, natstest.Start(t).JetStream(t), jetstream.KeyValueConfig{
					Bucket: "b", Storage: storage, LimitMarkerTTL: time.Minute,
				})
				w, err := kv.WatchAll(t.Context(), jetstream.UpdatesOnly())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { w.Stop() })
				for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, time.Hour} {
					start := time.Now()
					if _, err := kv.Create(t.Context(), "k", []byte("v"), jetstream.KeyTTL(ttl)); err != nil {
						t.Fatal(err)
					}
					if e := <-w.Updates(); e.Operation() != jetstream.KeyValuePut {
						t.Fatalf("first told of %v, want a put", e.Operation())
					}
					if e := <-w.Updates(); e.Operation() != jetstream.KeyValuePurge {
						t.Fatalf("then told of %v, want a purge", e.Operation())
					}
					if got := time.Since(start); got < ttl || got > ttl+100*time.Millisecond {
						t.Errorf("a key of %v expired after %v", ttl, got)
					}
					if _, err := kv.Get(t.Context(), "k"); !errors.Is(err, jetstream.ErrKeyNotFound) {
						t.Errorf("get after expiry: %v, want %v", err, jetstream.ErrKeyNotFound)
					}
				}
			})
		})
	}
}

// A message that is not acked comes again after AckWait of fake time.
func TestRedeliveryOnTime(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		js := natstest.Start(t).JetStream(t)
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "Q", Subjects: []string{"q.>"}, Retention: jetstream.WorkQueuePolicy,
		}); err != nil {
			t.Fatal(err)
		}
		c, err := js.CreateConsumer(t.Context(), "Q", jetstream.ConsumerConfig{
			Durable: "d", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := js.Publish(t.Context(), "q.1", nil); err != nil {
			t.Fatal(err)
		}
		it, err := c.Messages()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(it.Stop)
		for i := range 3 {
			m, err := it.Next()
			if err != nil {
				t.Fatal(err)
			}
			want := time.Duration(i) * 30 * time.Second
			if got := time.Since(start); got < want || got > want+time.Second {
				t.Errorf("delivery %d after %v, want %v", i+1, got, want)
			}
			if i == 2 {
				m.Ack()
			}
		}
	})
}

// A client sees the broker go and come, and finds what was stored.
func TestRestartInABubble(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		down, up := make(chan time.Time, 1), make(chan time.Time, 1)
		js := b.JetStream(t,
			nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) {
				if !nc.IsClosed() {
					down <- time.Now()
				}
			}),
			nats.ReconnectHandler(func(*nats.Conn) { up <- time.Now() }))
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", Storage: jetstream.FileStorage})
		rev, err := kv.PutString(t.Context(), "k", "before")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)

		stopped := time.Now()
		b.Stop()
		if got := (<-down).Sub(stopped); got > time.Second {
			t.Errorf("the client saw the broker go after %v", got)
		}
		time.Sleep(30 * time.Second)
		restarted := time.Now()
		b.Restart()
		if got := (<-up).Sub(restarted); got > time.Second {
			t.Errorf("the client came back after %v", got)
		}
		e, err := kv.Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(e.Value()); got != "before" || e.Revision() != rev {
			t.Errorf("after the restart: %q at revision %d, want %q at %d", got, e.Revision(), "before", rev)
		}
	})
}

// A frozen link holds everything back without anybody noticing, and delivers it
// when it thaws.
func TestFrozenLink(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		link := b.Link(t)
		far, near := b.Connect(t, nats.InProcessServer(link)), b.Connect(t)
		got := make(chan time.Time, 1)
		if _, err := near.Subscribe("x", func(*nats.Msg) { got <- time.Now() }); err != nil {
			t.Fatal(err)
		}
		if err := near.Flush(); err != nil {
			t.Fatal(err)
		}

		link.Freeze()
		if err := far.Publish("x", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("a message passed the frozen link")
		default:
		}
		if !far.IsConnected() {
			t.Error("the client noticed the frozen link within 3 s")
		}
		thawed := time.Now()
		link.Thaw()
		if d := (<-got).Sub(thawed); d > time.Second {
			t.Errorf("the message came %v after the thaw", d)
		}
	})
}

func bucket(t *testing.T, js jetstream.JetStream, cfg jetstream.KeyValueConfig) jetstream.KeyValue {
	t.Helper()
	kv, err := js.CreateKeyValue(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// A broker is stopped while pulls are pending and consumers are being made: fake time
// goes on. (The server sleeps with a lock as it shuts down; see Broker.Stop.)
func TestStopWhileConsumersAreMade(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		js := b.JetStream(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if m, err := c.Fetch(1, jetstream.FetchMaxWait(5*time.Second)); err == nil {
				for range m.Messages() {
				}
			}
		})
		synctest.Wait() // the pull is pending
		for range 20 {
			wg.Go(func() { _, _ = s.CreateConsumer(ctx, jetstream.ConsumerConfig{}) })
		}
		b.Stop()
		cancel()
		wg.Wait()
	})
}
