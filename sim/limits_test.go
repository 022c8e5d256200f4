package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"dibs/api"
	"dibs/call"
)

// usage is what the office counts of a scope.
func (w *world) usage(scope string) api.Usage {
	w.t.Helper()
	u, err := w.desk.Usage(w.t.Context(), scope)
	check(w.t, err)
	return u
}

// waitsFor reports how many of the calls wait for one reason.
func (w *world) waitsFor(reason, scope string, ids ...string) (n int) {
	for _, id := range ids {
		if y, err := w.desk.Why(w.t.Context(), id); err == nil && y.State == call.Queued && y.Reason == reason && y.Scope == scope {
			n++
		}
	}
	return n
}

// Limits are set and changed while everything runs: the next tick goes by them.
func TestLimits(t *testing.T) {
	inWorld(t, talks(5*time.Minute), func(w *world) {
		w.addBots(7)
		ctx := w.t.Context()
		one, two := 1, 2
		_, err := w.settings.PutCampaign(ctx, api.Campaign{ID: "recall", Org: "acme", Cap: &one})
		check(w.t, err)
		n := 0
		put := func(org, campaign string, class call.Class) string {
			n++
			id := fmt.Sprintf("%s-%d", org, n)
			w.put(id, func(o *call.Order) { o.Org, o.Campaign, o.Class = org, campaign, class })
			return id
		}
		inFlight := func(scope string, n int) func() bool {
			return func() bool { u, err := w.desk.Usage(ctx, scope); return err == nil && u.InFlight == n }
		}
		holds := func(scope string, limit int) {
			w.t.Helper()
			w.within(time.Second, "the office goes by it", func() bool {
				u, err := w.desk.Usage(ctx, scope)
				return err == nil && u.Limit != nil && *u.Limit == limit
			})
		}
		holds("campaign:recall", 1)
		var ids []string
		for range 3 {
			ids = append(ids, put("acme", "recall", call.ClassCampaign))
		}
		w.until("one of the campaign's calls goes", inFlight("campaign:recall", 1))
		w.until("the others wait for its cap", func() bool { return w.waitsFor("campaign_cap", "campaign:recall", ids...) == 2 })

		_, err = w.settings.PutCampaign(ctx, api.Campaign{ID: "recall", Org: "acme", Cap: &two})
		check(w.t, err)
		took := w.within(time.Second, "a larger cap lets another one go", inFlight("campaign:recall", 2))
		w.t.Logf("a larger cap took %v", took)
		_, err = w.settings.PutCampaign(ctx, api.Campaign{ID: "recall", Org: "acme", Cap: &two, Paused: true})
		check(w.t, err)
		w.within(time.Second, "the other waits for its campaign to go on", func() bool { return w.waitsFor("campaign_paused", "campaign:recall", ids...) == 1 })

		_, err = w.settings.PutOrg(ctx, api.Org{ID: "acme", Ceiling: &two})
		check(w.t, err)
		holds("org:acme", 2)
		direct := put("acme", "", call.ClassAPI)
		w.until("the ceiling binds all of the org's", func() bool { return w.waitsFor("org_ceiling", "org:acme", direct) == 1 })
		if u := w.usage("campaign:recall"); u.InFlight != 2 || u.Waiting != 1 {
			w.t.Errorf("paused: %+v, want nobody hung up", u)
		}

		// Seats are free for others; one call is promised to an org with a floor.
		_, err = w.settings.PutPlatform(ctx, api.Platform{Cap: 2})
		check(w.t, err)
		holds("platform", 2)
		var burst []string
		for range 3 {
			burst = append(burst, put("burst", "", call.ClassAPI))
		}
		w.until("the platform is full", func() bool { return w.waitsFor("platform_full", "platform", burst...) == 3 })
		_, err = w.settings.PutOrg(ctx, api.Org{ID: "floor", Floor: 1})
		check(w.t, err)
		promised := put("floor", "", call.ClassAPI)
		w.until("the promised one waits, too", func() bool { return w.waitsFor("platform_full", "platform", promised) == 1 })
		_, err = w.settings.PutPlatform(ctx, api.Platform{Cap: 3})
		check(w.t, err)
		w.until("room for one: the floor goes first, though it came last", inFlight("org:floor", 1))
		if u := w.usage("org:burst"); u.InFlight != 0 || u.Waiting != 3 {
			w.t.Errorf("burst %+v, want all waiting", u)
		}

		// The next office begins with the same limits. (A call that is not dialled yet as the
		// first one ends goes back in line, and the paused one would stay there.)
		w.until("those in flight talk", func() bool {
			n := 0
			for _, id := range append(slices.Clone(ids), promised) {
				if w.state(id, call.Live)() {
					n++
				}
			}
			return n == 3
		})
		w.nodes[0].stop()
		w.addNode("two")
		w.until("the new office counts the same", func() bool {
			p, err := w.desk.Usage(ctx, "platform")
			return err == nil && p.InFlight == 3 && p.Waiting == 5
		})
		if u := w.usage("campaign:recall"); u.InFlight != 2 || u.Waiting != 1 {
			w.t.Errorf("campaign %+v", u)
		}
		_, err = w.settings.DeleteOrg(ctx, "acme") // with calls in flight
		check(w.t, err)
		_, err = w.settings.PutPlatform(ctx, api.Platform{})
		check(w.t, err)
		w.until("without limits everybody goes, but the paused", inFlight("platform", 7))
		w.until("and the deleted org's go on", inFlight("org:acme", 3))
	})
}
