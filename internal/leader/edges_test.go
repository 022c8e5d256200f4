package leader_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/leader"
	"dibs/internal/natstest"
	"dibs/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What an operator may do to the key and the bucket by hand.
func TestByHand(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(context.Context, jetstream.JetStream) error
	}{
		{"key deleted", func(ctx context.Context, js jetstream.JetStream) error {
			kv, err := js.KeyValue(ctx, wire.BucketOffice)
			if err != nil {
				return err
			}
			return kv.Delete(ctx, "dispatch")
		}},
		{"key overwritten", func(ctx context.Context, js jetstream.JetStream) error {
			kv, err := js.KeyValue(ctx, wire.BucketOffice)
			if err != nil {
				return err
			}
			_, err = kv.PutString(ctx, "dispatch", "nonsense")
			return err
		}},
		{"bucket deleted", func(ctx context.Context, js jetstream.JetStream) error {
			return js.DeleteKeyValue(ctx, wire.BucketOffice)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				e := elect(t, 3)
				time.Sleep(time.Second)
				if err := tc.do(t.Context(), e.broker.JetStream(t)); err != nil {
					t.Fatal(err)
				}
				e.sample(t, 5*time.Second)
				if got := e.leading(); len(got) != 1 {
					t.Errorf("5 s later leading: %v, want one", got)
				}
				e.mu.Lock()
				defer e.mu.Unlock()
				if len(e.terms) != 2 || e.terms[0].end.After(e.terms[1].start) {
					t.Errorf("times in office: %+v, want two that do not overlap", e.terms)
				}
			})
		})
	}
}

// The function in office may give up by itself.
func TestGivingUp(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		run := func(fail error) error {
			l, err := leader.New(b.JetStream(t), leader.Config{Key: "k", ID: "x"})
			if err != nil {
				t.Fatal(err)
			}
			err = l.Run(t.Context(), func(context.Context, uint64) error {
				time.Sleep(3 * time.Second) // in office, over several renewals
				return fail
			})
			if _, _, ok := l.Leading(); ok {
				t.Error("leading after Run returned")
			}
			return err
		}
		if err := run(nil); err != nil {
			t.Errorf("Run: %v, want nil", err)
		}
		broken := errors.New("broken")
		again := time.Now()
		if err := run(broken); err != broken {
			t.Errorf("Run: %v, want %v", err, broken)
		}
		if took := time.Since(again) - 3*time.Second; took > 100*time.Millisecond {
			t.Errorf("an office given back was taken after %v", took)
		}
	})
}

// An office can be run for before there is a broker, and two offices do not
// disturb each other.
func TestLateBrokerAndTwoOffices(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		js := b.JetStream(t)
		b.Stop()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var got []*leader.Leader
		for _, key := range []string{"a", "b"} {
			l, err := leader.New(js, leader.Config{Key: key, ID: "x"})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, l)
			wg.Go(func() {
				l.Run(ctx, func(ctx context.Context, _ uint64) error { <-ctx.Done(); return nil })
			})
		}
		time.Sleep(time.Minute)
		b.Restart()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i, l := range got {
			if _, _, ok := l.Leading(); !ok {
				t.Errorf("office %d is empty 2 s after the broker came", i)
			}
		}
		cancel()
		wg.Wait()
	})
}

func TestConfig(t *testing.T) {
	js, err := jetstream.New(&nats.Conn{})
	if err != nil {
		t.Fatal(err)
	}
	for field, cfg := range map[string]leader.Config{
		"Key":      {Key: "a b", ID: "x"},
		"ID":       {Key: "k"},
		"Replicas": {Key: "k", ID: "x", Replicas: 6},
		"TTL":      {Key: "k", ID: "x", TTL: 2500 * time.Millisecond},
		"Trust":    {Key: "k", ID: "x", Trust: 2 * time.Second},
		"Renew":    {Key: "k", ID: "x", Renew: time.Second},
	} {
		if _, err := leader.New(js, cfg); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: got error %v, want one that names the field", field, err)
		}
	}
	if _, err := leader.New(js, leader.Config{Key: "k", ID: "x"}); err != nil {
		t.Errorf("defaults: %v", err)
	}
}
