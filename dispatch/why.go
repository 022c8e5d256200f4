package dispatch

import (
	"strings"
	"time"

	"dibs/admission"
	"dibs/api"
	"dibs/call"
)

// whyDepth is how far the order is followed for a position.
const whyDepth = 2000

// why explains a call that waits, or says that it does not.
func (o *office) why(id string) (api.Why, bool) {
	now := o.d.clock.now()
	if c := o.inFlight[id]; c != nil {
		return api.Why{Call: id, State: call.Placing, WouldDial: true, Gates: []api.WhyGate{}, Verdicts: []api.VerdictChange{}}, true
	}
	w := o.known[id]
	if w == nil {
		return api.Why{}, false
	}
	out := api.Why{Call: id, State: call.Queued, Gates: []api.WhyGate{}, Verdicts: []api.VerdictChange{}}
	_, out.Of = o.adm.Count()
	at := w.opens
	if w.rec != nil {
		r := w.rec.rec
		out.State, at = r.State, r.NextAt
		if !r.BotWaitSince.IsZero() {
			left := max(0, r.BotWaitSince.Add(r.Order.BotWait()).Sub(now))
			out.BotWait = &api.BotWait{Since: r.BotWaitSince, RemainingMS: call.ToMillis(left), Final: r.Final}
		}
	}
	timeGate := api.WhyGate{Gate: "time", OK: !at.After(now)}
	if !timeGate.OK {
		timeGate.Code, out.NextCheckAt = "not_before", at
	}
	out.Gates = append(out.Gates, timeGate)
	if c, err := o.callerOf(w); err == nil {
		verdict, until := o.people.May(c.rec.Order.Person(), id, c.rec.Order.Class, now)
		g := api.WhyGate{Gate: "person", OK: verdict == call.PersonOK}
		if !g.OK {
			g.Code = string(verdict)
			if until.After(out.NextCheckAt) {
				out.NextCheckAt = until
			}
		}
		out.Gates = append(out.Gates, g)
	}
	o.look()
	if !o.adm.Waits(id) { // held back by time or person: asked all the same
		o.enqueue(w)
		defer o.adm.Remove(id)
	}
	if why, ok := o.adm.Why(id, whyDepth); ok {
		for _, g := range why.Gates {
			out.Gates = append(out.Gates, gateOf(g))
		}
		out.Position, out.AheadFloor, out.AheadBurst = why.Position, why.AheadFloor, why.AheadBurst
	}
	out.WouldDial = true
	for _, g := range out.Gates {
		if !g.OK {
			out.WouldDial, out.Reason, out.Scope = false, g.Code, g.Scope
			break
		}
	}
	out.Verdicts = append(out.Verdicts, o.verdicts.of(w)...)
	return out, true
}

// gateOf is admission's answer in the words of the API. An idle seat is a provider
// to admission, and a bot to everybody else.
func gateOf(g admission.Gate) api.WhyGate {
	out := api.WhyGate{OK: g.OK, Scope: g.Scope, InUse: g.InUse, Limit: g.Limit, Owed: g.Owed, Code: string(g.Reason)}
	kind, rest, _ := strings.Cut(g.Scope, ":")
	out.Gate = kind
	if region, ok := strings.CutPrefix(rest, botsPrefix); kind == "provider" && ok {
		out.Gate, out.Scope = "bot", "bots:"+region
		if !g.OK {
			out.Code = "no_idle_bot"
		}
	}
	return out
}

// reasonOf is a verdict's first no in the same words.
func reasonOf(d admission.Decision) (reason, scope string, no admission.No) {
	if len(d.BlockedBy) > 0 {
		no = d.BlockedBy[0]
	}
	g := gateOf(admission.Gate{Scope: d.Scope, Reason: d.Reason})
	return g.Code, g.Scope, no
}

// verdicts is how the answers of the last ticks changed: one history for all calls
// that wait for the same thing, so 100,000 calls of a campaign have one.
type verdicts struct {
	groups  map[string]*history // key of the sub-queue → its history
	changes map[string]int64    // reason → changes to it since the start
}

type history struct {
	reason, scope string
	entries       []api.VerdictChange
	seen          bool
}

const mostChanges = 20

func groupKey(org string, class call.Class, campaign, region string, needs [][]string) string {
	var b strings.Builder
	for _, s := range []string{org, string(class), campaign, region} {
		b.WriteString(s)
		b.WriteByte(0)
	}
	for _, n := range needs {
		b.WriteString(strings.Join(n, ","))
		b.WriteByte(0)
	}
	return b.String()
}

// note compares what the tick left with what was known, and returns the groups
// whose verdict is a new one.
func (v *verdicts) note(groups func(func(admission.Group) bool), now time.Time) (changed []admission.Group) {
	for _, h := range v.groups {
		h.seen = false
	}
	for g := range groups {
		d := g.Verdict
		reason, scope, no := reasonOf(d)
		k := groupKey(d.Org, d.Class, d.Campaign, d.Region, g.Needs)
		h := v.groups[k]
		if h == nil {
			h = &history{}
			v.groups[k] = h
		}
		h.seen = true
		if h.reason == reason && h.scope == scope {
			continue
		}
		h.reason, h.scope = reason, scope
		h.entries = append(h.entries, api.VerdictChange{At: now, Reason: reason, Scope: scope, InUse: no.InUse, Limit: no.Limit})
		if len(h.entries) > mostChanges {
			h.entries = append([]api.VerdictChange(nil), h.entries[len(h.entries)-mostChanges:]...)
		}
		v.changes[reason]++
		changed = append(changed, g)
	}
	for k, h := range v.groups {
		if !h.seen {
			delete(v.groups, k)
		}
	}
	return changed
}

// of is the history of everything that waits as this call does.
func (v *verdicts) of(w *waiter) []api.VerdictChange {
	for _, needs := range [][][]string{w.asked, w.needs} {
		if h := v.groups[groupKey(w.key.Org, w.class, w.campaign, w.key.Region, needs)]; h != nil {
			return h.entries
		}
	}
	return nil
}
