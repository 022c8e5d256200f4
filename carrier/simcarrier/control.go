package simcarrier

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Inbound is somebody who calls one of our numbers.
type Inbound struct {
	To, From string
	Talk     time.Duration // hangs up so long after the answer; 0: stays for an hour
	Patience time.Duration // hangs up if nobody has answered by then; 0: waits
	Tone     bool
	Digits   string // as in [Profile]
}

// ErrNoLine is an inbound call to a number that is not on a line of ours.
var ErrNoLine = errors.New("simcarrier: no such line")

// CallIn lets somebody call one of our lines and returns the call's id.
func (s *Server) CallIn(in Inbound) (string, error) {
	if !numberForm.MatchString(in.From) || !digitsForm.MatchString(in.Digits) || in.Talk < 0 || in.Patience < 0 {
		return "", errors.New("simcarrier: inbound: from, digits, talk or patience cannot be used")
	}
	s.mu.Lock()
	line, ok := s.cfg.Lines[in.To]
	s.mu.Unlock()
	if !ok {
		return "", ErrNoLine
	}
	c := &call{
		to: in.To, from: in.From, inbound: true,
		plan:      plan{talk: in.Talk, patient: in.Patience, tone: in.Tone, digits: in.Digits},
		doc:       document{url: line.VoiceURL, fallback: line.FallbackURL},
		statusURL: line.StatusURL,
		events:    []string{"completed"},
	}
	if c.plan.talk == 0 {
		c.plan.talk = longTalk
	}
	if !s.add(c) {
		return "", errors.New("simcarrier: not running")
	}
	return c.sid, nil
}

// control reads a JSON request of the control addresses; false: it is answered.
func control(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxForm))
	d.DisallowUnknownFields() // a misspelt fault would be no fault
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		controlError(w, http.StatusBadRequest, err)
		return false
	}
	return true
}

func controlError(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, map[string]string{"error": err.Error()})
}

func (s *Server) simCalls(w http.ResponseWriter, r *http.Request) {
	if to := r.URL.Query().Get("to"); to != "" {
		writeJSON(w, http.StatusOK, s.CallsTo(to))
		return
	}
	writeJSON(w, http.StatusOK, s.Calls())
}

func (s *Server) simCall(w http.ResponseWriter, r *http.Request) {
	c, ok := s.Call(r.PathValue("call"))
	if !ok {
		controlError(w, http.StatusNotFound, errors.New("no such call"))
		return
	}
	writeJSON(w, http.StatusOK, c)
}

func (s *Server) simHangup(w http.ResponseWriter, r *http.Request) {
	if !s.Hangup(r.PathValue("call")) {
		controlError(w, http.StatusNotFound, errors.New("no such call, or it has ended"))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) simStats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Stats())
}

func (s *Server) simFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Faults())
}

// simSetFaults replaces the faults with those in the body; none, or DELETE: no faults.
func (s *Server) simSetFaults(w http.ResponseWriter, r *http.Request) {
	var f faultsJSON
	if r.Method == http.MethodPost && !control(w, r, &f) {
		return
	}
	if err := s.SetFaults(f.faults()); err != nil {
		controlError(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, http.StatusOK, s.Faults())
}

func (s *Server) simInbound(w http.ResponseWriter, r *http.Request) {
	var in struct {
		To         string `json:"to"`
		From       string `json:"from"`
		TalkMS     int64  `json:"talk_ms"`
		PatienceMS int64  `json:"patience_ms"`
		Tone       bool   `json:"tone"`
		Digits     string `json:"digits"`
	}
	if !control(w, r, &in) {
		return
	}
	sid, err := s.CallIn(Inbound{in.To, in.From, ms(in.TalkMS), ms(in.PatienceMS), in.Tone, in.Digits})
	switch {
	case errors.Is(err, ErrNoLine):
		controlError(w, http.StatusNotFound, err)
	case err != nil:
		controlError(w, http.StatusBadRequest, err)
	default:
		writeJSON(w, http.StatusCreated, map[string]string{"sid": sid})
	}
}

func (s *Server) simNumbers(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Number    string  `json:"number"` // or the digits it ends with
		Busy      float64 `json:"busy"`
		NoAnswer  float64 `json:"no_answer"`
		Fail      float64 `json:"fail"`
		Machine   float64 `json:"machine"`
		QueueMS   int64   `json:"queue_ms"`
		RingMS    int64   `json:"ring_ms"`
		TalkMS    int64   `json:"talk_ms"`
		GivesUpMS int64   `json:"gives_up_ms"`
		MessageMS int64   `json:"message_ms"`
		Tone      bool    `json:"tone"`
		Digits    string  `json:"digits"`
	}
	if !control(w, r, &in) {
		return
	}
	err := s.SetNumber(in.Number, Profile{
		Busy: in.Busy, NoAnswer: in.NoAnswer, Fail: in.Fail, Machine: in.Machine,
		Queue: ms(in.QueueMS), Ring: Range{Min: ms(in.RingMS)}, Talk: Range{Min: ms(in.TalkMS)},
		GivesUp: ms(in.GivesUpMS), Message: ms(in.MessageMS), Tone: in.Tone, Digits: in.Digits,
	})
	answerControl(w, err)
}

func (s *Server) simLines(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Number string `json:"number"`
		Line
	}
	if !control(w, r, &in) {
		return
	}
	answerControl(w, s.SetLine(in.Number, in.Line))
}

func answerControl(w http.ResponseWriter, err error) {
	if err != nil {
		controlError(w, http.StatusBadRequest, fmt.Errorf("not taken: %w", err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
