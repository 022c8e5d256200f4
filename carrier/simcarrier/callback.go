package simcarrier

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// callback is one thing to tell somebody.
type callback struct {
	event string // initiated, ringing, answered, completed, stream-…
	url   string
	form  url.Values
}

// How callbacks are tried.
const (
	hookTime  = 15 * time.Second // one try
	hookPause = 200 * time.Millisecond
	maxReply  = 64 << 10
)

// tell queues the callback of a call's event, if somebody asked for it; mu is
// held. Only the call's own goroutine may call it: it closes the channel.
func (s *Server) tell(c *call, event string) {
	if c.statusURL == "" || !slices.Contains(c.events, event) {
		return
	}
	form := s.callForm(c)
	form.Set("Timestamp", time.Now().UTC().Format(time.RFC1123Z))
	form.Set("SequenceNumber", strconv.Itoa(c.seq))
	form.Set("CallbackSource", "call-progress-events")
	if event == "completed" {
		form.Set("CallDuration", strconv.Itoa(c.seconds()))
		form.Set("Duration", strconv.Itoa((c.seconds()+59)/60))
		form.Set("SipResponseCode", strconv.Itoa(c.end.sip))
	}
	c.seq++
	s.queue(c, callback{event: event, url: c.statusURL, form: form})
}

// queue hands cb to whoever delivers c's callbacks; mu is held.
func (s *Server) queue(c *call, cb callback) {
	select {
	case c.out <- cb:
	default:
		s.stats.CallbacksLost++
	}
}

// callForm is what every request about a call carries; mu is held.
func (s *Server) callForm(c *call) url.Values {
	form := url.Values{
		"CallSid":    {c.sid},
		"AccountSid": {s.cfg.AccountSID},
		"ApiVersion": {"2010-04-01"},
		"From":       {c.from},
		"Caller":     {c.from},
		"To":         {c.to},
		"Called":     {c.to},
		"CallStatus": {c.status},
		"Direction":  {c.direction()},
	}
	if c.answerer != "" {
		form.Set("AnsweredBy", c.answerer)
	}
	return form
}

func (c *call) direction() string {
	if c.inbound {
		return "inbound"
	}
	return "outbound-api"
}

// seconds is the billed length, begun seconds counted.
func (c *call) seconds() int {
	if c.answered.IsZero() || c.ended.IsZero() {
		return 0
	}
	return int((c.ended.Sub(c.answered) + time.Second - 1) / time.Second)
}

// deliverAll sends c's callbacks, one after another, until the call has ended and
// all is said. Faults lose, double and swap them on the way.
func (s *Server) deliverAll(ctx context.Context, c *call) {
	var held *callback
	for cb := range c.out {
		f := s.Faults()
		if f.drops(cb.event) {
			s.lost(1)
			continue
		}
		if f.ReorderCallbacks && held == nil && cb.event != "completed" {
			held = &cb
			continue
		}
		s.deliver(ctx, cb)
		if f.DuplicateCallbacks {
			s.deliver(ctx, cb)
		}
		if held != nil {
			s.deliver(ctx, *held)
			held = nil
		}
	}
	if held != nil {
		s.deliver(ctx, *held)
	}
}

// deliver tries one callback until it is taken, refused, or tried often enough.
func (s *Server) deliver(ctx context.Context, cb callback) {
	token := rand.Text()
	for try := range s.cfg.CallbackTries {
		if !sleep(ctx, hookPause*time.Duration(try*try)) {
			break
		}
		resp, _, err := s.post(ctx, cb.url, cb.form, token)
		if err == nil && resp.StatusCode < 500 {
			s.mu.Lock()
			s.stats.Callbacks++
			s.mu.Unlock()
			return
		}
	}
	s.lost(1)
}

func (s *Server) lost(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.CallbacksLost += n
}

// post sends a signed form and reads a bounded reply.
func (s *Server) post(ctx context.Context, address string, form url.Values, token string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	address, _, _ = strings.Cut(address, "#") // Twilio's connection settings live there
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, nil, errors.New("not an address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	req.Header.Set("X-Twilio-Signature", s.sign(address, form))
	req.Header.Set("I-Twilio-Idempotency-Token", token)
	req.Header.Set("User-Agent", "TwilioProxy/1.1")
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("no reply: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err == nil && len(body) > maxReply {
		err = errors.New("reply too long")
	}
	return resp, body, err
}

// sign is X-Twilio-Signature: the address, then the form's fields by name.
func (s *Server) sign(address string, form url.Values) string {
	var fields []string
	for name, values := range form {
		for _, v := range values {
			fields = append(fields, name+"\x00"+v)
		}
	}
	slices.Sort(fields)
	var text strings.Builder
	text.WriteString(address)
	for _, f := range slices.Compact(fields) {
		text.WriteString(strings.Replace(f, "\x00", "", 1))
	}
	h := hmac.New(sha1.New, []byte(s.cfg.AuthToken))
	h.Write([]byte(text.String()))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}
