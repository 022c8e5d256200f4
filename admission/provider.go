package admission

import "math"

// Providers is the room at the vendors. It is asked and told in the goroutine
// that decides, so a yes and the slot that follows from it are one step.
type Providers interface {
	// Load is what the provider carries and may carry; Limit [Uncounted] always has room.
	Load(provider string) Load

	// Take counts the call at the provider, room or not (an overflow, or a call
	// found in flight on taking office). The same call again is still one.
	Take(provider, call string)

	// Free takes the call off the provider. A call that is not there is no error.
	Free(provider, call string)
}

// Uncounted is the limit of a provider that nobody counts.
const Uncounted = math.MaxInt

// Load is how full a provider is.
type Load struct {
	Used  int // may be over Limit: an overflow, or the limit was lowered
	Limit int // Uncounted: no limit
}

// Room is how many more calls fit, never below 0.
func (l Load) Room() int {
	if l.Limit == Uncounted {
		return Uncounted
	}
	return max(0, l.Limit-l.Used)
}

// Ledger is the simplest [Providers]: a limit for each provider, and the calls
// that were taken. A provider without a limit is uncounted.
type Ledger struct {
	limits map[string]int
	base   map[string]int
	calls  map[string]map[string]bool // provider → ids of its calls
}

// NewLedger makes a ledger in which every provider is uncounted.
func NewLedger() *Ledger {
	return &Ledger{limits: map[string]int{}, base: map[string]int{}, calls: map[string]map[string]bool{}}
}

// SetLimit sets the provider's limit; [Uncounted] takes it away. Lowering it cuts nobody off.
func (l *Ledger) SetLimit(provider string, limit int) { l.limits[provider] = limit }

// SetBase sets how many slots are used by calls that are not ours to know.
func (l *Ledger) SetBase(provider string, used int) { l.base[provider] = used }

// Load implements [Providers].
func (l *Ledger) Load(provider string) Load {
	limit, ok := l.limits[provider]
	if !ok {
		limit = Uncounted
	}
	return Load{Used: l.base[provider] + len(l.calls[provider]), Limit: limit}
}

// Take implements [Providers].
func (l *Ledger) Take(provider, call string) {
	m := l.calls[provider]
	if m == nil {
		m = map[string]bool{}
		l.calls[provider] = m
	}
	m[call] = true
}

// Free implements [Providers].
func (l *Ledger) Free(provider, call string) { delete(l.calls[provider], call) }

// uncounted is what a nil Providers means.
type uncounted struct{}

func (uncounted) Load(string) Load    { return Load{Limit: Uncounted} }
func (uncounted) Take(string, string) {}
func (uncounted) Free(string, string) {}
