package leader_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/leader"
	"dibs/internal/natstest"

	"github.com/nats-io/nats.go"
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
			if took > 1850*time.Millisecond {
				t.Errorf("another took office %v after a silent death, want at most 1.85 s", took)
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
