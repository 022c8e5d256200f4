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
	doubts    map[string]*doubt          // region → its idle seats are not believed
}

// doubt is what a claim leaves behind that found nobody although seats seemed idle:
// the roster lags, or believes in a frozen bot. Nobody asks for them again at once,
// but when one more seems to be idle, or after a pause.
type doubt struct {
	idle  int           // seats that seemed idle when last looked at
	ups   int           // how often they have become more
	until time.Time     // real time; zero: they are believed
	pause time.Duration // the last one
}

// A doubt lasts so long, and twice as long each time it is confirmed.
const (
	doubtFirst = 250 * time.Millisecond
	doubtMost  = 2 * time.Second
)

// ups is how often the idle seats of a region have become more.
func (r *room) ups(region string) int {
	if d := r.doubts[region]; d != nil {
		return d.ups
	}
	return 0
}

// miss notes that a call of the region found nobody, which was let go at ups.
func (r *room) miss(region string, ups int, now time.Time) {
	d := r.doubts[region]
	if d == nil || d.ups != ups || now.Before(d.until) {
		return // old news, or one of many that asked at the same time
	}
	d.pause = min(max(2*d.pause, doubtFirst), doubtMost)
	d.until = now.Add(d.pause)
}

// look takes how many seats of the region seem idle.
func (r *room) look(region string, idle int, now time.Time) {
	d := r.doubts[region]
	if d == nil {
		d = &doubt{}
		r.doubts[region] = d
	}
	if idle > d.idle {
		d.until, d.pause = time.Time{}, 0
		d.ups++
	}
	d.idle = idle
}

// next is when the first doubt ends, zero when there is none.
func (r *room) next(now time.Time) (at time.Time) {
	for _, d := range r.doubts {
		if d.until.After(now) && (at.IsZero() || d.until.Before(at)) {
			at = d.until
		}
	}
	return at
}

const botsPrefix = "bot:"

// seatIn is the provider name of a region's idle seats.
func seatIn(region string) string { return botsPrefix + region }

func newRoom() *room {
	return &room{Ledger: admission.NewLedger(), idle: map[string]int{}, taken: map[string]map[string]bool{}, doubts: map[string]*doubt{}}
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

// look counts the idle seats anew, less those that a call of ours is asking for, or
// has and the roster does not show yet.
func (o *office) look() {
	clear(o.room.idle)
	clear(o.room.taken)
	now := time.Now()
	seeking := map[string]int{}
	for _, c := range o.inFlight {
		if c.seeking.Load() {
			if o.d.cfg.Roster.Shows(c.id) {
				c.seeking.Store(false)
				continue
			}
			seeking[c.region]++
		}
	}
	for region := range o.regions {
		idle := o.d.cfg.Roster.Counts(now, region, "").Idle
		o.room.look(region, idle, now)
		if !now.Before(o.room.doubts[region].until) {
			o.room.idle[region] = idle - seeking[region]
		}
	}
}
