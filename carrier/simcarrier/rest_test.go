package simcarrier_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/carrier/simcarrier"
)

const hangup = `<Response><Hangup/></Response>`

type apiCall struct {
	SID, To, From, Status, Direction string
	AccountSID                       string  `json:"account_sid"`
	StartTime                        *string `json:"start_time"`
	EndTime                          *string `json:"end_time"`
	Duration                         *string `json:"duration"`
	DateCreated                      string  `json:"date_created"`
	QueueTime                        string  `json:"queue_time"`
}

type apiList struct {
	Calls []apiCall
	Next  *string `json:"next_page_uri"`
}

func TestCreateRefuses(t *testing.T) {
	s := start(t, simcarrier.Config{})
	for _, test := range []struct {
		name   string
		change func(url.Values)
		code   int
	}{
		{"no to", func(f url.Values) { f.Del("To") }, 21201},
		{"no from", func(f url.Values) { f.Del("From") }, 21213},
		{"bad to", func(f url.Values) { f.Set("To", "5550100") }, 21211},
		{"bad to, magic", func(f url.Values) { f.Set("To", simcarrier.BadNumber) }, 21211},
		{"forbidden to", func(f url.Values) { f.Set("To", simcarrier.ForbiddenNumber) }, 21215},
		{"bad from", func(f url.Values) { f.Set("From", "+0") }, 21212},
		{"no instruction", func(f url.Values) { f.Del("Twiml") }, 21205},
		{"bad url", func(f url.Values) { f.Set("Url", "ftp://x") }, 21205},
		{"bad callback", func(f url.Values) { f.Set("StatusCallback", "x") }, 21609},
		{"long instruction", func(f url.Values) { f.Set("Twiml", strings.Repeat("x", 4001)) }, 20001},
		{"timeout", func(f url.Values) { f.Set("Timeout", "601") }, 20001},
		{"no number of a timeout", func(f url.Values) { f.Set("Timeout", "soon") }, 20001},
		{"time limit", func(f url.Values) { f.Set("TimeLimit", "0") }, 20001},
		{"detection", func(f url.Values) { f.Set("MachineDetection", "Yes") }, 20001},
		{"detection, neither way", func(f url.Values) { f.Set("MachineDetection", "Enable"); f.Set("AsyncAmd", "1") }, 20001},
		{"detection, nobody to tell", func(f url.Values) { f.Set("MachineDetection", "Enable"); f.Set("AsyncAmd", "true") }, 20001},
	} {
		t.Run(test.name, func(t *testing.T) {
			form := createForm("Twiml", hangup)
			test.change(form)
			var got struct {
				Code, Status int
				Message      string
			}
			status := request(t, s, "POST", api+"/Calls.json", form, &got)
			if status != 400 || got.Status != 400 || got.Code != test.code || got.Message == "" {
				t.Errorf("got HTTP %d, %+v; want 400, code %d", status, got, test.code)
			}
		})
	}
	if st := s.Stats(); st.Created != 0 || st.Refused != 16 || len(s.Calls()) != 0 {
		t.Errorf("stats: %+v, want 16 refused and no call", st)
	}
}

func TestAccess(t *testing.T) {
	s := start(t, simcarrier.Config{})
	ask := func(method, path, user, pass string) int {
		req, _ := http.NewRequestWithContext(t.Context(), method, s.URL()+path, nil)
		req.SetBasicAuth(user, pass)
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	other := "/2010-04-01/Accounts/AC" + strings.Repeat("f", 32)
	for _, test := range []struct {
		path, user, pass string
		want             int
	}{
		{api + "/Calls.json", simcarrier.AccountSID, simcarrier.AuthToken, 200},
		{api + "/Calls.json", simcarrier.AccountSID, "x", 401},
		{api + "/Calls.json", "x", simcarrier.AuthToken, 401},
		{api + "/Calls.json", "", "", 401},
		{other + "/Calls.json", simcarrier.AccountSID, simcarrier.AuthToken, 404},
		{api + "/Nothing.json", simcarrier.AccountSID, simcarrier.AuthToken, 404},
		{api + "/Calls/CA" + strings.Repeat("0", 32) + ".json", simcarrier.AccountSID, simcarrier.AuthToken, 404},
	} {
		if got := ask("GET", test.path, test.user, test.pass); got != test.want {
			t.Errorf("GET %s as %q: HTTP %d, want %d", test.path, test.user, got, test.want)
		}
	}
}

func TestResource(t *testing.T) {
	s := start(t, simcarrier.Config{})
	var c apiCall
	if status := request(t, s, "POST", api+"/Calls.json", createForm("Twiml", hangup), &c); status != 201 {
		t.Fatalf("HTTP %d, want 201", status)
	}
	if !strings.HasPrefix(c.SID, "CA") || len(c.SID) != 34 || c.To != to || c.From != from || c.AccountSID != simcarrier.AccountSID || c.Direction != "outbound-api" || c.QueueTime != "0" {
		t.Errorf("got %+v", c)
	}
	until(t, s, c.SID, "completed")
	c = apiCall{}
	if status := request(t, s, "GET", api+"/Calls/"+c.SID+".json", nil, nil); status != 404 {
		t.Errorf("no id: HTTP %d, want 404", status)
	}
	sid := s.Calls()[0].SID
	request(t, s, "GET", api+"/Calls/"+sid+".json", nil, &c)
	if c.Status != "completed" || c.StartTime == nil || c.EndTime == nil || c.Duration == nil || *c.Duration != "1" {
		t.Fatalf("ended: got %+v", c)
	}
	for _, date := range []string{c.DateCreated, *c.StartTime, *c.EndTime} {
		if _, err := time.Parse(time.RFC1123Z, date); err != nil {
			t.Errorf("date: %v", err)
		}
	}
}

func TestList(t *testing.T) {
	s := start(t, simcarrier.Config{})
	if err := s.SetNumber("9999", simcarrier.Profile{Queue: time.Hour}); err != nil {
		t.Fatal(err)
	}
	var all []string
	for range 7 {
		all = append(all, create(t, s, "Twiml", hangup))
	}
	for _, sid := range all {
		until(t, s, sid, "completed")
	}
	queued := create(t, s, "Twiml", hangup, "To", "ignored: the first one counts")
	until(t, s, queued, "completed")
	form := createForm("Twiml", hangup)
	form.Set("To", "+14155559999")
	var waiting apiCall
	request(t, s, "POST", api+"/Calls.json", form, &waiting)
	slices.Reverse(all)
	all = append([]string{queued}, all...)

	list := func(query string) (sids []string, pages int) {
		path := api + "/Calls.json?" + query
		for path != "" {
			var l apiList
			if status := request(t, s, "GET", path, nil, &l); status != 200 {
				t.Fatalf("GET %s: HTTP %d", path, status)
			}
			for _, c := range l.Calls {
				sids = append(sids, c.SID)
			}
			path = ""
			if l.Next != nil {
				path = *l.Next
			}
			pages++
		}
		return sids, pages
	}
	today, tomorrow := time.Now().UTC().Format(time.DateOnly), time.Now().UTC().Add(48*time.Hour).Format(time.DateOnly)
	numbers := "To=" + url.QueryEscape(to) + "&From=" + url.QueryEscape(from)
	for _, test := range []struct {
		query string
		want  []string
		pages int
	}{
		{numbers, all, 1},
		{numbers + "&PageSize=3", all, 3},
		{numbers + "&PageSize=4", all, 2},
		{numbers + "&PageSize=5000", all, 1},
		{numbers + "&StartTime%3E=" + today, all, 1},
		{numbers + "&StartTime%3E=" + tomorrow, nil, 1},
		{numbers + "&Status=busy", nil, 1},
		{"From=%2B19999999999", nil, 1},
		// What waits in the queue has no start time, so no list by start time has it.
		{"To=%2B14155559999", []string{waiting.SID}, 1},
		{"To=%2B14155559999&Status=queued", []string{waiting.SID}, 1},
		{"To=%2B14155559999&StartTime%3E=" + today, nil, 1},
	} {
		got, pages := list(test.query)
		if !slices.Equal(got, test.want) || pages != test.pages {
			t.Errorf("%s: got %v on %d pages, want %v on %d", test.query, got, pages, test.want, test.pages)
		}
	}
	for _, bad := range []string{"PageSize=0", "PageSize=x", "Page=-1", "StartTime%3E=yesterday"} {
		if status := request(t, s, "GET", api+"/Calls.json?"+bad, nil, nil); status != 400 {
			t.Errorf("%s: HTTP %d, want 400", bad, status)
		}
	}
}

func TestUpdates(t *testing.T) {
	s := start(t, simcarrier.Config{})
	if err := s.SetNumber("0199", simcarrier.Profile{NoAnswer: 1}); err != nil {
		t.Fatal(err)
	}
	ringing := func() string {
		form := createForm("Twiml", hangup)
		form.Set("To", "+14155550199")
		var c apiCall
		request(t, s, "POST", api+"/Calls.json", form, &c)
		until(t, s, c.SID, "ringing")
		return c.SID
	}
	live := func() string {
		sid := create(t, s, "Twiml", `<Response><Pause length="60"/></Response>`)
		until(t, s, sid, "in-progress")
		return sid
	}
	ended := func() string {
		sid := create(t, s, "Twiml", hangup)
		until(t, s, sid, "completed")
		return sid
	}
	for _, test := range []struct {
		name, sid string
		fields    []string
		want      int
		status    string // afterwards
		by        string
	}{
		{"cancel ringing", ringing(), []string{"Status", "canceled"}, 200, "canceled", "api"},
		{"hang up ringing", ringing(), []string{"Status", "completed"}, 200, "canceled", "api"},
		{"redirect ringing", ringing(), []string{"Twiml", hangup}, 400, "ringing", ""},
		{"cancel live", live(), []string{"Status", "canceled"}, 200, "in-progress", ""},
		{"hang up live", live(), []string{"Status", "completed"}, 200, "completed", "api"},
		{"redirect live", live(), []string{"Twiml", hangup}, 200, "completed", "twiml"},
		{"redirect live to nowhere", live(), []string{"Url", "x"}, 400, "in-progress", ""},
		{"another status", live(), []string{"Status", "busy"}, 400, "in-progress", ""},
		{"cancel ended", ended(), []string{"Status", "canceled"}, 404, "completed", "twiml"},
		{"hang up ended", ended(), []string{"Status", "completed"}, 404, "completed", "twiml"},
		{"redirect ended", ended(), []string{"Twiml", hangup}, 400, "completed", "twiml"},
	} {
		if got := update(t, s, test.sid, test.fields...); got != test.want {
			t.Errorf("%s: HTTP %d, want %d", test.name, got, test.want)
		}
		if c := until(t, s, test.sid, test.status); c.EndedBy != test.by {
			t.Errorf("%s: ended by %q, want %q", test.name, c.EndedBy, test.by)
		}
	}
}

func TestControl(t *testing.T) {
	s := start(t, simcarrier.Config{})
	post := func(path, body string) int {
		resp, err := http.Post(s.URL()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, test := range []struct {
		path, body string
		want       int
	}{
		{"/sim/faults", `{"create":"too_many","times":2,"delay_ms":5,"drop_callbacks":["answered"],"media":"stall"}`, 200},
		{"/sim/faults", `{"create":"explode"}`, 400},
		{"/sim/faults", `{"creat":"too_many"}`, 400},
		{"/sim/faults", `{"drop_callbacks":["sometimes"]}`, 400},
		{"/sim/faults", `{"media":"loud"}`, 400},
		{"/sim/faults", `{"delay_ms":-1}`, 400},
		{"/sim/faults", `{`, 400},
		{"/sim/numbers", `{"number":"0123","busy":1}`, 204},
		{"/sim/numbers", `{"number":"0123","busy":1,"fail":0.5}`, 400},
		{"/sim/numbers", `{"number":"x"}`, 400},
		{"/sim/lines", `{"number":"+15005550006","voice_url":"http://127.0.0.1:1/in"}`, 204},
		{"/sim/lines", `{"number":"+15005550006","voice_url":"x"}`, 400},
		{"/sim/inbound", `{"to":"+15005550007","from":"+14155550123"}`, 404},
		{"/sim/inbound", `{"to":"+15005550006","from":"x"}`, 400},
		{"/sim/calls/CA1/hangup", ``, 404},
	} {
		if got := post(test.path, test.body); got != test.want {
			t.Errorf("POST %s %s: HTTP %d, want %d", test.path, test.body, got, test.want)
		}
	}
	var f simcarrier.Faults
	request(t, s, "GET", "/sim/faults", nil, &f)
	if f.Create != simcarrier.TooMany || f.Times != 2 || f.Delay != 5*time.Millisecond || f.Media != simcarrier.MediaStall || len(f.DropCallbacks) != 1 {
		t.Errorf("faults: got %+v", f)
	}
	if status := request(t, s, "DELETE", "/sim/faults", nil, &f); status != 200 || fmt.Sprint(s.Faults()) != fmt.Sprint(simcarrier.Faults{}) {
		t.Errorf("after DELETE: HTTP %d, %+v", status, s.Faults())
	}
	sid := create(t, s, "Twiml", hangup) // busy, by /sim/numbers
	until(t, s, sid, "busy")
	var calls []simcarrier.Call
	request(t, s, "GET", "/sim/calls?to="+url.QueryEscape(to), nil, &calls)
	if len(calls) != 1 || calls[0].SID != sid || calls[0].Dial != 1 || calls[0].SIP != 486 {
		t.Errorf("calls: got %+v", calls)
	}
	var one simcarrier.Call
	request(t, s, "GET", "/sim/calls/"+sid, nil, &one)
	var st simcarrier.Stats
	request(t, s, "GET", "/sim/stats", nil, &st)
	if one.SID != sid || st.Created != 1 || st.Dials[to] != 1 || st.ByStatus["busy"] != 1 || st.Live != 0 {
		t.Errorf("got %+v and %+v", one, st)
	}
}

func TestForgets(t *testing.T) {
	s := start(t, simcarrier.Config{Keep: 2})
	var last string
	for range 5 {
		last = create(t, s, "Twiml", hangup)
		until(t, s, last, "completed")
	}
	if got := s.Calls(); len(got) != 2 || got[1].SID != last || got[1].Dial != 5 {
		t.Errorf("remembered %d calls, want the last 2", len(got))
	}
	if st := s.Stats(); st.Created != 5 || st.Dials[to] != 5 {
		t.Errorf("stats: %+v, want 5 created", st)
	}
}
