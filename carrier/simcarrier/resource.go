package simcarrier

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// resource is Twilio's JSON of a call: dates as in mail, numbers as strings, null
// for what is not known yet.
type resource struct {
	SID         string  `json:"sid"`
	AccountSID  string  `json:"account_sid"`
	APIVersion  string  `json:"api_version"`
	To          string  `json:"to"`
	From        string  `json:"from"`
	Status      string  `json:"status"`
	Direction   string  `json:"direction"`
	DateCreated string  `json:"date_created"`
	DateUpdated string  `json:"date_updated"`
	StartTime   *string `json:"start_time"`
	EndTime     *string `json:"end_time"`
	Duration    *string `json:"duration"`
	QueueTime   string  `json:"queue_time"` // ms
	AnsweredBy  *string `json:"answered_by"`
	Price       *string `json:"price"`
	URI         string  `json:"uri"`
}

func (s *Server) resource(c *call) resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resourceOf(c)
}

// resourceOf is resource with mu held.
func (s *Server) resourceOf(c *call) resource {
	r := resource{
		SID: c.sid, AccountSID: s.cfg.AccountSID, APIVersion: "2010-04-01",
		To: c.to, From: c.from, Status: c.apiStatus(), Direction: c.direction(),
		DateCreated: mailDate(c.created), DateUpdated: mailDate(c.updated),
		QueueTime: strconv.FormatInt(c.plan.queue.Milliseconds(), 10),
		URI:       "/2010-04-01/Accounts/" + s.cfg.AccountSID + "/Calls/" + c.sid + ".json",
	}
	if !c.started.IsZero() {
		t := mailDate(c.started)
		r.StartTime = &t
	}
	if c.answerer != "" {
		r.AnsweredBy = &c.answerer
	}
	if !c.ended.IsZero() {
		t, d := mailDate(c.ended), strconv.Itoa(c.seconds())
		r.EndTime, r.Duration = &t, &d
	}
	return r
}

// apiStatus is the status as the API tells it: "initiated" is for callbacks only.
func (c *call) apiStatus() string {
	if c.status == statusInitiated {
		return statusQueued
	}
	return c.status
}

func mailDate(t time.Time) string { return t.UTC().Format(time.RFC1123Z) }

// fetch is GET Calls/{sid}.json.
func (s *Server) fetch(w http.ResponseWriter, r *http.Request) {
	s.delay(r)
	s.mu.Lock()
	c, ok := s.bySID[strings.TrimSuffix(r.PathValue("call"), ".json")]
	s.mu.Unlock()
	if !ok {
		errNotFound.write(w)
		return
	}
	writeJSON(w, http.StatusOK, s.resource(c))
}

// page is one page of a list.
type page struct {
	Calls    []resource `json:"calls"`
	Page     int        `json:"page"`
	PageSize int        `json:"page_size"`
	First    string     `json:"first_page_uri"`
	Next     *string    `json:"next_page_uri"`
	Previous *string    `json:"previous_page_uri"`
	URI      string     `json:"uri"`
}

// list is GET Calls.json, the newest first. A call that has not started is in no
// list by start time.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.delay(r)
	q := r.URL.Query()
	keep, ok := filter(q)
	size, number := 50, 0
	for _, p := range []struct {
		name string
		min  int
		to   *int
	}{{"PageSize", 1, &size}, {"Page", 0, &number}} {
		if q.Has(p.name) {
			n, err := strconv.Atoi(q.Get(p.name))
			ok = ok && err == nil && n >= p.min && n <= 1_000_000
			*p.to = n
		}
	}
	size = min(size, 1000)
	if !ok {
		errParameter.write(w)
		return
	}

	s.mu.Lock()
	all := []resource{}
	for _, c := range slices.Backward(s.calls) {
		if keep(c) {
			all = append(all, s.resourceOf(c))
		}
	}
	s.mu.Unlock()

	address := func(n int) string {
		next := url.Values{}
		maps.Copy(next, q)
		next.Set("Page", strconv.Itoa(n))
		next.Set("PageSize", strconv.Itoa(size))
		return r.URL.Path + "?" + next.Encode()
	}
	p := page{Page: number, PageSize: size, First: address(0), URI: address(number)}
	begin := min(number*size, len(all))
	end := min(begin+size, len(all))
	p.Calls = all[begin:end]
	if end < len(all) {
		n := address(number + 1)
		p.Next = &n
	}
	if number > 0 {
		n := address(number - 1)
		p.Previous = &n
	}
	writeJSON(w, http.StatusOK, p)
}

// filter is what a list's query lets through; the server's mu is held when it is
// asked. False: the query cannot be read.
func filter(q url.Values) (keep func(*call) bool, ok bool) {
	var since, until time.Time
	for name, to := range map[string]*time.Time{"StartTime>": &since, "StartTime<": &until} {
		if !q.Has(name) {
			continue
		}
		t, err := time.Parse(time.DateOnly, q.Get(name))
		if err != nil {
			if t, err = time.Parse(time.RFC3339, q.Get(name)); err != nil {
				return nil, false
			}
		}
		*to = t
	}
	return func(c *call) bool {
		if to := q.Get("To"); to != "" && c.to != to {
			return false
		}
		if from := q.Get("From"); from != "" && c.from != from {
			return false
		}
		if status := q.Get("Status"); status != "" && c.apiStatus() != status {
			return false
		}
		if !since.IsZero() && (c.started.IsZero() || c.started.Before(since)) {
			return false
		}
		return until.IsZero() || !c.started.IsZero() && c.started.Before(until)
	}, true
}
