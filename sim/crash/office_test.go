package crash

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/pool"
	"dibs/wire"
)

// BenchmarkOffice has 100,000 campaign calls on the line and 1,000 in flight, and two
// backends. The one in office is killed, or stopped, and five seats become idle; the
// figure is the time until the carrier is asked for the next call by the other one.
func BenchmarkOffice(b *testing.B) {
	const queued, inFlight = 100_000, 1000
	w := newWorld(b, 0, simcarrier.Profile{Busy: 1, Ring: simcarrier.Range{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond}}, "DIBS_CAP=2000")
	fill(b, w, queued)
	for i := range inFlight {
		_, err := w.records.Create(b.Context(), ringing(i))
		check(b, err)
	}
	w.addBot(5)
	w.addBot(5)
	pair := w.pair()
	w.until("the backends are ready", w.ready)
	w.until("the bots are there", func() bool { return w.seats() == 10 })
	spare := w.botID("bot-1")

	// moved waits until the carrier has been asked for another call than before.
	moved := func(patience time.Duration) time.Duration {
		begun := time.Now()
		before := w.carrier.Stats().Created
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for w.carrier.Stats().Created == before {
			if time.Since(begun) > patience {
				b.Fatalf("nobody dials for %v", patience)
			}
			<-tick.C
		}
		return time.Since(begun)
	}
	moved(time.Minute)
	took := map[syscall.Signal][]time.Duration{}
	for i := 0; b.Loop(); i++ {
		for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
			in := w.inOffice(pair)
			w.tell(spare, wire.VerbCordon)
			<-time.After(time.Duration(i%4)*125*time.Millisecond + 2*time.Second) // at every phase of the renewals
			begun := time.Now()
			pair[in].signal(s)
			<-time.After(20 * time.Millisecond) // what it has sent before
			w.tell(spare, wire.VerbUncordon)
			moved(time.Minute)
			took[s] = append(took[s], time.Since(begun))
			if s == syscall.SIGKILL {
				pair[in].kill()
				pair[in].start()
			} else {
				pair[in].signal(syscall.SIGCONT)
			}
			<-time.After(3 * time.Second) // both are there again
		}
	}
	for s, name := range map[syscall.Signal]string{syscall.SIGKILL: "killed", syscall.SIGSTOP: "paused"} {
		slices.Sort(took[s])
		b.ReportMetric(took[s][len(took[s])/2].Seconds(), name+"_p50_s")
		b.ReportMetric(took[s][len(took[s])-1].Seconds(), name+"_max_s")
	}
}

// seats is how many seats the backend knows of.
func (w *world) seats() int {
	page, err := w.api.Bots(w.t.Context(), "eu-west", "")
	if err != nil {
		return -1
	}
	return page.Counts.Seats
}

func (w *world) botID(name string) string {
	page, err := w.api.Bots(w.t.Context(), "eu-west", "")
	check(w.t, err)
	for _, b := range page.Bots {
		if strings.HasPrefix(b.ID, name+"_") {
			return b.ID
		}
	}
	w.t.Fatalf("no bot %s", name)
	return ""
}

func (w *world) tell(bot, verb string) {
	_, err := pool.Tell(w.t.Context(), w.nc, bot, verb, wire.Command{Reason: "bench"})
	check(w.t, err)
}

// inOffice says which of the backends holds the office: the one whose consumer reads
// the line.
func (w *world) inOffice(pair []*process) int {
	js, err := jetstream.New(w.nc)
	check(w.t, err)
	in := -1
	w.until("one of them is in office", func() bool {
		s, err := js.Stream(w.t.Context(), "DIBS_LINE")
		if err != nil {
			return false
		}
		for info := range s.ListConsumers(w.t.Context()).Info() {
			in = slices.IndexFunc(pair, func(p *process) bool { return p.name == "backend-"+info.Config.Metadata["dibs-holder"] })
		}
		return in >= 0
	})
	return in
}

// fill puts campaign calls of about 500 bytes on the line.
func fill(tb testing.TB, w *world, n int) {
	js, err := jetstream.New(w.nc, jetstream.WithPublishAsyncMaxPending(1000))
	check(tb, err)
	now := time.Now().UTC()
	for i := range n {
		o := call.Order{
			V: call.Version, CallID: fmt.Sprintf("call_01J8XYZ%08d", i), Org: fmt.Sprintf("org%d", i%200), Class: call.ClassCampaign, Campaign: fmt.Sprintf("spring%d", i%200),
			Region: "eu-west", From: "+15005550006", To: fmt.Sprintf("+49151%07d", i),
			Greeting: call.Greeting{Text: "Hello, this is the practice of Dr. Miller; may I ask you for a moment?"},
			Metadata: []byte(`{"contact":"c_01J8XYZ","first_name":"Erika","last_name":"Mustermann"}`), QueuedAt: now,
		}
		data, err := o.Encode()
		check(tb, err)
		_, err = js.PublishAsync(fmt.Sprintf("dibs.v1.line.eu-west.campaign.%s.%s", o.Org, o.CallID), data)
		check(tb, err)
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(2 * time.Minute):
		tb.Fatal("the line is not full after two minutes")
	}
}

// ringing is the record of a call that has just begun to ring, under an owner that is gone.
func ringing(i int) call.Record {
	now := time.Now().UTC()
	id := fmt.Sprintf("flight%d", i)
	return call.Record{
		V: call.Version, State: call.Ringing, UpdatedAt: now, Changes: 5,
		Order: call.Order{
			V: call.Version, CallID: id, Org: fmt.Sprintf("org%d", i%200), Class: call.ClassAPI, Region: "eu-west", From: "+15005550006", To: fmt.Sprintf("+49160%07d", i), QueuedAt: now,
		},
		Attempts: []call.Attempt{{
			N: 1, ID: id + "-1", Owner: "gone-1", At: now, BotAt: now, IntentAt: now, PlacedAt: now, RingingAt: now.Add(time.Hour), // nobody looks it up meanwhile
			Bot: "gone_1", CarrierID: fmt.Sprintf("CA%032d", i),
		}},
	}
}
