package cdr

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"dibs/call"
	"dibs/internal/natstest"
)

func TestLoad(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		s := openStore(t, b.JetStream(t))
		if got, l := load(t, s, time.Now().Add(-time.Hour)); len(got) != 0 || l.Rev != 0 {
			t.Errorf("an empty bucket loads %v, %+v", got, l)
		}
		old := create(t, s, fresh("old"))
		update(t, s, ended(fresh("old")), old)
		time.Sleep(time.Hour)
		since := time.Now()
		open, done := map[string]Rev{}, map[string]Rev{}
		for i := range 2500 {
			id := fmt.Sprintf("c%d", i)
			r := fresh(id)
			open[id] = create(t, s, r)
			if i%5 == 0 {
				done[id] = update(t, s, ended(r), open[id])
				delete(open, id)
			}
		}
		got, l := load(t, s, time.Time{})
		if !maps.Equal(got, open) || l.Open != 2000 || l.Done != 0 {
			t.Errorf("loaded %d, %+v, want %d open ones", len(got), l, len(open))
		}
		got, l = load(t, s, since)
		maps.Copy(done, open)
		if !maps.Equal(got, done) || l.Open != 2000 || l.Done != 500 || l.Rev != 3002 {
			t.Errorf("loaded %d, %+v, want %d", len(got), l, len(done))
		}
		got, l = load(t, s, since.Add(-2*time.Hour))
		if len(got) != 2501 || l.Done != 501 {
			t.Errorf("loaded %d, %+v, want 2501 with the old one", len(got), l)
		}

		b.Stop()
		_, err := s.Load(t.Context(), time.Time{}, func(call.Record, Rev) {})
		checkErr(t, "load without a broker", err, ErrUnavailable)
	})
}

// The writer died between its last write and the delete of the one before: the
// older one is not handed over, whichever way the record had moved.
func TestLoadDropsSuperseded(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		s := openStore(t, natstest.Start(t).JetStream(t))
		raw := func(key, id string, r call.Record, rev Rev) Rev { // a write without what follows it
			t.Helper()
			w := write{key: key, scope: keyBoth + id, rev: uint64(rev), value: []byte(mustJSON(t, r))}
			got, err := s.bucket.put(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			return Rev(got)
		}
		a := fresh("a")
		moved := raw("done.a", "a", ended(a), create(t, s, a))
		c := fresh("c")
		rev := raw("done.c", "c", ended(c), create(t, s, c))
		if err := s.bucket.remove(t.Context(), uint64(rev-1)); err != nil {
			t.Fatal(err)
		}
		again := ended(next(c, call.Event{Kind: call.EvAdmitted, Owner: "d"}))
		again.Owed = []call.Effect{{Act: call.CancelBot, Attempt: again.Last().ID}}
		reopened := raw("open.c", "c", again, rev)
		checkKeys(t, s.bucket, "open.a", "done.a", "open.c", "done.c")

		got, l := load(t, s, time.Time{})
		if want := map[string]Rev{"c": reopened}; !maps.Equal(got, want) || l.Open != 1 {
			t.Errorf("loaded %v, %+v, want %v", got, l, want)
		}
		checkKeys(t, s.bucket, "done.a", "open.c", "done.c")
		got, _ = load(t, s, time.Now().Add(-time.Hour))
		if want := map[string]Rev{"a": moved, "c": reopened}; !maps.Equal(got, want) {
			t.Errorf("loaded %v, want %v", got, want)
		}
		checkStored(t, s, again, reopened)
	})
}

// Others write and delete while a new dispatcher loads.
func TestLoadWhileOthersWrite(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    func(t *testing.T, s *Store, ids []string, revs []Rev)
	}{
		{"the last ones end", func(t *testing.T, s *Store, ids []string, revs []Rev) {
			for i := len(ids) - 20; i < len(ids); i++ {
				update(t, s, ended(fresh(ids[i])), revs[i])
			}
		}},
		{"the last ones advance", func(t *testing.T, s *Store, ids []string, revs []Rev) {
			for i := len(ids) - 20; i < len(ids); i++ {
				update(t, s, next(fresh(ids[i]), call.Event{Kind: call.EvAdmitted, Owner: "d"}), revs[i])
			}
		}},
		{"new ones come", func(t *testing.T, s *Store, ids []string, _ []Rev) {
			for i := range 20 {
				create(t, s, fresh(fmt.Sprintf("new%d", i)))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				b := natstest.Start(t)
				s, other := openStore(t, b.JetStream(t)), openStore(t, b.JetStream(t))
				const n = 2010 // a little more than is read ahead
				var ids []string
				var revs []Rev
				for i := range n {
					ids = append(ids, fmt.Sprintf("c%d", i))
					revs = append(revs, Rev(i+1))
				}
				bulk(t, other, ids)
				got := make(map[string]Rev)
				start := time.Now()
				l, err := s.Load(t.Context(), time.Time{}, func(r call.Record, rev Rev) {
					if len(got) == 0 {
						tt.f(t, other, ids, revs)
					}
					got[r.Order.CallID] = rev
				})
				if err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d > time.Second {
					t.Errorf("took %v, want no waiting", d)
				}
				for _, id := range ids[:n-20] {
					if got[id] == 0 {
						t.Fatalf("%s is missing", id)
					}
				}
				// With a watch from where the load began nothing is missed.
				ctx, stop := within(t)
				defer stop()
				seen := 0
				if err := s.Watch(ctx, l.Rev, func(c Change) {
					if got[c.CallID] = c.Rev; c.CallID != "" {
						seen++
					}
					if seen == 20 {
						stop()
					}
				}); err != nil || seen != 20 {
					t.Errorf("watched %d changes, %v, want 20", seen, err)
				}
				checkAll(t, s, got)
			})
		})
	}
}

func checkAll(t *testing.T, s *Store, want map[string]Rev) {
	t.Helper()
	now, _ := load(t, s, time.Now().Add(-time.Hour))
	if !maps.Equal(now, want) {
		t.Errorf("%d calls, want the same %d that were loaded and watched", len(now), len(want))
	}
}

func TestWatch(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		s, other := openStore(t, b.JetStream(t)), openStore(t, b.JetStream(t))
		r := fresh("c1")
		rev := create(t, other, r)
		changes := make(chan Change, 100)
		done := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		from := rev
		go func() { done <- s.Watch(ctx, from, func(c Change) { changes <- c }) }()
		synctest.Wait()
		expect := func(want Rev, state call.State, broken bool) {
			t.Helper()
			select {
			case c := <-changes:
				if c.CallID != "c1" || c.Rev != want || c.Record.State != state || (c.Broken != nil) != broken {
					t.Errorf("saw %+v, want revision %d, state %q, broken %v", c, want, state, broken)
				}
			case err := <-done:
				t.Fatalf("the watch ended: %v", err)
			case <-time.After(20 * time.Second):
				t.Fatalf("revision %d was not seen", want)
			}
		}
		r = next(r, call.Event{Kind: call.EvAdmitted, Owner: "d"})
		rev = update(t, other, r, rev)
		expect(rev, call.Placing, false)
		r = next(r, call.Event{Kind: call.EvBot, Bot: "b"})
		rev = update(t, other, r, rev)
		expect(rev, call.Placing, false)

		b.Stop()
		time.Sleep(30 * time.Second)
		b.Restart()
		time.Sleep(time.Second)
		r = next(r, call.Event{Kind: call.EvCancel})
		rev = update(t, other, r, rev)
		expect(rev, r.State, false)
		r = call.Settle(r, r.UpdatedAt.Add(time.Second), r.Owed...)
		rev = update(t, other, r, rev)
		expect(rev, r.State, false)
		expect(edit(t, other.bucket, "done.c1", "nonsense"), "", true)

		b.Stop() // it ends also while it waits for a broker
		time.Sleep(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Errorf("watch: %v, want nil when the context ends", err)
		}
	})
}
