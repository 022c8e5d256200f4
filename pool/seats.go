package pool

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"dibs/wire"
)

// Deadlines say how long a seat may stay in a state before it is reported as
// stuck and no longer counted as capacity. Zero means no deadline.
type Deadlines struct {
	Claimed  time.Duration // default 2 s: a confirm must come within 1 s
	Warming  time.Duration // default 10 s: the ready window
	Assigned time.Duration // default 80 s: media must come within 75 s
	Live     time.Duration // default none
	Wrapup   time.Duration // default 10 s
}

func (d Deadlines) withDefaults() Deadlines {
	if d == (Deadlines{}) {
		return Deadlines{Claimed: 2 * time.Second, Warming: 10 * time.Second, Assigned: 80 * time.Second, Wrapup: 10 * time.Second}
	}
	return d
}

func (d Deadlines) of(s wire.SeatState) time.Duration {
	switch s {
	case wire.SeatClaimed:
		return d.Claimed
	case wire.SeatWarming:
		return d.Warming
	case wire.SeatAssigned:
		return d.Assigned
	case wire.SeatLive:
		return d.Live
	case wire.SeatWrapup:
		return d.Wrapup
	}
	return 0
}

// Seats is the seat table of one bot: the only place that knows who has which
// seat. It does no I/O and calls nobody; whoever wants to act on a change waits
// on [Seats.Watch]. Safe for concurrent use.
type Seats struct {
	deadlines Deadlines // set once

	mu       sync.Mutex // guards what follows
	seats    []seat
	watchers []chan struct{}
	calls    int64 // seats taken since the start
}

type seat struct {
	state wire.SeatState
	since time.Time
	claim string
	call  string
}

// NewSeats makes n idle seats, 1 to [wire.MaxSeats].
func NewSeats(n int, d Deadlines, now time.Time) (*Seats, error) {
	if n < 1 || n > wire.MaxSeats {
		return nil, fmt.Errorf("pool: %d seats, want 1 to %d", n, wire.MaxSeats)
	}
	s := &Seats{deadlines: d.withDefaults(), seats: make([]seat, n)}
	for i := range s.seats {
		s.seats[i] = seat{state: wire.SeatIdle, since: now}
	}
	return s, nil
}

// Watch returns a channel that holds a token after every change, however many
// there were. Each watcher has its own.
func (s *Seats) Watch() <-chan struct{} {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	s.watchers = append(s.watchers, ch)
	s.mu.Unlock()
	return ch
}

// changed tells the watchers. s.mu is held; the sends never block.
func (s *Seats) changed() {
	for _, ch := range s.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Take gives an idle seat to a claim: prefer when that one is idle, else the
// first idle one. A claim that holds a seat already gets the same one, with
// again set. ok is false when no seat is idle.
func (s *Seats) Take(now time.Time, claimID, callID string, prefer int) (n int, again, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = -1
	for i := range s.seats {
		switch {
		case s.seats[i].state == wire.SeatIdle:
			if n < 0 || i == prefer {
				n = i
			}
		case s.seats[i].claim == claimID:
			return i, true, true
		}
	}
	if n < 0 {
		return -1, false, false
	}
	s.seats[n] = seat{state: wire.SeatClaimed, since: now, claim: claimID, call: callID}
	s.calls++
	s.changed()
	return n, false, true
}

// follows says which states may come after which; idle may always come.
var follows = map[wire.SeatState][]wire.SeatState{
	wire.SeatClaimed:  {wire.SeatWarming, wire.SeatAssigned},
	wire.SeatWarming:  {wire.SeatAssigned},
	wire.SeatAssigned: {wire.SeatLive, wire.SeatWrapup},
	wire.SeatLive:     {wire.SeatWrapup},
}

// Move brings the seat of a claim to its next state, or to idle. It reports
// whether it did: false when the seat is no longer this claim's, or when the
// state cannot follow the present one.
func (s *Seats) Move(now time.Time, n int, claimID string, to wire.SeatState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 || n >= len(s.seats) || s.seats[n].claim != claimID || claimID == "" {
		return false
	}
	if to == wire.SeatIdle {
		s.seats[n] = seat{state: wire.SeatIdle, since: now}
		s.changed()
		return true
	}
	if slices.Contains(follows[s.seats[n].state], to) {
		s.seats[n].state, s.seats[n].since = to, now
		s.changed()
		return true
	}
	return false
}

// Holds reports whether a claim has the seat, and in which state it is.
func (s *Seats) Holds(n int, claimID string) (wire.SeatState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 || n >= len(s.seats) || claimID == "" || s.seats[n].claim != claimID {
		return "", false
	}
	return s.seats[n].state, true
}

// Find is the seat that a call holds.
func (s *Seats) Find(callID string) (n int, claimID string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.seats {
		if s.seats[i].state != wire.SeatIdle && s.seats[i].call == callID {
			return i, s.seats[i].claim, true
		}
	}
	return -1, "", false
}

// View is every seat as others see it.
func (s *Seats) View(now time.Time) []wire.SeatView {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]wire.SeatView, len(s.seats))
	for i, t := range s.seats {
		age := max(now.Sub(t.since), 0)
		d := s.deadlines.of(t.state)
		out[i] = wire.SeatView{State: t.state, ForMS: wire.ToMillis(age), CallID: t.call, Stuck: d > 0 && age > d}
	}
	return out
}

// States appends the state of every seat, in order, to into.
func (s *Seats) States(into []wire.SeatState) []wire.SeatState {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.seats {
		into = append(into, s.seats[i].state)
	}
	return into
}

// InUse counts the seats and those that are not idle.
func (s *Seats) InUse() wire.InUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := wire.InUse{Total: len(s.seats)}
	for i := range s.seats {
		if s.seats[i].state != wire.SeatIdle {
			u.InUse++
		}
	}
	return u
}

// Calls is how many times a seat was taken since the start.
func (s *Seats) Calls() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}
