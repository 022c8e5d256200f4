package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"dibs/api"
	"dibs/carrier"
	"dibs/wire"
)

// What became of a status webhook, for its count.
const (
	hookApplied   = "applied"
	hookUnknown   = "unknown_call"
	hookForged    = "bad_signature"
	hookMalformed = "malformed"
	hookAway      = "unavailable"
	hookFailed    = "failed"
)

func (s *Server) webhookRoutes() {
	s.handle("POST /v1/carriers/{carrier}/status/{attempt}", "", s.status)
	s.huma.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "carrier-status", Method: http.MethodPost, Path: "/v1/carriers/{carrier}/status/{attempt}", Tags: []string{"webhooks"},
		Summary:     "A carrier's status webhook",
		Description: "Proves itself by the carrier's signature over the public address. Again, late, out of order, or about a call that nobody knows: 204, and nothing changes.",
		Parameters: []*huma.Param{
			{Name: "carrier", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
			{Name: "attempt", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
		},
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{"application/x-www-form-urlencoded": {Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}}},
		Responses: func() map[string]*huma.Response {
			r := s.responses([]string{api.CodeBadWebhook, api.CodeBadSignature, api.CodeUnknownCarrier, api.CodeBodyTooLarge, api.CodeNobodyInOffice})
			r["204"] = &huma.Response{Description: "Heard."}
			return r
		}(),
	})
}

// status hears what a carrier says of a call.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	c := s.cfg.Carrier
	if c == nil || r.PathValue("carrier") != c.Name() {
		s.deny(w, r, api.NewProblem(api.CodeUnknownCarrier, ""))
		return
	}
	result, p := s.hear(c, r)
	s.stats.webhooks.WithLabelValues(c.Name(), result).Inc()
	if p != nil {
		s.deny(w, r, p)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) hear(c carrier.Carrier, r *http.Request) (result string, p *api.Problem) {
	ev, err := c.Event(r)
	switch {
	case errors.Is(err, carrier.ErrSignature), errors.Is(err, carrier.ErrAccount):
		return hookForged, api.NewProblem(api.CodeBadSignature, "")
	case err != nil:
		return hookMalformed, api.NewProblem(api.CodeBadWebhook, "")
	}
	ev.Attempt = s.attemptOf(r, ev)
	if wire.CheckToken(ev.Attempt) != nil {
		return hookUnknown, nil // no attempt of ours looks like that
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	switch err := s.cfg.Calls.CarrierEvent(ctx, ev); {
	case err == nil:
		return hookApplied, nil
	case errors.Is(err, api.ErrNotFound):
		return hookUnknown, nil // another system's call on the same account, or one long forgotten
	case away(err):
		visitOf(r.Context()).err = err
		return hookAway, again(api.CodeNobodyInOffice, "", time.Second)
	default:
		visitOf(r.Context()).err = err
		return hookFailed, api.NewProblem(api.CodeInternal, "")
	}
}
