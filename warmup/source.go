package warmup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// FlowRef names a flow. Inline wins over URL, URL over ID; all empty is a call
// without a flow.
type FlowRef struct {
	ID      string
	Version string // pinned: a flow of another version is as good as none; empty: any
	URL     string // its origin must stand in Flows.Origins
	Inline  []byte // the document itself
}

// Flows says where flows come from. The zero value takes inline flows only.
type Flows struct {
	Dir      string            // a flow is <Dir>/<id>.json; nothing outside of Dir is ever read
	Template string            // http(s) URL with {id} in it, asked when Dir has none; its user part and ${NAME} are not supported, Headers is for that
	Headers  map[string]string // sent to the Template's origin; ${NAME} is the environment's
	Origins  []string          // "https://flows.example.com": from where a call's own URL may come; none: nowhere
	Timeout  time.Duration     // of one look-up; 0: 2 s
	MaxStale time.Duration     // a copy whose source does not answer serves this long after it was last fresh; 0: 1 h, negative: never
	Cache    int               // flows remembered, the last used; 0: 64, negative: none

	// Fetch is one more source, asked first: a flow's document by id, or an error
	// that is fs.ErrNotExist for "not here". Nil: none.
	Fetch func(ctx context.Context, id string) ([]byte, error)
}

// source loads flows.
type source struct {
	cfg      Flows
	template *url.URL // with a place holder for the id; nil: none
	header   http.Header
	origins  map[string]bool
	client   *http.Client
	cache    *lru[string, copied]
	stale    atomic.Int64 // times a copy stood in
}

// copied is a flow and how to ask whether it is still the same.
type copied struct {
	id             string // for Cached: a document need not say its own
	flow           *Flow
	etag, modified string
	fresh          time.Time // when its source last vouched for it
}

// idHolder stands for {id} in a parsed template.
const idHolder = "_dibs_flow_id_"

func newSource(cfg Flows) (*source, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("Flows.Timeout: %v, want more than 0", cfg.Timeout)
	}
	if cfg.MaxStale == 0 {
		cfg.MaxStale = time.Hour
	}
	if cfg.Cache == 0 {
		cfg.Cache = 64
	}
	s := &source{cfg: cfg, origins: make(map[string]bool), cache: newLRU[string, copied](cfg.Cache)}
	if cfg.Dir != "" {
		if fi, err := os.Stat(cfg.Dir); err != nil || !fi.IsDir() {
			return nil, fmt.Errorf("Flows.Dir: %s is no directory that can be read", cfg.Dir)
		}
	}
	if cfg.Template != "" {
		u, err := url.Parse(strings.ReplaceAll(cfg.Template, "{id}", idHolder))
		if err != nil || origin(u) == "" || u.User != nil || strings.Contains(u.Host, idHolder) || !strings.Contains(u.RequestURI(), idHolder) {
			return nil, fmt.Errorf("Flows.Template: want an http or https URL with {id} in its path or query, and no user part")
		}
		s.template = u
	}
	var err error
	if s.header, err = headers(cfg.Headers); err != nil {
		return nil, fmt.Errorf("Flows.Headers: %w", err)
	}
	for _, o := range cfg.Origins {
		u, err := url.Parse(o)
		if err != nil || origin(u) == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return nil, fmt.Errorf("Flows.Origins: %q, want scheme and host alone, like https://flows.example.com", oneLine(o))
		}
		s.origins[origin(u)] = true
	}
	s.client = &http.Client{
		Transport: newTransport(cfg.Timeout),
		// A redirect may not lead off the origin that was allowed.
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 3 || origin(r.URL) != origin(via[0].URL) || r.URL.User != nil {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
	return s, nil
}

// load finds the flow that ref names. Its errors are *Error, or those of ctx.
func (s *source) load(ctx context.Context, ref FlowRef) (*Flow, error) {
	if err := checkShort(ref.Version); err != nil {
		return nil, notFound("version: " + err.Error())
	}
	if len(ref.Inline) > 0 && string(ref.Inline) != "null" {
		f, err := ParseFlow(ref.Inline)
		if err != nil {
			return nil, err
		}
		return matching(f, ref, false)
	}
	if ref.ID == "" && ref.URL == "" {
		return &Flow{Version: ref.Version}, nil
	}
	if ref.ID != "" && checkName(ref.ID) != nil {
		return nil, notFound("not the id of a flow")
	}
	if ref.URL != "" {
		u, err := url.Parse(ref.URL)
		if err != nil || u.User != nil || !s.origins[origin(u)] {
			return nil, &Error{Step: StepFlow, Code: FlowForbidden, Permanent: true, Detail: "the call's URL is not one from which flows may come", Err: err}
		}
		return s.fromURL(ctx, u, ref)
	}
	return s.byID(ctx, ref)
}

func (s *source) byID(ctx context.Context, ref FlowRef) (*Flow, error) {
	for _, from := range []func(context.Context, string) ([]byte, error){s.cfg.Fetch, s.fromDir} {
		if from == nil {
			continue
		}
		data, err := s.within(ctx, ref.ID, from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f, err := ParseFlow(data)
		if err != nil {
			return nil, err
		}
		if f, err = matching(f, ref, false); err == nil {
			s.cache.put("id:"+ref.ID, copied{id: ref.ID, flow: f}) // only to be counted among Cached
		}
		return f, err
	}
	if s.template != nil {
		u, err := url.Parse(strings.ReplaceAll(s.template.String(), idHolder, ref.ID))
		if err != nil {
			return nil, notFound("not the id of a flow")
		}
		return s.fromURL(ctx, u, ref)
	}
	s.cache.drop("id:" + ref.ID)
	if s.cfg.Fetch == nil && s.cfg.Dir == "" {
		return nil, &Error{Step: StepFlow, Code: FlowUnavailable, Detail: "this bot has no source of flows"}
	}
	return nil, notFound("no flow of that id")
}

// within gives one local look-up its time-out, and leaves it alone if it hangs
// beyond that, as a network file system can.
func (s *source) within(outer context.Context, id string, from func(context.Context, string) ([]byte, error)) ([]byte, error) {
	ctx, stop := context.WithTimeout(outer, s.cfg.Timeout)
	defer stop()
	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		data, err := from(ctx, id)
		answers <- answer{data, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	switch {
	case a.err == nil, errors.Is(a.err, fs.ErrNotExist):
		return a.data, a.err
	case outer.Err() != nil:
		return nil, outer.Err()
	case errors.Is(a.err, errOver):
		return nil, &Error{Step: StepFlow, Code: FlowTooLarge, Permanent: true, Detail: oneLine(a.err.Error()), Err: a.err}
	case errors.Is(a.err, fs.ErrPermission):
		return nil, &Error{Step: StepFlow, Code: FlowForbidden, Detail: "the bot may not read it", Err: a.err}
	case ctx.Err() != nil:
		return nil, &Error{Step: StepFlow, Code: FlowUnavailable, Detail: fmt.Sprintf("no answer within %v", s.cfg.Timeout), Err: a.err}
	}
	if pe, ok := errors.AsType[*fs.PathError](a.err); ok {
		a.err = pe.Err // without the path
	}
	return nil, &Error{Step: StepFlow, Code: FlowUnavailable, Detail: oneLine(a.err.Error()), Err: a.err}
}

// fromDir reads <Dir>/<id>.json through an os.Root: whatever the id and whatever
// links there are, nothing outside of Dir is opened.
func (s *source) fromDir(_ context.Context, id string) ([]byte, error) {
	if s.cfg.Dir == "" {
		return nil, fs.ErrNotExist
	}
	root, err := os.OpenRoot(s.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the directory of flows is gone")
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	fi, err := root.Stat(id + ".json")
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, errors.New("not a file")
	}
	file, err := root.Open(id + ".json")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAtMost(file, MaxFlow)
}

func notFound(detail string) *Error {
	return &Error{Step: StepFlow, Code: FlowNotFound, Permanent: true, Detail: detail}
}

// matching is f when it is the flow that ref asks for.
func matching(f *Flow, ref FlowRef, stale bool) (*Flow, error) {
	if ref.ID != "" && f.ID == "" {
		named := *f
		named.ID = ref.ID
		f = &named
	}
	if ref.ID != "" && f.ID != ref.ID {
		return nil, &Error{Step: StepFlow, Code: FlowMalformed, Permanent: true, Field: "id", Detail: fmt.Sprintf("is %q where %q was asked for", f.ID, ref.ID)}
	}
	if ref.Version != "" && f.Version != ref.Version {
		detail := fmt.Sprintf("version %q was asked for, %q is there", oneLine(ref.Version), oneLine(f.Version))
		if stale {
			return nil, &Error{Step: StepFlow, Code: FlowUnavailable, Detail: detail + " and its source does not answer"}
		}
		return nil, notFound(detail)
	}
	return f, nil
}

// cached are the ids of the remembered flows, the last used first.
func (s *source) cached() []string {
	var ids []string
	seen := make(map[string]bool)
	for _, c := range s.cache.values() {
		if c.id != "" && !seen[c.id] {
			seen[c.id] = true
			ids = append(ids, c.id)
		}
	}
	return ids
}
