package media

import (
	"slices"
	"time"
)

// Reason is why a call's media ended. The first one wins.
type Reason string

// Reasons of an end.
const (
	Stopped      Reason = "stopped"       // the carrier said stop: the caller hung up
	PeerClosed   Reason = "peer_closed"   // the carrier's connection closed or broke without it
	HungUp       Reason = "hung_up"       // Talk returned, or Close or Shutdown, on a connected call
	TimeoutStart Reason = "timeout_start" // connected, but no start within Config.Handshake
	TimeoutIdle  Reason = "timeout_idle"  // no message for Config.Idle
	WriteTimeout Reason = "write_timeout" // the carrier took nothing for Config.Write
	TooLarge     Reason = "too_large"     // a message over Config.MaxMessage
	Malformed    Reason = "malformed"     // what no carrier sends: binary, no JSON, wrong base64, media before start
	MaxCall      Reason = "max_call"      // Call.MaxCall was reached
	Withdrawn    Reason = "withdrawn"     // Close or Shutdown before anybody connected
	TalkError    Reason = "talk_error"    // Talk returned an error or panicked
)

var reasons = []Reason{
	Stopped, PeerClosed, HungUp, TimeoutStart, TimeoutIdle, WriteTimeout,
	TooLarge, Malformed, MaxCall, Withdrawn, TalkError,
}

// Valid reports whether r is one of the reasons above.
func (r Reason) Valid() bool { return slices.Contains(reasons, r) }

// Report is how a call's media went.
type Report struct {
	CallID    string
	Reason    Reason
	Connected bool // the carrier came, with the right token

	Started    time.Duration // from connected to start; 0: start never came
	FirstAudio time.Duration // from start to the first sound written; 0: none was
	Length     time.Duration // from connected to the end

	FramesIn   int64 // media messages from the carrier, of whatever size
	FramesOut  int64 // sound sent, in frames of 20 ms
	Dropped    int64 // of FramesIn, those that Talk did not read in time
	OutOfOrder int64 // messages whose sequence number did not go up; used all the same

	Err error // what stood behind the reason; nil if it says all
}

// ending is a reason on its way through a context's cause.
type ending struct {
	reason Reason
	err    error
}

func (e *ending) Error() string {
	if e.err != nil {
		return string(e.reason) + ": " + e.err.Error()
	}
	return string(e.reason)
}

func (e *ending) Unwrap() error { return e.err }

// Is makes a context's cause an [ErrEnded].
func (e *ending) Is(target error) bool { return target == ErrEnded }
