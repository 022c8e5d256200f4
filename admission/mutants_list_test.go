package admission

// mutantList is what people get wrong, one line each.
var mutantList = []mutant{
	// The envelope.
	{"owed ignores the inbound calls in flight", "index.go", "o.EffectiveReserve()-len(o.live[inbound])", "o.EffectiveReserve()"},
	{"the reserve may take the last line of the ceiling", "settings.go", "r = min(r, *o.Ceiling-1)", "r = min(r, *o.Ceiling)"},
	{"the reserve is not cut to the floor", "settings.go", "r := min(o.Reserve, o.Floor)", "r := o.Reserve"},
	{"all reserves together may take the last slot", "index.go", "max(0, min(usable, s.platform.Cap-1))", "max(0, usable)"},
	{"owed lines above a lowered ceiling count as kept", "index.go", "return max(0, min(owed, *o.Ceiling-n))", "return owed"},
	{"the reserved part of the floor gives outbound priority", "plan.go", "shortfall: max(0, o.Floor-owed-n)", "shortfall: max(0, o.Floor-n)"},
	{"the shortfall stays what it was when the tick began", "plan.go", "v.shortfall = max(0, v.o.Floor-v.owed-v.n)", "_ = 0"},
	{"outbound uses lines that are owed to inbound", "plan.go", "v.n+v.owed < *v.o.Ceiling", "v.n < *v.o.Ceiling"},
	{"one more than the ceiling", "plan.go", "v.n+v.owed < *v.o.Ceiling", "v.n+v.owed <= *v.o.Ceiling"},
	{"inbound ignores the ceiling", "decide.go", "case o.Ceiling != nil && g.InUse >= *o.Ceiling:", "case r != inbound && o.Ceiling != nil && g.InUse >= *o.Ceiling:"},
	{"one more than the campaign's cap", "decide.go", "len(c.live)+more >= *limit", "len(c.live)+more > *limit"},
	{"a paused campaign goes on up to its cap", "settings.go", "if c.Paused {", "if false {"},
	{"a paused campaign is said to run its cap", "decide.go", "case c.Paused:", "case false:"},
	{"a campaign's cap is forgotten inside a tick", "plan.go", "p.more[q.crowd]++", "_ = 0"},
	{"slots owed to inbound are given away", "plan.go", "p.n+p.s.keeps(p.usable) < p.s.platform.Cap", "p.n < p.s.platform.Cap"},
	{"inbound is refused the slot that was kept for it", "decide.go", "(r != inbound || o.usable() == 0)", "true"},
	{"every inbound call takes slots kept for other orgs", "decide.go", "(r != inbound || o.usable() == 0)", "r != inbound"},
	{"a tick lets one more go than it may", "plan.go", "p.picks < p.limit", "p.picks <= p.limit"},

	// Floors and burst.
	{"the floor pass starts again in every tick", "plan.go", "n: len(s.live), pass: s.pass,", "n: len(s.live), pass: s.pass + 1,"},
	{"a new floor pass is forgotten after the tick", "tick.go", "s.pass = p.pass", "_ = p.pass"},
	{"the largest shortfall is served until it is gone", "plan.go", "served.push(v)", "unserved.push(v)"},
	{"the smallest shortfall leads", "plan.go", "return a.shortfall > b.shortfall", "return a.shortfall < b.shortfall"},
	{"burst: the one that runs most leads", "plan.go", "return v.n < u.n", "return v.n > u.n"},
	{"burst: fewest running decides alone, without passes", "plan.go", "next.items = append(next.items, v)\n", "pass.push(v)\n"},
	{"ties by id alone", "plan.go", "case v.last != u.last:", "case false:"},
	{"ties by most recently served", "plan.go", "return v.last < u.last", "return v.last > u.last"},
	{"an inbound call is no service", "decide.go", "s.orgs[c.Org].last = s.served", "_ = 0"},
	{"burst before the floors", "plan.go", "if p.floors() {", "if p.bursts(); p.floors() {"},

	// Classes.
	{"nothing is withheld", "plan.go", "e > 0 && v.since[r] >= e-1", "e < 0 && v.since[r] >= e-1"},
	{"withheld one admission late", "plan.go", "v.since[r] >= e-1", "v.since[r] >= e"},
	{"withheld for a class that cannot go saves up credit", "plan.go", "v.o.every[r] > 0 && p.best(v.o, r) != nil", "v.o.every[r] > 0 && len(v.o.subs[r]) > 0"},
	{"a higher class counts what lower ones were given", "plan.go", "for r := q.rank + 1; r < ranks; r++ {", "for r := retry; r < ranks; r++ {"},
	{"the count goes on after the class was served", "plan.go", "v.since[q.rank] = 0", "_ = 0"},
	{"the count survives the last call that waited", "index.go", "o.since[q.rank] = 0 //", "//"},
	{"the count is forgotten with the tick", "tick.go", "v.o.since, v.o.last, v.o.pass = v.since, v.last, v.pass", "v.o.last, v.o.pass = v.last, v.pass"},
	{"the lowest class that is due leads", "plan.go", "for r := retry; r < ranks; r++ {\n\t\tif e", "for r := campaign; r >= retry; r-- {\n\t\tif e"},
	{"retries by arrival", "state.go", "if r == retry && c.NotAfter != 0 {", "if false {"},
	{"campaigns by arrival", "plan.go", "if q.rank == campaign {", "if false {"},
	{
		"a blocked call hides those behind it", "plan.go",
		"if p.open(q) && (best == nil || p.before(q, best)) {\n\t\t\tbest = q\n\t\t}\n\t}\n",
		"if p.head(q) != nil && (best == nil || p.before(q, best)) {\n\t\t\tbest = q\n\t\t}\n\t}\n\tif best != nil && !p.open(best) {\n\t\treturn nil\n\t}\n",
	},

	// Providers.
	{"only the preferred provider is asked", "plan.go", "range alternatives {\n\t\t\tif p.roomAt", "range alternatives[:1] {\n\t\t\tif p.roomAt"},
	{"a provider's room is forgotten inside a tick", "plan.go", "p.left[provider]--", "_ = 0"},
	{"what was remembered of a provider's room is never renewed", "plan.go", "p.s.asked++ //", "//"},
	{"an end keeps its provider", "state.go", "s.vendors.Free(p, k.ID)", "_ = p"},
	{"an admission takes no provider", "state.go", "s.vendors.Take(p, l.ID)", "_ = p"},
	{"the verdict names the last alternative", "decide.go", `Scope: "provider:" + alternatives[0]`, `Scope: "provider:" + alternatives[len(alternatives)-1]`},
	{"an inbound caller is turned away by a full provider", "decide.go", "overflow := r == inbound && s.platform.Full != Refuse", "overflow := false"},
	{"overflow cannot be switched off", "decide.go", "overflow := r == inbound && s.platform.Full != Refuse", "overflow := r == inbound"},
	{"outbound overflows too", "decide.go", "overflow := r == inbound && s.platform.Full != Refuse", "overflow := s.platform.Full != Refuse"},

	// The set, the verdicts, the order.
	{"an end leaves the call in its campaign", "state.go", "delete(k.crowd.live, k)", "_ = 0"},
	{"an end leaves the call in its org", "state.go", "delete(k.org.live[k.rank], k)", "_ = 0"},
	{"a restored call is held without asking whether it is there", "state.go", "if s.live[l.ID] != nil {\n\t\treturn", "if false {\n\t\treturn"},
	{"the last no leads", "decide.go", "d.Reason, d.Scope, d.BlockedBy = nos[0].Reason, nos[0].Scope, nos", "d.Reason, d.Scope, d.BlockedBy = nos[len(nos)-1].Reason, nos[0].Scope, nos"},
	{"only the first no is told", "decide.go", "d.Reason, d.Scope, d.BlockedBy = nos[0].Reason, nos[0].Scope, nos", "d.Reason, d.Scope, d.BlockedBy = nos[0].Reason, nos[0].Scope, nos[:1]"},
	{"the position lifts nothing", "verdict.go", "p := s.plan(depth, true,", "p := s.plan(depth, false,"},
	{"an inbound call beyond the reserve goes by reserve", "decide.go", "case o.usable() > 0:", "case o.EffectiveReserve() > 0:"},
	{"reserve = ceiling may be written", "settings.go", "o.Reserve > 0 && o.Reserve >= *c", "o.Reserve > *c"},
}
