package dispatch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/api"
	"dibs/carrier"
	"dibs/settings"
	"dibs/wire"
)

// How long a carrier's question may wait: for somebody in office, and in all, within
// the carrier's own 15 s. It is put again and again, because whoever heard it may have
// died, or lost the office, with it.
const (
	nobodyIn = 5 * time.Second
	nextIn   = 13 * time.Second
	putAgain = time.Second
)

// Next says how to go on with a call whose media socket has closed while somebody is
// still there. It asks the office, and again for 5 s while nobody is in it.
func (r *Reception) Next(ctx context.Context, attempt string, q carrier.Question) carrier.Instruction {
	do, err := r.Desk.Next(ctx, attempt, q)
	switch {
	case err == nil:
		return do
	case errors.Is(err, api.ErrUnavailable):
		r.Log.Error().Err(err).Str("attempt", attempt).Msg("nobody could say how to go on with a call: it is ended with a sentence")
		say, language := r.Sorry(ctx, q.To, q.From)
		return carrier.Instruction{Say: say, Language: language}
	}
	return carrier.Instruction{} // it has ended, or is none of ours
}

// Sorry is the sentence for a caller whose bot was lost: that of the first of the
// numbers that is ours and has one.
func (r *Reception) Sorry(ctx context.Context, numbers ...string) (say, language string) {
	return Sorry(ctx, r.Numbers, numbers...)
}

// Sorry is the sentence for a caller whose bot was lost: that of the first of the
// numbers that is ours and has one.
func Sorry(ctx context.Context, s *settings.Store, numbers ...string) (say, language string) {
	for _, number := range numbers {
		if n, err := s.Number(ctx, number); err == nil && n.Sorry != "" {
			return n.Sorry, n.Language
		}
	}
	return DefaultSorry, ""
}

// Next asks whoever is in office how to go on with a call whose media socket has
// closed while somebody is still there. It takes as long as the claim of another
// bot. [api.ErrUnavailable]: nobody was in office for 5 s, or nobody answered for 13;
// [api.ErrNotFound] and [api.ErrEnded]: there is nothing to go on with.
func (d *Desk) Next(ctx context.Context, attempt string, q carrier.Question) (carrier.Instruction, error) {
	subj, err := wire.Desk(askNext)
	if err != nil {
		return carrier.Instruction{}, err
	}
	data, err := json.Marshal(deskRequest{Attempt: attempt, CarrierID: q.ID, Ask: rand.Text()})
	if err != nil {
		return carrier.Instruction{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, nextIn)
	defer cancel()
	inbox := d.NC.NewInbox() // one for all: the answer to the first may come after the third was put
	answers, err := d.NC.SubscribeSync(inbox)
	if err != nil {
		return carrier.Instruction{}, fmt.Errorf("dispatch: next of %s: %w: %w", attempt, api.ErrUnavailable, err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	give := time.Now().Add(nobodyIn)
	for {
		r, err := d.askInto(ctx, subj, inbox, data, answers)
		switch {
		case err == nil && r.Do != nil:
			return *r.Do, nil
		case err == nil:
			err = fmt.Errorf("%w: the desk's answer says nothing", api.ErrUnavailable)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			continue // it is being worked on, or lost
		}
		if !errors.Is(err, api.ErrUnavailable) || time.Now().After(give) || !sleep(ctx, 100*time.Millisecond) {
			return carrier.Instruction{}, fmt.Errorf("dispatch: next of %s: %w", attempt, err)
		}
	}
}

// askInto puts a question and waits a moment for what comes into the inbox: the answer
// to it, or to one that was put before.
func (d *Desk) askInto(ctx context.Context, subj, inbox string, data []byte, answers *nats.Subscription) (deskReply, error) {
	short, cancel := context.WithTimeout(ctx, putAgain)
	defer cancel()
	err := d.NC.PublishRequest(subj, inbox, data)
	var m *nats.Msg
	if err == nil {
		m, err = answers.NextMsgWithContext(short)
	}
	return read(m, err)
}
