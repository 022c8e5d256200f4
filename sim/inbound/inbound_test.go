package inbound

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/api"
	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/wire"
)

// Somebody calls, a bot is free: they hear its greeting, and when they hang up the
// seat is idle and the call completed.
func TestCallWithCapacity(t *testing.T) {
	w := newWorld(t, 1)
	w.line()
	b := w.addBot()
	w.until("a bot is there", w.idle(1))
	sid := w.callIn(caller, time.Minute)
	s := w.heard(sid, 0)
	req := <-b.took
	if req.Direction != "inbound" || req.Class != "inbound" || req.From != caller || req.To != ours || req.Rescue {
		t.Errorf("the bot was asked %+v", req)
	}
	c := w.find("the call is live", func(c api.Call) bool { return c.Class == call.ClassInbound && c.State == call.Live })
	for name, want := range map[string]string{"dibs_call_id": c.ID, "from_number": caller, "to_number": ours} {
		if s.Params[name] != want {
			t.Errorf("parameter %s is %q, want %q", name, s.Params[name], want)
		}
	}
	if tp := s.Params["traceparent"]; len(tp) != 55 || !strings.HasPrefix(tp, "00-") {
		t.Errorf("traceparent %q", tp)
	}
	w.carrier.Hangup(sid)
	w.outcome(c.ID, call.Completed)
	w.until("the seat is idle", w.idle(1))
}

// Nobody is free: the caller hears the busy tone, unanswered. They are promised one
// callback, however often they call, and it is dialled as soon as a bot is there.
func TestCallbackOncePerCaller(t *testing.T) {
	w := newWorld(t, 2)
	w.line(func(n *api.Number) { n.CallBack = true })
	var sids []string
	for range 3 {
		sids = append(sids, w.callIn(caller, time.Minute))
	}
	other := w.callIn("+4915100000001", time.Minute)
	for _, sid := range append(sids, other) {
		w.until("the caller hears the busy tone", func() bool { return w.sim(sid).Status == "busy" })
		if c := w.sim(sid); !c.Answered.IsZero() || c.EndedBy != "twiml" {
			t.Errorf("answered %v, ended by %s: it costs money", c.Answered, c.EndedBy)
		}
	}
	var waiting []api.Call
	w.until("two callbacks wait, and every call is settled", func() bool {
		page, err := w.api.Calls(t.Context(), api.ListQuery{}, true)
		if err != nil {
			return false
		}
		waiting = nil
		turned := 0
		for _, c := range page.Calls {
			switch {
			case c.CallbackOf != "":
				waiting = append(waiting, c)
			case c.Outcome == call.BotUnavailable:
				turned++
			}
		}
		l, err := w.records.Load(t.Context(), time.Time{}, func(call.Record, cdrRev) {})
		return err == nil && l.Open == 0 && turned == 4 && len(waiting) == 2
	})
	for _, c := range waiting {
		if c.Class != call.ClassAPI || c.From != ours || c.State != call.Queued || c.NotAfter.Sub(c.QueuedAt) != call.CallbackLife {
			t.Errorf("callback %+v", c)
		}
	}
	w.addBot()
	w.until("both are called back, one after the other, and hear a bot", func() bool {
		n := 0
		for _, number := range []string{caller, "+4915100000001"} {
			for _, c := range w.carrier.CallsTo(number) {
				if c.Heard.Tag == tag && c.Ended.IsZero() {
					w.carrier.Hangup(c.SID)
				}
				if c.Heard.Tag == tag && !c.Ended.IsZero() {
					n++
				}
			}
		}
		return n == 2
	})
	for _, c := range waiting {
		w.outcome(c.ID, call.Completed)
	}
	for _, number := range []string{caller, "+4915100000001"} {
		if n := len(w.carrier.CallsTo(number)); n != 1 {
			t.Errorf("%s was called back %d times", number, n)
		}
	}
}

// Who gets through by themselves is not called back.
func TestCallbackIsCancelledWhenTheyGetThrough(t *testing.T) {
	w := newWorld(t, 1)
	w.line(func(n *api.Number) { n.CallBack, n.Region = true, "far-away" })
	w.addBot()
	w.until("a bot is there", w.idle(1))
	first := w.callIn(caller, time.Minute)
	w.until("nobody there takes it", func() bool { return w.sim(first).Status == "busy" })
	cb := w.find("a callback waits", func(c api.Call) bool { return c.CallbackOf != "" })
	w.line(func(n *api.Number) { n.CallBack = true }) // calls go where the bot is now; seen at once
	sid := w.callIn(caller, time.Minute)
	w.heard(sid, 0)
	got := w.outcome(cb.ID, call.Cancelled)
	if got.Reason != "called_again" {
		t.Errorf("reason %q", got.Reason)
	}
	if n := len(w.carrier.CallsTo(caller)); n != 0 {
		t.Errorf("called back all the same, %d times", n)
	}
	w.carrier.Hangup(sid)
	w.until("the seat is idle", w.idle(1))
}

// A number with a sentence for it: it is said, nothing is connected, and we hang up.
func TestOverflowSentence(t *testing.T) {
	w := newWorld(t, 1)
	w.line(func(n *api.Number) { n.CallBack, n.Overflow = true, "All busy. We call you back." })
	sid := w.callIn(caller, time.Minute)
	w.until("it is said and over", func() bool { return w.sim(sid).Status == "completed" })
	if c := w.sim(sid); c.EndedBy != "twiml" || len(c.Streams) != 0 || c.Ended.Sub(c.Answered) < time.Second {
		t.Errorf("ended by %s after %v, streams %v", c.EndedBy, c.Ended.Sub(c.Answered), c.Streams)
	}
	c := w.find("the call", func(c api.Call) bool { return c.Class == call.ClassInbound })
	w.outcome(c.ID, call.BotUnavailable)
	w.find("the callback is noted", func(c api.Call) bool { return c.CallbackOf != "" && c.To == caller })
}

// A number that is not ours, and a hook that says no: the busy tone.
func TestRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.line()
	w.addBot()
	w.until("a bot is there", w.idle(1))
	check(t, w.api.DeleteNumber(t.Context(), ours))
	sid := w.callIn(caller, time.Minute)
	w.until("refused", func() bool { return w.sim(sid).Status == "busy" })
	if page, err := w.api.Calls(t.Context(), api.ListQuery{}, false); err != nil || len(page.Calls) != 0 {
		t.Errorf("a call to nobody is on record: %+v, %v", page, err)
	}
}

// A bot that takes the call and never gets ready: the carrier has its answer within
// its limit all the same.
func TestSlowClaim(t *testing.T) {
	w := newWorld(t, 1)
	w.line()
	nc := w.broker.Connect(t)
	subj, err := wire.ClaimPool(region, "default")
	check(t, err)
	_, err = nc.QueueSubscribe(subj, wire.IdleGroup, slowBot(nc))
	check(t, err)
	check(t, nc.Flush())
	sid := w.callIn(caller, time.Minute)
	w.until("refused", func() bool { return w.sim(sid).Status == "busy" })
	c := w.sim(sid)
	if took := c.Ended.Sub(c.Created); took < 2*time.Second || took > 12*time.Second {
		t.Errorf("refused after %v, want about 8 s, and less than the carrier's 15 s", took)
	}
	w.find("on record", func(c api.Call) bool { return c.Outcome == call.BotUnavailable })
}

// The same webhook again, at either replica, at once or later: one call, one bot, one
// and the same answer.
func TestRepeatedWebhook(t *testing.T) {
	w := newWorld(t, 2)
	w.line()
	w.addBot()
	w.addBot()
	w.until("bots are there", w.idle(2))
	form := voiceForm(fmt.Sprintf("CA%032x", 77), caller)
	path := api.InboundPath("twilio")
	answers := make([]string, 8)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { _, answers[i] = w.ask(w.bases[i%2], path, form) })
	}
	wg.Wait()
	_, late := w.ask(w.bases[1], path, form)
	for i, a := range append(answers, late) {
		if a != answers[0] || !strings.Contains(a, "<Stream") {
			t.Errorf("answer %d:\n%s\nwant\n%s", i, a, answers[0])
		}
	}
	w.until("one seat is taken, the other is free", w.idle(1))
	page, err := w.api.Calls(t.Context(), api.ListQuery{}, false)
	check(t, err)
	if len(page.Calls) != 1 {
		t.Errorf("%d calls, want one", len(page.Calls))
	}
	// The caller hangs up before the media comes: nobody waits for it.
	end := voiceForm(form.Get("CallSid"), caller)
	end.Set("CallStatus", "no-answer")
	if status, body := w.ask(w.bases[1], path+"/status", end); status != 204 {
		t.Errorf("status: %d %s", status, body)
	}
	w.until("both seats are free", w.idle(2))
	w.outcome(page.Calls[0].ID, call.NoAnswer)
	if _, again := w.ask(w.bases[0], path, form); again != answers[0] {
		t.Logf("a replay after the end: %s", again) // harmless either way: nobody is there
	}
	if n := len(must(w.api.Calls(t.Context(), api.ListQuery{}, false)).Calls); n != 1 {
		t.Errorf("a replay made a call: %d", n)
	}
}

// The caller hangs up while a bot is being prepared: the end comes before the record,
// and the seat is free all the same.
func TestCallerGivesUpEarly(t *testing.T) {
	w := newWorld(t, 1)
	w.line()
	w.addBot()
	w.until("a bot is there", w.idle(1))
	form := voiceForm(fmt.Sprintf("CA%032x", 78), caller)
	end := voiceForm(form.Get("CallSid"), caller)
	end.Set("CallStatus", "canceled")
	if status, _ := w.ask(w.base, api.InboundPath("twilio")+"/status", end); status != 204 {
		t.Errorf("an end without a beginning: %d", status)
	}
	w.ask(w.base, api.InboundPath("twilio"), form)
	c := w.find("on record", func(c api.Call) bool { return c.Class == call.ClassInbound })
	w.outcome(c.ID, call.Cancelled)
	w.until("the seat is idle", w.idle(1))
}

// A carrier that tells of no end: the bot's word and a look-up bring it.
func TestNoStatusWebhook(t *testing.T) {
	w := newWorld(t, 1)
	w.line()
	check(t, w.carrier.SetLine(ours, simcarrier.Line{VoiceURL: w.base + api.InboundPath("twilio")}))
	w.addBot()
	w.until("a bot is there", w.idle(1))
	sid := w.callIn(caller, time.Minute)
	w.heard(sid, 0)
	c := w.find("the call is live", func(c api.Call) bool { return c.Class == call.ClassInbound && c.State == call.Live })
	w.carrier.Hangup(sid)
	w.until("the seat is idle", w.idle(1))
	w.outcome(c.ID, call.Completed)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
