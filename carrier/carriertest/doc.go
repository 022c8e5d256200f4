// Package carriertest is the conformance suite of [carrier.Carrier]. An
// implementation that passes [Run] can be put under the dispatcher, which relies
// on nothing else.
//
// # Contract
//
// The suite looks at both ends: at what the carrier's client answers, and at what
// the carrier, real or simulated, has really done. "One create, one phone" is
// checked by counting the calls at the far end, never by trusting a return value.
// It uses real time and real sockets, waits for conditions and not for moments,
// and needs a far end whose callees ring for tens of milliseconds.
//
// # Picture
//
//	suite ── Place, Cancel, Hangup, Find ──▶ carrier under test ──▶ far end
//	  │                                                               │
//	  ├── Harness.Calls, Harness.Fault ◀──────────────────────────────┤
//	  └── Receiver: status webhooks (fed to Event), questions, media ◀┘
//
// # Use
//
//	func TestConformance(t *testing.T) {
//		carriertest.Run(t, func(t *testing.T) carriertest.Harness { … })
//	}
//
// If a far end dies, the tests that wait for it say so after [Patience].
package carriertest
