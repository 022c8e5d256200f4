package dispatch

import (
	"sync"
	"time"

	"dibs/call"
)

// ids remember which carrier's call is whose, so that a look-up by numbers does
// not take an earlier call to the same person for this one.
type ids struct {
	mu sync.Mutex
	of map[string]idEntry
}

type idEntry struct {
	call string
	at   time.Time
}

const idLife = 4 * time.Hour // longer than a look-up looks back

func (o *office) knows(carrierID, callID string) {
	if carrierID == "" {
		return
	}
	o.ids.mu.Lock()
	defer o.ids.mu.Unlock()
	o.ids.of[carrierID] = idEntry{callID, time.Now()}
}

// whose is the call that a carrier's id belongs to, "" when it is not known.
func (o *office) whose(carrierID string) string {
	o.ids.mu.Lock()
	defer o.ids.mu.Unlock()
	return o.ids.of[carrierID].call
}

func (o *office) knowAll(r call.Record) {
	for _, a := range r.Attempts {
		o.knows(a.CarrierID, r.Order.CallID)
	}
}

// tidy forgets what no look-up asks for any more.
func (i *ids) tidy(now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, e := range i.of {
		if now.Sub(e.at) > idLife {
			delete(i.of, id)
		}
	}
}
