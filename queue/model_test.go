package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dibs/internal/natstest"
)

// Whatever is done in whatever order, what is in line is what was put and has not
// left, nothing is handed over twice in a term, and a new term reads exactly that.
func TestModel(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		js := b.JetStream(t)
		// Deadline is hidden because rapid would compare it with fake time.
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
			_ = js.DeleteStream(t.Context(), lineConfig(1).Name)
			l := openLine(t, js, Config{})
			inLine := make(map[string]bool) // call → waits
			held := make(map[string]*Item)  // call → what this term holds
			var office *Office
			stop := func() {}
			var mu sync.Mutex
			var got []*Item
			take := func() { // end the term, begin another
				stop()
				o, err := l.TakeOffice(t.Context(), "test")
				if err != nil {
					rt.Fatal(err)
				}
				office, held, got = o, make(map[string]*Item), nil
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					if err := o.Run(ctx, func(items []*Item, _ uint64) {
						mu.Lock()
						defer mu.Unlock()
						got = append(got, items...)
					}); err != nil && !errors.Is(err, ErrLost) {
						t.Error(err)
					}
				}()
				stop = func() { cancel(); <-done }
			}
			defer func() { stop() }()
			read := func() { // everything that comes within two seconds
				time.Sleep(2 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				for _, it := range got {
					if held[it.Key.Call] != nil {
						rt.Fatalf("%s handed over twice", it.Key.Call)
					}
					held[it.Key.Call] = it
				}
				got = nil
				if want, have := slices.Sorted(maps.Keys(inLine)), slices.Sorted(maps.Keys(held)); !slices.Equal(want, have) {
					rt.Fatalf("held %v, want %v", have, want)
				}
			}
			take()
			var trace []string
			for range rapid.IntRange(1, 15).Draw(rt, "steps") {
				k := key(rapid.IntRange(0, 4).Draw(rt, "call"))
				op := rapid.SampledFrom([]string{"put", "put", "cancel", "ack", "nak", "term", "office"}).Draw(rt, "op")
				trace = append(trace, op+" "+k.Call)
				it := held[k.Call]
				var err error
				switch {
				case op == "put":
					_, err = l.Put(t.Context(), k, []byte(`{}`))
					if inLine[k.Call] != errors.Is(err, ErrDuplicate) {
						rt.Fatalf("put %s: %v, in line %v; %s", k.Call, err, inLine[k.Call], strings.Join(trace, ", "))
					}
					if errors.Is(err, ErrDuplicate) {
						err = nil
					}
					inLine[k.Call] = true
				case op == "cancel":
					var was bool
					if was, err = l.Cancel(t.Context(), k); was != inLine[k.Call] {
						rt.Fatalf("cancel %s: %v, in line %v", k.Call, was, inLine[k.Call])
					}
					delete(inLine, k.Call)
					if it != nil { // as the dispatcher does
						err = errors.Join(err, it.Ack(t.Context()))
					}
					delete(held, k.Call)
				case op == "office":
					take()
				case it == nil:
				case op == "ack":
					err = it.Ack(t.Context())
					delete(inLine, k.Call)
					delete(held, k.Call)
				case op == "term":
					err = it.Term(t.Context(), "no")
					delete(inLine, k.Call)
					delete(held, k.Call)
				case op == "nak":
					err = it.Nak(t.Context(), time.Second)
					delete(held, k.Call)
				}
				if err != nil {
					rt.Fatalf("%s: %v", strings.Join(trace, ", "), err)
				}
				read()
				if office.Held() != len(held) {
					rt.Fatalf("the office holds %d, the model %d", office.Held(), len(held))
				}
			}
		})
	})
}

// Three servers: one of 64 putters of the same call gets it in, an office reads
// and gives back over the loss of a node, and nothing is lost.
func TestThreeServers(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	cfg := Config{Replicas: 3, Timeout: 3 * time.Second}
	lines := make([]*Line, 3)
	for i := range lines {
		lines[i] = openLine(t, natstest.JetStream(t, c.Connect(t, i)), cfg)
	}
	if got := lines[0].stream.CachedInfo().Config.Replicas; got != 3 {
		t.Fatalf("%d replicas, want 3", got)
	}
	const rounds, putters = 20, 64
	for i := range rounds {
		var wg sync.WaitGroup
		errs := make([]error, putters)
		for p := range putters {
			wg.Go(func() { _, errs[p] = lines[p%3].Put(t.Context(), key(i), fmt.Appendf(nil, `{"by":%d}`, p)) })
		}
		wg.Wait()
		in := 0
		for _, err := range errs {
			if err == nil {
				in++
			} else if !errors.Is(err, ErrDuplicate) {
				t.Errorf("round %d: %v, want %v", i, err, ErrDuplicate)
			}
		}
		if in != 1 {
			t.Errorf("round %d: %d of %d putters got in, want 1", i, in, putters)
		}
	}

	first := takeOffice(t, lines[0])
	items := first.all(t, rounds)
	for _, it := range items[:5] {
		if err := again(func() error { return it.Ack(t.Context()) }); err != nil {
			t.Error(err)
		}
	}
	c.StopNode(1)
	if err := again(func() error { return items[5].Ack(t.Context()) }); err != nil {
		t.Errorf("ack with two of three servers: %v", err)
	}
	if err := again(func() error {
		_, err := lines[2].Put(t.Context(), key(rounds), []byte(`{}`))
		return err
	}); err != nil && !errors.Is(err, ErrDuplicate) {
		t.Errorf("put with two of three servers: %v", err)
	}
	var o *Office
	if err := again(func() (err error) { o, err = lines[2].TakeOffice(t.Context(), "test"); return err }); err != nil {
		t.Fatal(err)
	}
	second := running(t, o)
	seen := make(map[string]bool)
	for _, it := range second.all(t, rounds-6+1) {
		seen[it.Key.Call] = true
	}
	if len(seen) != rounds-6+1 {
		t.Errorf("the second office read %d different calls, want %d", len(seen), rounds-6+1)
	}
	checkErr(t, "ack by the first office", again(func() error { return items[6].Ack(t.Context()) }), ErrLost)
}

// again repeats what is not known to be done, for a minute.
func again(do func() error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		if err := do(); !errors.Is(err, ErrUnavailable) || time.Now().After(deadline) {
			return err
		}
	}
}
