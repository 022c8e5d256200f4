package sim

import (
	"testing"
	"time"

	"dibs/call"
	"dibs/carrier"
	"dibs/carrier/simcarrier"
)

// Who answered is found out, and told whichever way the word comes: by itself, with the
// end, or, when no event arrives, by a look-up. A bot waits for its media as long as
// the carrier may listen first.
func TestWhoAnswers(t *testing.T) {
	machine := func(ring time.Duration) simcarrier.Profile {
		p := talks(20 * time.Second)
		p.Machine, p.Ring = 1, simcarrier.Range{Min: ring}
		return p
	}
	long := machine(call.DefaultRing - 100*time.Millisecond)
	long.Message, long.Talk = carrier.DetectTime-5*time.Second, simcarrier.Range{Min: time.Minute}
	for _, tt := range []struct {
		name    string
		profile simcarrier.Profile
		faults  simcarrier.Faults
		detect  string
		want    call.Outcome
		who     string
	}{
		{name: "nobody asks", profile: machine(time.Second), want: call.Completed},
		{name: "a person", profile: talks(20 * time.Second), detect: carrier.DetectAnswer, want: call.Completed, who: "human"},
		{name: "a machine", profile: machine(time.Second), detect: carrier.DetectAnswer, want: call.Voicemail, who: "machine_start"},
		{name: "a machine that is left a message", profile: machine(time.Second), detect: carrier.DetectMessageEnd, want: call.Voicemail, who: "machine_end_beep"},
		{name: "a machine that lets it ring for long, and speaks for long", profile: long, detect: carrier.DetectMessageEnd, want: call.Voicemail, who: "machine_end_beep"},
		{name: "it is not told by itself", profile: machine(time.Second), faults: simcarrier.Faults{DropCallbacks: []string{"amd"}}, detect: carrier.DetectAnswer, want: call.Voicemail, who: "machine_start"},
		{name: "nothing is told", profile: machine(time.Second), faults: simcarrier.Faults{DropCallbacks: []string{"all"}}, detect: carrier.DetectAnswer, want: call.Voicemail, who: "machine_start"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, tt.profile, func(w *world) {
				check(w.t, w.carrier.SetFaults(tt.faults))
				w.addBots(1)
				to := w.put("c1", func(o *call.Order) { o.Detect = tt.detect })
				w.within(3*time.Minute, "it ends", w.ended("c1"))
				r := w.wantEnd("c1", tt.want, 1)
				if got := r.Last().AnsweredBy; got != tt.who {
					w.t.Errorf("answered by %q, want %q", got, tt.who)
				}
				if c := w.carrier.CallsTo(to)[0]; len(c.Streams) != 1 || !c.Streams[0].Heard.Sound {
					w.t.Errorf("the bot was not heard: %+v", c.Streams)
				}
				w.nothingLeft()
			})
		})
	}
}
