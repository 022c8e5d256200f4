package dispatch

import (
	"strings"
	"time"

	"dibs/admission"
)

// room is what admission asks of the world besides its own counts: slots at vendors,
// and idle seats. To admission an idle seat is a provider like any other, so that a
// call which waits for a bot competes for it in the same order, and in the same
// step, as for everything else. Owned by the office's loop.
type room struct {
	*admission.Ledger // vendors; until somebody counts them, all have room

	idle      map[string]int             // region → seats nobody of ours is asking for
	taken     map[string]map[string]bool // region → calls that were let go since the last look
	unlimited bool                       // while the scaler asks what would go if bots were
}

const botsPrefix = "bot:"

// seatIn is the provider name of a region's idle seats.
func seatIn(region string) string { return botsPrefix + region }

func newRoom() *room {
	return &room{Ledger: admission.NewLedger(), idle: map[string]int{}, taken: map[string]map[string]bool{}}
}

// Load implements [admission.Providers].
func (r *room) Load(provider string) admission.Load {
	region, ok := strings.CutPrefix(provider, botsPrefix)
	if !ok {
		return r.Ledger.Load(provider)
	}
	if r.unlimited {
		return admission.Load{Limit: admission.Uncounted}
	}
	return admission.Load{Used: len(r.taken[region]), Limit: max(0, r.idle[region])}
}

// Take implements [admission.Providers].
func (r *room) Take(provider, call string) {
	region, ok := strings.CutPrefix(provider, botsPrefix)
	if !ok {
		r.Ledger.Take(provider, call)
		return
	}
	if r.taken[region] == nil {
		r.taken[region] = map[string]bool{}
	}
	r.taken[region][call] = true
}

// Free implements [admission.Providers]. A seat is not given back here: the next
// look at the roster shows it.
func (r *room) Free(provider, call string) {
	if !strings.HasPrefix(provider, botsPrefix) {
		r.Ledger.Free(provider, call)
	}
}

// look counts the idle seats anew, less those that a call of ours is asking for.
func (o *office) look() {
	clear(o.room.idle)
	clear(o.room.taken)
	seeking := map[string]int{}
	for _, c := range o.inFlight {
		if c.seeking.Load() {
			seeking[c.region]++
		}
	}
	now := time.Now()
	for region := range o.regions {
		o.room.idle[region] = o.d.cfg.Roster.Counts(now, region, "").Idle - seeking[region]
	}
}
