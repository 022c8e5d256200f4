package cdr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
	"dibs/internal/natstest"
	"dibs/wire"
)

func TestLifeOfARecord(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		s, err := Open(t.Context(), natstest.Start(t).JetStream(t), Config{Retention: minRetention})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Get(t.Context(), "c1")
		checkErr(t, "get before", err, ErrNotFound)

		r := fresh("c1")
		rev := create(t, s, r)
		checkStored(t, s, r, rev)
		checkKeys(t, s.bucket, "open.c1")
		r = next(r, call.Event{Kind: call.EvAdmitted, Owner: "d1"})
		rev = update(t, s, r, rev)
		checkStored(t, s, r, rev)
		checkKeys(t, s.bucket, "open.c1")

		time.Sleep(3 * minRetention) // an open record never expires
		checkStored(t, s, r, rev)

		r = next(r, call.Event{Kind: call.EvBot, Bot: "b1"})
		rev = update(t, s, r, rev)
		r = next(r, call.Event{Kind: call.EvCancel, Reason: "test"})
		if !r.State.Terminal() || len(r.Owed) == 0 {
			t.Fatalf("state %s, owed %v: want an ended call that owes something", r.State, r.Owed)
		}
		rev = update(t, s, r, rev)
		checkKeys(t, s.bucket, "open.c1") // there is something left to do
		r = call.Settle(r, r.UpdatedAt.Add(time.Second), r.Owed...)
		rev = update(t, s, r, rev)
		checkStored(t, s, r, rev)
		checkKeys(t, s.bucket, "done.c1")

		_, err = s.Create(t.Context(), fresh("c1"))
		checkLost(t, "create again", err, ErrExists, rev)
		r.Changes++ // a late word about a call that is over
		rev = update(t, s, r, rev)
		checkKeys(t, s.bucket, "done.c1")
		r.Owed = []call.Effect{{Act: call.CancelBot, Attempt: r.Last().ID}}
		r.Changes++
		rev = update(t, s, r, rev) // opened again
		checkKeys(t, s.bucket, "open.c1")
		r = call.Settle(r, r.UpdatedAt.Add(time.Second), r.Owed...)
		rev = update(t, s, r, rev)
		checkKeys(t, s.bucket, "done.c1")

		time.Sleep(minRetention - time.Minute)
		checkStored(t, s, r, rev)
		time.Sleep(2 * time.Minute)
		_, _, err = s.Get(t.Context(), "c1")
		checkErr(t, "get after the retention", err, ErrNotFound)
		checkKeys(t, s.bucket) // not even a marker
		_, err = s.Update(t.Context(), r, rev)
		checkLost(t, "update after the retention", err, ErrLost, 0)
		create(t, s, fresh("c1"))
	})
}

// Whoever has not seen the last write changes nothing, in whichever place the
// record lies and would lie.
func TestOneWriterWins(t *testing.T) {
	open := func(r call.Record) call.Record { return next(r, call.Event{Kind: call.EvAdmitted, Owner: "d"}) }
	reopened := func(r call.Record) call.Record {
		r = ended(next(r, call.Event{Kind: call.EvAdmitted, Owner: "d"}))
		r.Owed = []call.Effect{{Act: call.CancelBot, Attempt: r.Last().ID}}
		return r
	}
	for _, tt := range []struct {
		name          string
		first, second func(call.Record) call.Record
	}{
		{"both advance it", open, open},
		{"one ends it, the other advances it", ended, open},
		{"one advances it, the other ends it", open, ended},
		{"both end it", ended, ended},
		{"one ends it, the other leaves something to do", ended, reopened},
	} {
		t.Run(tt.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				b := natstest.Start(t)
				s1, s2 := openStore(t, b.JetStream(t)), openStore(t, b.JetStream(t))
				base := fresh("c1")
				rev := create(t, s1, base)
				won := tt.first(base)
				wonRev := update(t, s1, won, rev)
				late := tt.second(base)
				late.Changes += 10
				_, err := s2.Update(t.Context(), late, rev)
				checkLost(t, "the second writer", err, ErrLost, wonRev)
				_, err = s2.Create(t.Context(), fresh("c1"))
				checkLost(t, "a creator", err, ErrExists, wonRev)
				checkStored(t, s2, won, wonRev)
				// The same words by another writer are another write.
				_, err = s2.Update(t.Context(), won, rev)
				checkLost(t, "the same words of another", err, ErrLost, wonRev)
				checkStored(t, s2, won, wonRev)
			})
		})
	}
}

// For every write: its answer is lost, and it was stored or not. The caller sees
// one write.
func TestLostAnswers(t *testing.T) {
	for _, op := range []string{"create", "update", "end"} {
		for _, tt := range []struct {
			name string
			opts []nats.Option
			fail func(b *natstest.Broker, d *deaf)
			mend func(b *natstest.Broker, d *deaf)
			// after: when the failure is mended; before the deadline the store goes
			// through it alone, later the caller tries again.
			after time.Duration
		}{
			{
				"not stored, back in time",
				[]nats.Option{nats.ReconnectBufSize(-1)},
				func(b *natstest.Broker, _ *deaf) { b.Stop(); synctest.Wait() },
				func(b *natstest.Broker, _ *deaf) { b.Restart() }, 2 * time.Second,
			},
			{
				"not stored, back too late",
				[]nats.Option{nats.ReconnectBufSize(-1)},
				func(b *natstest.Broker, _ *deaf) { b.Stop(); synctest.Wait() },
				func(b *natstest.Broker, _ *deaf) { b.Restart() }, 20 * time.Second,
			},
			{
				"kept by the client, stored too late", nil,
				func(b *natstest.Broker, _ *deaf) { b.Stop(); synctest.Wait() },
				func(b *natstest.Broker, _ *deaf) { b.Restart() }, 20 * time.Second,
			},
			{
				"stored, heard again in time", nil,
				func(_ *natstest.Broker, d *deaf) { d.now.Store(true) },
				func(_ *natstest.Broker, d *deaf) { d.now.Store(false) }, 2500 * time.Millisecond,
			},
			{
				"stored, heard again too late", nil,
				func(_ *natstest.Broker, d *deaf) { d.now.Store(true) },
				func(_ *natstest.Broker, d *deaf) { d.now.Store(false) }, 20 * time.Second,
			},
			{
				"stored, and the broker started anew", nil,
				func(_ *natstest.Broker, d *deaf) { d.now.Store(true) },
				func(b *natstest.Broker, d *deaf) { d.now.Store(false); b.Restart() }, 20 * time.Second,
			},
		} {
			t.Run(op+": "+tt.name, func(t *testing.T) {
				natstest.Bubble(t, func(t *testing.T) {
					b := natstest.Start(t)
					d := &deaf{b: b}
					s, other := openStore(t, d.jetStream(t, tt.opts...)), openStore(t, b.JetStream(t))
					r := fresh("c1")
					do := func() (Rev, error) { return s.Create(t.Context(), r) }
					if op != "create" {
						rev := create(t, s, r)
						r = next(r, call.Event{Kind: call.EvAdmitted, Owner: "d"})
						if op == "end" {
							r = ended(fresh("c1"))
						}
						do = func() (Rev, error) { return s.Update(t.Context(), r, rev) }
					}
					tt.fail(b, d)
					mended := make(chan struct{})
					time.AfterFunc(tt.after, func() { tt.mend(b, d); close(mended) })
					rev, err := do()
					if tt.after > defaultTimeout {
						checkErr(t, op, err, ErrUnavailable)
						<-mended
						time.Sleep(5 * time.Second) // the client finds the broker again
						rev, err = do()
					}
					if err != nil {
						t.Fatalf("%s: %v, want it to be done", op, err)
					}
					checkStored(t, other, r, rev)
					// It is ours to go on with, and nobody wrote twice.
					if op != "end" {
						r = next(r, call.Event{Kind: call.EvCancel})
						rev = update(t, s, r, rev)
						checkStored(t, other, r, rev)
					}
				})
			})
		}
	}
}

// The answer was lost, and somebody else has written on top: the call is theirs.
func TestLostAnswerAndOvertaken(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		d := &deaf{b: b}
		s, other := openStore(t, d.jetStream(t)), openStore(t, b.JetStream(t))
		r := fresh("c1")
		rev := create(t, s, r)
		d.now.Store(true)
		mine := next(r, call.Event{Kind: call.EvAdmitted, Owner: "d1"})
		_, err := s.Update(t.Context(), mine, rev)
		checkErr(t, "update", err, ErrUnavailable)
		_, loaded, err := other.Get(t.Context(), "c1")
		if err != nil {
			t.Fatal(err)
		}
		theirs := next(mine, call.Event{Kind: call.EvCancel})
		theirRev := update(t, other, theirs, loaded)
		d.now.Store(false)
		_, err = s.Update(t.Context(), mine, rev)
		checkLost(t, "update again", err, ErrLost, theirRev)
		checkStored(t, other, theirs, theirRev)
	})
}

func TestRecordsEditedByHand(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		s := openStore(t, natstest.Start(t).JetStream(t))
		good := create(t, s, fresh("good"))
		mine := create(t, s, fresh("mine"))
		want := map[string]Rev{
			"open.nonsense":   edit(t, s.bucket, "open.nonsense", "nonsense"),
			"open.empty":      edit(t, s.bucket, "open.empty", ""),
			"open.other":      edit(t, s.bucket, "open.other", `{"v":1,"order":{"v":1,"call_id":"else"}}`),
			"open.tomorrow":   edit(t, s.bucket, "open.tomorrow", `{"v":99,"state":"queued"}`),
			"open.mine":       edit(t, s.bucket, "open.mine", `[]`),
			"open.a.b":        0, // not a key of ours at all: nobody looks at it
			"stray":           0,
			"done.nonsense-2": edit(t, s.bucket, "done.nonsense-2", "{"),
		}
		edit(t, s.bucket, "open.a.b", "x")
		edit(t, s.bucket, "stray", "x")
		got, l := load(t, s, time.Now().Add(-time.Hour))
		if len(got) != 1 || got["good"] != good {
			t.Errorf("loaded %v, want good at %d", got, good)
		}
		broken := make(map[string]Rev)
		for _, b := range l.Broken {
			broken[b.Key] = b.Rev
		}
		for key, rev := range want {
			if broken[key] != rev {
				t.Errorf("broken %s: revision %d, want %d", key, broken[key], rev)
			}
		}
		_, _, err := s.Get(t.Context(), "nonsense")
		if b, ok := errors.AsType[*Broken](err); !ok || b.Key != "open.nonsense" {
			t.Errorf("get: %v, want a Broken", err)
		}
		_, err = s.Update(t.Context(), next(fresh("mine"), call.Event{Kind: call.EvCancel}), mine)
		checkLost(t, "update of an edited record", err, ErrLost, want["open.mine"])

		// Deleted by hand: it can be made again.
		kv, err := s.bucket.js.KeyValue(t.Context(), wire.BucketCalls)
		if err != nil {
			t.Fatal(err)
		}
		if err := kv.Delete(t.Context(), "open.good"); err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Get(t.Context(), "good")
		checkErr(t, "get of a deleted record", err, ErrNotFound)
		if got, _ := load(t, s, time.Time{}); len(got) != 0 {
			t.Errorf("loaded %v, want nothing", got)
		}
		create(t, s, fresh("good"))
	})
}

func TestRefusedRecords(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		s := openStore(t, natstest.Start(t).JetStream(t))
		bad := fresh("c1")
		bad.State = "confused"
		if _, err := s.Create(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "confused") {
			t.Errorf("create: %v, want what Check says", err)
		}
		long := fresh("c1")
		long.Reason = strings.Repeat("x", maxStored)
		_, err := s.Create(t.Context(), long)
		checkErr(t, "create", err, ErrTooLarge)
		if _, err := s.Update(t.Context(), fresh("c1"), 0); err == nil {
			t.Error("an update of nothing was done")
		}
		_, _, err = s.Get(t.Context(), "a.b")
		checkErr(t, "get", err, wire.ErrToken)
		checkKeys(t, s.bucket)
	})
}

func TestOpenRefusesOtherBuckets(t *testing.T) {
	for _, tt := range []struct {
		field  string
		change func(*jetstream.StreamConfig)
	}{
		{"Subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"$KV.other.>"} }},
		{"Storage", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		{"MaxMsgsPerSubject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }},
		{"MaxAge", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"AllowMsgTTL", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }},
		{"DenyDelete", func(c *jetstream.StreamConfig) { c.DenyDelete = true }},
		{"", func(c *jetstream.StreamConfig) { c.Description, c.MaxBytes = "mine", 1<<30 }},
	} {
		t.Run(tt.field, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				js := natstest.Start(t).JetStream(t)
				cfg := bucketConfig(wire.BucketCalls, "", 1)
				tt.change(&cfg)
				if _, err := js.CreateStream(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
				_, err := Open(t.Context(), js, Config{})
				if se, ok := errors.AsType[*SettingError](err); tt.field != "" && (!ok || se.Field != tt.field) || tt.field == "" && err != nil {
					t.Errorf("open: %v, want a SettingError of %q", err, tt.field)
				}
			})
		})
	}
}

func TestConfigs(t *testing.T) {
	for _, tt := range []struct {
		cfg  interface{ Validate() error }
		want string
	}{
		{Config{}, ""},
		{Config{Replicas: 3, Retention: time.Hour, Timeout: time.Second}, ""},
		{Config{Replicas: 4}, "cdr: Replicas: 4, want 1, 3 or 5"},
		{Config{Retention: time.Minute}, "cdr: Retention: 1m0s, want 1h0m0s to 87600h0m0s"},
		{Config{Timeout: -1}, "cdr: Timeout: -1ns, want a positive duration"},
		{PeopleConfig{}, ""},
		{PeopleConfig{TTL: time.Millisecond}, "cdr: TTL: 1ms, want 1s to 24h0m0s"},
		{PeopleConfig{Replicas: -1}, "cdr: Replicas: -1, want 1, 3 or 5"},
	} {
		if got := fmt.Sprint(tt.cfg.Validate()); got != tt.want && !(tt.want == "" && got == "<nil>") {
			t.Errorf("%+v: %q, want %q", tt.cfg, got, tt.want)
		}
	}
}
