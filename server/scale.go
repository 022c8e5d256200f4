package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"dibs/api"
	"dibs/call"
	"dibs/demand"
	"dibs/wire"
)

type (
	regionInput struct {
		Region string `path:"region" maxLength:"128" doc:"Whose bots are scaled."`
	}
	scaleOutput      struct{ Body api.Scale }
	scaleValueOutput struct{ Body api.ScaleValue }
	whyInput         struct {
		ID string `path:"id" doc:"The call's id."`
	}
	whyOutput struct{ Body api.Why }
)

func (s *Server) scaleRoutes() {
	codes := []string{api.CodeForbidden, api.CodeInvalidField, api.CodeDemandUnknown}
	register(s, Viewer, huma.Operation{
		OperationID: "get-scale", Method: http.MethodGet, Path: "/v1/scale/{region}", Tags: []string{"scale"},
		Summary:     "How many bots a region wants, term by term",
		Description: "The dispatcher's numbers, the same on every replica. What is not known is answered 503, never 0.",
	}, codes, s.scale)
	register(s, Viewer, huma.Operation{
		OperationID: "get-scale-value", Method: http.MethodGet, Path: "/v1/scale/{region}/value", Tags: []string{"scale"},
		Summary: "The demand alone, for an autoscaler that reads JSON",
	}, codes, s.scaleValue)
	register(s, Viewer, huma.Operation{
		OperationID: "why-call", Method: http.MethodGet, Path: "/v1/calls/{id}/why", Tags: []string{"calls"},
		Summary: "Why a call has not gone out",
	}, []string{api.CodeCallNotFound, api.CodeCallEnded, api.CodeNobodyInOffice, api.CodeForbidden}, s.why)
}

// wanted asks for a region's numbers.
func (s *Server) wanted(ctx context.Context, region string) (demand.Wanted, time.Duration, error) {
	if err := bound(ctx); err != nil {
		return demand.Wanted{}, 0, err
	}
	if wire.CheckToken(region) != nil {
		return demand.Wanted{}, 0, field("path.region", "no name of a region")
	}
	if s.cfg.Scale == nil {
		return demand.Wanted{}, 0, problem{api.NewProblem(api.CodeDemandUnknown, "this server hears no dispatcher's numbers")}
	}
	w, age, err := s.cfg.Scale(region, time.Now())
	switch {
	case errors.Is(err, demand.ErrUnknown):
		p := api.NewProblem(api.CodeDemandUnknown, "no numbers from the dispatcher within 15 s")
		p.RetryAfterMS = 2000
		return w, age, problem{p}
	case err != nil:
		return w, age, fmt.Errorf("scale: %w", err)
	}
	return w, age, nil
}

func (s *Server) scale(ctx context.Context, in *regionInput) (*scaleOutput, error) {
	w, age, err := s.wanted(ctx, in.Region)
	if err != nil {
		return nil, err
	}
	out := api.Scale{
		Region: in.Region, Wanted: w.Bots, Demand: w.Demand, Terms: []api.ScaleTerm{}, Clamps: []api.ScaleClamp{},
		Policy: string(w.Policy), PerBot: w.PerBot.String(), Floor: w.Floor, Ceiling: w.Ceiling, Unclamped: w.Unclamped,
		Sentence: w.Sentence, Bots: api.Counts(s.cfg.Roster.Counts(time.Now(), in.Region, "")), AgeMS: call.ToMillis(age),
	}
	for _, t := range w.Terms {
		out.Terms = append(out.Terms, api.ScaleTerm(t))
	}
	for _, c := range w.Clamps {
		out.Clamps = append(out.Clamps, api.ScaleClamp(c))
	}
	return &scaleOutput{out}, nil
}

func (s *Server) scaleValue(ctx context.Context, in *regionInput) (*scaleValueOutput, error) {
	w, _, err := s.wanted(ctx, in.Region)
	if err != nil {
		return nil, err
	}
	return &scaleValueOutput{api.ScaleValue{Value: w.Demand}}, nil
}

func (s *Server) why(ctx context.Context, in *whyInput) (*whyOutput, error) {
	if _, err := s.record(ctx, in.ID); err != nil { // a token that is bound to an org sees that org's calls only
		return nil, fail(ctx, err, api.CodeUnavailable)
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := s.cfg.Calls.Why(asking, in.ID)
	if err != nil {
		return nil, fail(ctx, err, api.CodeNobodyInOffice)
	}
	return &whyOutput{w}, nil
}
