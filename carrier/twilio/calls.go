package twilio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"dibs/carrier"
)

const (
	minRing    = 5 * time.Second // under this Twilio's own margin is longer than the ringing
	maxRing    = 600 * time.Second
	maxMaxCall = 24 * time.Hour

	// clocks is how far Twilio's clock and ours may differ in a look-up. Too little
	// would make a false "none", after which somebody is dialled twice.
	clocks = 10 * time.Second

	pageSize = 50
	maxPages = 20
)

// Place asks for one call. A dial that Twilio could not take is refused here,
// unsent, with the field in the error's detail.
func (c *Client) Place(ctx context.Context, d carrier.Dial) (carrier.Placed, error) {
	form, err := c.placeForm(d)
	if err != nil {
		return carrier.Placed{}, &carrier.Error{Verdict: carrier.Refused, Detail: "not sent: " + err.Error()}
	}
	var r resource
	if err := c.send(ctx, http.MethodPost, "/Calls.json", form, &r); err != nil {
		return carrier.Placed{}, err
	}
	if !callForm.MatchString(r.SID) {
		return carrier.Placed{}, &carrier.Error{Verdict: carrier.Unknown, Detail: "the reply has no call id"}
	}
	status, ok := statusOf(r.Status)
	if !ok {
		status = carrier.Queued // a word of a later version; the call is taken all the same
	}
	return carrier.Placed{ID: r.SID, Status: status}, nil
}

func (c *Client) placeForm(d carrier.Dial) (url.Values, error) {
	switch {
	case !numberForm.MatchString(d.To):
		return nil, errors.New("to: not an E.164 number")
	case !numberForm.MatchString(d.From):
		return nil, errors.New("from: not an E.164 number")
	case d.Ring < 0 || d.Ring > maxRing:
		return nil, fmt.Errorf("ring: %v is not within 0 to %v", d.Ring, maxRing)
	case d.MaxCall < 0 || d.MaxCall > maxMaxCall:
		return nil, fmt.Errorf("max call: %v is not within 0 to %v", d.MaxCall, maxMaxCall)
	}
	detect, ok := map[string]string{"": "", carrier.DetectAnswer: "Enable", carrier.DetectMessageEnd: "DetectMessageEnd"}[d.Detect]
	if !ok {
		return nil, fmt.Errorf("detect: %.20q is nothing that can be found out", d.Detect)
	}
	twiml, err := c.Connect(d.Media, d.NextURL)
	if err != nil {
		return nil, err
	}
	if n := len([]rune(twiml)); n > MaxInline {
		return nil, fmt.Errorf("media: the instruction has %d characters, at most %d", n, MaxInline)
	}
	form := url.Values{"To": {d.To}, "From": {d.From}, "Twiml": {twiml}}
	if d.StatusURL != "" {
		if !httpAddress(d.StatusURL) {
			return nil, errors.New("status url: not an http address")
		}
		form.Set("StatusCallback", d.StatusURL)
		form.Set("StatusCallbackMethod", http.MethodPost)
		form["StatusCallbackEvent"] = []string{"initiated", "ringing", "answered", "completed"}
	}
	if d.Ring > 0 {
		form.Set("Timeout", seconds(max(d.Ring, minRing)))
	}
	if d.MaxCall > 0 {
		form.Set("TimeLimit", seconds(d.MaxCall))
	}
	if detect != "" {
		form.Set("MachineDetection", detect)
		if d.Detect == carrier.DetectAnswer && d.StatusURL != "" {
			form.Set("AsyncAmd", "true") // or the callee hears nothing while Twilio thinks
			form.Set("AsyncAmdStatusCallback", d.StatusURL)
			form.Set("AsyncAmdStatusCallbackMethod", http.MethodPost)
		}
	}
	return form, nil
}

// seconds rounds up: half a second of ringing is a second, not none.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// Cancel stops a call that is not answered yet.
func (c *Client) Cancel(ctx context.Context, id string) error {
	r, err := c.stop(ctx, id, "canceled")
	if err != nil {
		return err
	}
	if r.Status == "in-progress" {
		return carrier.ErrAnswered
	}
	return nil
}

// Hangup ends a call in any state.
func (c *Client) Hangup(ctx context.Context, id string) error {
	_, err := c.stop(ctx, id, "completed")
	return err
}

func (c *Client) stop(ctx context.Context, id, status string) (resource, error) {
	var r resource
	if err := checkID(id); err != nil {
		return r, err
	}
	err := c.send(ctx, http.MethodPost, "/Calls/"+id+".json", url.Values{"Status": {status}}, &r)
	if gone(err) {
		return resource{}, nil
	}
	return r, err
}

// checkID keeps what is no call id out of an address.
func checkID(id string) error {
	if !callForm.MatchString(id) {
		return &carrier.Error{Verdict: carrier.Refused, Detail: "not sent: not a call id"}
	}
	return nil
}

// gone reports Twilio's own "no such call". A bare 404 is a proxy's or a wrong
// address and says nothing of the call.
func gone(err error) bool {
	e, ok := errors.AsType[*carrier.Error](err)
	return ok && e.Status == http.StatusNotFound && e.Code == codeNotFound
}

// Find looks calls up: see the package comment for what "none" rests on.
func (c *Client) Find(ctx context.Context, q carrier.Query) ([]carrier.Found, error) {
	if q.ID != "" {
		return c.findID(ctx, q.ID)
	}
	if !numberForm.MatchString(q.To) || q.From != "" && !numberForm.MatchString(q.From) || q.StartedSince.IsZero() {
		return nil, &carrier.Error{Verdict: carrier.Refused, Detail: "not sent: a look-up needs an id, or a number and a start"}
	}
	since := q.StartedSince.Add(-clocks)
	numbers := url.Values{"To": {q.To}, "PageSize": {strconv.Itoa(pageSize)}}
	if q.From != "" {
		numbers.Set("From", q.From)
	}
	var found []carrier.Found
	known := map[string]int{} // call id → index in found
	for _, filter := range [][2]string{{"Status", "queued"}, {"StartTime>", since.UTC().Format(time.DateOnly)}} {
		form := url.Values{filter[0]: {filter[1]}}
		maps.Copy(form, numbers)
		calls, err := c.list(ctx, form)
		if err != nil {
			return nil, err
		}
		for _, r := range calls {
			f, err := r.found()
			if err != nil {
				return nil, err
			}
			if began := r.began(); !began.IsZero() && began.Before(since.Truncate(time.Second)) {
				continue
			}
			if i, ok := known[f.ID]; ok {
				found[i] = f // the later look is the truer one
				continue
			}
			known[f.ID] = len(found)
			found = append(found, f)
		}
	}
	return found, nil
}

func (c *Client) findID(ctx context.Context, id string) ([]carrier.Found, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	var r resource
	err := c.send(ctx, http.MethodGet, "/Calls/"+id+".json", nil, &r)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := r.found()
	if err != nil {
		return nil, err
	}
	return []carrier.Found{f}, nil
}

// list reads every page. Too many pages are an error: a list that was not read to
// its end cannot say "none". Of the address of the next page only its query is
// used, so that no reply can lead the credentials elsewhere.
func (c *Client) list(ctx context.Context, form url.Values) ([]resource, error) {
	var all []resource
	for range maxPages {
		var page struct {
			Calls *[]resource `json:"calls"`
			Next  *string     `json:"next_page_uri"`
		}
		if err := c.send(ctx, http.MethodGet, "/Calls.json", form, &page); err != nil {
			return nil, err
		}
		if page.Calls == nil {
			return nil, &carrier.Error{Verdict: carrier.Unknown, Detail: "the reply has no list of calls"}
		}
		all = append(all, *page.Calls...)
		if page.Next == nil || *page.Next == "" {
			return all, nil
		}
		next, err := url.Parse(*page.Next)
		if err != nil || next.RawQuery == "" {
			return nil, &carrier.Error{Verdict: carrier.Unknown, Detail: "the reply names no usable next page"}
		}
		form = next.Query()
	}
	return nil, &carrier.Error{Verdict: carrier.Unknown, Detail: fmt.Sprintf("more than %d pages of calls", maxPages)}
}

// resource is the part of a Call resource that we read.
type resource struct {
	SID      string  `json:"sid"`
	To       string  `json:"to"`
	From     string  `json:"from"`
	Status   string  `json:"status"`
	Created  *string `json:"date_created"`
	Started  *string `json:"start_time"`
	Duration *string `json:"duration"`
	Answered *string `json:"answered_by"`
}

// found is r in the words of package carrier.
func (r resource) found() (carrier.Found, error) {
	status, ok := statusOf(r.Status)
	if !ok || !callForm.MatchString(r.SID) {
		return carrier.Found{}, &carrier.Error{Verdict: carrier.Unknown, Detail: "the reply has a call that cannot be read"}
	}
	return carrier.Found{
		ID: r.SID, To: r.To, From: r.From, Status: status,
		Started: when(r.Started),
		Length:  length(deref(r.Duration)), Answered: answeredBy(deref(r.Answered)),
	}, nil
}

// began is when the call began, as far as it is known; zero: not at all, and then
// the call is kept in a look-up, not dropped.
func (r resource) began() time.Time {
	if t := when(r.Started); !t.IsZero() {
		return t
	}
	return when(r.Created)
}

func when(s *string) time.Time {
	t, err := time.Parse(time.RFC1123Z, deref(s))
	if err != nil {
		return time.Time{}
	}
	return t
}

// length reads whole seconds; anything else is 0.
func length(s string) time.Duration {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > int(maxMaxCall/time.Second)*2 {
		return 0
	}
	return time.Duration(n) * time.Second
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// statusOf is Twilio's word for a call's state in ours; false: not a word we know.
func statusOf(s string) (carrier.Status, bool) {
	switch s {
	case "queued":
		return carrier.Queued, true
	case "initiated":
		return carrier.Initiated, true
	case "ringing":
		return carrier.Ringing, true
	case "in-progress":
		return carrier.InProgress, true
	case "completed":
		return carrier.Completed, true
	case "busy":
		return carrier.Busy, true
	case "no-answer":
		return carrier.NoAnswer, true
	case "canceled":
		return carrier.Canceled, true
	case "failed":
		return carrier.Failed, true
	}
	return "", false
}
