package queue

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"dibs/internal/natstest"
	"dibs/wire"
)

func TestPut(t *testing.T) {
	for _, tt := range []struct {
		name  string
		key   Key
		order []byte
		want  error
	}{
		{"a call", key(1), []byte(`{}`), nil},
		{"the same call again", key(0), []byte(`{}`), ErrDuplicate},
		{"the same id of another org is another call", Key{"eu-west", "api", "other", "call_0"}, []byte(`{}`), nil},
		{"the longest order", key(2), bytes.Repeat([]byte("x"), wire.MaxMessage), nil},
		{"one byte more", key(3), bytes.Repeat([]byte("x"), wire.MaxMessage+1), ErrTooLarge},
		{"a dot in a token", Key{"eu.west", "api", "org", "call"}, []byte(`{}`), wire.ErrToken},
		{"no call", Key{"eu-west", "api", "org", ""}, []byte(`{}`), wire.ErrToken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				l := openLine(t, natstest.Start(t).JetStream(t), Config{})
				put(t, l, key(0))
				r, err := l.Put(t.Context(), tt.key, tt.order)
				checkErr(t, "put", err, tt.want)
				if tt.want == nil && r.Seq != 2 {
					t.Errorf("sequence %d, want 2", r.Seq)
				}
				want := uint64(1)
				if tt.want == nil {
					want = 2
				}
				if got, err := l.Count(t.Context(), Filter{}); err != nil || got.Waiting != want {
					t.Errorf("in line: %d (%v), want %d", got.Waiting, err, want)
				}
			})
		})
	}
}

// The putter does not know whether its order was stored; it puts again, and the
// call is in line once.
func TestPutWithALostAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opts   []nats.Option
		fail   func(b *natstest.Broker, d *deaf) // before the put
		mend   func(b *natstest.Broker, d *deaf)
		second error // what the repeated put says
	}{
		{
			"failed and not stored",
			[]nats.Option{nats.ReconnectBufSize(-1)},
			func(b *natstest.Broker, _ *deaf) { b.Stop(); synctest.Wait() },
			func(b *natstest.Broker, _ *deaf) { b.Restart() }, nil,
		},
		{
			"failed and stored later, when the client found the broker again", nil,
			func(b *natstest.Broker, _ *deaf) { b.Stop(); synctest.Wait() },
			func(b *natstest.Broker, _ *deaf) { b.Restart() }, ErrDuplicate,
		},
		{
			"failed but stored", nil,
			func(_ *natstest.Broker, d *deaf) { d.now.Store(true) },
			func(_ *natstest.Broker, d *deaf) { d.now.Store(false) }, ErrDuplicate,
		},
		{
			"failed but stored, and the broker started anew", nil,
			func(_ *natstest.Broker, d *deaf) { d.now.Store(true) },
			func(b *natstest.Broker, d *deaf) { d.now.Store(false); b.Restart() }, ErrDuplicate,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				b := natstest.Start(t)
				d := &deaf{b: b}
				l := openLine(t, d.jetStream(t, tt.opts...), Config{})
				start := time.Now()
				tt.fail(b, d)
				_, err := l.Put(t.Context(), key(0), []byte(`{}`))
				checkErr(t, "put", err, ErrUnavailable)
				if got := time.Since(start); got > defaultTimeout {
					t.Errorf("gave up after %v, want at most %v", got, defaultTimeout)
				}
				tt.mend(b, d)
				time.Sleep(time.Second) // the client finds the broker again
				_, err = l.Put(t.Context(), key(0), []byte(`{}`))
				checkErr(t, "second put", err, tt.second)
				checkWaiting(t, l, key(0))
			})
		})
	}
}

// A line that is full has the same error code as a call that is in it.
func TestPutWhenFull(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		js := natstest.Start(t).JetStream(t)
		cfg := lineConfig(1)
		cfg.MaxMsgs = 1
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		l := openLine(t, js, Config{})
		put(t, l, key(0))
		_, err := l.Put(t.Context(), key(1), []byte(`{}`))
		checkErr(t, "put", err, ErrUnavailable)
		_, err = l.Put(t.Context(), key(0), []byte(`{}`))
		if !errors.Is(err, ErrDuplicate) && !errors.Is(err, ErrUnavailable) {
			t.Errorf("put of the same call: %v", err)
		}
		checkWaiting(t, l, key(0))
	})
}

// A call that waits for a bot is still in line; one that left may come again.
func TestPutAgain(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		l := openLine(t, natstest.Start(t).JetStream(t), Config{})
		put(t, l, key(0))
		office := takeOffice(t, l)
		it := office.next(t, time.Second)
		again := func(when string, want error) {
			t.Helper()
			_, err := l.Put(t.Context(), key(0), []byte(`{}`))
			checkErr(t, "put while "+when, err, want)
		}
		again("it is being placed", ErrDuplicate)
		if err := it.Nak(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		again("it waits for a bot", ErrDuplicate)
		it = office.next(t, 2*time.Minute)
		if err := it.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
		again("it is no longer in line", nil)
		if got := office.next(t, time.Second); got.Seq != 2 || got.Deliveries != 1 {
			t.Errorf("the new message: sequence %d, delivery %d, want 2, 1", got.Seq, got.Deliveries)
		}
	})
}

func TestCancel(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		l := openLine(t, b.JetStream(t), Config{})
		put(t, l, keys(6)...)
		cancel := func(k Key, want bool) {
			t.Helper()
			if got, err := l.Cancel(t.Context(), k); err != nil || got != want {
				t.Errorf("cancel %s: %v, %v, want %v", k.Call, got, err, want)
			}
		}
		cancel(key(0), true)
		cancel(key(0), false)
		cancel(key(99), false)

		office := takeOffice(t, l)
		items := office.all(t, 5)
		if err := items[0].Ack(t.Context()); err != nil { // call 1
			t.Fatal(err)
		}
		cancel(key(1), false)
		cancel(key(2), true) // it is held
		// The dispatcher does not know and gives it back in whatever way.
		if err := items[1].Ack(t.Context()); err != nil {
			t.Errorf("ack of a cancelled call: %v", err)
		}
		if err := items[2].Nak(t.Context(), time.Minute); err != nil { // call 3
			t.Fatal(err)
		}
		cancel(key(3), true) // it waits for a bot
		office.quiet(t, 5*time.Minute)
		if ok, err := l.CancelSeq(t.Context(), items[3].Seq); !ok || err != nil { // call 4
			t.Errorf("cancel by sequence: %v, %v", ok, err)
		}
		if ok, err := l.CancelSeq(t.Context(), items[3].Seq); ok || err != nil {
			t.Errorf("cancel by sequence again: %v, %v", ok, err)
		}
		if err := items[3].Nak(t.Context(), 0); err != nil {
			t.Errorf("nak of a cancelled call: %v", err)
		}
		office.quiet(t, 2*ackWait)
		checkWaiting(t, l, key(5))

		b.Stop()
		_, err := l.Cancel(t.Context(), key(5))
		checkErr(t, "cancel without a broker", err, ErrUnavailable)
		_, err = l.CancelSeq(t.Context(), 6)
		checkErr(t, "cancel by sequence without a broker", err, ErrUnavailable)
	})
}

func TestListAndCount(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		l := openLine(t, natstest.Start(t).JetStream(t), Config{})
		if got, err := l.Count(t.Context(), Filter{}); err != nil || got != (Tally{}) {
			t.Errorf("an empty line counts %+v, %v", got, err)
		}
		if p, err := l.List(t.Context(), Filter{}, 0, 0); err != nil || len(p.Waiting) != 0 || p.Next != 0 {
			t.Errorf("an empty line lists %+v, %v", p, err)
		}
		start := time.Now()
		var want []Key
		for i := range 25 {
			k := key(i)
			if i%5 == 4 {
				k.Class = "retry"
			}
			if k.Class == "retry" {
				want = append(want, k)
			}
			put(t, l, k)
			time.Sleep(time.Second)
		}
		cancelled := want[1]
		if ok, err := l.Cancel(t.Context(), cancelled); !ok || err != nil {
			t.Fatal(ok, err)
		}
		want = slices.Delete(want, 1, 2)

		var got []Key
		var cursor uint64
		pages := 0
		for {
			p, err := l.List(t.Context(), Filter{Class: "retry"}, 2, cursor)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for _, w := range p.Waiting {
				got = append(got, w.Key)
				if d := w.Enqueued.Sub(start).Round(time.Second); d != time.Duration(w.Seq-1)*time.Second {
					t.Errorf("%s was put after %v, want %d s", w.Key.Call, d, w.Seq-1)
				}
				if !bytes.Contains(w.Order, []byte(w.Key.Call)) {
					t.Errorf("the order of %s is %s", w.Key.Call, w.Order)
				}
			}
			if cursor = p.Next; cursor == 0 {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || pages != 2 {
			t.Errorf("%d pages, want 2; listed (-want +got):\n%s", pages, diff)
		}
		for _, tt := range []struct {
			f    Filter
			want uint64
		}{
			{Filter{}, 24},
			{Filter{Class: "retry"}, 4},
			{Filter{Region: "eu-west", Class: "api", Org: "org1"}, 4},
			{Filter{Region: "us-east"}, 0},
		} {
			if got, err := l.Count(t.Context(), tt.f); err != nil || got.Waiting != tt.want {
				t.Errorf("count %+v: %d, %v, want %d", tt.f, got.Waiting, err, tt.want)
			}
		}
		if got, _ := l.Count(t.Context(), Filter{Class: "retry"}); got.Oldest.Sub(start).Round(time.Second) != 4*time.Second {
			t.Errorf("the oldest retry was put after %v, want 4 s", got.Oldest.Sub(start))
		}
		p, err := l.Position(t.Context(), want[1])
		if err != nil {
			t.Fatal(err)
		}
		if p.Seq != 15 || p.Ahead != 13 || p.Waiting != 24 {
			t.Errorf("position %+v, want sequence 15, 13 ahead, 24 waiting", p)
		}
		_, err = l.Position(t.Context(), cancelled)
		checkErr(t, "position of a cancelled call", err, ErrNotFound)
		w, err := l.Find(t.Context(), want[1].Call)
		if err != nil || w.Key != want[1] || w.Seq != 15 {
			t.Errorf("found %+v, %v, want %v", w, err, want[1])
		}
		_, err = l.Find(t.Context(), cancelled.Call)
		checkErr(t, "find a cancelled call", err, ErrNotFound)
		_, err = l.Find(t.Context(), ">")
		checkErr(t, "find", err, wire.ErrToken)
		_, err = l.List(t.Context(), Filter{Org: "a.b"}, 1, 0)
		checkErr(t, "list with a bad filter", err, wire.ErrToken)
		if _, err := l.List(t.Context(), Filter{}, MaxPage+1, 0); err == nil {
			t.Error("a page that is too long was read")
		}
	})
}

// Any program can put, with one publish.
func TestPutByHand(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		js := natstest.Start(t).JetStream(t)
		l := openLine(t, js, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m, err := js.Conn().RequestWithContext(ctx, "dibs.v1.line.eu-west.api.acme.call_1", []byte(`{"v":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(m.Data), `{"stream":"DIBS_LINE","seq":1}`; got != want {
			t.Errorf("answer %s, want %s", got, want)
		}
		// Not a call's subject: refused at the door, by nobody being there.
		if _, err := js.Conn().RequestWithContext(ctx, "dibs.v1.line.acme.call_1", []byte(`{}`)); err == nil {
			t.Error("a subject with too few tokens was taken")
		}
		checkWaiting(t, l, Key{"eu-west", "api", "acme", "call_1"})
	})
}
