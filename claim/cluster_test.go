package claim_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/claim"
	"dibs/internal/natstest"
)

// TestBurstOnThreeServers has as many calls at once as there are idle bots, spread
// over a cluster, whose servers learn a moment late who is taken: every call gets a
// bot, and hardly any asks twice.
func TestBurstOnThreeServers(t *testing.T) {
	const n, nodes = 30, 3
	for _, tc := range []struct {
		name   string
		askers int
	}{{"askers on every server", nodes}, {"all asked through one server", 1}} {
		t.Run(tc.name, func(t *testing.T) {
			c := natstest.StartCluster(t, nodes)
			bots := map[string]*testBot{}
			for i := range n {
				id := fmt.Sprintf("bot-%d", i)
				nc := c.Connect(t, i%nodes)
				bots[id] = startBot(t, nc, id, 1, nil)
				waitUntil(t, "its offers are made", func() bool { return nc.NumSubscriptions() >= 4 }) // a control inbox and the directed subject besides
				if err := nc.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			var askers []*claim.Asker
			for i := range tc.askers {
				a, err := claim.New(c.Connect(t, i), claim.AskerConfig{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = a.Close() })
				askers = append(askers, a)
			}
			known(t, c, nodes)
			var mu sync.Mutex
			var wg sync.WaitGroup
			asks, took := map[string]int{}, map[string]string{}
			begun := time.Now()
			for i := range n {
				wg.Go(func() {
					got, err := askers[i%len(askers)].Assign(t.Context(), call(fmt.Sprintf("c%d", i)))
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Errorf("c%d: %v", i, err)
						return
					}
					for _, a := range got.Attempts {
						asks[a.Answer]++
					}
					if had := took[got.BotID]; had != "" {
						t.Errorf("%s took %s and c%d", got.BotID, had, i)
					}
					took[got.BotID] = fmt.Sprintf("c%d", i)
				})
			}
			wg.Wait()
			total := 0
			for _, k := range asks {
				total += k
			}
			t.Logf("%d calls, asks %v, %v", n, asks, time.Since(begun).Round(time.Millisecond))
			if len(took) != n || total*10 > n*12 {
				t.Errorf("%d of %d calls have a bot, after %d asks %v; want all, and 1.2 a call at most", len(took), n, total, asks)
			}
			for bot, id := range took {
				bots[bot].end(id)
			}
			for id, b := range bots {
				if u := b.seats.InUse(); u.InUse > 0 || len(b.double) > 0 {
					t.Errorf("%s: %d seats held, %v in two calls", id, u.InUse, b.double)
				}
			}
		})
	}
}

// known returns when every server knows what every other knew when it was called:
// between two servers what is said comes in order, so an answer to a question that was
// asked after it tells that it is there.
func known(t *testing.T, c *natstest.Cluster, nodes int) {
	t.Helper()
	for i := range nodes {
		echo, err := c.Connect(t, i).Subscribe(fmt.Sprintf("echo.%d", i), func(m *nats.Msg) { _ = m.Respond(nil) })
		if err != nil {
			t.Fatal(err)
		}
		for j := range nodes {
			nc := c.Connect(t, j)
			waitUntil(t, "the servers hear each other", func() bool {
				_, err := nc.Request(echo.Subject, nil, time.Second)
				return err == nil
			})
		}
	}
}

// waitUntil looks every few milliseconds, for ten seconds.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
