package call_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dibs/call"
)

// TestClocksTurned: the clock on the wall decides.
func TestClocksTurned(t *testing.T) {
	at := func(open, shut string) call.Interval {
		var i call.Interval
		if i.Open.UnmarshalText([]byte(open)) != nil || i.Close.UnmarshalText([]byte(shut)) != nil {
			t.Fatalf("%s–%s", open, shut)
		}
		return i
	}
	sun := func(is ...call.Interval) call.Hours { return call.Hours{"sun": is} }
	for _, c := range []struct {
		name, tz, at, want string
		hours              call.Hours
	}{
		{"opens in the hour that is left out: when the clock has passed it", "America/New_York", "2026-03-08 05:00", "2026-03-08 07:00:00", sun(at("02:30", "04:00"))},
		{"lies in the hour that is left out: next week", "America/New_York", "2026-03-08 05:00", "2026-03-15 06:00:00", sun(at("02:00", "03:00"))},
		{"the hour that comes twice: first time", "America/New_York", "2026-11-01 05:10", "2026-11-01 05:10:00", sun(at("01:00", "01:30"))},
		{"the hour that comes twice: between", "America/New_York", "2026-11-01 05:40", "2026-11-01 06:00:00", sun(at("01:00", "01:30"))},
		{"the hour that comes twice: second time", "America/New_York", "2026-11-01 06:20", "2026-11-01 06:20:00", sun(at("01:00", "01:30"))},
		{"half an hour is turned", "Australia/Lord_Howe", "2026-10-03 15:00", "2026-10-03 15:30:00", sun(at("02:00", "03:00"))},
		{"a day that was left out: the week after", "Pacific/Apia", "2011-12-29 12:00", "2012-01-05 19:00:00", call.Hours{"fri": {at("09:00", "10:00")}}},
		{"to the end of the day", "Asia/Kolkata", "2026-10-11 18:29", "2026-10-11 18:29:00", sun(at("23:00", "24:00"))},
		{"midnight is outside", "Asia/Kolkata", "2026-10-11 18:30", "2026-10-18 17:30:00", sun(at("23:00", "24:00"))},
	} {
		if got := show(c.hours.Earliest(utc(t, c.at), zone(t, c.tz))); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestEarliest against the plain meaning, minute by minute.
func TestEarliest(t *testing.T) {
	inside := func(h call.Hours, at time.Time) bool {
		minute := call.Clock(at.Hour()*60 + at.Minute())
		for _, i := range h[call.DayOf(at.Weekday())] {
			if i.Open <= minute && minute < i.Close {
				return true
			}
		}
		return false
	}
	zones := []string{"America/New_York", "Europe/London", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia", "UTC"}
	rapid.Check(t, func(t *rapid.T) {
		h := call.Hours{}
		for range rapid.IntRange(0, 4).Draw(t, "intervals") {
			day := call.DayOf(time.Weekday(rapid.IntRange(0, 6).Draw(t, "day")))
			open := rapid.IntRange(0, 24*60-1).Draw(t, "open")
			h[day] = append(h[day], call.Interval{Open: call.Clock(open), Close: call.Clock(rapid.IntRange(open+1, 24*60).Draw(t, "close"))})
		}
		loc, err := call.Zone(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		// Around the days on which clocks are turned.
		day := rapid.SampledFrom([]time.Time{
			time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2011, 12, 30, 0, 0, 0, 0, time.UTC), t0,
		}).Draw(t, "day")
		at := day.Add(time.Duration(rapid.IntRange(-3*86400, 2*86400).Draw(t, "s")) * time.Second)
		got, ok := h.Earliest(at, loc)
		for try := at; try.Sub(at) < 15*24*time.Hour; try = try.Truncate(time.Minute).Add(time.Minute) {
			if inside(h, try.In(loc)) {
				if !ok || !got.Equal(try) {
					t.Fatalf("from %s: got %s (%v), want %s", at, got, ok, try)
				}
				return
			}
		}
		if ok {
			t.Fatalf("from %s: got %s, want never", at, got)
		}
	})
}

func TestZone(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/Argentina/Buenos_Aires", "America/Port-au-Prince", "Etc/GMT+3", "UTC"} {
		zone(t, name)
	}
	for _, name := range []string{"", "Local", "Berlin", "Europe//Berlin", "Europe/Berlin/", "/Europe/Berlin", "./UTC", "../zoneinfo/UTC", "Europe/./Berlin", "Europe/Berlin\x00", strings.Repeat("x", 61)} {
		if loc, err := call.Zone(name); err == nil {
			t.Errorf("%q: got %s", name, loc)
		}
	}
}

func TestHoursAnd(t *testing.T) {
	a := call.Hours{"mon": {{Open: 60, Close: 120}, {Open: 180, Close: 300}}, "tue": {{Open: 0, Close: 60}}}
	b := call.Hours{"mon": {{Open: 100, Close: 200}}, "wed": {{Open: 0, Close: 60}}}
	if got, want := fmt.Sprint(a.And(b)), "map[mon:[{100 120} {180 200}]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := call.Hours(nil).And(nil); got != nil {
		t.Errorf("nil and nil: got %v", got)
	}
	if got := a.And(nil); len(got) != 2 {
		t.Errorf("and nil: got %v", got)
	}
}

func TestOpens(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*call.Order)
		want   string
	}{
		{"any time", func(*call.Order) {}, "2026-11-04 12:00:00"},
		{"not before", func(o *call.Order) { o.NotBefore = sec(60) }, "2026-11-04 12:01:00"},
		{"the window is closed", func(o *call.Order) { o.NotAfter = t0 }, "never"},
		{"the window is about to close", func(o *call.Order) { o.NotAfter = t0.Add(1) }, "2026-11-04 12:00:00"},
		{"opens when the window has closed", func(o *call.Order) {
			o.TZ, o.Hours, o.NotAfter = "UTC", call.Hours{"wed": {{Open: 13 * 60, Close: 14 * 60}}}, sec(3600)
		}, "never"},
		{"the number tells the zone", func(o *call.Order) {
			o.To, o.Hours = "+4915112345689", call.Hours{"wed": {{Open: 14 * 60, Close: 15 * 60}}}
		}, "2026-11-04 13:00:00"},
	} {
		o := order()
		c.change(&o)
		if got := show(o.Opens(t0)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// end is a call that ended so, with a policy.
func end(t *testing.T, o call.Order, out call.Outcome) call.Record {
	t.Helper()
	now := t0
	if now.Before(o.NotBefore) {
		now = o.NotBefore
	}
	r := after(call.New(o, now), append(ev(call.EvAdmitted, call.EvIntent), call.Event{Kind: call.EvEnd, Outcome: out})...)
	if !r.State.Terminal() {
		t.Fatalf("got %s", r.State)
	}
	return r
}

func TestNextTry(t *testing.T) {
	o := order()
	if _, why := call.NextTry(end(t, o, call.Busy)); why != call.NoPolicy {
		t.Errorf("without a policy: got %q", why)
	}
	o.Retry = &call.RetryPolicy{}
	r := end(t, o, call.Busy)
	next, why := call.NextTry(r)
	if why != "" {
		t.Fatal(why)
	}
	if err := next.Check(); err != nil {
		t.Fatal(err)
	}
	if again, _ := call.NextTry(r); fmt.Sprint(again) != fmt.Sprint(next) {
		t.Error("asked twice, the follow-up is another")
	}
	if next.CallID != "c-r2" || next.Class != call.ClassRetry || next.RetryOf != "c" || next.Root != "c" || next.Try != 2 ||
		!next.NotBefore.Equal(r.EndedAt.Add(30*time.Minute)) {
		t.Errorf("got %+v", next)
	}
	third, why := call.NextTry(end(t, next, call.NoAnswer))
	if third.CallID != "c-r3" || third.RetryOf != "c-r2" || third.Root != "c" || why != "" {
		t.Errorf("third: got %+v, %q", third, why)
	}
	if _, why := call.NextTry(end(t, third, call.NoAnswer)); why != call.AttemptsUsed {
		t.Errorf("after the third of three: got %q", why)
	}
	for out, want := range map[call.Outcome]call.WhyNot{
		call.Failed: call.NotRetried, call.FailedTemporary: "", call.Completed: call.NotRetried, call.Voicemail: call.NotRetried,
	} {
		if _, why := call.NextTry(end(t, o, out)); why != want {
			t.Errorf("%s: got %q, want %q", out, why, want)
		}
	}
	o.Retry.On = []call.Outcome{call.Failed}
	if _, why := call.NextTry(end(t, o, call.FailedTemporary)); why != "" {
		t.Errorf("failed covers failed_temporary: got %q", why)
	}
	// Hours of the policy narrow those of the order.
	o.To, o.Retry = "+4915112345689", &call.RetryPolicy{Hours: call.Hours{"thu": {{Open: 8 * 60, Close: 10 * 60}}}}
	o.Hours = call.Hours{"wed": {{Open: 0, Close: 24 * 60}}, "thu": {{Open: 9 * 60, Close: 24 * 60}}}
	next, _ = call.NextTry(end(t, o, call.Busy))
	if got := show(next.NotBefore, true); got != "2026-11-05 08:00:00" {
		t.Errorf("inside both hours: got %s", got)
	}
	o.NotAfter = sec(3600)
	if _, why := call.NextTry(end(t, o, call.Busy)); why != call.WindowClosed {
		t.Errorf("after the window: got %q", why)
	}
	if _, why := call.NextTry(call.New(o, t0)); why != call.NotRetried {
		t.Errorf("not ended: got %q", why)
	}
	// The longest id there is has room for what follows.
	o = order()
	o.CallID, o.Retry = strings.Repeat("x", call.MaxCallID), &call.RetryPolicy{MaxAttempts: call.MaxTries}
	for range call.MaxTries - 1 {
		if o, why = call.NextTry(end(t, o, call.Busy)); why != "" || o.Check() != nil {
			t.Fatalf("try %d: %q, %v", o.Try, why, o.Check())
		}
	}
	live := after(call.New(o, o.NotBefore), ev(call.EvAdmitted, call.EvIntent, call.EvLive, call.EvWorkerLost)...)
	if cb, ok := call.Callback(live); !ok || cb.Check() != nil {
		t.Errorf("callback of the last try: %v, %v", ok, cb.Check())
	}
}

func TestCallback(t *testing.T) {
	o := order()
	r := after(call.New(o, t0), ev(call.EvAdmitted, call.EvIntent, call.EvLive, call.EvWorkerLost)...)
	cb, ok := call.Callback(r)
	if !ok || cb.Check() != nil {
		t.Fatalf("got %v, %v", ok, cb.Check())
	}
	if cb.CallID != "c-cb" || cb.Class != call.ClassAPI || cb.CallbackOf != "c" || cb.To != o.To || !cb.NotAfter.Equal(r.EndedAt.Add(30*time.Minute)) {
		t.Errorf("got %+v", cb)
	}
	again := after(call.New(cb, t0), ev(call.EvAdmitted, call.EvIntent, call.EvLive, call.EvWorkerLost)...)
	if _, ok := call.Callback(again); ok {
		t.Error("a callback about a callback")
	}
	for _, e := range call.Pending(again) {
		if e.Act == call.AskCallback {
			t.Error("asks for a callback about a callback")
		}
	}
	o.Class = call.ClassInbound
	turned := after(call.New(o, t0), ev(call.EvRejected)...)
	if cb, ok := call.Callback(turned); !ok || cb.To != o.From || cb.From != o.To || cb.Check() != nil {
		t.Errorf("inbound: got %+v, %v", cb, ok)
	}
	o.From = ""
	if _, ok := call.Callback(after(call.New(o, t0), ev(call.EvRejected)...)); ok {
		t.Error("calls back a withheld number")
	}
}
