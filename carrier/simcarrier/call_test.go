package simcarrier_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"dibs/carrier/simcarrier"
)

var everyEvent = []string{
	"StatusCallbackEvent", "initiated", "StatusCallbackEvent", "ringing",
	"StatusCallbackEvent", "answered", "StatusCallbackEvent", "completed",
}

func TestCallbacks(t *testing.T) {
	h := newHooks(t, nil)
	s := start(t, simcarrier.Config{})
	sid := create(t, s, append(everyEvent, "Twiml", hangup, "StatusCallback", h.URL+"/s/att_1?x=1#rc=2")...)
	until(t, s, sid, "completed")
	eventually(t, "four callbacks", func() bool { return len(h.told("/s/att_1")) == 4 })
	for i, p := range h.told("/s/att_1") {
		want := []string{"initiated", "ringing", "in-progress", "completed"}[i]
		if !p.signed {
			t.Errorf("%s: the signature is not valid", want)
		}
		for name, value := range map[string]string{
			"CallStatus": want, "SequenceNumber": strconv.Itoa(i), "CallSid": sid, "AccountSid": simcarrier.AccountSID,
			"To": to, "From": from, "Direction": "outbound-api", "CallbackSource": "call-progress-events",
		} {
			if got := p.form.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", want, name, got, value)
			}
		}
		if _, err := time.Parse(time.RFC1123Z, p.form.Get("Timestamp")); err != nil {
			t.Errorf("%s: timestamp: %v", want, err)
		}
		if last := want == "completed"; last != p.form.Has("CallDuration") || last != p.form.Has("SipResponseCode") {
			t.Errorf("%s: got length %q, SIP %q", want, p.form.Get("CallDuration"), p.form.Get("SipResponseCode"))
		}
	}
	if c, _ := s.Call(sid); c.Attempt != "att_1" {
		t.Errorf("attempt: got %q, want att_1", c.Attempt)
	}
	h2 := newHooks(t, nil)
	sid = create(t, s, "Twiml", hangup, "StatusCallback", h2.URL+"/s")
	until(t, s, sid, "completed")
	eventually(t, "the one callback", func() bool { return h2.statuses("/s") == "completed" })
}

func TestCallbackRetries(t *testing.T) {
	for _, test := range []struct {
		name          string
		fails, status int
		tries         int
		lost          int
	}{
		{"fails once", 1, 503, 2, 0},
		{"fails always", 99, 500, 3, 1},
		{"is refused", 99, 404, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHooks(t, nil)
			h.fails["/s"], h.fail["/s"] = test.fails, test.status
			s := start(t, simcarrier.Config{})
			until(t, s, create(t, s, "Twiml", hangup, "StatusCallback", h.URL+"/s"), "completed")
			eventually(t, "the outcome", func() bool { st := s.Stats(); return st.Callbacks+st.CallbacksLost == 1 })
			told := h.told("/s")
			if len(told) != test.tries || s.Stats().CallbacksLost != test.lost {
				t.Errorf("%d tries, %d lost; want %d, %d", len(told), s.Stats().CallbacksLost, test.tries, test.lost)
			}
			for _, p := range told {
				if p.token == "" || p.token != told[0].token {
					t.Error("the tries do not carry the same idempotency token")
				}
			}
		})
	}
}

func TestCallbackFaults(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults simcarrier.Faults
		want   string
		lost   int
	}{
		{"doubled", simcarrier.Faults{DuplicateCallbacks: true}, "initiated initiated ringing ringing in-progress in-progress completed completed", 0},
		{"swapped", simcarrier.Faults{ReorderCallbacks: true}, "ringing initiated completed in-progress", 0},
		{"one dropped", simcarrier.Faults{DropCallbacks: []string{"answered"}}, "initiated ringing completed", 1},
		{"all dropped", simcarrier.Faults{DropCallbacks: []string{"all"}}, "", 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHooks(t, nil)
			s := start(t, simcarrier.Config{})
			if err := s.SetFaults(test.faults); err != nil {
				t.Fatal(err)
			}
			until(t, s, create(t, s, append(everyEvent, "Twiml", hangup, "StatusCallback", h.URL+"/s")...), "completed")
			eventually(t, "all of it", func() bool {
				st := s.Stats()
				return st.Callbacks+st.CallbacksLost == len(strings.Fields(test.want))+test.lost
			})
			if got := h.statuses("/s"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	pause := `<Response><Pause length="60"/></Response>`
	ms := func(n int) simcarrier.Range { return simcarrier.Range{Min: time.Duration(n) * time.Millisecond} }
	for _, test := range []struct {
		name    string
		profile simcarrier.Profile
		fields  []string
		status  string
		by      string
		sip     int
	}{
		{"busy", simcarrier.Profile{Busy: 1}, nil, "busy", "callee", 486},
		{"fails", simcarrier.Profile{Fail: 1}, nil, "failed", "carrier", 404},
		{"gives up", simcarrier.Profile{NoAnswer: 1, GivesUp: time.Millisecond}, nil, "no-answer", "carrier", 487},
		{"rings too long", simcarrier.Profile{Ring: ms(5000)}, []string{"Timeout", "1"}, "no-answer", "carrier", 487},
		{"hangs up", simcarrier.Profile{Talk: ms(1)}, nil, "completed", "callee", 200},
		{"is cut at the limit", simcarrier.Profile{Talk: ms(60_000)}, []string{"TimeLimit", "1"}, "completed", "limit", 200},
		{"nothing more to say", simcarrier.Profile{Talk: ms(60_000)}, []string{"Twiml", hangup}, "completed", "twiml", 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, simcarrier.Config{Profile: test.profile})
			fields := test.fields
			if test.name != "nothing more to say" {
				fields = append(fields, "Twiml", pause)
			}
			c := until(t, s, create(t, s, fields...), test.status)
			if c.EndedBy != test.by || c.SIP != test.sip || c.Started.IsZero() || c.Ended.IsZero() {
				t.Errorf("got %+v, want the end by %s, SIP %d", c, test.by, test.sip)
			}
			if (c.Status == "completed") == c.Answered.IsZero() {
				t.Errorf("answered: %v", c.Answered)
			}
		})
	}
}

// The n-th dial of a number goes the same way, whatever else is going on, and
// numbers do not share their luck.
func TestSeededLuck(t *testing.T) {
	mixed := simcarrier.Profile{Busy: 0.3, NoAnswer: 0.3, Fail: 0.2, GivesUp: time.Millisecond, Talk: simcarrier.Range{Min: time.Millisecond}}
	run := func(seed uint64, width int) map[string]string {
		s := start(t, simcarrier.Config{Seed: seed, Profile: mixed})
		for range 4 {
			for n := range width {
				form := createForm("Twiml", hangup)
				form.Set("To", "+1415555010"+strconv.Itoa(n))
				request(t, s, "POST", api+"/Calls.json", form, nil)
			}
		}
		eventually(t, "all calls ended", func() bool { return s.Stats().Live == 0 })
		out := map[string]string{}
		for _, c := range s.Calls() {
			out[c.To] += c.Status + " "
		}
		return out
	}
	a, b, other := run(1, 3), run(1, 9), run(2, 9)
	same := 0
	for number, luck := range a {
		if b[number] != luck {
			t.Errorf("%s: %q alone, %q in company", number, luck, b[number])
		}
		if other[number] == luck {
			same++
		}
	}
	if same == len(a) || b["+14155550100"] == b["+14155550101"] && b["+14155550101"] == b["+14155550102"] {
		t.Error("another seed or another number makes no difference")
	}
}

func TestQueueAndRate(t *testing.T) {
	s := start(t, simcarrier.Config{CPS: 10, Profile: simcarrier.Profile{Talk: simcarrier.Range{Min: time.Millisecond}}})
	var sids []string
	for range 5 {
		sids = append(sids, create(t, s, "Twiml", hangup))
	}
	last := until(t, s, sids[4], "completed")
	first, _ := s.Call(sids[0])
	if d := last.Started.Sub(first.Created); d < 350*time.Millisecond {
		t.Errorf("the fifth call at 10 a second left the queue after %v, want 400 ms", d)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for field, cfg := range map[string]simcarrier.Config{
		"AccountSID":    {AccountSID: "x"},
		"CPS":           {CPS: -1},
		"Keep":          {Keep: -1},
		"CallbackTries": {CallbackTries: -1},
		"Profile":       {Profile: simcarrier.Profile{Busy: 2}},
		"Numbers":       {Numbers: map[string]simcarrier.Profile{"abc": {}}},
		"Lines":         {Lines: map[string]simcarrier.Line{"+15005550006": {}}},
	} {
		if _, err := simcarrier.New(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want an error that names it", field, err)
		}
	}
}
