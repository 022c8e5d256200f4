package sim

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
	"dibs/call"
	"dibs/queue"
)

// Every call is in the list once, wherever it is kept: on the line, in a record that
// is open, or in one that is closed; and each knows its place in line.
func TestList(t *testing.T) {
	inWorld(t, talks(20*time.Second), func(w *world) {
		w.addBots(1)
		campaign := func(o *call.Order) { o.Class, o.Campaign = call.ClassCampaign, "spring" }
		w.put("ended")
		w.until("it ends", w.ended("ended"))
		w.put("live")
		w.until("it talks", w.state("live", call.Live))
		w.put("waits")
		w.until("it waits for a bot", func() bool { return !w.get("waits").BotWaitSince.IsZero() })
		w.put("later", func(o *call.Order) { o.NotBefore = time.Now().Add(time.Hour) })
		for i := range 5 {
			w.put(fmt.Sprintf("queued%d", i), campaign)
		}
		time.Sleep(time.Second)
		want := map[string]call.State{
			"ended": call.State(call.Completed), "live": call.Live, "waits": call.Queued, "later": call.Scheduled,
			"queued0": call.Queued, "queued1": call.Queued, "queued2": call.Queued, "queued3": call.Queued, "queued4": call.Queued,
		}
		got := map[string]call.State{}
		for cursor, pages := "", 0; ; pages++ {
			page, next, err := w.desk.List(w.t.Context(), api.ListQuery{Limit: 2, Cursor: cursor})
			check(w.t, err)
			for _, r := range page {
				if _, twice := got[r.Order.CallID]; twice {
					w.t.Errorf("%s is listed twice", r.Order.CallID)
				}
				got[r.Order.CallID] = r.State
			}
			if cursor = next; cursor == "" {
				if pages != 4 {
					w.t.Errorf("%d pages, want 5", pages+1)
				}
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("listed (-want +got):\n%s", diff)
		}
		page, _, err := w.desk.List(w.t.Context(), api.ListQuery{State: call.Live})
		check(w.t, err)
		if len(page) != 1 || page[0].Order.CallID != "live" {
			w.t.Errorf("live: %d calls", len(page))
		}
		for i := range 5 {
			// In front of them are the one that waits for a bot and the one of later.
			if p := w.position(fmt.Sprintf("queued%d", i)); p != uint64(i+2) {
				w.t.Errorf("queued%d has %d ahead, want %d", i, p, i+2)
			}
		}
		_, err = w.desk.Cancel(w.t.Context(), "queued0", "")
		check(w.t, err)
		w.within(time.Second, "a cancel in front moves the others", func() bool { return w.position("queued1") == 2 })
		if _, err := w.desk.Get(w.t.Context(), "nobody"); !errors.Is(err, api.ErrNotFound) {
			w.t.Errorf("get of nobody: %v", err)
		}
	})
}

// position is how many are ahead in line, by age.
func (w *world) position(id string) uint64 {
	w.t.Helper()
	p, err := w.line.Position(w.t.Context(), queue.Key{Region: "eu-west", Class: "campaign", Org: "acme", Call: id})
	check(w.t, err)
	return p.Ahead
}
