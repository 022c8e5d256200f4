package simcarrier

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"time"
)

// detection is Twilio's answering machine detection, as a create asks for it. One that
// blocks holds the call's document back until it is known who answered; the other asks
// on the side, and tells an address of its own.
type detection struct {
	on    bool
	toEnd bool   // of a machine, wait for the end of its message
	tell  string // not empty: do not block, and tell it here
}

// How long it takes to know.
const (
	knowHuman   = 800 * time.Millisecond // a short word, and a pause
	knowMachine = 1500 * time.Millisecond
	message     = 2 * time.Second // until the beep, from there, unless the profile says so
)

// detectionOf reads a create's fields.
func detectionOf(f url.Values) (d detection, ok bool) {
	switch f.Get("MachineDetection") {
	case "":
		return d, true
	case "Enable":
		d.on = true
	case "DetectMessageEnd":
		d.on, d.toEnd = true, true
	default:
		return d, false
	}
	switch f.Get("AsyncAmd") {
	case "", "false":
		return d, true
	case "true":
		d.tell = f.Get("AsyncAmdStatusCallback")
		return d, httpAddress(d.tell)
	}
	return d, false
}

// verdict is who answers, and how long it takes to know.
func (d detection) verdict(p plan) (who string, after time.Duration) {
	switch {
	case !p.machine:
		return "human", knowHuman
	case d.toEnd:
		return "machine_end_beep", knowMachine + cmp.Or(p.message, message)
	}
	return "machine_start", knowMachine
}

// whoAnswers finds out who has answered, if that was asked for. False: the call has
// ended before it may go on. Stop is for its end.
func (s *Server) whoAnswers(ctx context.Context, c *call) (stop func(), ok bool) {
	stop = func() {}
	if !c.detect.on {
		return stop, true
	}
	who, after := c.detect.verdict(c.plan)
	if c.detect.tell == "" {
		if !sleep(ctx, after) {
			return stop, false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		c.answerer = who
		return stop, true
	}
	t := time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !c.ended.IsZero() { // and with that its channel of callbacks may be closed
			return
		}
		c.answerer = who
		s.queue(c, callback{event: "amd", url: c.detect.tell, form: url.Values{
			"CallSid": {c.sid}, "AccountSid": {s.cfg.AccountSID}, "AnsweredBy": {who},
			"MachineDetectionDuration": {strconv.FormatInt(after.Milliseconds(), 10)},
		}})
	})
	return func() { t.Stop() }, true
}
