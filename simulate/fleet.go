package simulate

import "slices"

// fleet is the pods of one run.
type fleet struct {
	starting []*pod // oldest first
	idle     int
	busy     []*talk // by begin
	leaving  int     // told to stop, on a call still; not wanted any more, so not in pods
}

// pod is one that starts. It is not empty: each must have an address of its own.
type pod struct{ _ byte }

// pods are those that count as replicas: whoever is leaving does not.
func (f *fleet) pods() int { return len(f.starting) + f.idle + len(f.busy) }

// scale makes it n pods and returns those that now start. On the way down pods
// that start go first, then idle ones, then busy ones, the latest first.
func (f *fleet) scale(n int) (started []*pod) {
	for f.pods() < n {
		p := &pod{}
		f.starting = append(f.starting, p)
		started = append(started, p)
	}
	for f.pods() > n {
		switch {
		case len(f.starting) > 0:
			f.starting = f.starting[:len(f.starting)-1]
		case f.idle > 0:
			f.idle--
		default:
			last := len(f.busy) - 1
			f.busy[last].leaving = true
			f.busy = f.busy[:last]
			f.leaving++
		}
	}
	return started
}

// ready makes a pod that was starting idle, unless it is not wanted any more.
func (f *fleet) ready(p *pod) {
	if i := slices.Index(f.starting, p); i >= 0 {
		f.starting = slices.Delete(f.starting, i, i+1)
		f.idle++
	}
}

// take gives an idle bot to t.
func (f *fleet) take(t *talk) {
	f.idle--
	f.busy = append(f.busy, t)
}

// release is the end of t: its bot is idle, or leaves.
func (f *fleet) release(t *talk) {
	if t.leaving {
		f.leaving--
		return
	}
	i := slices.Index(f.busy, t)
	f.busy = slices.Delete(f.busy, i, i+1)
	f.idle++
}
