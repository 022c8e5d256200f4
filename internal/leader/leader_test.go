package leader_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

// term is one time in office, as the function in office saw it.
type term struct {
	who        int
	term       uint64
	start, end time.Time // end is zero while it lasts
	cause      error
}

// election is n leaders that run for one office, each on a link of its own.
type election struct {
	t       *testing.T
	broker  *natstest.Broker
	links   []*natstest.Link
	leaders []*leader.Leader
	stop    []context.CancelFunc
	ended   []chan error

	mu    sync.Mutex
	terms []term
}

// elect starts n leaders and waits until one of them is in office.
func elect(t *testing.T, n int) *election {
	t.Helper()
	e := &election{t: t, broker: natstest.Start(t)}
	for i := range n {
		link := e.broker.Link(t)
		js := e.broker.JetStream(t, nats.InProcessServer(link))
		l, err := leader.New(js, leader.Config{Key: "dispatch", ID: fmt.Sprint("backend-", i)})
		if err != nil {
			t.Fatal(err)
		}
		e.links, e.leaders = append(e.links, link), append(e.leaders, l)
	}
	e.stop, e.ended = make([]context.CancelFunc, n), make([]chan error, n)
	for i := range n {
		e.start(i)
	}
	e.await(t, 0)
	return e
}

// start runs leader i (again); it ends with the test.
func (e *election) start(i int) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	e.stop[i], e.ended[i] = cancel, ended
	e.t.Cleanup(cancel)
	go func() {
		ended <- e.leaders[i].Run(ctx, func(ctx context.Context, n uint64) error {
			if got, _, ok := e.leaders[i].Leading(); !ok || got != n {
				e.t.Errorf("on taking office with term %d: Leading is %d, %v", n, got, ok)
			}
			e.mu.Lock()
			at := len(e.terms)
			e.terms = append(e.terms, term{who: i, term: n, start: time.Now()})
			e.mu.Unlock()
			<-ctx.Done()
			e.mu.Lock()
			e.terms[at].end, e.terms[at].cause = time.Now(), context.Cause(ctx)
			e.mu.Unlock()
			return nil
		})
	}()
}

// last is the newest time in office and how many there have been.
func (e *election) last() (term, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.terms) == 0 {
		return term{}, 0
	}
	return e.terms[len(e.terms)-1], len(e.terms)
}

// await waits, for a minute of fake time, until there have been more than n times in office.
func (e *election) await(t *testing.T, n int) term {
	t.Helper()
	for range 6000 {
		if last, count := e.last(); count > n {
			return last
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("nobody took office within a minute; terms so far: %+v", e.terms)
	return term{}
}

// check fails the test when two were in office at once or a term went down.
func (e *election) check(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, a := range e.terms {
		if i == 0 {
			continue
		}
		b := e.terms[i-1]
		if a.term <= b.term {
			t.Errorf("term %d of leader %d came after term %d", a.term, a.who, b.term)
		}
		if b.end.IsZero() || b.end.After(a.start) {
			t.Errorf("leader %d took office %v before leader %d had left it", a.who, b.end.Sub(a.start), b.who)
		}
	}
}

// leading lists the leaders that say they are in office.
func (e *election) leading() (who []int) {
	for i, l := range e.leaders {
		if _, _, ok := l.Leading(); ok {
			who = append(who, i)
		}
	}
	return who
}

func TestOneOfThree(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		start := time.Now()
		e := elect(t, 3)
		first, _ := e.last()
		if took := first.start.Sub(start); took > time.Second {
			t.Errorf("the first took office after %v, want it at once", took)
		}
		for range 600 {
			time.Sleep(100*time.Millisecond + time.Microsecond)
			if got := e.leading(); !slices.Equal(got, []int{first.who}) {
				t.Fatalf("leading: %v, want %d alone", got, first.who)
			}
		}
		if _, n := e.last(); n != 1 {
			t.Errorf("%d times in office in a quiet minute, want 1", n)
		}
		e.check(t)
	})
}

func TestCleanStopHandsOver(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		e := elect(t, 3)
		for n := 1; n <= 5; n++ {
			time.Sleep(time.Duration(n) * 333 * time.Millisecond)
			old, _ := e.last()
			stopped := time.Now()
			e.stop[old.who]()
			if err := <-e.ended[old.who]; err != nil {
				t.Errorf("Run after a clean stop: %v, want nil", err)
			}
			next := e.await(t, n)
			if took := next.start.Sub(stopped); took > 300*time.Millisecond {
				t.Errorf("another took office %v after a clean stop", took)
			}
			e.start(old.who)
		}
		e.check(t)
	})
}

func TestSilentDeath(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		e := elect(t, 3)
		for n := 1; n <= 8; n++ {
			time.Sleep(5*time.Second + time.Duration(n)*77*time.Millisecond)
			old, _ := e.last()
			died := time.Now()
			e.links[old.who].Freeze()
			next := e.await(t, n)
			if next.who == old.who {
				t.Fatal("the dead one took office")
			}
			took := next.start.Sub(died)
			if took > 2600*time.Millisecond {
				t.Errorf("another took office %v after a silent death, want at most 2.6 s", took)
			}
			e.mu.Lock()
			left := e.terms[n-1]
			e.mu.Unlock()
			if !errors.Is(left.cause, leader.ErrDoubted) || left.end.Sub(died) > 1500*time.Millisecond {
				t.Errorf("the dead one left after %v with %v, want within 1.5 s with %v", left.end.Sub(died), left.cause, leader.ErrDoubted)
			}
			t.Logf("left after %v, another in office after %v", left.end.Sub(died), took)
			e.links[old.who].Thaw()
		}
		e.check(t)
	})
}

// A pause within the trusted time costs nothing, even if the renewal's reply is
// lost in it.
func TestShortTroubleIsNotNoticed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		e := elect(t, 3)
		for i := range 20 {
			time.Sleep(2*time.Second + time.Duration(i)*31*time.Millisecond)
			e.links[e.leading()[0]].Freeze()
			time.Sleep(800 * time.Millisecond)
			e.links[e.leading()[0]].Thaw()
		}
		time.Sleep(2 * time.Second)
		if _, n := e.last(); n != 1 {
			t.Errorf("%d times in office, want 1: %+v", n, e.terms)
		}
	})
}

func TestBrokerRestart(t *testing.T) {
	for _, down := range []time.Duration{0, 500 * time.Millisecond, 5 * time.Second, time.Minute} {
		t.Run(down.String(), func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				e := elect(t, 3)
				time.Sleep(5 * time.Second)
				e.broker.Stop()
				time.Sleep(down)
				if down > 2*time.Second {
					if got := e.leading(); got != nil {
						t.Errorf("leading without a broker: %v", got)
					}
				}
				restarted := time.Now()
				e.broker.Restart()
				time.Sleep(3 * time.Second)
				if got := e.leading(); len(got) != 1 {
					t.Errorf("3 s after the broker came back: leading %v, want one", got)
				}
				last, n := e.last()
				if down < time.Second && n != 1 {
					t.Errorf("the office changed hands over an outage of %v", down)
				}
				if down > 2*time.Second {
					t.Logf("in office again %v after the broker was back", last.start.Sub(restarted))
				}
				e.check(t)
			})
		})
	}
}

// Frozen, stopped, restarted, in changing order for ten minutes: no two are ever
// in office at once, and there is one again when the trouble is over.
func TestNoOverlap(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		e := elect(t, 3)
		for i := range 60 {
			length := time.Duration(100+(i*977)%4000) * time.Millisecond
			who := i % 3
			if lead := e.leading(); i%2 == 0 && len(lead) == 1 {
				who = lead[0]
			}
			switch i % 5 {
			case 0, 1, 2:
				e.links[who].Freeze()
				e.sample(t, length)
				e.links[who].Thaw()
			case 3:
				e.stop[who]()
				<-e.ended[who]
				e.sample(t, length)
				e.start(who)
			case 4:
				e.broker.Stop()
				e.sample(t, length)
				e.broker.Restart()
			}
			e.sample(t, time.Duration((i*613)%3000)*time.Millisecond)
		}
		e.sample(t, 6*time.Second)
		if got := e.leading(); len(got) != 1 {
			t.Errorf("leading at the end: %v, want one", got)
		}
		_, n := e.last()
		t.Logf("%d times in office", n)
		e.check(t)
	})
}

// sample lets d pass and fails the test when two say at one moment that they lead.
func (e *election) sample(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got := e.leading(); len(got) > 1 {
			t.Fatalf("leading at once: %v", got)
		}
	}
}

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
