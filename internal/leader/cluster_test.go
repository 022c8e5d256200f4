package leader_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/leader"
	"dibs/internal/natstest"
	"dibs/wire"
)

// Three leaders on three nodes, in real time; the node that leads the bucket is
// stopped, twice. Nobody can be in office while the cluster elects; then one is.
func TestClusterLosesANode(t *testing.T) {
	if testing.Short() {
		t.Skip("a real cluster in real time")
	}
	c := natstest.StartCluster(t, 3)
	var (
		mu    sync.Mutex
		terms []term
		wg    sync.WaitGroup
		all   []*leader.Leader
	)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer wg.Wait()
	defer cancel()
	for i := range 3 {
		l, err := leader.New(natstest.JetStream(t, c.Connect(t, i)), leader.Config{Key: "dispatch", ID: fmt.Sprint(i), Replicas: 3})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
		wg.Go(func() {
			if err := l.Run(ctx, func(ctx context.Context, n uint64) error {
				started := time.Now()
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				terms = append(terms, term{who: i, term: n, start: started, end: time.Now(), cause: context.Cause(ctx)})
				return nil
			}); err != nil {
				t.Errorf("leader %d: %v", i, err)
			}
		})
	}

	// watch samples for d, then until one leads, and gives the longest time
	// without anybody in office.
	watch := func(d time.Duration) (gap time.Duration) {
		t.Helper()
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		began, seen := time.Now(), time.Now()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				t.Fatalf("nobody in office for %v", time.Since(seen))
			}
			leading := 0
			for _, l := range all {
				if _, _, ok := l.Leading(); ok {
					leading++
				}
			}
			if leading > 1 {
				t.Fatalf("%d in office at once", leading)
			}
			if leading == 1 {
				gap, seen = max(gap, time.Since(seen)), time.Now()
				if time.Since(began) > d {
					return gap
				}
			}
		}
	}
	watch(0)
	for range 2 {
		s, err := natstest.JetStream(t, c.Connect(t, 0)).Stream(ctx, "KV_"+wire.BucketOffice)
		if err != nil {
			t.Fatal(err)
		}
		var node int
		if _, err := fmt.Sscanf(s.CachedInfo().Cluster.Leader, "node%d", &node); err != nil {
			t.Fatalf("leader of the bucket: %v", err)
		}
		c.StopNode(node)
		t.Logf("node %d stopped: nobody in office for %v", node, watch(5*time.Second))
		c.RestartNode(node)
		t.Logf("node %d back: nobody in office for %v", node, watch(2*time.Second))
	}
	cancel()
	wg.Wait()

	slices.SortFunc(terms, func(a, b term) int { return a.start.Compare(b.start) })
	for i, b := range terms {
		t.Logf("term %d: leader %d for %v, ended by: %v", b.term, b.who, b.end.Sub(b.start).Round(time.Millisecond), b.cause)
		if i > 0 && (b.start.Before(terms[i-1].end) || b.term <= terms[i-1].term) {
			t.Errorf("term %d began before term %d ended", b.term, terms[i-1].term)
		}
	}
}
