package simcarrier_test

import (
	"slices"
	"testing"
	"time"

	"dibs/carrier/simcarrier"
)

// codes are the numbers of a call's warnings.
func codes(c simcarrier.Call) (all []int) {
	for _, w := range c.Warnings {
		all = append(all, w.Code)
	}
	return all
}

func TestVerbs(t *testing.T) {
	for _, test := range []struct {
		name  string
		pages map[string]string
		asked []string // paths, in order
		warns []int
	}{
		{"nothing", map[string]string{"/in": `<Response/>`}, []string{"/in"}, nil},
		{"redirects, relative", map[string]string{
			"/in":  `<Response><Redirect>b?x=1</Redirect><Redirect>/never</Redirect></Response>`,
			"/b":   `<Response><Say>x</Say><Redirect>/c/d</Redirect></Response>`,
			"/c/d": `<Response><Hangup/><Redirect>/never</Redirect></Response>`,
		}, []string{"/in", "/b", "/c/d"}, nil},
		{"unknown verbs are passed over", map[string]string{"/in": `<Response><Dance/><Redirect>/b</Redirect></Response>`, "/b": hangup}, []string{"/in", "/b"}, []int{12200}},
		{"not found", map[string]string{"/in": `<Response><Redirect>/gone</Redirect></Response>`}, []string{"/in", "/gone"}, []int{12300}},
		{"not TwiML", map[string]string{"/in": `hello`}, []string{"/in"}, []int{12100}},
		{"rejects too late", map[string]string{"/in": `<Response><Reject/><Redirect>/never</Redirect></Response>`}, []string{"/in"}, nil},
		{"connect without a stream", map[string]string{"/in": `<Response><Connect/><Redirect>/b</Redirect></Response>`, "/b": hangup}, []string{"/in", "/b"}, []int{12200}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHooks(t, test.pages)
			s := start(t, simcarrier.Config{})
			c := until(t, s, create(t, s, "Url", h.URL+"/in", "Twiml", `<Response><Dial/></Response>`), "completed")
			var asked []string
			h.mu.Lock()
			for _, p := range h.got {
				asked = append(asked, p.path)
				if !p.signed || p.form.Get("CallStatus") != "in-progress" {
					t.Errorf("%s: signed %v, status %q", p.path, p.signed, p.form.Get("CallStatus"))
				}
			}
			h.mu.Unlock()
			if !slices.Equal(asked, test.asked) || !slices.Equal(codes(c), test.warns) {
				t.Errorf("asked %v, warnings %v; want %v, %v", asked, c.Warnings, test.asked, test.warns)
			}
		})
	}
}

func TestFallback(t *testing.T) {
	h := newHooks(t, map[string]string{"/in": hangup, "/fallback": `<Response><Redirect>/b</Redirect></Response>`, "/b": hangup})
	h.fail["/in"], h.fails["/in"] = 500, -1
	s := start(t, simcarrier.Config{})
	c := until(t, s, create(t, s, "Url", h.URL+"/in", "FallbackUrl", h.URL+"/fallback"), "completed")
	if len(h.told("/fallback")) != 1 || len(h.told("/b")) != 1 || !slices.Equal(codes(c), []int{11200}) {
		t.Errorf("fallback asked %d times, then /b %d times, warnings %v", len(h.told("/fallback")), len(h.told("/b")), c.Warnings)
	}
}

func TestRedirectLoopEnds(t *testing.T) {
	h := newHooks(t, map[string]string{"/in": `<Response><Redirect>/in</Redirect></Response>`})
	s := start(t, simcarrier.Config{})
	until(t, s, create(t, s, "Url", h.URL+"/in"), "completed")
	if n := len(h.told("/in")); n != 100 {
		t.Errorf("asked %d times, want 100", n)
	}
}

func TestLiveRedirect(t *testing.T) {
	h := newHooks(t, map[string]string{"/new": `<Response><Pause length="60"/></Response>`})
	s := start(t, simcarrier.Config{})
	sid := create(t, s, "Twiml", `<Response><Pause length="60"/></Response>`)
	until(t, s, sid, "in-progress")
	if status := update(t, s, sid, "Url", h.URL+"/new"); status != 200 {
		t.Fatalf("HTTP %d", status)
	}
	eventually(t, "the new address is asked", func() bool { return len(h.told("/new")) == 1 })
	update(t, s, sid, "Twiml", hangup)
	if c := until(t, s, sid, "completed"); c.EndedBy != "twiml" {
		t.Errorf("ended by %s, want twiml", c.EndedBy)
	}
}

func TestInbound(t *testing.T) {
	for _, test := range []struct {
		name, page string
		in         simcarrier.Inbound
		status, by string
		answered   bool
	}{
		{"rejected, busy", `<Response><Reject reason="busy"/></Response>`, simcarrier.Inbound{}, "busy", "twiml", false},
		{"rejected", `<Response><Reject/></Response>`, simcarrier.Inbound{}, "no-answer", "twiml", false},
		{"answered, hung up by us", hangup, simcarrier.Inbound{}, "completed", "twiml", true},
		{"answered, hung up by the caller", `<Response><Pause length="60"/></Response>`, simcarrier.Inbound{Talk: time.Millisecond}, "completed", "callee", true},
		{"nonsense", `nonsense`, simcarrier.Inbound{}, "completed", "twiml", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHooks(t, map[string]string{"/voice": test.page})
			s := start(t, simcarrier.Config{Lines: map[string]simcarrier.Line{from: {VoiceURL: h.URL + "/voice", StatusURL: h.URL + "/s"}}})
			test.in.To, test.in.From = from, to
			sid, err := s.CallIn(test.in)
			if err != nil {
				t.Fatal(err)
			}
			c := until(t, s, sid, test.status)
			if c.EndedBy != test.by || c.Answered.IsZero() == test.answered || c.Direction != "inbound" {
				t.Errorf("got %+v, want the end by %s, answered %v", c, test.by, test.answered)
			}
			eventually(t, "the status callback", func() bool { return h.statuses("/s") == test.status })
			voice := h.told("/voice")
			if len(voice) != 1 || !voice[0].signed || voice[0].form.Get("CallStatus") != "ringing" || voice[0].form.Get("Direction") != "inbound" || voice[0].form.Get("To") != from {
				t.Errorf("voice webhook: got %+v", voice)
			}
		})
	}
	t.Run("the caller does not wait", func(t *testing.T) {
		bot := newBot(t, nil) // takes no webhooks: a GET of an upgrade only
		s := start(t, simcarrier.Config{Lines: map[string]simcarrier.Line{from: {VoiceURL: hanging(t), StatusURL: bot.URL}}})
		sid, err := s.CallIn(simcarrier.Inbound{To: from, From: to, Patience: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if c := until(t, s, sid, "canceled"); c.EndedBy != "callee" || !c.Answered.IsZero() {
			t.Errorf("got %+v, want it given up by the caller", c)
		}
	})
	t.Run("the caller hangs up while nobody answers", func(t *testing.T) {
		s := start(t, simcarrier.Config{Lines: map[string]simcarrier.Line{from: {VoiceURL: hanging(t)}}})
		sid, err := s.CallIn(simcarrier.Inbound{To: from, From: to})
		if err != nil {
			t.Fatal(err)
		}
		if !s.Hangup(sid) {
			t.Fatal("cannot hang up")
		}
		until(t, s, sid, "canceled")
		if s.Hangup(sid) {
			t.Error("hung up twice")
		}
	})
}
