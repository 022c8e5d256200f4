package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"dibs/api"
	"dibs/simulate"
)

type (
	simulateInput struct {
		Body json.RawMessage // a scenario; simulate.Parse is strict about it
	}
	simulateOutput struct{ Body simulate.Report }
)

func (s *Server) simulateRoutes() {
	register(s, Operator, huma.Operation{
		OperationID: "simulate", Method: http.MethodPost, Path: "/v1/simulate", Tags: []string{"scale"},
		Summary:     "What settings would do: a scenario in fake time, policy beside policy",
		Description: "The real admission, the real demand and a model of the autoscaler. Nothing is changed. One at a time.",
	}, []string{api.CodeMalformedJSON, api.CodeBodyMissing, api.CodeBodyTooLarge, api.CodeMediaType, api.CodeInvalidField, api.CodeUnavailable, api.CodeForbidden}, s.simulate)
}

func (s *Server) simulate(ctx context.Context, in *simulateInput) (*simulateOutput, error) {
	scenario, err := simulate.Parse(in.Body)
	if err != nil {
		return nil, field("body", err.Error())
	}
	select {
	case s.simulating <- struct{}{}:
		defer func() { <-s.simulating }()
	default:
		p := api.NewProblem(api.CodeUnavailable, "another simulation runs")
		p.RetryAfterMS = 5000
		return nil, problem{p}
	}
	report, err := simulate.Run(scenario)
	if err != nil {
		return nil, field("body", err.Error())
	}
	return &simulateOutput{*report}, nil
}
