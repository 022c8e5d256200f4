package cdr

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
	"dibs/internal/natstest"
)

// Three servers, in real time: of 64 writers on one revision one wins, nobody
// loses to itself, and all of it goes on with one server down.
func TestThreeServers(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	var stores []*Store
	for i := range 3 {
		s, err := Open(t.Context(), natstest.JetStream(t, c.Connect(t, i)), Config{Replicas: 3, Timeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	if got := stores[0].bucket.stream.CachedInfo().Config.Replicas; got != 3 {
		t.Fatalf("%d replicas, want 3", got)
	}
	const writers = 64

	// race lets 64 writers store a record on one revision and gives the winner's.
	race := func(t *testing.T, write func(s *Store, r call.Record) (Rev, error), r call.Record) (call.Record, Rev) {
		t.Helper()
		var wg sync.WaitGroup
		var won atomic.Int64
		var winner call.Record
		revs, errs := make([]Rev, writers), make([]error, writers)
		for i := range writers {
			mine := r
			mine.Reason = fmt.Sprintf("writer %d", i)
			wg.Go(func() {
				if revs[i], errs[i] = write(stores[i%3], mine); errs[i] == nil && won.Add(1) == 1 {
					winner = mine
				}
			})
		}
		wg.Wait()
		var rev Rev
		for i := range writers {
			if errs[i] == nil {
				rev = revs[i]
			}
		}
		for _, err := range errs {
			if le, ok := errors.AsType[*LostError](err); err != nil && (!ok || le.Current != rev) {
				t.Errorf("a loser got %v, want a LostError of revision %d", err, rev)
			}
		}
		if won.Load() != 1 {
			t.Fatalf("%d of %d writers won, want 1", won.Load(), writers)
		}
		return winner, rev
	}
	t.Run("one winner", func(t *testing.T) {
		for round := range 5 {
			r := fresh(fmt.Sprintf("race-%d", round))
			r, rev := race(t, func(s *Store, r call.Record) (Rev, error) { return s.Create(t.Context(), r) }, r)
			for range 3 {
				r.Changes++
				from := rev
				r, rev = race(t, func(s *Store, r call.Record) (Rev, error) { return s.Update(t.Context(), r, from) }, r)
			}
			checkStored(t, stores[round%3], r, rev)
		}
	})

	t.Run("every writer's own calls", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				s := stores[i%3]
				r := fresh(fmt.Sprintf("own-%d", i))
				rev, err := s.Create(t.Context(), r)
				for n := 0; n < 20 && err == nil; n++ {
					r.Changes++
					rev, err = s.Update(t.Context(), r, rev)
				}
				if err != nil {
					t.Errorf("writer %d lost to nobody: %v", i, err)
				}
			})
		}
		wg.Wait()
	})

	// The first copy of a write is still on its way when the second one comes: the
	// server says 10164, or 10071 because of our own copy. Neither is a loss.
	t.Run("a write sent twice", func(t *testing.T) {
		s := stores[0]
		r := fresh("twice")
		rev := create(t, s, r)
		for range 300 {
			r.Changes++
			w := write{key: place(r), rev: uint64(rev), value: []byte(mustJSON(t, r))}
			first := &nats.Msg{Subject: s.bucket.subject(w.key), Data: w.value, Header: nats.Header{
				markHeader:                              {s.mark(w)},
				jetstream.ExpectedLastSubjSeqHeader:     {fmt.Sprint(rev)},
				jetstream.ExpectedLastSubjSeqSubjHeader: {s.bucket.subject("*.twice")},
			}}
			if err := s.bucket.js.Conn().PublishMsg(first); err != nil {
				t.Fatal(err)
			}
			next, err := s.Update(t.Context(), r, rev)
			if err != nil {
				t.Fatalf("update on %d: %v", rev, err)
			}
			rev = next
		}
		checkStored(t, stores[1], r, rev)
		t.Logf("10164 was answered %d times", s.bucket.inProcess.Load())
	})

	t.Run("one person, 64 callers", func(t *testing.T) {
		var people []*People
		for i := range 3 {
			people = append(people, openPeople(t, stores[i].bucket.js, PeopleConfig{Replicas: 3, Timeout: 30 * time.Second}))
		}
		for round := range 5 {
			var wg sync.WaitGroup
			var won atomic.Int64
			for i := range writers {
				owner := fmt.Sprintf("c%d-%d", i, round)
				wg.Go(func() {
					p := people[i%3]
					err := p.Lock(t.Context(), ann, owner)
					if err == nil {
						won.Add(1)
						err = p.Lock(t.Context(), ann, owner) // again
					}
					if err != nil && !errors.Is(err, ErrHeld) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Fatalf("%d of %d have the person, want 1", won.Load(), writers)
			}
			owner, err := people[round%3].Holder(t.Context(), ann)
			if err != nil {
				t.Fatal(err)
			}
			if err := people[(round+1)%3].Unlock(t.Context(), ann, owner); err != nil {
				t.Fatal(err)
			}
		}
	})

	t.Run("a server down", func(t *testing.T) {
		r := fresh("down")
		rev := create(t, stores[0], r)
		c.StopNode(1)
		for i := range 20 {
			r.Changes++
			next, err := stores[i%3].Update(t.Context(), r, rev)
			if err != nil {
				t.Fatalf("update %d with two of three servers: %v", i, err)
			}
			rev = next
			if i == 10 {
				c.RestartNode(1)
				c.StopNode(2)
			}
		}
		checkStored(t, stores[0], r, rev)
		c.RestartNode(2)
		got, l := load(t, stores[1], time.Time{})
		if want := 5 + writers + 1 + 1; len(got) != want || len(l.Broken) != 0 {
			t.Errorf("loaded %d, %v, want %d", len(got), l.Broken, want)
		}
	})
}
