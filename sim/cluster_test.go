package sim

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"dibs/api"
	"dibs/call"
	"dibs/internal/natstest"
)

// The same on three servers, of which each in turn is stopped and comes back while
// calls wait, ring and talk: none is lost, none is dialled twice.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("a real cluster in real time")
	}
	w := &world{t: t, cluster: natstest.StartCluster(t, 3)}
	w.open(talks(500 * time.Millisecond))
	w.addNode("one")
	w.addNode("two")
	w.addBots(4)
	const calls = 60
	for i := range calls {
		if i%20 == 10 {
			n := i / 20
			w.cluster.StopNode(n)
			w.cluster.RestartNode(n)
		}
		id := fmt.Sprintf("c%d", i)
		w.until("it is put", func() bool { // while a leader is elected nobody takes it
			o := order(id, numberOf(id))
			o.Class, o.Campaign = call.ClassCampaign, "spring"
			err := w.desk.Put(t.Context(), o)
			return err == nil || errors.Is(err, api.ErrDuplicate)
		})
	}
	for i := range calls {
		w.within(3*time.Minute, "it ends", w.ended(fmt.Sprintf("c%d", i)))
		w.wantEnd(fmt.Sprintf("c%d", i), call.Completed, 1)
	}
	w.nothingLeft()
}
