package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"dibs/api"
	"dibs/carrier"
	"dibs/wire"
)

// Reception is whoever answers a carrier's questions. Its answers come within the
// carrier's limits.
type Reception interface {
	// Answer says what to do with a call that comes in. The same question gets the
	// same answer.
	Answer(ctx context.Context, q carrier.Question) carrier.Instruction
	// Next says how to go on with a call whose media socket has closed.
	Next(ctx context.Context, attempt string, q carrier.Question) carrier.Instruction
	// Attempt is what status events of a call that came in are about.
	Attempt(carrierID string) string
}

func (s *Server) inboundRoutes() {
	s.handle("POST /v1/inbound/{carrier}", "", func(w http.ResponseWriter, r *http.Request) {
		s.instruct(w, r, func(ctx context.Context, q carrier.Question) carrier.Instruction {
			return s.cfg.Reception.Answer(ctx, q)
		})
	})
	s.handle("POST /v1/carriers/{carrier}/next/{attempt}", "", func(w http.ResponseWriter, r *http.Request) {
		s.instruct(w, r, func(ctx context.Context, q carrier.Question) carrier.Instruction {
			return s.cfg.Reception.Next(ctx, r.PathValue("attempt"), q)
		})
	})
	s.handle("POST /v1/inbound/{carrier}/status", "", s.status)
	form := map[string]*huma.MediaType{"application/x-www-form-urlencoded": {Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}}
	text := &huma.Schema{Type: huma.TypeString}
	for _, op := range []struct {
		id, path, summary, description string
		empty, attempt                 bool
	}{
		{
			id: "carrier-inbound", path: "/v1/inbound/{carrier}", summary: "A call comes in: what is to be done with it?",
			description: "The voice webhook of a number. Answered within 8 s in the carrier's own language: a bot, a sentence, or a refusal. The same call gets the same answer.",
		},
		{
			id: "carrier-next", path: "/v1/carriers/{carrier}/next/{attempt}", attempt: true, summary: "The media socket of a call has closed, and somebody is there: how is it to go on?",
			description: "A call that its bot ended is hung up; one whose bot was lost is led to another one, or ended with a sentence.",
		},
		{
			id: "carrier-inbound-status", path: "/v1/inbound/{carrier}/status", empty: true, summary: "How a call that came in has ended",
			description: "The status webhook of a number; see carrier-status.",
		},
	} {
		params := []*huma.Param{{Name: "carrier", In: "path", Required: true, Schema: text}}
		if op.attempt {
			params = append(params, &huma.Param{Name: "attempt", In: "path", Required: true, Schema: text})
		}
		codes := []string{api.CodeBadWebhook, api.CodeBadSignature, api.CodeUnknownCarrier, api.CodeBodyTooLarge}
		if op.empty {
			codes = append(codes, api.CodeNobodyInOffice)
		}
		responses := s.responses(codes)
		if op.empty {
			responses["204"] = &huma.Response{Description: "Heard."}
		} else {
			responses["200"] = &huma.Response{Description: "What to do.", Content: map[string]*huma.MediaType{"text/xml": {Schema: text}}}
		}
		s.huma.OpenAPI().AddOperation(&huma.Operation{
			OperationID: op.id, Method: http.MethodPost, Path: op.path, Tags: []string{"webhooks"}, Summary: op.summary, Description: op.description,
			Parameters: params, RequestBody: &huma.RequestBody{Content: form}, Responses: responses,
		})
	}
}

// instruct authenticates a carrier's question, lets it be answered, and says it in the
// carrier's language.
func (s *Server) instruct(w http.ResponseWriter, r *http.Request, answer func(context.Context, carrier.Question) carrier.Instruction) {
	c, ok := s.cfg.Carrier.(carrier.Voice)
	if !ok || s.cfg.Reception == nil || r.PathValue("carrier") != c.Name() {
		s.deny(w, r, api.NewProblem(api.CodeUnknownCarrier, ""))
		return
	}
	q, err := c.Asked(r)
	switch {
	case errors.Is(err, carrier.ErrSignature), errors.Is(err, carrier.ErrAccount):
		s.counted(c, hookForged)
		s.deny(w, r, api.NewProblem(api.CodeBadSignature, ""))
		return
	case err != nil:
		s.counted(c, hookMalformed)
		s.deny(w, r, api.NewProblem(api.CodeBadWebhook, ""))
		return
	}
	kind, body, err := c.Instruct(answer(r.Context(), q))
	result := hookApplied
	if err != nil { // a bot whose address the carrier would not take
		result = hookFailed
		visitOf(r.Context()).err = err
		s.cfg.Log.Error().Err(err).Str("request", visitOf(r.Context()).id).Msg("an instruction cannot be said; the call is ended")
		if kind, body, err = c.Instruct(carrier.Instruction{}); err != nil {
			s.deny(w, r, api.NewProblem(api.CodeInternal, ""))
			return
		}
	}
	s.counted(c, result)
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body)
}

func (s *Server) counted(c carrier.Carrier, result string) {
	s.stats.webhooks.WithLabelValues(c.Name(), result).Inc()
}

// attemptOf is what a status webhook is about: the signature covers the path, so what
// stands there is the carrier's word, too. Of a call that came in nothing stands there.
func (s *Server) attemptOf(r *http.Request, ev carrier.Event) string {
	if a := cmp.Or(ev.Attempt, r.PathValue("attempt")); a != "" || s.cfg.Reception == nil {
		return a
	}
	return s.cfg.Reception.Attempt(ev.ID)
}

// Checkpoints keeps what bots leave of calls.
type Checkpoints interface {
	Put(ctx context.Context, callID string, data json.RawMessage) error
}

type checkpointInput struct {
	ID   string          `path:"id" doc:"The call's id."`
	Body json.RawMessage `doc:"Any JSON of at most 8192 bytes."`
}

func (s *Server) checkpointRoutes() {
	register(s, Operator, huma.Operation{
		OperationID: "checkpoint-call", Method: http.MethodPost, Path: "/v1/calls/{id}/checkpoint", DefaultStatus: http.StatusNoContent, Tags: []string{"calls"},
		Summary:     "Leave something for the bot that may have to take a call over",
		Description: "For bots. The newest is handed to the next bot when this one is lost.",
	}, []string{
		api.CodeMalformedJSON, api.CodeForbidden, api.CodeBodyTooLarge, api.CodeMediaType, api.CodeCallNotFound, api.CodeCallEnded,
		api.CodeInvalidField, api.CodeUnknownField, api.CodeUnavailable,
	}, s.checkpoint)
}

func (s *Server) checkpoint(ctx context.Context, in *checkpointInput) (*struct{}, error) {
	if s.cfg.Checkpoints == nil {
		return nil, problem{api.NewProblem(api.CodeUnavailable, "nothing is kept here")}
	}
	if len(in.Body) > wire.MaxCheckpoint {
		return nil, field("", "larger than 8192 bytes")
	}
	rec, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, fail(ctx, err, api.CodeUnavailable)
	}
	if rec.State.Terminal() {
		return nil, fail(ctx, api.ErrEnded, api.CodeUnavailable)
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.cfg.Checkpoints.Put(short, in.ID, in.Body); err != nil {
		return nil, fail(ctx, errors.Join(api.ErrUnavailable, err), api.CodeUnavailable)
	}
	return nil, nil
}
