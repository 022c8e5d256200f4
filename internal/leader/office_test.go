package leader

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The world of the property: a broker with one key, and processes with clocks of
// their own, over a network that delays, loses and cuts. Time moves in ticks.
type world struct {
	rng   *rand.Rand
	now   time.Duration // of the broker's clock
	rev   uint64
	key   record
	expy  time.Duration
	down  time.Duration // the broker answers nobody before
	mail  []letter
	procs []*proc
	terms uint64 // the highest ever
}

// letter is something that the broker does or a process learns, at its time.
type letter struct {
	at time.Duration
	do func()
}

// proc is one process with its office.
type proc struct {
	o      *office
	offset time.Duration
	rate   float64       // of its clock
	paused time.Duration // it does nothing before
	cut    time.Duration // what it sends is lost before
	deaf   time.Duration // what it is sent is lost before
	slow   time.Duration // what it sends or is sent takes long before
	trap   time.Duration // not 0: it is paused for so long, and cut off, once its next write is stored
	asked  int           // number of the question it waits for; 0: none
	asks   int
	giveUp time.Time
	fail   func(error)
}

var epoch = time.Unix(1_000_000_000, 0)

func (w *world) clock(p *proc) time.Time {
	return epoch.Add(p.offset + time.Duration(float64(w.now)*p.rate))
}

func (w *world) post(after time.Duration, do func()) {
	w.mail = append(w.mail, letter{w.now + after, do})
}

func (w *world) delay(p *proc) time.Duration {
	d := time.Duration(w.rng.IntN(20)) * time.Millisecond
	if w.now < p.slow {
		d += time.Duration(w.rng.IntN(3000)) * time.Millisecond
	}
	return d
}

// ask sends a question of p to the broker, which answers with what it makes of
// it; then takes the answer. Either way may be lost.
func (w *world) ask(p *proc, giveUp time.Time, answer func() (record, error), then func(record, error)) {
	p.asks++
	n := p.asks
	p.asked, p.giveUp = n, giveUp
	p.fail = func(err error) { then(record{}, err) }
	if w.now < p.cut {
		return
	}
	w.post(w.delay(p), func() {
		if w.now < w.down {
			return
		}
		r, err := answer()
		if w.now < p.deaf {
			return
		}
		w.post(w.delay(p), func() { w.deliver(p, n, func() { then(r, err) }) })
	})
}

// deliver hands an answer to p, later if it is paused and not if it gave up.
func (w *world) deliver(p *proc, n int, do func()) {
	if w.now < p.paused {
		w.post(p.paused-w.now, func() { w.deliver(p, n, do) })
		return
	}
	if p.asked == n {
		p.asked = 0
		do()
	}
}

// run lets p do what it wants now.
func (w *world) run(p *proc) {
	for w.now >= p.paused && p.asked == 0 {
		switch s := p.o.next(w.clock(p)); s.act {
		case wait:
			return
		case leave:
		case look:
			w.ask(p, s.at, func() (record, error) { return w.key, nil }, func(r record, err error) { p.o.looked(w.clock(p), r, err) })
		case write:
			sent := w.clock(p)
			w.ask(p, s.at, func() (record, error) {
				if w.key.rev != s.rev {
					return record{}, errRefused
				}
				if w.rng.IntN(50) == 0 {
					return record{}, errBusy
				}
				w.rev++
				w.key, w.expy = record{rev: w.rev, instance: p.o.instance}, w.now+p.o.ttl
				if p.trap != 0 {
					p.paused, p.cut, p.trap = w.now+p.trap, w.now+p.trap+4*time.Second, 0
				}
				return w.key, nil
			}, func(r record, err error) { p.o.wrote(sent, w.clock(p), r.rev, err) })
		}
	}
	if w.now >= p.paused && p.asked != 0 && !w.clock(p).Before(p.giveUp) {
		p.asked = 0
		p.fail(context.DeadlineExceeded)
	}
}

const tick = 10 * time.Millisecond

// step moves time by one tick and reports a broken promise.
func (w *world) step() error {
	w.now += tick
	if w.key.instance != "" && w.now >= w.expy && w.now >= w.down {
		w.rev++
		w.key = record{rev: w.rev, safe: true} // the mark of an expired key
	}
	slices.SortStableFunc(w.mail, func(a, b letter) int { return cmp.Compare(a.at, b.at) })
	for len(w.mail) > 0 && w.mail[0].at <= w.now {
		do := w.mail[0].do
		w.mail = slices.Delete(w.mail, 0, 1)
		do()
	}
	for _, p := range w.procs {
		before := p.o.term
		w.run(p)
		if t := p.o.term; t != 0 && t != before {
			if t <= w.terms {
				return fmt.Errorf("at %v: term %d after %d", w.now, t, w.terms)
			}
			w.terms = t
		}
	}
	// A paused process counts with what it would believe if it woke now.
	var leading []string
	for _, p := range w.procs {
		if p.o.leading(w.clock(p)) {
			leading = append(leading, fmt.Sprintf("%s (term %d)", p.o.instance, p.o.term))
		}
	}
	if len(leading) > 1 {
		return fmt.Errorf("at %v in office at once: %v", w.now, leading)
	}
	return nil
}

// Whatever is paused, cut, lost or slow: never two in office, terms only go up,
// and when the trouble is over somebody is in office.
func TestNeverTwoInOffice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		w := &world{rng: rand.New(rand.NewPCG(seed, 1))}
		for i := range 3 {
			w.procs = append(w.procs, &proc{
				o:      &office{instance: fmt.Sprintf("p%d", i), ttl: 2 * time.Second, renew: 500 * time.Millisecond, trust: 1500 * time.Millisecond},
				offset: time.Duration(i) * 1000 * time.Hour, // nobody's clock has to be right
				rate:   0.97 + 0.03*float64(i),
			})
		}
		type trouble struct {
			at, length time.Duration
			what, who  int
		}
		ms := func(lo, hi int) *rapid.Generator[time.Duration] {
			return rapid.Map(rapid.IntRange(lo, hi), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
		}
		troubles := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) trouble {
			return trouble{
				at: ms(0, 20_000).Draw(t, "at"), length: ms(100, 6000).Draw(t, "length"),
				what: rapid.IntRange(0, 6).Draw(t, "what"), who: rapid.IntRange(-1, 2).Draw(t, "who"),
			}
		}), 0, 25).Draw(t, "troubles")

		for w.now < 40*time.Second {
			for _, x := range troubles {
				if x.at < w.now || x.at >= w.now+tick {
					continue
				}
				p := w.procs[max(x.who, 0)]
				if x.who < 0 { // whoever is in office
					if i := slices.IndexFunc(w.procs, func(p *proc) bool { return p.o.term != 0 }); i >= 0 {
						p = w.procs[i]
					}
				}
				end := x.at + x.length
				switch x.what {
				case 0:
					p.paused = end
				case 1:
					p.cut = end
				case 2:
					p.deaf = end
				case 3:
					p.slow = end
				case 4:
					w.down = end
				case 5: // by hand
					if w.key.rev != 0 {
						w.rev++
						w.key = record{rev: w.rev}
					}
				case 6:
					p.trap = x.length / 4
				}
			}
			if err := w.step(); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.ContainsFunc(w.procs, func(p *proc) bool { return p.o.leading(w.clock(p)) }) {
			t.Fatalf("nobody in office 10 s after the last trouble; key %+v", w.key)
		}
	})
}
