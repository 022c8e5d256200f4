package dispatch

import (
	"sync"
	"time"
)

// pacer spaces the dials of each of our numbers, so that the carrier is asked no
// faster than it takes: one bucket of tokens a number, as large as one second's
// worth. A token that was not used for a dial is given back. Safe for concurrent use.
type pacer struct {
	perSecond float64 // 0: no limit

	mu sync.Mutex
	of map[string]*bucket // our number → its tokens
}

type bucket struct {
	tokens float64   // below 0: so many wait for theirs
	at     time.Time // when tokens was true
	held   time.Time // nobody goes before
}

func newPacer(perSecond float64) *pacer {
	return &pacer{perSecond: perSecond, of: map[string]*bucket{}}
}

func (p *pacer) bucket(number string, now time.Time) *bucket {
	b := p.of[number]
	most := max(1, p.perSecond)
	if b == nil {
		b = &bucket{tokens: most, at: now}
		p.of[number] = b
	}
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(most, b.tokens+d.Seconds()*p.perSecond)
		b.at = now
	}
	return b
}

// take takes a token and says when its turn is.
func (p *pacer) take(number string, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.bucket(number, now)
	turn := now
	if p.perSecond > 0 {
		b.tokens--
		if b.tokens < 0 {
			turn = now.Add(time.Duration(-b.tokens / p.perSecond * float64(time.Second)))
		}
	}
	if turn.Before(b.held) {
		turn = b.held
	}
	return turn
}

// giveBack returns a token that led to no dial.
func (p *pacer) giveBack(number string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.bucket(number, now)
	b.tokens = min(max(1, p.perSecond), b.tokens+1)
}

// hold lets nobody of a number go for a while: the carrier said that it was too fast.
func (p *pacer) hold(number string, now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.bucket(number, now)
	if until := now.Add(d); until.After(b.held) {
		b.held = until
	}
}
