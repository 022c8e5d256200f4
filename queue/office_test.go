package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/internal/natstest"
)

// Everything is read once, oldest first, and the end of the line is told.
func TestOfficeReadsTheLine(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		l := openLine(t, natstest.Start(t).JetStream(t), Config{})
		start := time.Now()
		put(t, l, keys(6_000)...)
		o, err := l.TakeOffice(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		if o.Backlog() != 6_000 {
			t.Errorf("backlog %d, want 6000", o.Backlog())
		}
		ctx, stop := context.WithCancel(t.Context())
		var got []*Item
		var last uint64
		err = o.Run(ctx, func(items []*Item, behind uint64) {
			got = append(got, items...)
			if want := 6_000 - uint64(len(got)); behind != want {
				t.Errorf("%d behind, want %d", behind, want)
			}
			if last = behind; last == 0 {
				stop()
			}
		})
		if err != nil {
			t.Errorf("run: %v, want nil when the context ends", err)
		}
		if len(got) != 6_000 || o.Held() != 6_000 {
			t.Fatalf("%d items, %d held, want 6000", len(got), o.Held())
		}
		for i, it := range got {
			if it.Key != key(i) || it.Seq != uint64(i)+1 || it.Deliveries != 1 || it.Enqueued.Before(start) {
				t.Fatalf("item %d: %+v", i, it)
			}
			if want := fmt.Sprintf(`{"v":1,"call_id":"call_%d"}`, i); string(it.Order) != want {
				t.Fatalf("item %d: order %s, want %s", i, it.Order, want)
			}
		}
	})
}

func TestNakComesBack(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		l := openLine(t, natstest.Start(t).JetStream(t), Config{})
		put(t, l, key(0), key(1))
		office := takeOffice(t, l)
		items := office.all(t, 2)
		if err := items[0].Nak(t.Context(), 30*time.Second); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		again := office.next(t, time.Minute)
		if got := time.Since(start); got < 30*time.Second || got > 31*time.Second {
			t.Errorf("came back after %v, want 30 s", got)
		}
		if again.Key != key(0) || again.Deliveries != 2 {
			t.Errorf("came back: %v, delivery %d", again.Key, again.Deliveries)
		}
		if err := again.Nak(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := office.next(t, time.Second); got.Deliveries != 3 {
			t.Errorf("delivery %d, want 3", got.Deliveries)
		}
	})
}

// What the caller holds is not handed over again when AckWait runs out, and
// confirming it works hours later.
func TestHeldForHours(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		l := openLine(t, natstest.Start(t).JetStream(t), Config{})
		put(t, l, keys(10)...)
		office := takeOffice(t, l)
		items := office.all(t, 10)
		office.quiet(t, 2*ackWait)
		for _, it := range items {
			if err := it.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		}
		checkWaiting(t, l)
		office.quiet(t, 2*ackWait)
		if office.Held() != 0 {
			t.Errorf("%d held, want 0", office.Held())
		}
	})
}

// Acking and terming take off the line; both may be repeated.
func TestGiveBack(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		l := openLine(t, natstest.Start(t).JetStream(t), Config{})
		put(t, l, keys(2)...)
		office := takeOffice(t, l)
		items := office.all(t, 2)
		for range 2 {
			if err := items[0].Ack(t.Context()); err != nil {
				t.Errorf("ack: %v", err)
			}
			if err := items[1].Term(t.Context(), "no such\nflow"); err != nil {
				t.Errorf("term: %v", err)
			}
		}
		checkWaiting(t, l)
		put(t, l, key(0)) // the office still works
		office.next(t, time.Second)
	})
}

// A new term reads everything that has not left the line, and the old one's every
// exchange fails and changes nothing.
func TestAnotherTakesOffice(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		l1, l2 := openLine(t, b.JetStream(t), Config{}), openLine(t, b.JetStream(t), Config{})
		put(t, l1, keys(5)...)
		first := takeOffice(t, l1)
		old := first.all(t, 5)
		if err := old[0].Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := old[1].Nak(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}

		second := takeOffice(t, l2)
		var got []Key
		items := second.all(t, 4)
		for _, it := range items {
			got = append(got, it.Key)
		}
		if want := keys(5)[1:]; !slices.Equal(got, want) { // the nak'ed one does not wait
			t.Errorf("the second office read %v, want %v", got, want)
		}

		select {
		case err := <-first.ended:
			checkErr(t, "the first office's run", err, ErrLost)
		case <-time.After(30 * time.Second):
			t.Fatal("the first office did not notice")
		}
		checkErr(t, "ack", old[2].Ack(t.Context()), ErrLost)
		checkErr(t, "nak", old[3].Nak(t.Context(), time.Second), ErrLost)
		checkErr(t, "term", old[4].Term(t.Context(), "late"), ErrLost)
		_, err := old[4].Park(t.Context(), "late")
		checkErr(t, "park", err, ErrLost)
		checkWaiting(t, l2, keys(5)[1:]...)
		second.quiet(t, 10*time.Minute)
		for _, it := range items {
			if err := it.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		}
		checkWaiting(t, l2)
	})
}

// A dispatcher that was cut off learns it from its first word, without reading.
func TestLostWithoutReading(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		link := b.Link(t)
		l1 := openLine(t, natstest.JetStream(t, b.Connect(t, viaLink(link))), Config{})
		l2 := openLine(t, b.JetStream(t), Config{})
		put(t, l2, keys(2)...)
		first, err := l1.TakeOffice(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		var old []*Item
		ctx, stop := context.WithCancel(t.Context())
		if err := first.Run(ctx, func(items []*Item, behind uint64) {
			if old = append(old, items...); behind == 0 {
				stop()
			}
		}); err != nil {
			t.Fatal(err)
		}
		link.Freeze()
		checkErr(t, "ack over a frozen link", old[0].Ack(t.Context()), ErrUnavailable)
		second := takeOffice(t, l2)
		second.all(t, 2)
		link.Thaw()
		time.Sleep(time.Second)
		checkErr(t, "ack after the pause", old[1].Ack(t.Context()), ErrLost)
		b.Stop()
		start := time.Now()
		checkErr(t, "ack when it is known", old[1].Ack(t.Context()), ErrLost)
		if time.Since(start) != 0 {
			t.Error("asked the server again")
		}
		b.Restart()
		time.Sleep(time.Second)
		checkWaiting(t, l2, keys(2)...)
		second.quiet(t, time.Minute)
	})
}

// Of many who take office at once, the last one has it and the others know.
func TestManyTakeOffice(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		put(t, openLine(t, b.JetStream(t), Config{}), keys(3)...)
		terms := make([]*term, 8)
		var wg sync.WaitGroup
		for i := range terms {
			l := openLine(t, b.JetStream(t), Config{})
			wg.Go(func() {
				o, err := l.TakeOffice(t.Context(), "test")
				if err != nil {
					t.Errorf("take office: %v", err)
					return
				}
				terms[i] = running(t, o)
			})
		}
		if wg.Wait(); t.Failed() {
			return
		}
		time.Sleep(time.Minute)
		in := 0
		for _, tm := range terms {
			select {
			case err := <-tm.ended:
				checkErr(t, "run", err, ErrLost)
			default:
				in++
				tm.all(t, 3)
			}
		}
		if in != 1 {
			t.Errorf("%d in office, want 1", in)
		}
	})
}

func TestForeignConsumer(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		l := openLine(t, natstest.Start(t).JetStream(t), Config{})
		if _, err := l.stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "mine", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			t.Fatal(err)
		}
		_, err := l.TakeOffice(t.Context(), "test")
		if want := `queue: take office: consumer "mine" of DIBS_LINE is not ours and is in the way`; err == nil || err.Error() != want {
			t.Errorf("take office: %v, want %s", err, want)
		}
	})
}

// The broker goes away and comes back: the office goes on with what it has.
func TestBrokerDownForAWhile(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		l := openLine(t, b.JetStream(t), Config{})
		put(t, l, keys(10)...)
		office := takeOffice(t, l)
		items := office.all(t, 10)
		if err := items[0].Nak(t.Context(), 50*time.Second); err != nil {
			t.Fatal(err)
		}
		b.Stop()
		checkErr(t, "ack without a broker", items[1].Ack(t.Context()), ErrUnavailable)
		_, err := l.TakeOffice(t.Context(), "test")
		checkErr(t, "take office without a broker", err, ErrUnavailable)
		time.Sleep(30 * time.Second)
		b.Restart()
		time.Sleep(time.Second)

		for _, it := range items[1:] {
			if err := it.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		}
		put(t, l, key(10))
		if got := office.next(t, 15*time.Second); got.Key != key(10) {
			t.Errorf("read %v, want %v", got.Key, key(10))
		}
		if got := office.next(t, time.Minute); got.Key != key(0) || got.Deliveries != 2 {
			t.Errorf("read %v (delivery %d), want the nak'ed %v", got.Key, got.Deliveries, key(0))
		}
		checkWaiting(t, l, key(0), key(10))
	})
}

// What was sent and did not arrive is noticed, also when nothing follows it.
func TestGap(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after int // messages that arrive after the lost one
	}{{"nothing follows", 0}, {"others follow", 3}} {
		t.Run(tt.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				b := natstest.Start(t)
				d := &deaf{b: b}
				reader, l := openLine(t, d.jetStream(t), Config{}), openLine(t, b.JetStream(t), Config{})
				put(t, l, key(0))
				first := takeOffice(t, reader)
				first.all(t, 1)
				d.now.Store(true)
				put(t, l, key(1))
				synctest.Wait()
				d.now.Store(false)
				put(t, l, keys(2 + tt.after)[2:]...)
				select {
				case err := <-first.ended:
					checkErr(t, "run", err, ErrGap)
				case <-time.After(3 * auditEvery):
					t.Fatal("the gap was not noticed")
				}
				second := takeOffice(t, reader)
				second.all(t, 2+tt.after)
			})
		})
	}
}

func TestPark(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		l := openLine(t, b.JetStream(t), Config{})
		if got, _, err := l.Parked(t.Context(), 10, 0); err != nil || len(got) != 0 {
			t.Errorf("parked before the first office: %v, %v", got, err)
		}
		bad := "dibs.v1.line.eu-west.api.ac$me.call_1"
		if _, err := l.js.Publish(t.Context(), bad, []byte("not JSON")); err != nil {
			t.Fatal(err)
		}
		put(t, l, key(0))
		first := takeOffice(t, l)
		it := first.next(t, time.Second)
		if it.Key != (Key{}) || it.Subject() != bad {
			t.Errorf("item %+v on %s", it.Key, it.Subject())
		}
		if got := first.next(t, time.Second); got.Key != key(0) {
			t.Errorf("behind the unreadable one: %v", got.Key)
		}
		p, err := it.Park(t.Context(), "not\r\nJSON")
		if err != nil {
			t.Fatal(err)
		}
		if p.ID != 1 || p.Subject != bad || p.Reason != "not JSON" || string(p.Order) != "not JSON" || !p.Enqueued.Equal(it.Enqueued) {
			t.Errorf("parked %+v", p)
		}
		if _, err := it.Park(t.Context(), "again"); err != nil {
			t.Errorf("parked twice: %v", err)
		}
		checkWaiting(t, l, key(0))
		got, next, err := l.Parked(t.Context(), 10, 0)
		if err != nil || len(got) != 1 || next != 0 {
			t.Fatalf("parked: %v, next %d, %v", got, next, err)
		}
		if got[0].Reason != p.Reason || got[0].Subject != bad || !got[0].Enqueued.Equal(p.Enqueued) || string(got[0].Order) != "not JSON" {
			t.Errorf("listed %+v", got[0])
		}
		for range 2 { // the second time as if the answer to the first had been lost
			if err := l.Unpark(t.Context(), p.ID); err != nil {
				checkErr(t, "unpark", err, ErrNotFound)
			}
		}
		if got := first.next(t, time.Second); got.Subject() != bad {
			t.Errorf("back in line: %s", got.Subject())
		}
		if got, _, _ := l.Parked(t.Context(), 10, 0); len(got) != 0 {
			t.Errorf("still parked: %v", got)
		}
	})
}
