package simcarrier

import (
	"context"
	"fmt"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// document is where a call's instructions are: inline, or to be asked for.
type document struct {
	twiml    string
	url      string // asked when twiml is empty
	fallback string // asked when url fails; empty: the call ends
}

// answer is a document that has been read.
type answer struct {
	verbs []element
	base  string // what relative addresses in it are relative to
	err   error  // why there is none
}

// Warning is a thing Twilio would have put into its debugger.
type Warning struct {
	Code int    `json:"code"` // Twilio's number
	Text string `json:"text"`
}

// The numbers that are used here.
const (
	warnFetch     = 11200 // the address did not answer 2xx
	warnParse     = 12100 // not a TwiML document
	warnVerb      = 12200 // a verb that is not known
	warnType      = 12300 // a content type that is not XML
	warnHandshake = 31920 // media: no socket, or a query string
	warnScheme    = 31922 // media: not wss
	warnMessage   = 31924 // media: a message that makes no sense
	warnBinary    = 31950 // media: a binary message
)

const (
	maxWarnings  = 20
	maxDocuments = 100 // of one call: a redirect to itself ends somewhere

	perRune  = 60 * time.Millisecond // of a sentence that is spoken
	maxSay   = 10 * time.Minute
	maxPause = 10 * time.Minute
)

func (s *Server) warn(c *call, code int, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(c.warnings) < maxWarnings {
		c.warnings = append(c.warnings, Warning{code, fmt.Sprintf(format, args...)})
	}
}

// ask reads a document, from its fallback if need be. What is wrong is on the
// call's warnings and in the answer.
func (s *Server) ask(ctx context.Context, c *call, doc document) answer {
	got := s.askOnce(ctx, c, doc)
	if got.err != nil && doc.fallback != "" && ctx.Err() == nil {
		return s.askOnce(ctx, c, document{url: doc.fallback})
	}
	return got
}

func (s *Server) askOnce(ctx context.Context, c *call, doc document) answer {
	if doc.twiml != "" {
		verbs, err := parseTwiML([]byte(doc.twiml))
		if err != nil {
			s.warn(c, warnParse, "inline: %v", err)
		}
		return answer{verbs: verbs, err: err}
	}
	s.mu.Lock()
	form := s.callForm(c)
	s.mu.Unlock()
	resp, body, err := s.post(ctx, doc.url, form, newSID("IT"))
	if ctx.Err() != nil {
		return answer{err: ctx.Err()}
	}
	if err != nil {
		s.warn(c, warnFetch, "voice url: %v", err)
		return answer{err: err}
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		err := fmt.Errorf("voice url: HTTP %d", resp.StatusCode)
		s.warn(c, warnFetch, "%v", err)
		return answer{err: err}
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); !strings.HasSuffix(kind, "/xml") {
		err := fmt.Errorf("voice url: content type %.40q", kind)
		s.warn(c, warnType, "%v", err)
		return answer{err: err}
	}
	verbs, err := parseTwiML(body)
	if err != nil {
		s.warn(c, warnParse, "voice url: %v", err)
	}
	return answer{verbs: verbs, base: doc.url, err: err}
}

// converse is an answered call: document after document, until nothing is left,
// somebody hangs up, or time is up. Given is the first document if it is known.
func (s *Server) converse(ctx context.Context, c *call, media *mediaSide, given *answer) ending {
	ctx, cancel := context.WithTimeoutCause(ctx, c.plan.talk, byCallee)
	defer cancel()
	if c.limit > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, c.limit, byLimit)
		defer cancel()
	}
	stop, ok := s.whoAnswers(ctx, c)
	defer stop()
	if !ok {
		return endOf(ctx)
	}
	doc := c.doc
	for range maxDocuments {
		next := s.perform(ctx, c, media, doc, given)
		if ctx.Err() != nil {
			return endOf(ctx)
		}
		if next == nil {
			return byTwiML
		}
		doc, given = *next, nil
	}
	s.warn(c, warnFetch, "more than %d documents", maxDocuments)
	return byTwiML
}

// perform obeys one document and returns the one that follows it; nil: none. A
// redirect from outside cuts it short and goes first.
func (s *Server) perform(ctx context.Context, c *call, media *mediaSide, doc document, given *answer) *document {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	c.interrupt = cancel
	if c.redirect != nil {
		cancel() // it came before anything was said
	}
	s.mu.Unlock()
	if given == nil {
		got := s.ask(ctx, c, doc)
		given = &got
	}
	next := s.obey(ctx, c, media, *given)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.interrupt = nil
	if c.redirect != nil {
		next, c.redirect = c.redirect, nil
	}
	return next
}

// obey does what a document says, verb by verb, until one leads elsewhere.
func (s *Server) obey(ctx context.Context, c *call, media *mediaSide, a answer) *document {
	for _, v := range a.verbs {
		if ctx.Err() != nil {
			return nil
		}
		switch v.name {
		case "Connect":
			s.connect(ctx, c, media, v)
			if action := v.attrs["action"]; action != "" && ctx.Err() == nil {
				return &document{url: a.resolve(action)}
			}
		case "Say":
			sleep(ctx, min(time.Duration(utf8.RuneCountInString(v.text))*perRune, maxSay))
		case "Pause":
			n, err := strconv.Atoi(v.attrs["length"])
			if err != nil || n < 0 {
				n = 1
			}
			sleep(ctx, min(time.Duration(min(n, 3600))*time.Second, maxPause))
		case "Redirect":
			return &document{url: a.resolve(v.text)}
		case "Hangup", "Reject":
			return nil
		default:
			s.warn(c, warnVerb, "verb %.40q is not known", v.name)
		}
	}
	return nil
}

// resolve is ref as seen from the document.
func (a answer) resolve(ref string) string {
	base, err := url.Parse(a.base)
	if err != nil {
		return ref
	}
	u, err := base.Parse(ref)
	if err != nil {
		return ref
	}
	return u.String()
}
