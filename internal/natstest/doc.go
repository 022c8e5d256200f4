// Package natstest runs real NATS servers for tests. Nothing of Dibs is tested
// against a stand-in for NATS: a broker starts in a few milliseconds, so every
// test can have its own, JetStream included.
//
// # Contract
//
//   - [Start] gives one broker without a socket: clients are connected through
//     memory, and so it may live inside a bubble of fake time ([Bubble]).
//     [StartWith] with Listen gives one on a loopback port, for tests that need
//     other processes; such a broker lives in real time only.
//   - [StartCluster] gives real nodes on loopback, meshed, with an elected
//     JetStream leader. Real time only.
//   - Everything a function here starts ends with the test that it was given: no
//     Close is needed. Inside a bubble, pass the bubble's own t.
//   - A package whose tests use a bubble must have
//     func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }.
//   - Bubbles of one package never run in parallel, with each other or with a test
//     in real time: no t.Parallel beside them.
//
// # Picture
//
//	          Bubble(t, f): time moves only when every goroutine waits
//	┌──────────────────────────────────────────────────────────────────┐
//	│  *nats.Conn ──memory──▶ Broker ──▶ nats-server ──▶ t.TempDir()   │
//	│  *nats.Conn ──Link────▶   │ Stop / Restart: a new server on the  │
//	│     Freeze / Thaw         ▼ same directory, clients come back    │
//	└──────────────────────────────────────────────────────────────────┘
//
// # What this stands on
//
// The server was not made for fake time; five facts make it work, each of them
// stated by a test of this package, so that a new version which breaks one is
// noticed here and not in fifty other tests:
//
//   - The server's access-time goroutine waits on a channel made in an init
//     function. Inside a bubble that never counts as waiting, and time would
//     stand still; [Main] starts it outside.
//   - nats.go keeps used timers in a pool, and a timer of one bubble is fatal
//     anywhere else; [Bubble] empties the pool before and after. What other pools
//     keep makes no difference.
//   - Message and key expiry, redelivery and reconnect follow the bubble's clock,
//     which starts at midnight UTC 2000-01-01.
//   - A stopped server leaves no goroutine behind. As it shuts down it may sleep with a
//     lock; whoever waits for a lock stops the bubble's time, so [Broker.Stop] parts it
//     from its clients first.
package natstest
