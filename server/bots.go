package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/nats-io/nats.go"

	"dibs/api"
	"dibs/call"
	"dibs/pool"
	"dibs/wire"
)

type (
	botsInput struct {
		Region string `query:"region" maxLength:"128" doc:"Only this region's."`
		State  string `query:"state" maxLength:"32" doc:"Only bots in this state, or with a seat in it."`
	}
	botInput struct {
		ID string `path:"id" doc:"The bot's id."`
	}
	tellInput struct {
		ID   string      `path:"id" doc:"The bot's id."`
		Body *api.Reason // nobody has to say why
	}
	botsOutput struct{ Body api.BotPage }
	botOutput  struct{ Body api.Bot }
)

func (s *Server) botRoutes() {
	register(s, Viewer, huma.Operation{
		OperationID: "list-bots", Method: http.MethodGet, Path: "/v1/bots", Tags: []string{"bots"}, Summary: "List bots, by region, pool and id",
	}, []string{api.CodeForbidden, api.CodeInvalidField, api.CodeUnknownField}, s.bots)
	register(s, Viewer, huma.Operation{
		OperationID: "get-bot", Method: http.MethodGet, Path: "/v1/bots/{id}", Tags: []string{"bots"}, Summary: "Look a bot up",
	}, []string{api.CodeForbidden, api.CodeBotNotFound}, s.bot)
	for _, c := range []struct{ verb, summary string }{
		{wire.VerbCordon, "Let a bot take no new calls"},
		{wire.VerbUncordon, "Let a bot take calls again"},
		{wire.VerbDrain, "Let a bot finish its calls and leave"},
	} {
		register(s, Operator, huma.Operation{
			OperationID: c.verb + "-bot", Method: http.MethodPost, Path: "/v1/bots/{id}/" + c.verb, Tags: []string{"bots"}, Summary: c.summary,
		}, []string{api.CodeForbidden, api.CodeBotNotFound, api.CodeBotLost, api.CodeBotRefused, api.CodeUnknownField, api.CodeBotSilent, api.CodeUnavailable},
			func(ctx context.Context, in *tellInput) (*botOutput, error) { return s.command(ctx, c.verb, in) })
	}
}

func (s *Server) bots(ctx context.Context, in *botsInput) (*botsOutput, error) {
	if err := bound(ctx); err != nil {
		return nil, err
	}
	now := time.Now()
	out := &botsOutput{api.BotPage{Bots: []api.Bot{}}}
	var regions []string
	for _, b := range s.cfg.Roster.Bots(now) {
		if in.Region != "" && b.Beat.Region != in.Region {
			continue
		}
		if !slices.Contains(regions, b.Beat.Region) {
			regions = append(regions, b.Beat.Region)
			add(&out.Body.Counts, s.cfg.Roster.Counts(now, b.Beat.Region, ""))
		}
		view := botOf(b)
		if in.State == "" || view.State == in.State || slices.ContainsFunc(view.Seats, func(s api.Seat) bool { return s.State == in.State }) {
			out.Body.Bots = append(out.Body.Bots, view)
		}
	}
	return out, nil
}

func add(sum *api.Counts, c wire.Counts) {
	sum.Bots += c.Bots
	sum.Seats += c.Seats
	sum.Idle += c.Idle
	sum.Claimed += c.Claimed
	sum.Live += c.Live
	sum.Draining += c.Draining
	sum.Broken += c.Broken
	sum.Stuck += c.Stuck
}

func (s *Server) bot(ctx context.Context, in *botInput) (*botOutput, error) {
	if err := bound(ctx); err != nil {
		return nil, err
	}
	b, ok := s.listed(in.ID)
	if !ok {
		return nil, problem{api.NewProblem(api.CodeBotNotFound, "")}
	}
	return &botOutput{botOf(b)}, nil
}

// listed is a bot that was heard within the hour.
func (s *Server) listed(id string) (pool.Bot, bool) {
	all := s.cfg.Roster.Bots(time.Now())
	i := slices.IndexFunc(all, func(b pool.Bot) bool { return b.Beat.BotID == id })
	if i < 0 {
		return pool.Bot{}, false
	}
	return all[i], true
}

// command has a bot do something and answers how it stands then: the bot says so
// itself, its next beat may take 100 ms more.
func (s *Server) command(ctx context.Context, verb string, in *tellInput) (*botOutput, error) {
	if err := bound(ctx); err != nil {
		return nil, err
	}
	cmd := wire.Command{}
	if in.Body != nil {
		cmd.Reason = in.Body.Reason
	}
	answer, err := s.tell(ctx, in.ID, verb, cmd)
	if err != nil {
		return nil, err
	}
	if !answer.OK {
		return nil, problem{api.NewProblem(api.CodeBotRefused, short(answer.Code+": "+answer.Detail))}
	}
	s.cfg.Log.Info().Str("request", visitOf(ctx).id).Str("token", who(ctx).Name).Str("bot", in.ID).Str("verb", verb).Msg("commanded")
	b, ok := s.listed(in.ID)
	if !ok { // it has just started
		b.Beat.BotID, b.Beat.Seats = in.ID, []wire.SeatView{}
	}
	switch verb {
	case wire.VerbCordon, wire.VerbUncordon:
		b.Beat.Cordoned = verb == wire.VerbCordon
	case wire.VerbDrain:
		b.Beat.Draining = true
	}
	return &botOutput{botOf(b)}, nil
}

// tell is one command and its answer.
func (s *Server) tell(ctx context.Context, id, verb string, cmd wire.Command) (wire.Answer, error) {
	if wire.CheckToken(id) != nil {
		return wire.Answer{}, problem{api.NewProblem(api.CodeBotNotFound, "")}
	}
	short, cancel := context.WithTimeout(ctx, botIn)
	defer cancel()
	answer, err := pool.Tell(short, s.cfg.NC, id, verb, cmd)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, nats.ErrNoResponders):
		if _, ok := s.listed(id); ok && verb != wire.VerbRelease {
			return wire.Answer{}, problem{api.NewProblem(api.CodeBotLost, "")}
		}
		return wire.Answer{}, problem{api.NewProblem(api.CodeBotNotFound, "")}
	case !s.cfg.NC.IsConnected():
		return wire.Answer{}, fail(ctx, fmt.Errorf("%w: %w", api.ErrUnavailable, err), api.CodeUnavailable)
	}
	return wire.Answer{}, fail(ctx, fmt.Errorf("%w: %w", api.ErrUnavailable, err), api.CodeBotSilent)
}

// botOf is a bot as it is shown.
func botOf(b pool.Bot) api.Bot {
	t := b.Beat
	out := api.Bot{
		ID: t.BotID, Instance: t.Instance, Revision: t.Revision, Region: t.Region, Pool: t.Pool, Pod: api.Pod(t.Pod),
		State: stateOf(b), Seats: []api.Seat{}, Cordoned: t.Cordoned, Draining: t.Draining, NotReady: t.NotReady, Flows: t.Flows,
		RSS: t.RSS, Calls: t.Calls, UptimeMS: call.Millis(t.UptimeMS), HeardMS: call.ToMillis(b.Heard),
		Minute: api.Minute{
			Ended: t.Minute.Ended, Failed: t.Minute.Failed, Errors: t.Minute.Errors, Turns: t.Minute.Turns,
			FirstAudioP95MS: call.Millis(t.Minute.FirstAudioP95MS),
		},
	}
	if br := t.Breaker; br != nil {
		out.Breaker = &api.Breaker{State: br.State, Failures: br.Failures, LastError: br.LastError, RetryMS: call.Millis(br.RetryMS)}
	}
	for _, seat := range t.Seats {
		out.Seats = append(out.Seats, api.Seat{State: string(seat.State), ForMS: call.Millis(seat.ForMS), Call: seat.CallID, Stuck: seat.Stuck})
	}
	return out
}

// stateOf is a bot in one word: the worst that is wrong with it, or what its busiest
// seat does.
func stateOf(b pool.Bot) string {
	t := b.Beat
	switch {
	case b.Heard > pool.NotCapacity:
		return api.BotLost
	case t.Draining:
		return api.BotDraining
	case t.Cordoned:
		return api.BotCordoned
	case t.Breaker != nil && t.Breaker.State == "open":
		return api.BotFailing
	case t.NotReady != "":
		return api.BotNotReady
	case slices.ContainsFunc(t.Seats, func(s wire.SeatView) bool { return s.Stuck }):
		return api.BotStuck
	}
	for _, state := range []wire.SeatState{wire.SeatLive, wire.SeatWrapup, wire.SeatAssigned, wire.SeatWarming, wire.SeatClaimed} {
		if slices.ContainsFunc(t.Seats, func(s wire.SeatView) bool { return s.State == state }) {
			return string(state)
		}
	}
	return string(wire.SeatIdle)
}
