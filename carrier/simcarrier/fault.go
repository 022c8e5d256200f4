package simcarrier

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
)

// Faults is what goes wrong at present. The zero value is a carrier at its best.
type Faults struct {
	Create CreateFault // what happens to creates
	Times  int         // to how many of them; 0: until changed

	Delay      time.Duration // every API reply is this late; the call is made at once
	LookupDown bool          // fetch and list answer 503

	DropCallbacks      []string // the events that are never told: initiated, ringing, answered, amd, completed, all
	DuplicateCallbacks bool
	ReorderCallbacks   bool // each event arrives after the one that follows it

	Media MediaFault // what happens to media sockets
}

// CreateFault is a fault of Calls.json.
type CreateFault string

// The faults of a create. "Made" means that a phone rings all the same.
const (
	CreateFine       CreateFault = ""
	LoseReply        CreateFault = "lose_reply"        // made, then the connection is reset
	LoseRequest      CreateFault = "lose_request"      // not made, the connection is reset
	TooMany          CreateFault = "too_many"          // not made, 429 with code 20429
	ServerError      CreateFault = "server_error"      // not made, 500
	ServerErrorMade  CreateFault = "server_error_made" // made, 500
	TruncateReply    CreateFault = "truncate_reply"    // made, half of the 201's body
	BadGatewayNoJSON CreateFault = "bad_gateway"       // not made, 502 with a proxy's page
)

// MediaFault is a fault of media sockets.
type MediaFault string

// The faults of media.
const (
	MediaFine  MediaFault = ""
	MediaNever MediaFault = "never" // the socket is never opened; the call stays silent
	MediaHalf  MediaFault = "half"  // a connection, half a handshake, nothing more
	MediaStall MediaFault = "stall" // what the bot sends is no longer read
)

var (
	createFaults = []CreateFault{CreateFine, LoseReply, LoseRequest, TooMany, ServerError, ServerErrorMade, TruncateReply, BadGatewayNoJSON}
	mediaFaults  = []MediaFault{MediaFine, MediaNever, MediaHalf, MediaStall}
	dropEvents   = []string{"all", "initiated", "ringing", "answered", "amd", "completed"}
)

func (f Faults) check() error {
	if !slices.Contains(createFaults, f.Create) {
		return fmt.Errorf("create: %.40q is no fault", f.Create)
	}
	if !slices.Contains(mediaFaults, f.Media) {
		return fmt.Errorf("media: %.40q is no fault", f.Media)
	}
	for _, e := range f.DropCallbacks {
		if !slices.Contains(dropEvents, e) {
			return fmt.Errorf("drop_callbacks: %.40q is no event", e)
		}
	}
	if f.Times < 0 || f.Delay < 0 || f.Delay > time.Hour {
		return errors.New("times, delay: out of range")
	}
	return nil
}

func (f Faults) drops(event string) bool {
	return slices.Contains(f.DropCallbacks, "all") || slices.Contains(f.DropCallbacks, event)
}

// faultsJSON is [Faults] on the wire: durations are whole milliseconds there.
type faultsJSON struct {
	Create             CreateFault `json:"create,omitempty"`
	Times              int         `json:"times,omitempty"`
	DelayMS            int64       `json:"delay_ms,omitempty"`
	LookupDown         bool        `json:"lookup_down,omitempty"`
	DropCallbacks      []string    `json:"drop_callbacks,omitempty"`
	DuplicateCallbacks bool        `json:"duplicate_callbacks,omitempty"`
	ReorderCallbacks   bool        `json:"reorder_callbacks,omitempty"`
	Media              MediaFault  `json:"media,omitempty"`
}

// MarshalJSON writes the form that POST /sim/faults takes.
func (f Faults) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultsJSON{
		f.Create, f.Times, f.Delay.Milliseconds(), f.LookupDown,
		f.DropCallbacks, f.DuplicateCallbacks, f.ReorderCallbacks, f.Media,
	})
}

// UnmarshalJSON reads that form.
func (f *Faults) UnmarshalJSON(b []byte) error {
	var j faultsJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*f = j.faults()
	return nil
}

func (j faultsJSON) faults() Faults {
	return Faults{
		j.Create, j.Times, ms(j.DelayMS), j.LookupDown,
		j.DropCallbacks, j.DuplicateCallbacks, j.ReorderCallbacks, j.Media,
	}
}

// SetFaults replaces what goes wrong, from the next request, callback and frame on.
func (s *Server) SetFaults(f Faults) error {
	if err := f.check(); err != nil {
		return fmt.Errorf("simcarrier: faults: %w", err)
	}
	f.DropCallbacks = slices.Clone(f.DropCallbacks)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
	return nil
}

// Faults is what goes wrong at present.
func (s *Server) Faults() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// createFault is the fault of this create; it counts Times down.
func (s *Server) createFault() CreateFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.faults.Create
	if f != CreateFine && s.faults.Times > 0 {
		if s.faults.Times--; s.faults.Times == 0 {
			s.faults.Create = CreateFine
		}
	}
	return f
}

// reset ends the connection without a reply: a TCP reset where there is TCP.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
