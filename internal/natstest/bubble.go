package natstest

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// Main runs the tests of a package, prepared so that a server with JetStream can
// live inside a bubble. It returns the exit code.
func Main(m *testing.M) int {
	// Registered here, outside any bubble, and never taken back: no server started
	// later is the first, so none starts the access-time goroutine in its bubble.
	ats.Register()
	return m.Run()
}

// Bubble runs f in a bubble of fake time (see [synctest.Test]) in which brokers
// may be started. Cleanups of the t that f is given run inside the bubble, and
// every goroutine must have ended after them.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	// Before, because tests in real time leave timers too; after, because the next
	// test may be one of those.
	dropPooledTimers()
	defer dropPooledTimers()
	synctest.Test(t, func(t *testing.T) {
		bubbles.Store(testing.TB(t), nil)
		t.Cleanup(func() { bubbles.Delete(testing.TB(t)) }) // the last of all
		f(t)
	})
}

// bubbles are the tests that run in a bubble.
var bubbles sync.Map

func inBubble(tb testing.TB) bool {
	_, in := bubbles.Load(tb)
	return in
}

// dropPooledTimers empties the pool of timers that nats.go keeps for all its
// connections: one that was made in a bubble must not be used anywhere else. A
// sync.Pool is empty after two collections.
func dropPooledTimers() {
	runtime.GC()
	runtime.GC()
}
