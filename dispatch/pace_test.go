package dispatch

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However many ask, and however they give back: in no second more dials go than the
// number allows, the first second's worth of saved tokens aside.
func TestPacer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]float64{0.5, 1, 5, 30}).Draw(t, "rate")
		p := newPacer(rate)
		now := time.Unix(1_000_000, 0)
		begun, dials := now, []time.Time{}
		for range rapid.IntRange(1, 200).Draw(t, "asks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			turn := p.take("+1", now)
			if turn.Before(now) {
				t.Fatalf("a turn before it was asked for")
			}
			if turn.Equal(now) && rapid.Bool().Draw(t, "no bot") {
				p.giveBack("+1", now)
				continue
			}
			dials = append(dials, turn)
		}
		last := begun
		for _, d := range dials {
			if d.After(last) {
				last = d
			}
		}
		most := max(1, rate) + rate*last.Sub(begun).Seconds() + 1e-6
		if float64(len(dials)) > most {
			t.Fatalf("%d dials in %v at %v a second", len(dials), last.Sub(begun), rate)
		}
	})
}

func TestPacerHolds(t *testing.T) {
	p, now := newPacer(0), time.Unix(1000, 0)
	if turn := p.take("+1", now); !turn.Equal(now) {
		t.Errorf("without a limit: %v", turn.Sub(now))
	}
	p.hold("+1", now, 3*time.Second)
	p.hold("+1", now, time.Second) // the longer one stays
	if turn := p.take("+1", now.Add(time.Second)); turn.Sub(now) != 3*time.Second {
		t.Errorf("held: its turn is after %v, want 3 s", turn.Sub(now))
	}
	if turn := p.take("+2", now.Add(time.Second)); turn.Sub(now) != time.Second {
		t.Errorf("another number waits, too")
	}
}
