package natstest_test

import (
	"os"
	"testing"
	"time"

	"dibs/internal/natstest"

	"github.com/nats-io/nats.go/jetstream"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

// Two bubbles in a row, each with JetStream, requests (which use pooled timers)
// and hours of fake time: nothing hangs, nothing leaks into the next.
func TestBubblesInARow(t *testing.T) {
	for _, name := range []string{"first", "second", "third"} {
		t.Run(name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				js := natstest.Start(t).JetStream(t)
				kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", TTL: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				for range 20 {
					if _, err := kv.PutString(t.Context(), "k", "v"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Minute)
				}
			})
		})
	}
}
