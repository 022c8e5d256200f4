package simcarrier

import (
	"context"
	"sync"
	"time"
)

// frameTime is what one media frame lasts, frameBytes how long it is.
const (
	frameTime  = 20 * time.Millisecond
	frameBytes = 160
	phases     = 4
)

// pacer wakes every open stream each 20 ms: one goroutine and one ticker for all,
// a quarter of the streams at a time. A wake-up carries nothing; how many frames
// are due is a matter of the clock, so neither a late nor a lost one makes a
// stream drift. Without streams it does not tick.
type pacer struct {
	mu      sync.Mutex
	streams [phases]map[chan struct{}]struct{}
	n       int
	some    chan struct{} // capacity 1: the first stream has come
}

func (p *pacer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.first():
		}
		p.tick(ctx)
	}
}

func (p *pacer) first() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.some == nil {
		p.some = make(chan struct{}, 1)
	}
	return p.some
}

// tick wakes the streams until none is left.
func (p *pacer) tick(ctx context.Context) {
	t := time.NewTicker(frameTime / phases)
	defer t.Stop()
	for phase := 0; ; phase = (phase + 1) % phases {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		p.mu.Lock()
		for ch := range p.streams[phase] {
			select {
			case ch <- struct{}{}:
			default: // it has not been here since the last one
			}
		}
		n := p.n
		p.mu.Unlock()
		if n == 0 {
			return
		}
	}
}

// join returns the channel of wake-ups of a new stream, and how it leaves.
func (p *pacer) join() (wake <-chan struct{}, leave func()) {
	some := p.first()
	ch := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	least := 0
	for i := range p.streams {
		if len(p.streams[i]) < len(p.streams[least]) {
			least = i
		}
	}
	if p.streams[least] == nil {
		p.streams[least] = map[chan struct{}]struct{}{}
	}
	p.streams[least][ch] = struct{}{}
	p.n++
	select {
	case some <- struct{}{}:
	default:
	}
	return ch, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams[least], ch)
		p.n--
	}
}
