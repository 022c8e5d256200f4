package admission

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"dibs/call"
)

// shape is how the waiting calls of 200 orgs are spread.
type shape struct {
	name      string
	campaigns int  // of each org
	needs     int  // different ways of needing providers
	full      bool // no transcriber has room: nothing can go, and every head is looked at
	reserves  bool
}

// call is the i-th call of an org in this shape.
func (sh shape) call(org, i int) Call {
	c := Call{
		ID: fmt.Sprintf("call_%03d_%06d", org, i), Org: fmt.Sprintf("org-%03d", org),
		Class: queued[i%4], Region: "eu-west",
		Needs: [][]string{{fmt.Sprintf("stt:%d", i%sh.needs), "stt:spare"}, {fmt.Sprintf("tts:%d", i%sh.needs)}},
	}
	switch c.Class {
	case call.ClassCampaign:
		c.Campaign = fmt.Sprintf("campaign-%03d-%d", org, i%sh.campaigns)
	case call.ClassRetry:
		c.NotAfter = int64(1_000_000 - i*7%5000)
	}
	return c
}

const benchOrgs = 200

// org is the envelope of an org in this shape.
func (sh shape) org(org int) Org {
	o := Org{ID: fmt.Sprintf("org-%03d", org), Floor: org % 4}
	if sh.reserves {
		o.Reserve = org % 2
	}
	if org%3 == 0 {
		o.Ceiling = new(8)
	}
	return o
}

// limits of the providers.
func (sh shape) limits() map[string]int {
	l := map[string]int{"stt:spare": 0}
	for i := range sh.needs {
		l[fmt.Sprintf("stt:%d", i)], l[fmt.Sprintf("tts:%d", i)] = 10_000, 10_000
		if sh.full {
			l[fmt.Sprintf("stt:%d", i)] = 0
		}
	}
	return l
}

// build makes a state with that many calls waiting, 400 in flight and ten slots free.
func (sh shape) build(tb testing.TB, waiting int) *State {
	l := NewLedger()
	for p, limit := range sh.limits() {
		l.SetLimit(p, limit)
	}
	s := New(Platform{}, l)
	for org := range benchOrgs {
		s.SetOrg(sh.org(org))
		for range 2 {
			id := fmt.Sprintf("run_%03d_%d", org, len(s.live))
			if err := s.Restore(Call{ID: id, Org: fmt.Sprintf("org-%03d", org), Class: call.ClassAPI}, nil); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for i := range waiting {
		if err := s.Enqueue(sh.call(i%benchOrgs, i/benchOrgs)); err != nil {
			tb.Fatal(err)
		}
	}
	s.SetPlatform(Platform{Cap: len(s.live) + s.owedAtAnyCap() + 10})
	return s
}

// owedAtAnyCap is what would be owed on a platform that is large enough.
func (s *State) owedAtAnyCap() int {
	sum := 0
	for _, o := range s.list {
		sum += o.usable()
	}
	return sum
}

// scan makes the same for the reference.
func (sh shape) scan(waiting int) *naive {
	n := newNaive(Platform{Cap: 1 << 20})
	for p, limit := range sh.limits() {
		n.providers[p] = Load{Limit: limit}
	}
	for org := range benchOrgs {
		o := sh.org(org)
		n.org(o.ID).Org, n.org(o.ID).set = o, true
		for i := range 2 {
			n.hold(Call{ID: fmt.Sprintf("run_%03d_%d", org, i), Org: o.ID, Class: call.ClassAPI}, nil)
		}
	}
	for i := range waiting {
		c := sh.call(i%benchOrgs, i/benchOrgs)
		c.Arrival = uint64(i + 1)
		n.waiting = append(n.waiting, c)
	}
	n.platform.Cap = len(n.live) + n.totalOwed() + 10
	return n
}

var shapes = []shape{
	{name: "few", campaigns: 2, needs: 2, reserves: true},
	{name: "many", campaigns: 50, needs: 10},
	{name: "blocked", campaigns: 50, needs: 10, full: true},
}

// One decision: ten slots, 200 orgs. The calls that went end and wait again, which
// is counted too.
func BenchmarkTick(b *testing.B) {
	for _, sh := range shapes {
		for _, waiting := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/waiting=%d", sh.name, waiting), func(b *testing.B) {
				s := sh.build(b, waiting)
				subs := 0
				for range s.Groups() {
					subs++
				}
				want := 10
				if sh.full {
					want = 0
				}
				b.ReportAllocs()
				for b.Loop() {
					ds := s.Tick(0)
					if len(ds) != want {
						b.Fatalf("%d admissions, want %d", len(ds), want)
					}
					for _, d := range ds {
						c := s.live[d.Call].Call
						s.End(d.Call)
						if err := s.Enqueue(c); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(subs), "subqueues")
			})
		}
	}
}

// The same by scanning everything for every slot.
func BenchmarkTickScan(b *testing.B) {
	sh := shapes[0]
	for _, waiting := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("%s/waiting=%d", sh.name, waiting), func(b *testing.B) {
			n := sh.scan(waiting)
			for b.Loop() {
				if ds := n.clone().tick(0, false); len(ds) != 10 {
					b.Fatalf("%d admissions, want 10", len(ds))
				}
			}
		})
	}
}

// Ten slots for 200 orgs with 100,000 waiting, indexed and scanned in turn; and with
// nearly everything blocked, which is the dearest for the index.
func BenchmarkTenSlots(b *testing.B) {
	few, blocked, n := shapes[0].build(b, 100_000), shapes[2].build(b, 100_000), shapes[0].scan(100_000)
	var tick, none, scan time.Duration
	timed := func(sum *time.Duration, want int, tick func() []Decision) []Decision {
		begun := time.Now()
		ds := tick()
		*sum += time.Since(begun)
		if len(ds) != want {
			b.Fatalf("%d admissions, want %d", len(ds), want)
		}
		return ds
	}
	for b.Loop() {
		for _, d := range timed(&tick, 10, func() []Decision { return few.Tick(0) }) {
			c := few.live[d.Call].Call
			few.End(d.Call)
			if err := few.Enqueue(c); err != nil {
				b.Fatal(err)
			}
		}
		timed(&none, 0, func() []Decision { return blocked.Tick(0) })
		again := n.clone()
		timed(&scan, 10, func() []Decision { return again.tick(0, false) })
	}
	for name, sum := range map[string]time.Duration{"tick_ms": tick, "blocked_ms": none, "scan_ms": scan} {
		b.ReportMetric(sum.Seconds()*1000/float64(b.N), name)
	}
	b.ReportMetric(0, "ns/op")
}

// A call ends on a full platform and one goes, 200 orgs × 100,000 waiting.
func BenchmarkEndAndTick(b *testing.B) {
	s := shapes[0].build(b, 100_000)
	s.Tick(0)
	for b.Loop() {
		ds := s.Tick(0)
		if len(ds) > 1 {
			b.Fatalf("%d admissions", len(ds))
		}
		for _, d := range ds {
			c := s.live[d.Call].Call
			c.ID += "'"
			s.End(d.Call)
			if err := s.Enqueue(c); err != nil {
				b.Fatal(err)
			}
		}
		if len(ds) == 0 {
			for id, l := range s.live {
				if l.Basis != "" {
					s.End(id)
					break
				}
			}
		}
	}
}

// Everything of 100,000 waiting calls that is asked less often.
func BenchmarkRead(b *testing.B) {
	s := shapes[0].build(b, 100_000)
	last := shapes[0].call(benchOrgs-1, 499).ID
	b.Run("inbound", func(b *testing.B) {
		for b.Loop() {
			s.Inbound(Call{ID: "in", Org: "org-002"})
			s.End("in")
		}
	})
	b.Run("verdict", func(b *testing.B) {
		for b.Loop() {
			s.Verdict(last)
		}
	})
	b.Run("verdicts", func(b *testing.B) {
		for b.Loop() {
			for range s.Verdicts() {
			}
		}
	})
	b.Run("groups", func(b *testing.B) {
		for b.Loop() {
			for range s.Groups() {
			}
		}
	})
	b.Run("order of 1000", func(b *testing.B) {
		for b.Loop() {
			s.Order(1000)
		}
	})
	b.Run("ready, all", func(b *testing.B) {
		for b.Loop() {
			s.Ready(0)
		}
	})
	b.Run("why, all", func(b *testing.B) {
		for b.Loop() {
			s.Why(last, 0)
		}
	})
	b.Run("report", func(b *testing.B) {
		for b.Loop() {
			s.Report()
		}
	})
}

// Taking office: 100,000 calls read from the line. B/call is what one of them
// costs, its id aside.
func BenchmarkEnqueue(b *testing.B) {
	calls := make([]Call, 100_000)
	for i := range calls {
		calls[i] = shapes[0].call(i%benchOrgs, i/benchOrgs)
	}
	var before, after runtime.MemStats
	b.ReportAllocs()
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := New(Platform{Cap: 1}, nil)
		for _, c := range calls {
			if err := s.Enqueue(c); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(calls)), "B/call")
}
