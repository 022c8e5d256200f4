package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"dibs/api"
	"dibs/call"
	"dibs/claim"
	"dibs/pool"
	"dibs/wire"
)

type (
	claimInput   struct{ Body api.Claim }
	claimOutput  struct{ Body api.Assignment }
	releaseInput struct {
		ID   string `path:"call_id" doc:"The call's id, as it was claimed for."`
		Body *api.Release
	}
	releaseOutput struct{}
)

func (s *Server) claimRoutes() {
	register(s, Operator, huma.Operation{
		OperationID: "claim", Method: http.MethodPost, Path: "/v1/claims", Tags: []string{"claims"},
		Summary:     "Claim a bot for a call, now",
		Description: "For backends that place calls themselves. Answered when a bot is ready, or when none is to be had; at most after 30 s. Whoever hangs up meanwhile holds nothing.",
	}, []string{
		api.CodeMalformedJSON, api.CodeForbidden, api.CodeBodyTooLarge, api.CodeMediaType, api.CodeUnknownField, api.CodeInvalidField,
		api.CodeCallRejected, api.CodeNoBotRegistered, api.CodeNoIdleBot, api.CodeBotsBusy, api.CodeBotsDraining, api.CodeBreakerOpen,
		api.CodeClaimTimeout, api.CodeWarmupFailed, api.CodeUnavailable,
	}, s.claim)
	register(s, Operator, huma.Operation{
		OperationID: "release-claim", Method: http.MethodDelete, Path: "/v1/claims/{call_id}", Tags: []string{"claims"},
		Summary: "Give the seat of a claimed call back, in whatever state it is",
	}, []string{api.CodeForbidden, api.CodeClaimNotFound, api.CodeUnknownField, api.CodeBotSilent, api.CodeUnavailable}, s.release)
}

// request is what a claim says on the wire, checked as a bot would.
func (s *Server) request(b api.Claim) (wire.ClaimRequest, error) {
	req := wire.ClaimRequest{
		V: wire.Version, ClaimID: rand.Text(), CallID: b.CallID, Region: cmp.Or(b.Region, s.cfg.Region), Pool: b.Pool,
		AcceptMS: wire.ToMillis(claim.AcceptIn), ReadyMS: cmp.Or(wire.Millis(b.ReadyMS), wire.ToMillis(claim.ReadyIn)),
		MediaMS: wire.Millis(b.MediaMS), MaxCallMS: wire.Millis(b.MaxCallMS), WaitedMS: wire.Millis(b.WaitedMS),
		Org: b.Org, Campaign: b.Campaign, Class: b.Class, Direction: b.Direction, From: b.From, To: b.To,
		Flow: wire.Flow(b.Flow), Greeting: wire.Greeting(b.Greeting), Media: wire.MediaKind(b.Media),
		Providers: b.Providers, Metadata: given(b.Metadata),
	}
	req.Flow.Inline = given(req.Flow.Inline)
	for _, f := range []struct{ name, token string }{{"call_id", req.CallID}, {"region", req.Region}, {"pool", req.Pool}} {
		if (f.token != "" || f.name != "pool") && wire.CheckToken(f.token) != nil {
			return req, field(f.name, "want 1 to 128 letters, digits, _ or -")
		}
	}
	if err := wire.CheckMetadata(req.Metadata); err != nil {
		return req, field("metadata", fmt.Sprintf("want an object of at most %d bytes", wire.MaxMetadata))
	}
	if _, err := wire.Encode(req); err != nil {
		return req, field("", fmt.Sprintf("no bot could read it: larger than %d bytes, or out of range", wire.MaxMessage))
	}
	return req, nil
}

func (s *Server) claim(ctx context.Context, in *claimInput) (*claimOutput, error) {
	if err := bound(ctx); err != nil {
		return nil, err
	}
	req, err := s.request(in.Body)
	if err != nil {
		return nil, err
	}
	if !s.cfg.NC.IsConnected() { // the ask would lie in a buffer, and be given up as silence
		return nil, fail(ctx, fmt.Errorf("NATS: %w", api.ErrUnavailable), api.CodeUnavailable)
	}
	short, cancel := context.WithTimeout(ctx, claimIn)
	defer cancel()
	got, err := s.cfg.Asker.Assign(short, req)
	if err != nil {
		return nil, s.refused(ctx, err)
	}
	if ctx.Err() != nil { // whoever asked is gone, and nobody else will send media
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), botIn)
		defer cancel()
		if _, err := pool.Tell(gone, s.cfg.NC, got.BotID, wire.VerbRelease, wire.Command{CallID: req.CallID, ClaimID: got.ClaimID, Reason: "the claimer is gone"}); err != nil {
			s.cfg.Log.Warn().Err(err).Str("bot", got.BotID).Str("call", req.CallID).Msg("the claimer is gone, and the seat could not be released")
		}
		return nil, fail(ctx, ctx.Err(), api.CodeUnavailable)
	}
	out := api.Assignment{
		CallID: req.CallID, ClaimID: got.ClaimID, Bot: got.BotID, Instance: got.Instance, Revision: got.Revision,
		Pod: api.Pod(got.Pod), Seat: got.Seat, Providers: got.Providers, Attempts: attempts(got.Attempts), TookMS: call.ToMillis(got.Took),
		Media:  api.Media{URL: got.Media.URL, Params: got.Media.Params, ExpiresMS: call.Millis(got.Media.ExpiresMS)},
		Warmup: api.Warmup{TotalMS: call.Millis(got.Warmup.TotalMS), GreetingReady: got.Warmup.GreetingReady},
	}
	for step, ms := range got.Warmup.Steps {
		if out.Warmup.Steps == nil {
			out.Warmup.Steps = map[string]call.Millis{}
		}
		out.Warmup.Steps[step] = call.Millis(ms)
	}
	return &claimOutput{out}, nil
}

func attempts(asks []claim.Attempt) []api.ClaimAttempt {
	out := []api.ClaimAttempt{}
	for _, a := range asks {
		out = append(out, api.ClaimAttempt{Phase: string(a.Phase), Bot: a.BotID, Answer: a.Answer, MS: call.Millis(a.MS), Code: a.Code, Detail: a.Detail})
	}
	return out
}

// refused is the problem of a claim that got no bot.
func (s *Server) refused(ctx context.Context, err error) error {
	r, ok := errors.AsType[*claim.Refused](err)
	switch {
	case !ok && errors.Is(err, context.DeadlineExceeded):
		return problem{again(api.CodeClaimTimeout, fmt.Sprintf("no bot was ready within %v", claimIn), time.Second)}
	case !ok && !s.cfg.NC.IsConnected():
		return fail(ctx, fmt.Errorf("%w: %w", api.ErrUnavailable, err), api.CodeUnavailable)
	case !ok:
		return fail(ctx, err, api.CodeUnavailable)
	}
	p := again(r.Code, short(r.Detail), retryIn(r.Code))
	if r.CallsFault {
		p = api.NewProblem(api.CodeCallRejected, short(r.Detail))
		p.Reason = short(r.Code)
	}
	p.Attempts = attempts(r.Attempts)
	if r.Counts != nil {
		c := api.Counts(*r.Counts)
		p.Counts = &c
		if p.Detail == "" {
			p.Detail = fmt.Sprintf("%s: %d bots, %d seats: %d idle, %d claimed, %d live", r.Region, c.Bots, c.Seats, c.Idle, c.Claimed, c.Live)
		}
	}
	return problem{p}
}

// retryIn is when it is worth asking again.
func retryIn(code string) time.Duration {
	switch code {
	case claim.CodeBotsBusy, claim.CodeClaimTimeout:
		return time.Second
	}
	return 5 * time.Second
}

// release tells every bot that has the call, or the one that is named.
func (s *Server) release(ctx context.Context, in *releaseInput) (*releaseOutput, error) {
	if err := bound(ctx); err != nil {
		return nil, err
	}
	var b api.Release
	if in.Body != nil {
		b = *in.Body
	}
	if wire.CheckToken(in.ID) != nil || b.Bot != "" && wire.CheckToken(b.Bot) != nil {
		return nil, problem{api.NewProblem(api.CodeClaimNotFound, "")}
	}
	bots := []string{b.Bot}
	if b.Bot == "" {
		bots = s.holders(in.ID)
	}
	freed := false
	for _, id := range bots {
		ok, err := s.free(ctx, id, wire.Command{CallID: in.ID, Reason: b.Reason})
		if err != nil {
			return nil, err
		}
		freed = freed || ok
	}
	if !freed {
		return nil, problem{api.NewProblem(api.CodeClaimNotFound, "")}
	}
	return &releaseOutput{}, nil
}

// holders are the bots that have a call, as far as the roster knows.
func (s *Server) holders(callID string) (ids []string) {
	for _, b := range s.cfg.Roster.Bots(time.Now()) {
		for _, seat := range b.Beat.Seats {
			if seat.CallID == callID {
				ids = append(ids, b.Beat.BotID)
				break
			}
		}
	}
	return ids
}

// free reports whether the bot had the call. A bot that is gone has none.
func (s *Server) free(ctx context.Context, bot string, cmd wire.Command) (bool, error) {
	answer, err := s.tell(ctx, bot, wire.VerbRelease, cmd)
	if err != nil {
		if p, ok := errors.AsType[problem](err); ok && p.Code == api.CodeBotNotFound {
			return false, nil
		}
		return false, err
	}
	return answer.OK, nil
}
