package claim_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"dibs/claim"
	"dibs/internal/natstest"
	"dibs/wire"
)

func TestBadRequests(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(1, nil)
		nc := f.broker.Connect(t)
		synctest.Wait()
		subj, _ := wire.Bot(b.id, wire.VerbClaim)
		for _, data := range []string{"", "x", "{}", `{"claim_id":"a b"}`, `{"v":-1,"claim_id":"k","call_id":"c","region":"r","accept_ms":1,"ready_ms":1}`} {
			m, err := nc.RequestWithContext(t.Context(), subj, []byte(data))
			if err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			if r, err := wire.Decode[wire.Reply](m.Data); err != nil || r.Status != wire.Rejected || r.Code != "bad_request" || r.Detail == "" {
				t.Errorf("%q: got %+v %v, want a rejection with a detail", data, r, err)
			}
		}
		f.idle()
		a := f.asker(claim.AskerConfig{})
		for _, req := range []claim.Request{{}, {CallID: "c", Region: "a.b"}, {CallID: "c", Region: "r", ReadyMS: -1}} {
			if _, err := a.Assign(t.Context(), req); err == nil {
				t.Errorf("asker sent %+v", req)
			}
		}
	})
}

// A request of a newer version is the bot's failure and not the call's fault, so
// that its asker tries another bot.
func TestNewerRequest(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		f.bot(1, nil)
		nc := f.broker.Connect(t)
		synctest.Wait()
		subj, _ := wire.ClaimPool("eu-west", "default")
		m, err := nc.RequestWithContext(t.Context(), subj, []byte(`{"v":2,"claim_id":{"id":"k"}}`))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := wire.Decode[wire.Reply](m.Data); err != nil || r.Status != wire.Failed || r.Code != "version" {
			t.Errorf("got %+v %v, want failed with the code version", r, err)
		}
		f.idle()
	})
}

// What a seat's offer is used up by and the seat not taken, the offer is made anew.
func TestOfferComesBack(t *testing.T) {
	for _, tc := range []struct {
		name string
		ask  func(t *testing.T, nc *nats.Conn, subj string)
	}{
		{"after a request that cannot be read", func(t *testing.T, nc *nats.Conn, subj string) {
			if _, err := nc.RequestWithContext(t.Context(), subj, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}},
		{"after a request of a newer version", func(t *testing.T, nc *nats.Conn, subj string) {
			if _, err := nc.RequestWithContext(t.Context(), subj, []byte(`{"v":2}`)); err != nil {
				t.Fatal(err)
			}
		}},
		{"after a request that nobody hears the answer to", func(t *testing.T, nc *nats.Conn, subj string) {
			if err := nc.Publish(subj, request(t, "k1", "c1")); err != nil {
				t.Fatal(err)
			}
		}},
		{"after the same claim came by another seat's offer", func(t *testing.T, nc *nats.Conn, subj string) {
			inbox, err := nc.SubscribeSync(nc.NewInbox())
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // by both seats' offers; answered twice, with one seat
				if err := nc.PublishRequest(subj, inbox.Subject, request(t, "k1", "c1")); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				f := newFleet(t)
				b := f.bot(2, nil)
				subj, _ := wire.ClaimPool("eu-west", "default")
				nc := f.broker.Connect(t)
				synctest.Wait()
				tc.ask(t, nc, subj)
				synctest.Wait()
				idle := 2 - b.seats.InUse().InUse
				a := f.asker(claim.AskerConfig{})
				for i := range idle {
					got, err := a.Assign(t.Context(), call(fmt.Sprint("d", i)))
					if err != nil {
						t.Fatalf("idle seat %d of %d: %v", i+1, idle, err)
					}
					if diff := cmp.Diff([]string{"pool ready"}, answers(got.Attempts)); diff != "" {
						t.Errorf("idle seat %d of %d is not offered to its pool: %s", i+1, idle, diff)
					}
				}
				for _, c := range []string{"c1", "d0", "d1"} {
					b.end(c)
				}
				f.idle()
			})
		})
	}
}

// A seat that is taken, and has been acked, is offered nowhere.
func TestTakenSeatIsNotOffered(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.bot(1, nil)
		a := f.asker(claim.AskerConfig{})
		if _, err := a.Assign(t.Context(), call("c1")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		nc := f.broker.Connect(t)
		pool, _ := wire.ClaimPool("eu-west", "default")
		region, _ := wire.ClaimRegion("eu-west")
		for _, subj := range []string{pool, region} {
			if m, err := nc.RequestWithContext(t.Context(), subj, request(t, "k2", "c2")); !errors.Is(err, nats.ErrNoResponders) {
				t.Errorf("%s is answered: %+v %v", subj, m, err)
			}
		}
		b.end("c1")
		f.idle()
	})
}
