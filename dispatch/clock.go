package dispatch

import "time"

// epoch is where hurried time begins; any fixed moment does.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clock is the dispatcher's time. In production it is time itself; the crash
// harness lets it pass faster, so that deadlines of an hour can be watched.
type clock struct {
	start time.Time
	hurry float64
}

func newClock(hurry float64) clock {
	if hurry <= 0 {
		hurry = 1
	}
	return clock{start: time.Now(), hurry: hurry}
}

func (c clock) now() time.Time {
	if c.hurry == 1 {
		return time.Now()
	}
	// Every process of one harness must agree on the time, so it hangs on the
	// epoch, not on this process's start.
	return epoch.Add(time.Duration(float64(time.Since(epoch)) * c.hurry))
}

// outside is what a moment of this clock is for everybody else: the carrier keeps
// real time.
func (c clock) outside(t time.Time) time.Time {
	if c.hurry == 1 {
		return t
	}
	return epoch.Add(c.real(t.Sub(epoch)))
}

// real is how long a duration of this clock takes.
func (c clock) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.hurry)
}

// until is how long to wait for t, at least a millisecond.
func (c clock) until(t time.Time) time.Duration {
	return max(c.real(t.Sub(c.now())), time.Millisecond)
}
