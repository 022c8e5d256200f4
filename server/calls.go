package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"dibs/api"
	"dibs/call"
	"dibs/wire"
)

// timelineLimit is how many entries of a call's timeline are shown.
const timelineLimit = 200

type (
	placeInput struct {
		Key  string `header:"Idempotency-Key" doc:"1 to 255 printable ASCII characters of your choice. The same key and body mean the same call, however often it is sent."`
		Body api.PlaceCall
	}
	placeOutput struct {
		Location string `header:"Location" doc:"Of the call."`
		Replayed string `header:"Idempotency-Replayed" doc:"true: the key was known, and this is its call."`
		Body     api.Call
	}
	callInput struct {
		ID     string `path:"id" doc:"The call's id."`
		Reveal bool   `query:"reveal" doc:"Do not mask anything. Needs role operator, and is logged."`
	}
	listInput struct {
		State    string `query:"state" maxLength:"32" doc:"Only calls in this state."`
		Org      string `query:"org" maxLength:"128" doc:"Only this org's."`
		Campaign string `query:"campaign" maxLength:"128" doc:"Only this campaign's."`
		Limit    int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
		Cursor   string `query:"cursor" maxLength:"512" doc:"The next of the page before."`
		Reveal   bool   `query:"reveal" doc:"Do not mask anything. Needs role operator, and is logged."`
	}
	cancelInput struct {
		ID   string      `path:"id" doc:"The call's id."`
		Body *api.Reason // nobody has to say why
	}
	callOutput struct{ Body api.Call }
	listOutput struct{ Body api.CallPage }
)

func (s *Server) callRoutes() {
	register(s, Operator, huma.Operation{
		OperationID: "place-call", Method: http.MethodPost, Path: "/v1/calls", DefaultStatus: http.StatusAccepted, Tags: []string{"calls"},
		Summary:     "Ask for an outbound call",
		Description: "The call is stored when this is answered, and dialled when it is its turn. Repeat a request without an answer with the same Idempotency-Key.",
	}, []string{
		api.CodeMalformedJSON, api.CodeBadKey, api.CodeForbidden, api.CodeKeyInProgress, api.CodeBodyTooLarge, api.CodeMediaType,
		api.CodeUnknownField, api.CodeInvalidField, api.CodeInvalidNumber, api.CodeInvalidClass, api.CodeInvalidFlow, api.CodeInvalidHours,
		api.CodeInvalidWindow, api.CodeInvalidRetry, api.CodeInvalidMetadata, api.CodeInvalidCallbackURL, api.CodeKeyReused, api.CodeLineUnavailable,
	}, s.place)
	register(s, Viewer, huma.Operation{
		OperationID: "list-calls", Method: http.MethodGet, Path: "/v1/calls", Tags: []string{"calls"}, Summary: "List calls, newest first",
	}, []string{api.CodeForbidden, api.CodeInvalidField, api.CodeUnknownField, api.CodeUnavailable}, s.list)
	register(s, Viewer, huma.Operation{
		OperationID: "get-call", Method: http.MethodGet, Path: "/v1/calls/{id}", Tags: []string{"calls"}, Summary: "Look a call up, with its timeline",
	}, []string{api.CodeForbidden, api.CodeCallNotFound, api.CodeUnknownField, api.CodeUnavailable}, s.get)
	register(s, Operator, huma.Operation{
		OperationID: "cancel-call", Method: http.MethodDelete, Path: "/v1/calls/{id}", DefaultStatus: http.StatusAccepted, Tags: []string{"calls"},
		Summary:     "Stop a call, in whatever state it is",
		Description: "One that is not dialled yet ends at once; one that rings or is live is hung up, and its state says when that has happened.",
	}, []string{api.CodeForbidden, api.CodeCallNotFound, api.CodeCallEnded, api.CodeUnknownField, api.CodeNobodyInOffice}, s.cancel)
}

func (s *Server) place(ctx context.Context, in *placeInput) (*placeOutput, error) {
	key, err := idempotencyKey(visitOf(ctx).header.Values("Idempotency-Key"))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	o, err := s.order(who(ctx), in.Body, now)
	if err != nil {
		return nil, err
	}
	if o.CallID = newCallID(); key != "" {
		o.CallID = callID(who(ctx).Name, o.Org, key)
		if o.RequestHash, err = requestHash(in.Body); err != nil {
			return nil, field("", "cannot be written as JSON")
		}
	}
	if err := check(o); err != nil {
		return nil, err
	}
	if key != "" {
		if out, err := s.replay(ctx, o, now); out != nil || err != nil {
			return out, err
		}
	}
	if _, ok := o.Opens(now); !ok { // after the replay: a repeat may come when the window has closed
		return nil, field("not_after", "the window is closed already, or opens too late")
	}
	switch err := s.put(ctx, o); {
	case errors.Is(err, api.ErrDuplicate) && key != "":
		out, err := s.replay(ctx, o, now)
		if out == nil && err == nil {
			err = problem{again(api.CodeKeyInProgress, "", time.Second)}
		}
		return out, err
	case errors.Is(err, api.ErrDuplicate): // our own, put the first time: nobody else knows the id
	case err != nil:
		return nil, lineDown(ctx, o, err)
	}
	return placed(call.New(o, now), now), nil
}

// replay answers a request whose call is known: with the call, or with why its key
// may not be used. Both are nil when it is not known.
func (s *Server) replay(ctx context.Context, o call.Order, now time.Time) (*placeOutput, error) {
	rec, err := s.fetch(ctx, o.CallID)
	switch {
	case errors.Is(err, api.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, lineDown(ctx, o, err)
	case rec.Order.RequestHash != o.RequestHash:
		p := api.NewProblem(api.CodeKeyReused, "")
		p.Instance = "/v1/calls/" + o.CallID
		return nil, problem{p}
	}
	out := placed(rec, now)
	out.Replayed = "true"
	return out, nil
}

func placed(rec call.Record, now time.Time) *placeOutput {
	return &placeOutput{Location: "/v1/calls/" + rec.Order.CallID, Body: api.CallOf(rec, now, false)}
}

// put puts the order in line, and once more when nobody knows whether it is there:
// the line takes one message a call.
func (s *Server) put(ctx context.Context, o call.Order) error {
	var err error
	for range 2 {
		err = func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return s.cfg.Calls.Put(ctx, o)
		}()
		if !away(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// lineDown is the problem of an order of which nobody knows whether it is stored.
func lineDown(ctx context.Context, o call.Order, err error) error {
	err = fail(ctx, err, api.CodeLineUnavailable)
	if p, ok := errors.AsType[problem](err); ok {
		p.Instance = "/v1/calls/" + o.CallID // where it is, if it is
	}
	return err
}

func (s *Server) fetch(ctx context.Context, id string) (call.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.cfg.Calls.Get(ctx, id)
}

// record is a call that the token may see. Another org's is one that does not exist.
func (s *Server) record(ctx context.Context, id string) (call.Record, error) {
	if wire.CheckToken(id) != nil {
		return call.Record{}, api.ErrNotFound
	}
	rec, err := s.fetch(ctx, id)
	if org := who(ctx).Org; err == nil && org != "" && rec.Order.Org != org {
		return call.Record{}, api.ErrNotFound
	}
	return rec, err
}

// reveal reports whether to mask nothing, or why the token may not ask for it.
func (s *Server) reveal(ctx context.Context, asked bool, id string) error {
	if !asked {
		return nil
	}
	if t := who(ctx); t.Role.rank() < Operator.rank() {
		return problem{api.NewProblem(api.CodeForbidden, "revealing needs role operator")}
	}
	s.cfg.Log.Info().Str("request", visitOf(ctx).id).Str("token", who(ctx).Name).Str("call", id).Msg("revealed")
	return nil
}

func (s *Server) get(ctx context.Context, in *callInput) (*callOutput, error) {
	rec, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, fail(ctx, err, api.CodeUnavailable)
	}
	if err := s.reveal(ctx, in.Reveal, in.ID); err != nil {
		return nil, err
	}
	out := &callOutput{api.CallOf(rec, time.Now(), in.Reveal)}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if out.Body.Timeline, err = s.cfg.Calls.Timeline(short, in.ID, timelineLimit); err != nil {
		s.cfg.Log.Warn().Err(err).Str("call", in.ID).Msg("timeline not read")
		out.Body.TimelineMissing = true
	}
	return out, nil
}

func (s *Server) list(ctx context.Context, in *listInput) (*listOutput, error) {
	q := api.ListQuery{State: call.State(in.State), Org: in.Org, Campaign: in.Campaign, Limit: in.Limit, Cursor: in.Cursor}
	if org := who(ctx).Org; org != "" {
		if q.Org != "" && q.Org != org {
			return nil, problem{api.NewProblem(api.CodeForbidden, "the token is bound to org "+org)}
		}
		q.Org = org
	}
	if q.State != "" && !q.State.Known() {
		return nil, field("query.state", "no such state")
	}
	for name, value := range map[string]string{"query.org": q.Org, "query.campaign": q.Campaign} {
		if value != "" && wire.CheckToken(value) != nil {
			return nil, field(name, "want letters, digits, _ or -")
		}
	}
	if err := s.reveal(ctx, in.Reveal, ""); err != nil {
		return nil, err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	records, next, err := s.cfg.Calls.List(short, q)
	switch {
	case errors.Is(err, api.ErrNotFound):
		return nil, field("query.cursor", "none of ours")
	case err != nil:
		return nil, fail(ctx, err, api.CodeUnavailable)
	}
	now := time.Now()
	out := &listOutput{api.CallPage{Calls: []api.Call{}, Next: next}}
	for _, rec := range records {
		out.Body.Calls = append(out.Body.Calls, api.CallOf(rec, now, in.Reveal))
	}
	return out, nil
}

func (s *Server) cancel(ctx context.Context, in *cancelInput) (*callOutput, error) {
	if _, err := s.record(ctx, in.ID); err != nil {
		return nil, fail(ctx, err, api.CodeUnavailable)
	}
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rec, err := s.cfg.Calls.Cancel(short, in.ID, reason)
	if err != nil {
		return nil, fail(ctx, err, api.CodeNobodyInOffice)
	}
	return &callOutput{api.CallOf(rec, time.Now(), false)}, nil
}
