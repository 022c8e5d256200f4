package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"dibs/api"
	"dibs/call"
	"dibs/settings"
)

// Numbers keeps our telephone numbers. Its errors are those of package settings.
type Numbers interface {
	Number(ctx context.Context, number string) (api.Number, error)
	Numbers(ctx context.Context) ([]api.Number, error)
	Put(ctx context.Context, n api.Number) error
	Delete(ctx context.Context, number string) error
}

type (
	numberInput struct {
		Number string `path:"number" doc:"E.164."`
	}
	putNumberInput struct {
		Number string `path:"number" doc:"E.164."`
		Body   api.Number
	}
	numberOutput  struct{ Body api.Number }
	numbersOutput struct{ Body api.NumberPage }
)

func (s *Server) numberRoutes() {
	register(s, Admin, huma.Operation{
		OperationID: "list-numbers", Method: http.MethodGet, Path: "/v1/numbers", Tags: []string{"numbers"}, Summary: "List our telephone numbers",
	}, []string{api.CodeForbidden, api.CodeUnknownField, api.CodeUnavailable}, s.numbers)
	register(s, Admin, huma.Operation{
		OperationID: "get-number", Method: http.MethodGet, Path: "/v1/numbers/{number}", Tags: []string{"numbers"}, Summary: "What happens to a call to one of our numbers",
	}, []string{api.CodeForbidden, api.CodeNumberNotFound, api.CodeUnknownField, api.CodeUnavailable}, s.number)
	register(s, Admin, huma.Operation{
		OperationID: "put-number", Method: http.MethodPut, Path: "/v1/numbers/{number}", Tags: []string{"numbers"}, Summary: "Set what happens to a call to one of our numbers",
		Description: "Known to every replica within moments. At the carrier, the number's voice webhook is /v1/inbound/{carrier}, its status webhook /v1/inbound/{carrier}/status.",
	}, []string{
		api.CodeMalformedJSON, api.CodeForbidden, api.CodeBodyTooLarge, api.CodeMediaType, api.CodeUnknownField, api.CodeInvalidField,
		api.CodeInvalidNumber, api.CodeInvalidFlow, api.CodeInvalidMetadata, api.CodeUnavailable,
	}, s.putNumber)
	register(s, Admin, huma.Operation{
		OperationID: "delete-number", Method: http.MethodDelete, Path: "/v1/numbers/{number}", DefaultStatus: http.StatusNoContent, Tags: []string{"numbers"},
		Summary: "Forget one of our numbers; calls to it are refused",
	}, []string{api.CodeForbidden, api.CodeNumberNotFound, api.CodeUnknownField, api.CodeUnavailable}, s.deleteNumber)
}

// ours are the numbers, or why there are none for this token.
func (s *Server) ours(ctx context.Context) (Numbers, error) {
	if err := bound(ctx); err != nil {
		return nil, err
	}
	if s.cfg.Numbers == nil {
		return nil, problem{api.NewProblem(api.CodeUnavailable, "no numbers are kept here")}
	}
	return s.cfg.Numbers, nil
}

// plus is a number as it stands in a path: its plus may be written as %2B, or be lost.
func plus(path string) string {
	if u, err := url.PathUnescape(path); err == nil {
		path = u
	}
	return "+" + strings.TrimLeft(path, "+ ")
}

// unsettled is a problem of the settings.
func unsettled(ctx context.Context, err error) error {
	if bad, ok := errors.AsType[*settings.Invalid](err); ok {
		return problem{invalid(bad.Fields...)}
	}
	switch {
	case errors.Is(err, settings.ErrNotFound):
		return problem{api.NewProblem(api.CodeNumberNotFound, "")}
	case errors.Is(err, settings.ErrUnavailable):
		err = errors.Join(api.ErrUnavailable, err)
	}
	return fail(ctx, err, api.CodeUnavailable)
}

func (s *Server) numbers(ctx context.Context, _ *struct{}) (*numbersOutput, error) {
	ours, err := s.ours(ctx)
	if err != nil {
		return nil, err
	}
	all, err := ours.Numbers(ctx)
	if err != nil {
		return nil, unsettled(ctx, err)
	}
	return &numbersOutput{api.NumberPage{Numbers: all}}, nil
}

func (s *Server) number(ctx context.Context, in *numberInput) (*numberOutput, error) {
	ours, err := s.ours(ctx)
	if err != nil {
		return nil, err
	}
	n, err := ours.Number(ctx, plus(in.Number))
	if err != nil {
		return nil, unsettled(ctx, err)
	}
	return &numberOutput{n}, nil
}

func (s *Server) putNumber(ctx context.Context, in *putNumberInput) (*numberOutput, error) {
	ours, err := s.ours(ctx)
	if err != nil {
		return nil, err
	}
	n := in.Body
	number := plus(in.Number)
	if n.Number = cmp.Or(n.Number, number); n.Number != number {
		return nil, field("number", "is not that of the path")
	}
	n.Region = cmp.Or(n.Region, s.cfg.Region)
	n.Metadata, n.Flow.Inline = given(n.Metadata), given(n.Flow.Inline)
	if err := ours.Put(ctx, n); err != nil {
		return nil, unsettled(ctx, err)
	}
	s.cfg.Log.Info().Str("request", visitOf(ctx).id).Str("token", who(ctx).Name).Str("number", call.MaskNumber(n.Number)).Msg("number set")
	return &numberOutput{n}, nil
}

func (s *Server) deleteNumber(ctx context.Context, in *numberInput) (*struct{}, error) {
	ours, err := s.ours(ctx)
	if err != nil {
		return nil, err
	}
	if err := ours.Delete(ctx, plus(in.Number)); err != nil {
		return nil, unsettled(ctx, err)
	}
	s.cfg.Log.Info().Str("request", visitOf(ctx).id).Str("token", who(ctx).Name).Str("number", call.MaskNumber(plus(in.Number))).Msg("number deleted")
	return nil, nil
}
