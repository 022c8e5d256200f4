package cdr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
	"dibs/internal/natstest"
	"dibs/wire"
)

var ann = call.Person{Org: "acme", Number: "+4915112345678"}

func openPeople(t testing.TB, js jetstream.JetStream, cfg PeopleConfig) *People {
	t.Helper()
	p, err := OpenPeople(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func checkHolder(t testing.TB, p *People, who call.Person, want string) {
	t.Helper()
	if got, err := p.Holder(t.Context(), who); err != nil || got != want {
		t.Errorf("holder %q, %v, want %q", got, err, want)
	}
}

func TestPersonLock(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		cfg := PeopleConfig{TTL: time.Minute, Secret: []byte("secret")}
		p, q := openPeople(t, b.JetStream(t), cfg), openPeople(t, b.JetStream(t), cfg)
		lock := func(p *People, owner string, want error) {
			t.Helper()
			err := p.Lock(t.Context(), ann, owner)
			checkErr(t, "lock by "+owner, err, want)
			if want == ErrHeld {
				if he, ok := errors.AsType[*HeldError](err); !ok || he.Owner == owner {
					t.Errorf("lock by %s: %v, want a HeldError of another", owner, err)
				}
			}
		}
		checkHolder(t, p, ann, "")
		lock(p, "c1-1", nil)
		lock(q, "c2-1", ErrHeld)
		lock(q, "c1-1", nil) // the same attempt, after a restart
		checkHolder(t, q, ann, "c1-1")
		for _, other := range []call.Person{{Org: "other", Number: ann.Number}, {Org: "acme", Number: "+4915112345679"}} {
			if err := q.Lock(t.Context(), other, "c2-1"); err != nil {
				t.Errorf("another person: %v", err)
			}
		}

		// Taking it again and refreshing keep it for the whole time.
		time.Sleep(50 * time.Second)
		lock(p, "c1-1", nil)
		time.Sleep(50 * time.Second)
		for range 3 {
			if err := p.Refresh(t.Context(), ann, "c1-1"); err != nil {
				t.Error(err)
			}
			time.Sleep(50 * time.Second)
			lock(q, "c2-1", ErrHeld)
		}
		// Nobody refreshes it: it goes, at its time.
		time.Sleep(9 * time.Second)
		lock(q, "c2-1", ErrHeld)
		time.Sleep(2 * time.Second)
		checkErr(t, "refresh of a lock that ran out", p.Refresh(t.Context(), ann, "c1-1"), ErrNotHeld)
		lock(q, "c2-1", nil)
		checkErr(t, "refresh of another's lock", p.Refresh(t.Context(), ann, "c1-1"), ErrNotHeld)

		for range 2 {
			if err := p.Unlock(t.Context(), ann, "c1-1"); err != nil { // another's by now
				t.Error(err)
			}
			checkHolder(t, p, ann, "c2-1")
		}
		for range 2 {
			if err := q.Unlock(t.Context(), ann, "c2-1"); err != nil {
				t.Error(err)
			}
			checkHolder(t, p, ann, "")
		}
		lock(p, "c3-1", nil)
	})
}

func TestLocksHideNumbers(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		js := natstest.Start(t).JetStream(t)
		keys := make(map[string]bool)
		for _, secret := range []string{"", "one", "two"} {
			p := openPeople(t, js, PeopleConfig{Secret: []byte(secret)})
			if err := p.Lock(t.Context(), ann, "c1-1"); err != nil {
				t.Fatal(err)
			}
			key, err := p.key(ann)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(key, ann.Number[1:]) {
				t.Errorf("the key %s shows the number", key)
			}
			keys[key] = true
		}
		if len(keys) != 3 {
			t.Errorf("%d keys of three secrets", len(keys))
		}
		p := openPeople(t, js, PeopleConfig{})
		for _, who := range []call.Person{{}, {Org: "acme"}, {Org: "acme", Number: "0151 12345678"}, {Org: "a.b", Number: ann.Number}} {
			err := p.Lock(t.Context(), who, "c1-1")
			if err == nil || strings.Contains(err.Error(), "0151") {
				t.Errorf("lock of %+v: %v", who, err)
			}
		}
		checkErr(t, "owner", p.Lock(t.Context(), ann, ""), wire.ErrToken)
	})
}

// The answer to a lock, a refresh or an unlock is lost; doing it again is safe.
func TestLockWithLostAnswers(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		d := &deaf{b: b}
		p, q := openPeople(t, d.jetStream(t), PeopleConfig{}), openPeople(t, b.JetStream(t), PeopleConfig{})
		lost := func(what string, do func() error) {
			t.Helper()
			d.now.Store(true)
			checkErr(t, what, do(), ErrUnavailable)
			d.now.Store(false)
			if err := do(); err != nil {
				t.Errorf("%s again: %v", what, err)
			}
		}
		lost("lock", func() error { return p.Lock(t.Context(), ann, "c1-1") })
		checkErr(t, "another's lock", q.Lock(t.Context(), ann, "c2-1"), ErrHeld)
		lost("refresh", func() error { return p.Refresh(t.Context(), ann, "c1-1") })
		checkHolder(t, q, ann, "c1-1")
		lost("unlock", func() error { return p.Unlock(t.Context(), ann, "c1-1") })
		checkHolder(t, q, ann, "")
	})
}

// A marker that some tool left does not lock anybody out.
func TestLockOverAMarker(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		js := natstest.Start(t).JetStream(t)
		p := openPeople(t, js, PeopleConfig{})
		kv, err := js.KeyValue(t.Context(), wire.BucketPeople)
		if err != nil {
			t.Fatal(err)
		}
		key, err := p.key(ann)
		if err != nil {
			t.Fatal(err)
		}
		for i, remove := range []func() error{
			func() error { return kv.Delete(t.Context(), key) },
			func() error { return kv.Purge(t.Context(), key) },
		} {
			if err := p.Lock(t.Context(), ann, fmt.Sprintf("c%d-1", i)); err != nil {
				t.Fatal(err)
			}
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			checkHolder(t, p, ann, "")
			checkErr(t, "refresh", p.Refresh(t.Context(), ann, fmt.Sprintf("c%d-1", i)), ErrNotHeld)
		}
	})
}
