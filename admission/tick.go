package admission

import "dibs/call"

// Tick lets calls go until nothing that waits is admissible, or until limit have
// gone (0: no limit). The admissions come in order and are carried out: each call
// is in flight and counted everywhere when Tick returns.
func (s *State) Tick(limit int) []Decision {
	var picks []pick
	p := s.plan(limit, false, func(k *pick) bool { picks = append(picks, *k); return true })
	if len(picks) == 0 {
		return nil
	}
	decisions := make([]Decision, len(picks))
	for i := range picks {
		k := &picks[i]
		s.served++
		decisions[i] = k.decision()
		s.unqueue(k.w)
		s.hold(Live{Call: k.w.call(), Basis: k.basis, Providers: k.providers, Admitted: s.served}, k.w.sub.rank)
	}
	for i := range p.views {
		if v := &p.views[i]; v.touched {
			v.o.since, v.o.last, v.o.pass = v.since, v.last, v.pass
		}
	}
	s.pass = p.pass
	return decisions
}

// Order is the order in which the calls that wait would go if the platform had
// room and nothing else changed, at most max of them (0: all). A call that is not
// in it is stopped by something that room would not cure.
func (s *State) Order(max int) []Decision {
	var ds []Decision
	s.plan(max, true, func(k *pick) bool { ds = append(ds, k.decision()); return true })
	return ds
}

// Ready counts that order: region → class → calls that would go if the platform
// had room, at most max in all (0: no limit). With what is in flight it is the
// honest demand for bots.
func (s *State) Ready(max int) map[string]map[call.Class]int {
	ready := map[string]map[call.Class]int{}
	s.plan(max, true, func(k *pick) bool {
		q := k.w.sub
		if ready[q.region] == nil {
			ready[q.region] = map[call.Class]int{}
		}
		ready[q.region][classes[q.rank]]++
		return true
	})
	return ready
}

func (k *pick) decision() Decision {
	d := k.w.decision()
	d.Admitted, d.Basis, d.Providers = true, k.basis, k.providers
	if k.withheld {
		d.WithheldFor = d.Class
	}
	return d
}

func (w *waiting) decision() Decision {
	q := w.sub
	return Decision{Call: w.id, Org: q.org.ID, Class: classes[q.rank], Region: q.region, Campaign: q.campaign}
}

// call is w as it was enqueued.
func (w *waiting) call() Call {
	q := w.sub
	c := Call{ID: w.id, Org: q.org.ID, Class: classes[q.rank], Region: q.region, Campaign: q.campaign, Needs: q.signature.needs, Arrival: w.arrival}
	if q.rank == retry && w.until != noWindow {
		c.NotAfter = w.until
	}
	return c
}
