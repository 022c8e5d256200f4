package crash

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"dibs/call"
	"dibs/carrier/simcarrier"
)

// row is one line of call-crash.json.
type row struct {
	Network     string  `json:"network"`
	KilledAfter string  `json:"killed_after"`
	Dials       int     `json:"dials"`
	Outcome     string  `json:"outcome"`
	FinalAtS    float64 `json:"final_at_s"`
}

// networks are the four conditions, as faults of the carrier.
var networks = map[string]simcarrier.Faults{
	"callbacks and look-up work":    {},
	"callbacks lost, look-up works": {DropCallbacks: []string{"all"}},
	"callbacks work, look-up down":  {LookupDown: true},
	"callbacks lost, look-up down":  {DropCallbacks: []string{"all"}, LookupDown: true},
}

// TestVectors kills the backend at each step under each network, and looks at how
// often the phone rang and what the call's end is called.
func TestVectors(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("DIBS_VECTORS"), filepath.Join("..", "..", "testdata"))
	data, err := os.ReadFile(filepath.Join(dir, "call-crash.json"))
	check(t, err)
	var file struct {
		Rows []row `json:"rows"`
	}
	check(t, json.Unmarshal(data, &file))
	if len(file.Rows) == 0 {
		t.Fatal("no rows")
	}
	for _, r := range file.Rows {
		t.Run(r.Network+"/"+r.KilledAfter, func(t *testing.T) {
			t.Parallel()
			r.run(t)
		})
	}
}

// hurry is how much faster the dispatcher's time passes for a row: an hour must not
// take an hour, and 90 s of bot-wait must not be over before a loaded machine has
// started a process.
func (r row) hurry() float64 {
	if r.FinalAtS > 1000 {
		return 60
	}
	return 15
}

func (r row) run(t *testing.T) {
	faults, ok := networks[r.Network]
	if !ok {
		t.Fatalf("network %q is none of the four", r.Network)
	}
	number, _, _ := strings.Cut(r.KilledAfter, " ")
	step, err := strconv.Atoi(number)
	if err != nil || step < 1 || step > 10 {
		t.Fatalf("step %q", r.KilledAfter)
	}
	// The call outlasts the time in which nobody is in office.
	w := newWorld(t, 1, simcarrier.Profile{
		Ring: simcarrier.Range{Min: 500 * time.Millisecond, Max: 500 * time.Millisecond},
		Talk: simcarrier.Range{Min: 6 * time.Second, Max: 6 * time.Second},
	}, fmt.Sprintf("DIBS_HURRY=%g", r.hurry()))
	check(t, w.carrier.SetFaults(faults))

	w.backend.start(fmt.Sprintf("DIBS_CRASH_AT=%d", step))
	w.until("the backend is ready", w.ready)
	w.until("the bot is there", func() bool { return w.idle() == 1 })
	begun := time.Now()
	// Put from beside: the first steps kill the process that would answer.
	put := make(chan string, 1)
	go func() { put <- w.put("k", "+4915112345678", "4711", "") }()
	if !w.backend.died(60 * time.Second) {
		t.Fatal("the backend did not come to the step at which it was to die")
	}
	w.backend.start()
	id := <-put

	var rec call.Record
	w.untilIn("the call ends", 4*time.Minute, func() bool {
		r, ok := w.record(id)
		rec = r
		return ok && r.State.Terminal()
	})
	took := time.Since(begun).Seconds() * r.hurry()
	dials := w.carrier.CallsTo("+4915112345678")
	if len(dials) != r.Dials {
		t.Errorf("the phone rang %d times, want %d", len(dials), r.Dials)
	}
	if string(rec.Outcome()) != r.Outcome {
		t.Errorf("outcome %s (%s), want %s", rec.Outcome(), rec.Reason, r.Outcome)
	}
	t.Logf("%d dials, %s after %.0f s of its own time (the model: %.0f s)", len(dials), rec.Outcome(), took, r.FinalAtS)
	w.until("the backend is ready again", w.ready)
	w.nothingLeft(1)
}
