package simcarrier

import (
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// Call is what the books say of one call.
type Call struct {
	SID       string    `json:"sid"`
	To        string    `json:"to"`
	From      string    `json:"from"`
	Direction string    `json:"direction"` // outbound-api, inbound
	Status    string    `json:"status"`    // Twilio's word
	Dial      int       `json:"dial"`      // of this number, from 1; inbound: 0
	StatusURL string    `json:"status_url,omitempty"`
	Attempt   string    `json:"attempt,omitempty"` // last element of the path of StatusURL
	Created   time.Time `json:"created"`
	Started   time.Time `json:"started,omitzero"` // left the queue
	Answered  time.Time `json:"answered,omitzero"`
	Answerer  string    `json:"answered_by,omitempty"` // when it was asked for, and is known
	Ended     time.Time `json:"ended,omitzero"`
	EndedBy   string    `json:"ended_by,omitempty"` // callee, api, limit, twiml, carrier
	SIP       int       `json:"sip,omitempty"`      // of the end

	Heard    Heard        `json:"heard"` // all streams together
	Streams  []StreamView `json:"streams,omitempty"`
	Warnings []Warning    `json:"warnings,omitempty"`
}

// StreamView is one media socket of a call, or the try to have one.
type StreamView struct {
	SID    string            `json:"sid"`
	URL    string            `json:"url"` // without its last element, the token
	Params map[string]string `json:"params,omitempty"`
	Opened time.Time         `json:"opened"` // when it was tried
	Closed time.Time         `json:"closed,omitzero"`
	Error  int               `json:"error,omitempty"` // Twilio's number if there was no socket
	Heard  Heard             `json:"heard"`
	Sent   int               `json:"sent"`   // frames of the callee's voice
	Missed int               `json:"missed"` // frames left out after a standstill
}

// Stats counts over the server's whole life, remembered calls or not.
type Stats struct {
	Created  int            `json:"created"` // outbound calls that were made
	Inbound  int            `json:"inbound"`
	Refused  int            `json:"refused"`             // creates that were not made
	Live     int            `json:"live"`                // calls that have not ended
	ByStatus map[string]int `json:"by_status,omitempty"` // of the calls that are remembered
	Dials    map[string]int `json:"dials,omitempty"`     // number → calls made to it

	Callbacks     int `json:"callbacks"`      // taken by their receivers
	CallbacksLost int `json:"callbacks_lost"` // dropped by a fault, or tried in vain

	Streams   int   `json:"streams"` // sockets that were opened
	Frames    int   `json:"frames"`
	Missed    int   `json:"missed"`
	LateMaxUS int64 `json:"late_max_us"` // how late the latest frame was, in µs
}

// publish lets others see what was heard: when something new was, or at the end.
func (st *stream) publish(end bool) {
	h := st.ear.heard
	fresh := h.Sound != st.told.Sound || h.Tag != st.told.Tag || h.Marks != st.told.Marks || h.Bytes > st.told.Bytes+4000
	if !fresh && !end {
		return
	}
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	st.told = h
	st.view.Heard, st.view.Sent, st.view.Missed = h, st.sent, st.missed
	if end {
		st.view.Closed = time.Now()
		s.stats.Streams++
		s.stats.Frames += st.sent
		s.stats.Missed += st.missed
		s.stats.LateMaxUS = max(s.stats.LateMaxUS, st.late.Microseconds())
	}
}

// Calls are all calls that are remembered, the oldest first.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Call, len(s.calls))
	for i, c := range s.calls {
		all[i] = c.view()
	}
	return all
}

// Call is one call; false: it is not known, or not remembered.
func (s *Server) Call(sid string) (Call, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.bySID[sid]
	if !ok {
		return Call{}, false
	}
	return c.view(), true
}

// CallsTo are the remembered calls to one number, the oldest first.
func (s *Server) CallsTo(number string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []Call
	for _, c := range s.calls {
		if c.to == number {
			some = append(some, c.view())
		}
	}
	return some
}

// view is c for others; mu is held.
func (c *call) view() Call {
	v := Call{
		SID: c.sid, To: c.to, From: c.from, Direction: c.direction(), Status: c.status, Dial: c.nth,
		StatusURL: c.statusURL, Attempt: lastElement(c.statusURL),
		Created: c.created, Started: c.started, Answered: c.answered, Answerer: c.answerer, Ended: c.ended,
		EndedBy: c.end.by, SIP: c.end.sip,
		Warnings: slices.Clone(c.warnings),
	}
	for _, st := range c.streams {
		v.Heard = v.Heard.add(st.Heard)
		w := *st
		w.Params = maps.Clone(st.Params)
		v.Streams = append(v.Streams, w)
	}
	return v
}

func lastElement(address string) string {
	u, err := url.Parse(address)
	if err != nil || strings.Trim(u.Path, "/") == "" {
		return ""
	}
	return path.Base(u.Path)
}

// Stats counts what has happened so far. Streams count when they have closed.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Dials = maps.Clone(s.dials)
	st.ByStatus = map[string]int{}
	for _, c := range s.calls {
		st.ByStatus[c.status]++
		if c.ended.IsZero() {
			st.Live++
		}
	}
	return st
}

// Hangup lets the person at the far end hang up now. False: the call is not known
// or has ended.
func (s *Server) Hangup(sid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.bySID[sid]
	if !ok || !c.ended.IsZero() {
		return false
	}
	switch {
	case !c.answered.IsZero():
		c.stop(byCallee)
	case c.inbound:
		c.stop(gaveUp)
	default:
		c.stop(ending{statusBusy, 486, "callee"}) // it declines
	}
	return true
}
