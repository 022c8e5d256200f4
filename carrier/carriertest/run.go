package carriertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"dibs/carrier"
)

// Run holds a carrier to the contract of package carrier. Each test has a harness
// of its own.
func Run(t *testing.T, start func(*testing.T) Harness) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"answered and completed", answered},
		{"busy", ends(IsBusy, carrier.Busy)},
		{"no answer", ends(Nobody, carrier.NoAnswer)},
		{"failed", ends(Dead, carrier.Failed)},
		{"ring limit", ringLimit},
		{"call limit", callLimit},
		{"cancel while ringing", cancelRinging},
		{"cancel while queued", cancelQueued},
		{"cancel an answered call", cancelAnswered},
		{"hang up live", hangupLive},
		{"hang up what has ended", hangupEnded},
		{"media parameters", mediaParams},
		{"redirect", redirect},
		{"who answers", whoAnswers},
		{"who answers, and when the message is over", messageOver},
		{"find by id", findByID},
		{"find by numbers", findByNumbers},
		{"find what is still queued", findQueued},
		{"find nothing", findNothing},
		{"find while it is down", findDown},
		{"faults of a create", createFaults},
		{"nobody listens", nobodyListens},
		{"given up before it began", givenUp},
		{"refused number", refusedNumber},
		{"dials that cannot be sent", badDials},
		{"webhooks", webhooks},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for phones
			s := &suite{Harness: start(t)}
			s.Receiver.Read(s.Carrier)
			test.run(t, s)
		})
	}
}

type suite struct{ Harness }

// attempts makes attempt ids that no two tests share.
var attempts atomic.Int64

func (s *suite) dial(callee Callee) carrier.Dial {
	id := fmt.Sprintf("att_%d", attempts.Add(1))
	return carrier.Dial{
		Attempt: id, To: s.Number(callee), From: s.From,
		Media:     carrier.Media{URL: s.Receiver.MediaURL("token"), Params: map[string]string{"attempt": id}},
		StatusURL: s.Receiver.StatusURL(id),
		Ring:      30 * time.Second, MaxCall: 2 * time.Minute,
	}
}

// place places d, which must succeed.
func (s *suite) place(t *testing.T, d carrier.Dial) carrier.Placed {
	t.Helper()
	p, err := s.Carrier.Place(t.Context(), d)
	if err != nil {
		t.Fatalf("Place: %v", err)
	}
	if p.ID == "" || p.Status.Terminal() {
		t.Fatalf("Place: got %+v, want an id and a call that goes on", p)
	}
	return p
}

// statuses are what the events tell, and a check that they belong together.
func statuses(t *testing.T, events []carrier.Event, id string) []carrier.Status {
	t.Helper()
	var all []carrier.Status
	for i, e := range events {
		if e.ID != id {
			t.Errorf("event %d: of call %q, want %q", i, e.ID, id)
		}
		if i > 0 && e.Seq == events[i-1].Seq {
			t.Errorf("events %d and %d both have number %d", i-1, i, e.Seq)
		}
		all = append(all, e.Status)
	}
	return all
}

func want(t *testing.T, what string, got, want []carrier.Status) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func answered(t *testing.T, s *suite) {
	d := s.dial(Answers)
	p := s.place(t, d)
	events := s.Receiver.Events(t, d.Attempt, carrier.Completed)
	want(t, "events", statuses(t, events, p.ID), []carrier.Status{carrier.Initiated, carrier.Ringing, carrier.InProgress, carrier.Completed})
	last := events[len(events)-1]
	if last.Length <= 0 || last.Length > time.Minute {
		t.Errorf("length: got %v, want about a second", last.Length)
	}
	if last.Carrier != s.Carrier.Name() {
		t.Errorf("carrier: got %q, want %q", last.Carrier, s.Carrier.Name())
	}
}

func ends(callee Callee, how carrier.Status) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		d := s.dial(callee)
		p := s.place(t, d)
		events := s.Receiver.Events(t, d.Attempt, how)
		got := statuses(t, events, p.ID)
		if slices.Contains(got, carrier.InProgress) || got[len(got)-1] != how {
			t.Errorf("events: got %v, want %s at the end and no answer", got, how)
		}
		if last := events[len(events)-1]; last.Length != 0 || last.SIPCode == 0 {
			t.Errorf("end: got length %v, SIP %d; want no length and a SIP code", last.Length, last.SIPCode)
		}
	}
}

// ringLimit dials somebody who never answers; Ring ends it. Carriers have a least
// ringing time of some seconds.
func ringLimit(t *testing.T, s *suite) {
	d := s.dial(Rings)
	d.Ring = time.Second
	s.place(t, d)
	s.Receiver.Events(t, d.Attempt, carrier.NoAnswer)
}

func callLimit(t *testing.T, s *suite) {
	d := s.dial(Stays)
	d.MaxCall = time.Second
	s.place(t, d)
	s.Receiver.Events(t, d.Attempt, carrier.Completed)
}

func cancelRinging(t *testing.T, s *suite) {
	d := s.dial(Rings)
	p := s.place(t, d)
	s.Receiver.Events(t, d.Attempt, carrier.Ringing)
	if err := s.Carrier.Cancel(t.Context(), p.ID); err != nil {
		t.Fatalf("Cancel: %v", err)
	}
	s.Receiver.Events(t, d.Attempt, carrier.Canceled)
	if err := s.Carrier.Cancel(t.Context(), p.ID); err != nil {
		t.Errorf("Cancel once more: %v, want success", err)
	}
}

func cancelQueued(t *testing.T, s *suite) {
	d := s.dial(Queued)
	p := s.place(t, d)
	if err := s.Carrier.Cancel(t.Context(), p.ID); err != nil {
		t.Fatalf("Cancel: %v", err)
	}
	s.Receiver.Events(t, d.Attempt, carrier.Canceled)
}

func cancelAnswered(t *testing.T, s *suite) {
	d := s.dial(Stays)
	p := s.place(t, d)
	s.Receiver.Events(t, d.Attempt, carrier.InProgress)
	if err := s.Carrier.Cancel(t.Context(), p.ID); err != carrier.ErrAnswered {
		t.Errorf("Cancel: got %v, want ErrAnswered", err)
	}
	if f := s.find(t, carrier.Query{ID: p.ID}); len(f) != 1 || f[0].Status != carrier.InProgress {
		t.Errorf("after Cancel: got %+v, want it still in progress", f)
	}
	if err := s.Carrier.Hangup(t.Context(), p.ID); err != nil {
		t.Errorf("Hangup: %v", err)
	}
}

func hangupLive(t *testing.T, s *suite) {
	d := s.dial(Stays)
	p := s.place(t, d)
	s.Receiver.Events(t, d.Attempt, carrier.InProgress)
	if err := s.Carrier.Hangup(t.Context(), p.ID); err != nil {
		t.Fatalf("Hangup: %v", err)
	}
	s.Receiver.Events(t, d.Attempt, carrier.Completed)
}

func hangupEnded(t *testing.T, s *suite) {
	d := s.dial(IsBusy)
	p := s.place(t, d)
	s.Receiver.Events(t, d.Attempt, carrier.Busy)
	for range 2 {
		if err := s.Carrier.Hangup(t.Context(), p.ID); err != nil {
			t.Errorf("Hangup: %v, want success", err)
		}
	}
}

func mediaParams(t *testing.T, s *suite) {
	d := s.dial(Stays)
	d.Media.Params["from_number"] = d.From
	d.Media.Params["odd"] = `<&"' ü` + "\n🙂"
	p := s.place(t, d)
	var got map[string]string
	s.Receiver.wait(t, "the start message", func() bool {
		for _, m := range s.Receiver.media {
			if params, ok := s.StartOf(m); ok {
				got = params
				return true
			}
		}
		return false
	})
	for k, v := range d.Media.Params {
		if got[k] != v {
			t.Errorf("parameter %q: got %q, want %q", k, got[k], v)
		}
	}
	if err := s.Carrier.Hangup(t.Context(), p.ID); err != nil {
		t.Errorf("Hangup: %v", err)
	}
}

// redirect takes a live call away from a media socket that stays open: the carrier
// closes it and asks. Neither a call that rings nor one that has ended can be moved.
func redirect(t *testing.T, s *suite) {
	v, ok := s.Carrier.(carrier.Voice)
	if !ok {
		t.Skip("this carrier asks nothing")
	}
	refused := func(what, id string) {
		t.Helper()
		err := v.Redirect(t.Context(), id, s.Receiver.NextURL("att_x"))
		if e, ok := errors.AsType[*carrier.Error](err); !ok || e.Verdict != carrier.Refused {
			t.Errorf("%s: got %v, want it refused", what, err)
		}
	}
	rings := s.dial(Rings)
	r := s.place(t, rings)
	s.Receiver.Events(t, rings.Attempt, carrier.Ringing)
	refused("a call that rings", r.ID)
	if f := s.find(t, carrier.Query{ID: r.ID}); len(f) != 1 || f[0].Status != carrier.Ringing {
		t.Errorf("the call that rings: got %+v, want it to ring on", f)
	}
	if err := s.Carrier.Hangup(t.Context(), r.ID); err != nil {
		t.Errorf("Hangup: %v", err)
	}

	d := s.dial(Stays)
	p := s.place(t, d)
	s.Receiver.wait(t, "the media", func() bool { return len(s.Receiver.media) > 0 })
	if err := v.Redirect(t.Context(), p.ID, s.Receiver.NextURL(d.Attempt)); err != nil {
		t.Fatalf("Redirect: %v", err)
	}
	s.Receiver.wait(t, "the socket to be closed", func() bool { return s.Receiver.left > 0 })
	s.Receiver.Events(t, d.Attempt, carrier.Completed) // the answer was to end it
	s.Receiver.mu.Lock()
	asked := slices.Clone(s.Receiver.asked)
	s.Receiver.mu.Unlock()
	if len(asked) != 1 || asked[0].ID != p.ID || asked[0].Status != carrier.InProgress {
		t.Errorf("questions: got %+v, want one about %s in progress", asked, p.ID)
	}
	refused("a call that has ended", p.ID)
	refused("an id that is none", "x/../y")
	if err := v.Redirect(t.Context(), p.ID, "nowhere"); err == nil {
		t.Error("an address that is none: got no error")
	}
}

// whoAnswers: the media is there before it is known who answered, and then it is told.
func whoAnswers(t *testing.T, s *suite) {
	for callee, want := range map[Callee]string{Machine: "machine_start", Stays: "human"} {
		d := s.dial(callee)
		d.Detect = carrier.DetectAnswer
		p := s.place(t, d)
		media := 0
		s.Receiver.wait(t, "who answered", func() bool {
			media = len(s.Receiver.media)
			return slices.ContainsFunc(s.Receiver.events, func(e carrier.Event) bool {
				return e.Attempt == d.Attempt && e.Answered == want && e.ID == p.ID && e.Status == carrier.InProgress
			})
		})
		if media == 0 {
			t.Errorf("%s: nobody spoke while the carrier was thinking", callee)
		}
		s.saysWho(t, p.ID, want)
	}
}

// messageOver: the media comes when a machine is to be spoken to.
func messageOver(t *testing.T, s *suite) {
	for callee, want := range map[Callee]string{Machine: "machine_end_beep", Stays: "human"} {
		d := s.dial(callee)
		d.Detect = carrier.DetectMessageEnd
		p := s.place(t, d)
		s.Receiver.wait(t, "the media", func() bool {
			return slices.ContainsFunc(s.Receiver.media, func(m []byte) bool {
				params, ok := s.StartOf(m)
				return ok && params["attempt"] == d.Attempt
			})
		})
		s.saysWho(t, p.ID, want)
	}
}

// saysWho asks the carrier who answered, and ends the call.
func (s *suite) saysWho(t *testing.T, id, want string) {
	t.Helper()
	if f := s.find(t, carrier.Query{ID: id}); len(f) != 1 || f[0].Answered != want {
		t.Errorf("Find: got %+v, want %s", f, want)
	}
	if err := s.Carrier.Hangup(t.Context(), id); err != nil {
		t.Errorf("Hangup: %v", err)
	}
}

// briefly is a context that ends long before a slow far end answers.
func briefly(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), 2*time.Second)
}
