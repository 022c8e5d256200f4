package crash

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"dibs/carrier/simcarrier"
)

// TestPaused stops the backend in office, the whole process, after a step of a
// dispatch and continues it when the other one has taken over, has found out, or is
// about to dial again. The phone rings once. (Package sim does the same in fake time
// for every step and pause; here not even a timer of the stopped one runs.)
func TestPaused(t *testing.T) {
	t.Parallel()
	type row struct{ step, pause int } // seconds of the dispatchers' time
	rows := []row{{7, 40}, {7, 120}}
	for step := 1; step <= 10; step++ {
		rows = append(rows, row{step, 140})
	}
	for _, r := range rows {
		t.Run(fmt.Sprintf("after step %d for %d s", r.step, r.pause), func(t *testing.T) {
			t.Parallel()
			const hurry = 15
			w := newWorld(t, 2, simcarrier.Profile{
				Ring: simcarrier.Range{Min: 500 * time.Millisecond, Max: 500 * time.Millisecond},
				Talk: simcarrier.Range{Min: 2 * time.Second, Max: 2 * time.Second},
			}, fmt.Sprintf("DIBS_HURRY=%d", hurry))
			w.backend.start(fmt.Sprintf("DIBS_STOP_AT=%d", r.step))
			w.until("the backend is ready", w.ready)
			w.until("the bots are there", func() bool { return w.idle() == 2 })
			two, base := w.newBackend("two", "")
			two.start()
			w.use(base)
			w.until("the other is ready", w.ready)
			id := w.put("k", "+4915112345678", "4711", "")
			w.until("the first stands still", w.backend.stopped)
			<-time.After(time.Duration(r.pause) * time.Second / hurry)
			w.backend.signal(syscall.SIGCONT)
			w.untilIn("the call ends", 4*time.Minute, func() bool {
				rec, ok := w.record(id)
				return ok && rec.State.Terminal()
			})
			rec, _ := w.record(id)
			if dials := w.carrier.CallsTo("+4915112345678"); len(dials) != 1 || rec.Outcome() != "completed" {
				t.Errorf("%s (%s), and the phone rang %d times: %+v", rec.Outcome(), rec.Reason, len(dials), dials)
			}
			w.nothingLeft(2)
		})
	}
}
