package sim

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/call"
	"dibs/carrier"
	"dibs/claim"
	"dibs/dispatch"
	"dibs/events"
	"dibs/wire"
)

const ourNumber = "+493012345678"

// reception answers calls to a number of acme's as a backend would.
func (w *world) reception(admit dispatch.Admit) *dispatch.Reception {
	w.t.Helper()
	check(w.t, w.settings.Put(w.t.Context(), api.Number{Number: ourNumber, Org: "acme", Region: "eu-west"}))
	asker, err := claim.New(w.nc, claim.AskerConfig{Counts: func(region, p string) wire.Counts { return w.roster.Counts(time.Now(), region, p) }})
	check(w.t, err)
	w.t.Cleanup(func() {
		time.Sleep(40 * time.Second) // until nobody tries any more to tell the office
		_ = asker.Close()
	})
	return &dispatch.Reception{
		NC: w.nc, Desk: w.desk, Asker: asker, Numbers: w.settings, Carrier: w.twilio, PublicURL: w.public, Admit: admit, Emit: w.hear, Log: w.log(zerolog.WarnLevel),
	}
}

func question(id string) carrier.Question {
	return carrier.Question{ID: id, From: "+4915112345678", To: ourNumber, Status: carrier.Ringing}
}

// hangUp is the caller's.
func (w *world) hangUp(r *dispatch.Reception, id string) {
	w.t.Helper()
	check(w.t, w.desk.CarrierEvent(w.t.Context(), carrier.Event{ID: id, Attempt: r.Attempt(id), Status: carrier.NoAnswer}))
}

func (w *world) inFlight(scope string, n int) func() bool {
	return func() bool {
		u, err := w.desk.Usage(w.t.Context(), scope)
		return err == nil && u.InFlight == n
	}
}

// lines is a log that counts what is said.
type lines struct {
	mu sync.Mutex
	n  int
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += strings.Count(string(p), "\n")
	return len(p), nil
}

// The office says no: the caller hears the busy tone, and the record and an event say
// why. It says yes: the call is counted from there on, and once.
func TestAdmitYesAndNo(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(3)
		one := 1
		_, err := w.settings.PutOrg(w.t.Context(), api.Org{ID: "acme", Ceiling: &one})
		check(w.t, err)
		w.until("the office goes by the ceiling", func() bool {
			u, err := w.desk.Usage(w.t.Context(), "org:acme")
			return err == nil && u.Limit != nil
		})
		door := &dispatch.Doorman{Desk: w.desk, Log: w.log(zerolog.WarnLevel)}
		var atAnswer api.Usage
		r := w.reception(func(ctx context.Context, o call.Order) (map[string]string, string) {
			p, refused := door.Admit(ctx, o)
			if refused == "" {
				atAnswer = w.usage("org:acme")
			}
			return p, refused
		})
		if do := r.Answer(w.t.Context(), question("CA1")); do.Media == nil {
			w.t.Fatalf("the first: %+v", do)
		}
		if atAnswer.InFlight != 1 || atAnswer.ByClass[call.ClassInbound] != 1 {
			w.t.Errorf("let in, and before its record: %+v", atAnswer)
		}
		second := r.InboundCall("CA2")

		if do := r.Answer(w.t.Context(), question("CA2")); !do.Busy {
			w.t.Errorf("the second: %+v, want busy", do)
		}
		if u := w.usage("org:acme"); u.InFlight != 1 {
			w.t.Errorf("%+v, want the first alone, once", u)
		}
		w.until("the refusal is recorded", w.ended(second))
		if rec := w.get(second); rec.Outcome() != call.Rejected || rec.Reason != "org_ceiling" {
			w.t.Errorf("record: %s %q", rec.State, rec.Reason)
		}
		w.until("and told", func() bool { return slices.Contains(w.types(second), events.CallVerdict) })
		for _, h := range w.heard(second) {
			if h.Type == events.CallVerdict && (h.Detail["reason"] != "org_ceiling" || h.Detail["scope"] != "org:acme" || h.Detail["in_use"] != 1 || h.Detail["limit"] != 1) {
				w.t.Errorf("verdict %+v", h.Detail)
			}
		}
		w.hangUp(r, "CA1")
		w.until("the line is free", w.inFlight("org:acme", 0))
		if do := r.Answer(w.t.Context(), question("CA3")); do.Media == nil {
			w.t.Errorf("the third: %+v", do)
		}
		w.hangUp(r, "CA3")
		w.until("and free again", w.inFlight("platform", 0))
	})
}

// The office says yes and the answer is lost, or the record never comes, or no bot is
// found: it is counted once, and not longer than it is there.
func TestAdmitReplyLost(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		door := &dispatch.Doorman{Desk: w.desk, Log: w.log(zerolog.WarnLevel)}
		r := w.reception(func(ctx context.Context, o call.Order) (map[string]string, string) {
			_, _ = door.Admit(ctx, o)
			return nil, ""
		})
		if do := r.Answer(w.t.Context(), question("CA1")); do.Media == nil {
			w.t.Fatalf("answer %+v", do)
		}
		id := r.InboundCall("CA1")
		for range 3 { // another replica asks about the same call
			door.Admit(w.t.Context(), w.get(id).Order)
		}
		w.until("it is counted once", w.inFlight("platform", 1))
		if do := r.Answer(w.t.Context(), question("CA2")); !do.Busy {
			w.t.Errorf("without a bot: %+v", do)
		}
		w.within(time.Second, "a call without a bot holds nothing", w.inFlight("platform", 1))
		w.hangUp(r, "CA1")
		w.until("it has ended", w.inFlight("platform", 0))
		door.Admit(w.t.Context(), w.get(id).Order)
		if u := w.usage("platform"); u.InFlight != 0 {
			w.t.Errorf("a question about a call that is over: %+v", u)
		}

		o := w.get(id).Order
		o.CallID = r.InboundCall("CA3")
		if _, refused := door.Admit(w.t.Context(), o); refused != "" {
			w.t.Errorf("refused: %s", refused)
		}
		if u := w.usage("platform"); u.InFlight != 1 {
			w.t.Errorf("let in: %+v", u)
		}
		took := w.within(40*time.Second, "whose record never comes is given up", w.inFlight("platform", 0))
		if took < 29*time.Second {
			w.t.Errorf("given up after %v, want 30 s", took)
		}
	})
}

// Nobody in office, or one that is frozen: callers come in at once, or after 250 ms;
// that is said once a minute, and the next office counts them.
func TestAdmitNobodyThere(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(3)
		_, err := w.settings.PutOrg(w.t.Context(), api.Org{ID: "acme", Ceiling: new(int)}) // an office would refuse them
		check(w.t, err)
		w.until("the office goes by it", func() bool {
			u, err := w.desk.Usage(w.t.Context(), "org:acme")
			return err == nil && u.Limit != nil
		})
		var said lines
		door := &dispatch.Doorman{Desk: w.desk, Log: zerolog.New(&said)}
		r := w.reception(door.Admit)
		o := call.Order{CallID: "in_x", Org: "acme", Region: "eu-west"}
		w.nodes[0].link.Freeze()
		begun := time.Now()
		if _, refused := door.Admit(w.t.Context(), o); refused != "" {
			w.t.Errorf("refused by an office that is frozen: %s", refused)
		}
		if took := time.Since(begun); took < 250*time.Millisecond || took > 260*time.Millisecond {
			w.t.Errorf("a frozen office kept the caller for %v, want 250ms", took)
		}
		w.nodes[0].link.Thaw()
		w.nodes[0].stop()
		for _, id := range []string{"CA1", "CA2"} {
			if do := r.Answer(w.t.Context(), question(id)); do.Media == nil {
				w.t.Errorf("%s: %+v", id, do)
			}
		}
		if said.n != 1 {
			w.t.Errorf("said %d times within a minute, want once", said.n)
		}
		w.addNode("two")
		w.until("the next office counts what is there, over the ceiling", w.inFlight("org:acme", 2))
		if do := r.Answer(w.t.Context(), question("CA3")); !do.Busy {
			w.t.Errorf("an office is there: %+v", do)
		}
		w.hangUp(r, "CA1")
		w.hangUp(r, "CA2")
		w.until("they have ended", w.inFlight("org:acme", 0))
	})
}
