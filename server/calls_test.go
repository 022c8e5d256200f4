package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
	"dibs/call"
)

func TestPlace(t *testing.T) {
	w := newWorld(t)
	r := w.ask("POST", "/v1/calls", body(
		"flow", map[string]any{"id": "recall", "version": "7"}, "greeting", map[string]any{"text": "Hello"}, "campaign_id", "recall-nov",
		"pool", "german", "not_after", "2999-01-01T10:00:00+01:00", "hours", map[string]any{"mon": [][]string{{"09:00", "24:00"}}, "tue": [][]string{}},
		"tz", "Europe/Berlin", "retry", map[string]any{"max_attempts": 2, "backoff_ms": []int{60000}, "on": []string{"busy"}},
		"needs", map[string]any{"stt": []string{"deepgram"}}, "metadata", map[string]any{"patient": 4711}, "ring_ms", 30000, "max_call_ms", 600000,
		"callback_url", "https://crm.example.com/done?key=s3cret", "call_back", true, "no_wait", true,
	))
	got := read[api.Call](t, r, 202)
	if r.header.Get("Location") != "/v1/calls/"+got.ID || r.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("headers %v, want the call's location and no replay", r.header)
	}
	if !strings.HasPrefix(got.ID, "call_") || len(got.ID) != 31 {
		t.Errorf("id %q, want call_ and 26 characters", got.ID)
	}
	o := w.calls.record(got.ID).Order
	if o.QueuedAt.IsZero() || time.Since(o.QueuedAt) > time.Minute || o.RequestHash != "" {
		t.Errorf("queued at %v with hash %q, want now and none", o.QueuedAt, o.RequestHash)
	}
	o.QueuedAt = time.Time{}
	if d := cmp.Diff(call.Order{
		V: 1, CallID: got.ID, Org: "acme", Campaign: "recall-nov", Class: call.ClassCampaign, Region: region, Pool: "german", From: from, To: to,
		Flow: call.Flow{ID: "recall", Version: "7"}, Greeting: call.Greeting{Text: "Hello"}, Needs: map[string][]string{"stt": {"deepgram"}},
		Metadata: []byte(`{"patient":4711}`), NotAfter: time.Date(2999, 1, 1, 9, 0, 0, 0, time.UTC), TZ: "Europe/Berlin",
		Hours:  call.Hours{"mon": {{Open: 9 * 60, Close: 24 * 60}}, "tue": {}},
		Retry:  &call.RetryPolicy{MaxAttempts: 2, BackoffMS: []call.Millis{60000}, On: []call.Outcome{call.Busy}},
		RingMS: 30000, MaxCallMS: 600000, CallbackURL: "https://crm.example.com/done?key=s3cret", CallBack: true, NoWait: true,
	}, o); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	if strings.Contains(string(r.body), to) || strings.Contains(string(r.body), "s3cret") || strings.Contains(string(r.body), "4711") {
		t.Errorf("answer %s tells what it should mask", r.body)
	}
	if got.To != "+49151•••78" || got.From != "+49301•••78" {
		t.Errorf("numbers %s, %s, want them masked", got.To, got.From)
	}

	least := read[api.Call](t, w.ask("POST", "/v1/calls", body()), 202)
	if least.Class != call.ClassAPI || least.State != call.Queued || least.WaitingFor != api.ForAdmission || least.Region != region {
		t.Errorf("the least request became %+v", least)
	}
	if least.ID == got.ID {
		t.Error("two calls of one id")
	}
}

func TestPlaceOnceWithAKey(t *testing.T) {
	w := newWorld(t)
	key := []string{"Idempotency-Key", "order 4711/a"}
	first := read[api.Call](t, w.ask("POST", "/v1/calls", body("metadata", map[string]any{"a": 1, "b": 2}), key...), 202)
	if w.calls.record(first.ID).Order.RequestHash == "" {
		t.Error("no hash is kept with the order")
	}
	same := `{ "org_id":"acme", "metadata": {"b":2,"a":1}, "to": "` + to + `" }`
	for range 3 {
		r := w.ask("POST", "/v1/calls", same, key...)
		again := read[api.Call](t, r, 202)
		if again.ID != first.ID || r.header.Get("Idempotency-Replayed") != "true" || r.header.Get("Location") != "/v1/calls/"+first.ID {
			t.Errorf("the same again: call %s, headers %v, want %s replayed", again.ID, r.header, first.ID)
		}
	}
	if puts, stored, _ := w.calls.counts(); puts != 1 || stored != 1 {
		t.Errorf("%d puts, %d calls, want 1 and 1", puts, stored)
	}
	// What was tried and has ended is known all the same.
	w.calls.dial(first.ID)
	if got := read[api.Call](t, w.ask("POST", "/v1/calls", same, key...), 202); got.ID != first.ID || got.State != call.Dialing {
		t.Errorf("after the dial: %s %s, want %s dialing", got.ID, got.State, first.ID)
	}

	p := denied(t, w.ask("POST", "/v1/calls", body("to", "+4915199999999"), key...), api.CodeKeyReused)
	if p.Instance != "/v1/calls/"+first.ID {
		t.Errorf("instance %q, want the call whose key it is", p.Instance)
	}
	// Another class is another place in line; the key is the same all the same.
	denied(t, w.ask("POST", "/v1/calls", body("metadata", map[string]any{"a": 1, "b": 2}, "class", "workflow"), key...), api.CodeKeyReused)

	// The key is the token's and the org's own.
	for name, r := range map[string]reply{
		"another org":   w.ask("POST", "/v1/calls", body("org_id", "other"), key...),
		"another token": w.ask("POST", "/v1/calls", body(), append(as(second), key...)...),
		"another key":   w.ask("POST", "/v1/calls", body(), "Idempotency-Key", "order 4711/b"),
	} {
		if got := read[api.Call](t, r, 202); got.ID == first.ID || r.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: call %s, replayed %q, want a new call", name, got.ID, r.header.Get("Idempotency-Replayed"))
		}
	}
}

// TestPlaceAtTheSameTime has many say the same at once: one call, and everybody who
// is answered with one is answered with that one.
func TestPlaceAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	const n = 24
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			b, want := body(), 202
			if i%3 == 0 {
				b, want = body("to", "+4915199999999"), 0
			}
			r := w.ask("POST", "/v1/calls", b, "Idempotency-Key", "k")
			if r.status == 202 {
				ids[i] = read[api.Call](t, r, 202).ID
			} else if r.status != 422 {
				t.Errorf("request %d: status %d, want 202 or 422: %s %d", i, r.status, r.body, want)
			}
		})
	}
	wg.Wait()
	if _, stored, _ := w.calls.counts(); stored != 1 {
		t.Fatalf("%d calls, want 1", stored)
	}
	// Whoever asked for the number that is not called was refused.
	for i, id := range ids {
		if (i%3 == 0) == (w.calls.record(id).Order.To == to) && id != "" {
			t.Errorf("request %d was answered with the other's call", i)
		}
	}
}

func TestPlaceWhenTheLineDoesNotAnswer(t *testing.T) {
	lost := fmt.Errorf("no answer: %w", api.ErrUnavailable)
	for _, tt := range []struct {
		name   string
		key    string
		put    func(try int, o call.Order) (error, bool)
		code   string // "": accepted
		puts   int
		stored int
	}{
		{"stored, the answer lost, no key", "", func(try int, _ call.Order) (error, bool) { return fault(try == 1, lost), true }, "", 2, 1},
		{"stored, the answer lost", "k", func(try int, _ call.Order) (error, bool) { return fault(try == 1, lost), true }, "", 2, 1},
		{"not stored, the answer lost, no key", "", func(try int, _ call.Order) (error, bool) { return fault(try == 1, lost), false }, "", 2, 1},
		{"not stored, the answer lost", "k", func(try int, _ call.Order) (error, bool) { return fault(try == 1, lost), false }, "", 2, 1},
		{"away", "k", func(int, call.Order) (error, bool) { return lost, false }, api.CodeLineUnavailable, 2, 0},
		{"away, no key", "", func(int, call.Order) (error, bool) { return lost, false }, api.CodeLineUnavailable, 2, 0},
		{"full", "", func(int, call.Order) (error, bool) { return errors.New("disk full at /secret/path"), false }, api.CodeInternal, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			try := 0
			w.calls.set(func(l *ledger) {
				l.onPut = func(o call.Order) (error, bool) { try++; return tt.put(try, o) }
			})
			r := w.ask("POST", "/v1/calls", body(), "Idempotency-Key", tt.key)
			if tt.code == "" {
				if got := read[api.Call](t, r, 202); w.calls.record(got.ID).Order.To != to {
					t.Errorf("answered with %s, which is not kept", got.ID)
				}
			} else {
				p := denied(t, r, tt.code)
				if strings.Contains(string(r.body), "secret/path") {
					t.Errorf("problem %+v tells what is inside", p)
				}
				if tt.code == api.CodeLineUnavailable && (p.RetryAfterMS == 0 || r.header.Get("Retry-After") == "" || !strings.HasPrefix(p.Instance, "/v1/calls/call_")) {
					t.Errorf("problem %+v, Retry-After %q: want when to come back and which call it is", p, r.header.Get("Retry-After"))
				}
			}
			if puts, stored, _ := w.calls.counts(); puts != tt.puts || stored != tt.stored {
				t.Errorf("%d puts, %d calls, want %d and %d", puts, stored, tt.puts, tt.stored)
			}
		})
	}
}

// fault is err when it is time for it.
func fault(now bool, err error) error {
	if now {
		return err
	}
	return nil
}

func TestPlaceWhileTheSameIsInProgress(t *testing.T) {
	w := newWorld(t)
	// It is on the line already, and nobody can read it yet.
	w.calls.set(func(l *ledger) {
		l.onPut = func(call.Order) (error, bool) { return api.ErrDuplicate, false }
	})
	r := w.ask("POST", "/v1/calls", body(), "Idempotency-Key", "k")
	if p := denied(t, r, api.CodeKeyInProgress); p.RetryAfterMS == 0 || r.header.Get("Retry-After") != "1" {
		t.Errorf("problem %+v, Retry-After %q, want a second", p, r.header.Get("Retry-After"))
	}
}

func TestPlaceWhenTheWindowIsClosed(t *testing.T) {
	w := newWorld(t)
	past := time.Now().Add(-time.Hour).Format(time.RFC3339)
	denied(t, w.ask("POST", "/v1/calls", body("not_after", past)), api.CodeInvalidWindow)
	if puts, _, _ := w.calls.counts(); puts != 0 {
		t.Errorf("%d puts, want none", puts)
	}
	later := time.Now().Add(time.Hour).UTC().Round(time.Second)
	got := read[api.Call](t, w.ask("POST", "/v1/calls", body("not_before", later)), 202)
	if got.State != call.Scheduled || got.WaitingFor != api.ForTime || !got.NextAt.Equal(later) {
		t.Errorf("call %+v, want it scheduled for %v", got, later)
	}
}

func TestLookUp(t *testing.T) {
	w := newWorld(t)
	placed := read[api.Call](t, w.ask("POST", "/v1/calls", body("metadata", map[string]any{"patient": "Mr X"}, "flow", map[string]any{"inline": map[string]any{"say": "secret words"}})), 202)
	attempt := w.calls.dial(placed.ID)
	r := w.ask("GET", "/v1/calls/"+placed.ID, nil, as(viewer)...)
	got := read[api.Call](t, r, 200)
	if got.State != call.Dialing || len(got.Attempts) != 1 || got.Attempts[0].ID != attempt || got.Attempts[0].Bot != "bot-1_1" || len(got.Timeline) != 1 {
		t.Errorf("call %+v, want it dialing with its attempt and timeline", got)
	}
	for _, secret := range []string{to, from, "Mr X", "secret words"} {
		if strings.Contains(string(r.body), secret) {
			t.Errorf("a viewer sees %q: %s", secret, r.body)
		}
	}
	denied(t, w.ask("GET", "/v1/calls/"+placed.ID+"?reveal=true", nil, as(viewer)...), api.CodeForbidden)
	shown := read[api.Call](t, w.ask("GET", "/v1/calls/"+placed.ID+"?reveal=true", nil), 200)
	if shown.To != to || shown.From != from || string(shown.Metadata) != `{"patient":"Mr X"}` || len(shown.Flow.Inline) == 0 {
		t.Errorf("revealed: %+v, want everything", shown)
	}
	if !strings.Contains(w.log.String(), `"token":"crm","call":"`+placed.ID+`","message":"revealed"`) {
		t.Errorf("the log does not say who revealed what:\n%s", w.log)
	}
	w.calls.set(func(l *ledger) {
		l.onOther = func(op string) error { return fault(op == "timeline", api.ErrUnavailable) }
	})
	if got := read[api.Call](t, w.ask("GET", "/v1/calls/"+placed.ID, nil), 200); !got.TimelineMissing || got.State != call.Dialing {
		t.Errorf("call %+v, want it without its timeline", got)
	}
	w.calls.set(func(l *ledger) { l.onGet = func(string) error { return api.ErrUnavailable } })
	denied(t, w.ask("GET", "/v1/calls/"+placed.ID, nil), api.CodeUnavailable)
}

func TestList(t *testing.T) {
	w := newWorld(t)
	if got := w.ask("GET", "/v1/calls", nil); strings.TrimSpace(string(got.body)) != `{"calls":[]}` {
		t.Errorf("no calls: %s, want an empty list", got.body)
	}
	var ids []string
	for i := range 5 {
		org, campaign := "acme", any(nil)
		if i%2 == 1 {
			org, campaign = "other", "c1"
		}
		b := body("org_id", org, "campaign_id", campaign)
		ids = append([]string{read[api.Call](t, w.ask("POST", "/v1/calls", b), 202).ID}, ids...)
	}
	w.calls.dial(ids[0])
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"", ids},
		{"?limit=500", ids},
		{"?state=dialing", ids[:1]},
		{"?state=completed", nil},
		{"?org=other", []string{ids[1], ids[3]}},
		{"?campaign=c1&state=queued&limit=1", []string{ids[1], ids[3]}},
		{"?limit=2", ids},
	} {
		var got []string
		for cursor, pages := "", 0; pages < 10; pages++ {
			q := tt.query
			if cursor != "" {
				q += "&cursor=" + cursor
			}
			page := read[api.CallPage](t, w.ask("GET", "/v1/calls"+q, nil, as(viewer)...), 200)
			for _, c := range page.Calls {
				got = append(got, c.ID)
				if c.To == to || len(c.Timeline) > 0 {
					t.Errorf("%s: listed %+v", tt.query, c)
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", tt.query, d)
		}
	}
	for query, path := range map[string]string{
		"?state=flying": "query.state", "?limit=0": "query.limit", "?limit=501": "query.limit", "?limit=x": "query.limit", "?cursor=zzz": "query.cursor",
		"?org=a.b": "query.org", "?campaign=%20": "query.campaign",
	} {
		if p := denied(t, w.ask("GET", "/v1/calls"+query, nil), api.CodeInvalidField); len(p.Errors) != 1 || p.Errors[0].Path != path {
			t.Errorf("%s: %+v, want %s", query, p.Errors, path)
		}
	}
	if p := denied(t, w.ask("GET", "/v1/calls?stat=queued", nil), api.CodeUnknownField); p.Errors[0].Path != "query.stat" {
		t.Errorf("?stat: %+v, want its path", p.Errors)
	}
	denied(t, w.ask("GET", "/v1/calls?reveal=true", nil, as(viewer)...), api.CodeForbidden)
	if got := read[api.CallPage](t, w.ask("GET", "/v1/calls?reveal=true", nil), 200); got.Calls[0].To != to {
		t.Errorf("revealed: %s, want %s", got.Calls[0].To, to)
	}
	w.calls.set(func(l *ledger) { l.onOther = func(string) error { return api.ErrUnavailable } })
	denied(t, w.ask("GET", "/v1/calls", nil), api.CodeUnavailable)
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	id := read[api.Call](t, w.ask("POST", "/v1/calls", body()), 202).ID
	got := read[api.Call](t, w.ask("DELETE", "/v1/calls/"+id, map[string]string{"reason": "rang back"}), 202)
	if got.State != call.State(call.Cancelled) || got.Reason != "rang back" {
		t.Errorf("cancelled: %s %q, want cancelled with its reason", got.State, got.Reason)
	}
	denied(t, w.ask("DELETE", "/v1/calls/"+id, nil), api.CodeCallEnded)
	denied(t, w.ask("DELETE", "/v1/calls/call_unknown", nil), api.CodeCallNotFound)

	live := read[api.Call](t, w.ask("POST", "/v1/calls", body()), 202).ID
	w.calls.dial(live)
	if got := read[api.Call](t, w.ask("DELETE", "/v1/calls/"+live, nil), 202); got.State != call.Dialing || got.CancelAt.IsZero() {
		t.Errorf("cancelled while dialing: %+v, want it dialing with cancel_at", got)
	}
	w.calls.set(func(l *ledger) { l.onOther = func(string) error { return api.ErrUnavailable } })
	r := w.ask("DELETE", "/v1/calls/"+live, nil)
	if denied(t, r, api.CodeNobodyInOffice); r.header.Get("Retry-After") == "" {
		t.Error("nobody in office: no Retry-After")
	}
}

func TestBoundToken(t *testing.T) {
	w := newWorld(t)
	mine := read[api.Call](t, w.ask("POST", "/v1/calls", body("org_id", nil), as(acme)...), 202)
	if mine.Org != "acme" {
		t.Errorf("org %q, want the token's", mine.Org)
	}
	theirs := read[api.Call](t, w.ask("POST", "/v1/calls", body("org_id", "other")), 202)
	denied(t, w.ask("POST", "/v1/calls", body("org_id", "other"), as(acme)...), api.CodeForbidden)
	read[api.Call](t, w.ask("GET", "/v1/calls/"+mine.ID, nil, as(acme)...), 200)
	denied(t, w.ask("GET", "/v1/calls/"+theirs.ID, nil, as(acme)...), api.CodeCallNotFound)
	denied(t, w.ask("DELETE", "/v1/calls/"+theirs.ID, nil, as(acme)...), api.CodeCallNotFound)
	if s := w.calls.record(theirs.ID).State; s != call.Queued {
		t.Errorf("the other's call is %s, want it untouched", s)
	}
	if got := read[api.CallPage](t, w.ask("GET", "/v1/calls", nil, as(acme)...), 200); len(got.Calls) != 1 || got.Calls[0].ID != mine.ID {
		t.Errorf("listed %+v, want only its own", got.Calls)
	}
	denied(t, w.ask("GET", "/v1/calls?org=other", nil, as(acme)...), api.CodeForbidden)
	for _, path := range []string{"GET /v1/bots", "GET /v1/bots/b_1", "POST /v1/bots/b_1/drain", "DELETE /v1/claims/c"} {
		method, path, _ := strings.Cut(path, " ")
		if r := w.ask(method, path, nil, as(acme)...); r.status != http.StatusForbidden {
			t.Errorf("%s %s: status %d, want 403", method, path, r.status)
		}
	}
	denied(t, w.ask("POST", "/v1/claims", map[string]any{"call_id": "c"}, as(acme)...), api.CodeForbidden)
}
