package call_test

import (
	"testing"

	"dibs/call"
)

// BenchmarkDecodeOrder is the cost of an order read on taking office, without and
// with hours of its own.
func BenchmarkDecodeOrder(b *testing.B) {
	for _, c := range []struct {
		name string
		o    call.Order
	}{{"plain", order()}, {"full", full()}} {
		b.Run(c.name, func(b *testing.B) {
			data, err := c.o.Encode()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := call.DecodeOrder(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLife is an answered call from its order to its end.
func BenchmarkLife(b *testing.B) {
	evs := append(ev(call.EvAdmitted, call.EvBot, call.EvIntent, call.EvRinging, call.EvLive), call.Event{Kind: call.EvEnd, Outcome: call.Completed})
	for b.Loop() {
		if r := after(call.New(order(), t0), evs...); r.Outcome() != call.Completed {
			b.Fatal(r.State)
		}
	}
}
