package dispatch

import (
	"testing"
	"time"
)

// Seats that only seem to be idle are not asked for again and again: after a miss
// comes a pause, a longer one each time, unless one more seat becomes idle.
func TestRoomDoubtsSeats(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newRoom()
	believed := func(idle int) bool {
		r.look("eu", idle, now)
		return !now.Before(r.doubts["eu"].until)
	}
	if !believed(3) {
		t.Fatal("three idle seats are not believed")
	}
	for i, pause := range []time.Duration{doubtFirst, 2 * doubtFirst, 4 * doubtFirst, doubtMost, doubtMost} {
		r.miss("eu", r.ups("eu"), now)
		r.miss("eu", r.ups("eu"), now) // one of many that asked at the same time
		if believed(3) {
			t.Fatalf("miss %d: believed at once", i)
		}
		if got := r.next(now); !got.Equal(now.Add(pause)) {
			t.Fatalf("miss %d: doubted for %v, want %v", i, got.Sub(now), pause)
		}
		now = now.Add(pause)
		if !believed(3) {
			t.Fatalf("miss %d: doubted after %v", i, pause)
		}
	}
	r.miss("eu", r.ups("eu"), now)
	if !believed(4) {
		t.Error("one more idle seat is not believed")
	}
	old := r.ups("eu")
	believed(5)
	r.miss("eu", old, now)
	if !believed(5) {
		t.Error("a miss from before a seat became idle makes doubt")
	}
	r.miss("us", 0, now) // where nobody has waited
	if got := r.next(now); !got.IsZero() {
		t.Errorf("next look at %v, want none", got)
	}
}
