package twilio_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"dibs/carrier"
	"dibs/carrier/twilio"
)

// lists is an API whose lists are what answer says of a query.
func lists(t *testing.T, answer func(q url.Values) any) *twilio.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(answer(r.URL.Query()))
	}))
	t.Cleanup(srv.Close)
	return client(t, twilio.Config{BaseURL: srv.URL})
}

func callJSON(n int, status string, created, started time.Time) map[string]any {
	m := map[string]any{
		"sid": fmt.Sprintf("CA%032x", n), "to": "+14155550123", "from": from, "status": status,
		"date_created": created.UTC().Format(time.RFC1123Z), "start_time": nil, "duration": nil,
	}
	if !started.IsZero() {
		m["start_time"] = started.UTC().Format(time.RFC1123Z)
	}
	return m
}

var (
	began = time.Date(2026, 9, 1, 0, 0, 5, 0, time.UTC)
	query = carrier.Query{To: "+14155550123", From: from, StartedSince: began}
)

func ids(found []carrier.Found) (s string) {
	for _, f := range found {
		s += fmt.Sprintf("%s:%s ", strings.TrimLeft(f.ID, "CA0"), f.Status)
	}
	return strings.TrimSpace(s)
}

func TestFindAsks(t *testing.T) {
	var asked []string
	c := lists(t, func(q url.Values) any {
		asked = append(asked, q.Encode())
		return map[string]any{"calls": []any{}}
	})
	if f, err := c.Find(t.Context(), query); err != nil || len(f) != 0 {
		t.Fatalf("got %v, %v; want none", f, err)
	}
	// Five seconds after midnight the other clock may still be in the day before.
	want := []string{
		"From=%2B15005550006&PageSize=50&Status=queued&To=%2B14155550123",
		"From=%2B15005550006&PageSize=50&StartTime%3E=2026-08-31&To=%2B14155550123",
	}
	if strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}

func TestFindKeeps(t *testing.T) {
	day := 24 * time.Hour
	for _, test := range []struct {
		name            string
		queued, started []any
		want            string
	}{
		{"nothing", nil, nil, ""},
		{"a queued one", []any{callJSON(1, "queued", began, time.Time{})}, nil, "1:queued"},
		{"one that has waited since yesterday", []any{callJSON(1, "queued", began.Add(-day), time.Time{})}, nil, ""},
		{"one that left the queue in between", []any{callJSON(1, "queued", began, time.Time{})}, []any{callJSON(1, "ringing", began, began)}, "1:ringing"},
		{"one of the same day, earlier", nil, []any{callJSON(1, "completed", began.Add(-time.Hour), began.Add(-time.Hour))}, ""},
		{"their clock is behind", nil, []any{callJSON(1, "ringing", began.Add(-9*time.Second), began.Add(-9*time.Second))}, "1:ringing"},
		{"queued long before, started since", nil, []any{callJSON(1, "busy", began.Add(-day), began)}, "1:busy"},
		{"without any time", nil, []any{callJSON(1, "failed", time.Time{}, time.Time{})}, "1:failed"},
		{"with a time nobody can read", nil, []any{map[string]any{"sid": fmt.Sprintf("CA%032x", 1), "status": "failed", "start_time": "soon"}}, "1:failed"},
		{"several", []any{callJSON(3, "queued", began, time.Time{})}, []any{callJSON(2, "ringing", began, began), callJSON(1, "busy", began, began)}, "3:queued 2:ringing 1:busy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := lists(t, func(q url.Values) any {
				calls := test.started
				if q.Get("Status") == "queued" {
					calls = test.queued
				}
				if calls == nil {
					calls = []any{}
				}
				return map[string]any{"calls": calls}
			})
			f, err := c.Find(t.Context(), query)
			if err != nil || ids(f) != test.want {
				t.Errorf("got %q, %v; want %q", ids(f), err, test.want)
			}
		})
	}
}

func TestFindReadsEveryPage(t *testing.T) {
	c := lists(t, func(q url.Values) any {
		page := map[string]any{"calls": []any{}}
		if q.Get("Status") == "queued" {
			return page
		}
		n := len(q.Get("PageToken"))
		page["calls"] = []any{callJSON(n+1, "ringing", began, began)}
		if n < 3 {
			page["next_page_uri"] = "https://evil.example.com/2010-04-01/x?" + url.Values{
				"To": q["To"], "From": q["From"], "StartTime>": q["StartTime>"], "PageToken": {strings.Repeat("x", n+1)},
			}.Encode()
		}
		return page
	})
	f, err := c.Find(t.Context(), query)
	if want := "1:ringing 2:ringing 3:ringing 4:ringing"; err != nil || ids(f) != want {
		t.Errorf("got %q, %v; want %q", ids(f), err, want)
	}
}

// An answer that leaves a doubt is an error: "none" allows another dial.
func TestFindDoubts(t *testing.T) {
	for name, answer := range map[string]any{
		"no list":                map[string]any{},
		"a list of nothing":      map[string]any{"calls": nil},
		"another document":       []int{1},
		"a page without end":     map[string]any{"calls": []any{}, "next_page_uri": "/x?Page=1"},
		"a next page of nothing": map[string]any{"calls": []any{}, "next_page_uri": "/x"},
		"a call without an id":   map[string]any{"calls": []any{map[string]any{"status": "busy"}}},
		"a status of later":      map[string]any{"calls": []any{callJSON(1, "thinking", began, began)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := lists(t, func(url.Values) any { return answer })
			if f, err := c.Find(t.Context(), query); err == nil || f != nil {
				t.Errorf("got %v, %v; want an error", f, err)
			}
		})
	}
}

// Only Twilio's own "no such call" says something about the call.
func TestNotFound(t *testing.T) {
	const id = "CA0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		name, body string
		none       bool
	}{
		{"Twilio", `{"code":20404,"message":"not found","status":404}`, true},
		{"a proxy", `<html>404</html>`, false},
		{"another JSON", `{"error":"no route"}`, false},
		{"nothing", ``, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(404)
				fmt.Fprint(w, test.body)
			}))
			defer srv.Close()
			c := client(t, twilio.Config{BaseURL: srv.URL})
			f, err := c.Find(t.Context(), carrier.Query{ID: id})
			if len(f) != 0 || (err == nil) != test.none {
				t.Errorf("Find: got %v, %v; want none: %v", f, err, test.none)
			}
			for name, stop := range map[string]error{"Cancel": c.Cancel(t.Context(), id), "Hangup": c.Hangup(t.Context(), id)} {
				if (stop == nil) != test.none {
					t.Errorf("%s: got %v, want success: %v", name, stop, test.none)
				}
			}
		})
	}
	t.Run("an id that is a path", func(t *testing.T) {
		c := client(t, twilio.Config{BaseURL: deadAddress(t)})
		for _, bad := range []string{"", "../../Accounts", id + "/..", "CA" + strings.Repeat("g", 32)} {
			if err := c.Hangup(t.Context(), bad); carrier.VerdictOf(err) != carrier.Refused {
				t.Errorf("%q: got %v, want refused", bad, err)
			}
		}
	})
}
