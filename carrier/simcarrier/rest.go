package simcarrier

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The errors of the API, in Twilio's numbers.
var (
	errAuth      = apiError{http.StatusUnauthorized, 20003, "Authenticate"}
	errNotFound  = apiError{http.StatusNotFound, 20404, "The requested resource was not found"}
	errTooMany   = apiError{http.StatusTooManyRequests, 20429, "Too many requests"}
	errServer    = apiError{http.StatusInternalServerError, 20500, "An internal server error has occurred"}
	errDown      = apiError{http.StatusServiceUnavailable, 20503, "Service unavailable"}
	errNoTo      = apiError{http.StatusBadRequest, 21201, "No 'To' number is specified"}
	errNoFrom    = apiError{http.StatusBadRequest, 21213, "'From' phone number is required"}
	errTo        = apiError{http.StatusBadRequest, 21211, "Invalid 'To' Phone Number"}
	errGeo       = apiError{http.StatusBadRequest, 21215, "Account not authorized to call this number"}
	errFrom      = apiError{http.StatusBadRequest, 21212, "Invalid 'From' Phone Number"}
	errURL       = apiError{http.StatusBadRequest, 21205, "Url parameter is required and must be a valid URL"}
	errCallback  = apiError{http.StatusBadRequest, 21609, "Invalid 'StatusCallback' URL"}
	errParameter = apiError{http.StatusBadRequest, 20001, "Invalid parameter"}
	errState     = apiError{http.StatusBadRequest, 21220, "Invalid call state: the call is not in progress"}
)

type apiError struct {
	status  int
	code    int
	message string
}

func (e apiError) write(w http.ResponseWriter) {
	if e == errTooMany {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, e.status, map[string]any{
		"code": e.code, "message": e.message, "status": e.status,
		"more_info": "https://www.twilio.com/docs/errors/" + strconv.Itoa(e.code),
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// Numbers that are refused though they look right; Twilio's test accounts know them too.
const (
	BadNumber       = "+15005550001" // 21211
	ForbiddenNumber = "+15005550003" // 21215
)

func notFound(w http.ResponseWriter, _ *http.Request) { errNotFound.write(w) }

const (
	maxForm   = 64 << 10
	maxInline = 4000 // characters
	maxRing   = 600 * time.Second
	ringTime  = 60 * time.Second // unless the create says otherwise
)

// authorized lets a request through that knows the account and its token.
func (s *Server) authorized(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, token, _ := r.BasicAuth()
		if !same(user, s.cfg.AccountSID) || !same(token, s.cfg.AuthToken) {
			errAuth.write(w)
			return
		}
		if r.PathValue("account") != s.cfg.AccountSID {
			errNotFound.write(w)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if r.Method == http.MethodGet && s.Faults().LookupDown {
			errDown.write(w)
			return
		}
		h(w, r)
	})
}

func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// create is POST Calls.json.
func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	fault := s.createFault()
	switch fault {
	case LoseRequest, TooMany, ServerError, BadGatewayNoJSON:
		s.refused()
		s.delay(r)
	}
	switch fault {
	case LoseRequest:
		reset(w)
		return
	case TooMany:
		errTooMany.write(w)
		return
	case ServerError:
		errServer.write(w)
		return
	case BadGatewayNoJSON:
		http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
		return
	}
	c, bad := newCall(r)
	if bad == nil && !s.add(c) {
		bad = &errDown
	}
	if bad != nil {
		s.refused()
		bad.write(w)
		return
	}
	s.delay(r)
	switch fault {
	case LoseReply:
		reset(w)
	case ServerErrorMade:
		errServer.write(w)
	case TruncateReply:
		body, _ := json.Marshal(s.resource(c))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(http.StatusCreated)
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		reset(w)
	default:
		writeJSON(w, http.StatusCreated, s.resource(c))
	}
}

func (s *Server) refused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Refused++
}

// delay is the fault that makes replies late.
func (s *Server) delay(r *http.Request) { sleep(r.Context(), s.Faults().Delay) }

// newCall reads a create, and refuses what Twilio refuses.
func newCall(r *http.Request) (*call, *apiError) {
	if r.ParseForm() != nil {
		return nil, &errParameter
	}
	f := r.PostForm
	c := &call{
		to: f.Get("To"), from: f.Get("From"),
		doc:       document{twiml: f.Get("Twiml"), url: f.Get("Url"), fallback: f.Get("FallbackUrl")},
		statusURL: f.Get("StatusCallback"),
		events:    events(f["StatusCallbackEvent"]),
	}
	if c.doc.url != "" {
		c.doc.twiml = "" // Url wins
	}
	switch {
	case c.to == "":
		return nil, &errNoTo
	case c.from == "":
		return nil, &errNoFrom
	case !numberForm.MatchString(c.to), c.to == BadNumber:
		return nil, &errTo
	case c.to == ForbiddenNumber:
		return nil, &errGeo
	case !numberForm.MatchString(c.from):
		return nil, &errFrom
	case c.doc.url == "" && c.doc.twiml == "", c.doc.url != "" && !httpAddress(c.doc.url):
		return nil, &errURL
	case len([]rune(c.doc.twiml)) > maxInline:
		return nil, &errParameter
	case c.statusURL != "" && !httpAddress(c.statusURL):
		return nil, &errCallback
	}
	var ok bool
	if c.detect, ok = detectionOf(f); !ok {
		return nil, &errParameter
	}
	if c.ring, ok = secondsOf(f, "Timeout", ringTime); !ok || c.ring > maxRing {
		return nil, &errParameter
	}
	if c.limit, ok = secondsOf(f, "TimeLimit", 0); !ok {
		return nil, &errParameter
	}
	return c, nil
}

// events are the callbacks asked for: the field repeats, or names them in one.
func events(asked []string) []string {
	var all []string
	for _, a := range asked {
		for e := range strings.FieldsSeq(a) {
			if !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	if len(all) == 0 {
		return []string{"completed"}
	}
	return all
}

// secondsOf reads whole seconds, at least one; an absent field is missing.
func secondsOf(f url.Values, name string, missing time.Duration) (time.Duration, bool) {
	if !f.Has(name) {
		return missing, true
	}
	n, err := strconv.Atoi(f.Get(name))
	if err != nil || n < 1 || n > 86400 {
		return 0, false
	}
	return time.Duration(n) * time.Second, true
}

func httpAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// update is POST Calls/{sid}.json: cancel, hang up, or redirect.
func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	if r.ParseForm() != nil {
		errParameter.write(w)
		return
	}
	c, bad := s.change(strings.TrimSuffix(r.PathValue("call"), ".json"), r.PostForm)
	if bad != nil {
		bad.write(w)
		return
	}
	s.delay(r)
	writeJSON(w, http.StatusOK, s.resource(c))
}

func (s *Server) change(sid string, f url.Values) (*call, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.bySID[sid]
	if !ok {
		return nil, &errNotFound
	}
	if address, twiml := f.Get("Url"), f.Get("Twiml"); address != "" || twiml != "" {
		switch {
		case c.status != statusInProgress:
			return nil, &errState
		case address != "" && !httpAddress(address):
			return nil, &errURL
		case len([]rune(twiml)) > maxInline:
			return nil, &errParameter
		}
		c.redirect = &document{twiml: twiml, url: address}
		if address != "" {
			c.redirect.twiml = ""
		}
		if c.interrupt != nil {
			c.interrupt()
		}
		return c, nil
	}
	if !c.ended.IsZero() {
		return nil, &errNotFound
	}
	live := c.status == statusInProgress
	switch f.Get("Status") {
	case statusCompleted:
		if live {
			c.stop(byAPI)
		} else {
			c.stop(canceled)
		}
	case statusCanceled:
		if !live { // an answered call is left alone
			c.stop(canceled)
		}
	default:
		return nil, &errParameter
	}
	return c, nil
}
