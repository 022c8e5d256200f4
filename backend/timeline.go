package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/cdr"
	"dibs/dispatch"
	"dibs/events"
)

// emitter turns what the dispatcher tells into events. It never blocks: what the
// log has no room for is counted there and lost, the records are not.
func emitter(log *events.Log, zl zerolog.Logger) func(dispatch.Happening) {
	return func(h dispatch.Happening) {
		data, err := json.Marshal(h.Detail)
		if err != nil || len(data) > events.MaxData {
			zl.Warn().Err(err).Str("type", h.Type).Int("bytes", len(data)).Msg("an event's details are left out")
			data = nil
		}
		subject := h.Order.CallID
		if subject == "" {
			subject = "dispatch"
		}
		log.Emit(events.Event{ID: h.ID, Type: h.Type, Subject: subject, At: h.At, Org: h.Order.Org, Region: h.Order.Region, Data: data})
	}
}

// lastLeft reads what the bot of a call left; without it the next one begins anew.
func lastLeft(c *cdr.Checkpoints) func(ctx context.Context, callID string) json.RawMessage {
	return func(ctx context.Context, callID string) json.RawMessage {
		data, err := c.Get(ctx, callID)
		if err != nil {
			return nil
		}
		return data
	}
}

// timeline reads the events of one call.
func timeline(log *events.Log) func(ctx context.Context, callID string, from time.Time, limit int) ([]api.TimelineEntry, error) {
	return func(ctx context.Context, callID string, from time.Time, limit int) ([]api.TimelineEntry, error) {
		es, err := log.Timeline(ctx, callID, from, limit)
		if err != nil {
			return nil, fmt.Errorf("backend: timeline: %w: %w", api.ErrUnavailable, err)
		}
		out := make([]api.TimelineEntry, len(es))
		for i, e := range es {
			var known struct {
				Attempt string `json:"attempt"`
				Bot     string `json:"bot"`
			}
			_ = json.Unmarshal(e.Data, &known) // attempts of a claim are a list; then there is no attempt to name
			out[i] = api.TimelineEntry{At: e.At, Type: e.Type, Attempt: known.Attempt, Bot: known.Bot, Data: e.Data}
		}
		return out, nil
	}
}
