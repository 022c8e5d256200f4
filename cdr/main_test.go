package cdr

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
	"dibs/internal/natstest"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

func openStore(t testing.TB, js jetstream.JetStream) *Store {
	t.Helper()
	s, err := Open(t.Context(), js, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fresh is the record of a call that waits.
func fresh(id string) call.Record {
	now := time.Date(2026, 8, 25, 12, 0, 0, 0, time.UTC)
	return call.New(call.Order{
		V: call.Version, CallID: id, Org: "acme", Class: call.ClassAPI, Region: "eu-west",
		From: "+4930123456", To: "+4915112345678", QueuedAt: now,
	}, now)
}

// next is the record after an event, in a later second.
func next(r call.Record, ev call.Event) call.Record {
	r, _ = call.Apply(r, ev, r.UpdatedAt.Add(time.Second))
	return r
}

// ended is the record of a call with nothing left to do.
func ended(r call.Record) call.Record {
	r = next(r, call.Event{Kind: call.EvCancel, Reason: "test"})
	return call.Settle(r, r.UpdatedAt.Add(time.Second), r.Owed...)
}

func create(t testing.TB, s *Store, r call.Record) Rev {
	t.Helper()
	rev, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func update(t testing.TB, s *Store, r call.Record, rev Rev) Rev {
	t.Helper()
	next, err := s.Update(t.Context(), r, rev)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// checkStored checks what everybody sees of a call.
func checkStored(t testing.TB, s *Store, want call.Record, rev Rev) {
	t.Helper()
	got, gotRev, err := s.Get(t.Context(), want.Order.CallID)
	if err != nil {
		t.Errorf("get: %v", err)
	} else if got.State != want.State || got.Changes != want.Changes || gotRev != rev {
		t.Errorf("stored: %s with %d changes at %d, want %s with %d at %d", got.State, got.Changes, gotRev, want.State, want.Changes, rev)
	}
}

// checkKeys checks which keys the bucket has.
func checkKeys(t testing.TB, b *bucket, want ...string) {
	t.Helper()
	info, err := b.stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range want {
		if info.State.Subjects[b.subject(k)] != 1 {
			t.Errorf("key %s: %d entries, want 1", k, info.State.Subjects[b.subject(k)])
		}
	}
	if len(info.State.Subjects) != len(want) {
		t.Errorf("the bucket has %v, want %v", info.State.Subjects, want)
	}
}

func checkErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// checkLost checks that a write was refused because of the write current.
func checkLost(t testing.TB, what string, got, want error, current Rev) {
	t.Helper()
	checkErr(t, what, got, want)
	if le, ok := errors.AsType[*LostError](got); !ok || le.Current != current {
		t.Errorf("%s: got %v, want a LostError of revision %d", what, got, current)
	}
}

// load collects what Load hands over: call → revision.
func load(t testing.TB, s *Store, since time.Time) (map[string]Rev, Loaded) {
	t.Helper()
	got := make(map[string]Rev)
	l, err := s.Load(t.Context(), since, func(r call.Record, rev Rev) { got[r.Order.CallID] = rev })
	if err != nil {
		t.Fatal(err)
	}
	return got, l
}

// edit writes a value as a person does, by hand.
func edit(t testing.TB, b *bucket, key, value string) Rev {
	t.Helper()
	kv, err := b.js.KeyValue(t.Context(), b.name)
	if err != nil {
		t.Fatal(err)
	}
	rev, err := kv.PutString(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return Rev(rev)
}

// deaf is a way to the broker on which the client can be made deaf: what it sends
// arrives, what the broker says is lost.
type deaf struct {
	b   *natstest.Broker
	now atomic.Bool
}

func (d *deaf) InProcessConn() (net.Conn, error) {
	c, err := d.b.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &deafConn{Conn: c, now: &d.now}, nil
}

type deafConn struct {
	net.Conn
	now *atomic.Bool
}

func (c *deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.now.Load() {
			return n, err
		}
	}
}

func (d *deaf) jetStream(t testing.TB, opts ...nats.Option) jetstream.JetStream {
	return d.b.JetStream(t, append(opts, nats.InProcessServer(d))...)
}

// within gives a context that is patient for a minute.
func within(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), time.Minute)
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// bulk stores fresh records, many at a time; the first has revision 1.
func bulk(t testing.TB, s *Store, ids []string) {
	t.Helper()
	value := mustJSON(t, fresh("CALL"))
	for _, id := range ids {
		if _, err := s.bucket.js.PublishAsync(s.bucket.subject(keyOpen+id), []byte(strings.Replace(value, "CALL", id, 1))); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-s.bucket.js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		t.Fatal("not stored within a minute")
	}
}
