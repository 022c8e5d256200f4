package bot

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"dibs/breaker"
	"dibs/claim"
	"dibs/media"
	"dibs/warmup"
	"dibs/wire"
)

// session is one claim and then one call in one seat. It ends once, by finish
// or Drop, whatever comes first.
type session struct {
	b   *Bot
	req wire.ClaimRequest
	try *breaker.Try
	had sync.Once // the try has had its verdict

	// set by Warm, before anybody else can see the session
	seat     int
	prepared *warmup.Prepared
	media    wire.Media // where the call is expected

	mu    sync.Mutex
	over  bool
	live  bool
	timer *time.Timer // media must come
}

var errCallHere = &claim.Failure{Code: "call_already_here", Detail: "this bot has the call already"}

// Warm prepares the call; see [claim.Session].
func (s *session) Warm(ctx context.Context, seat int) (wire.Reply, error) {
	s.seat = seat
	p, err := s.b.warmer.Prepare(ctx, warmup.Call{
		CallID:    s.req.CallID,
		Flow:      warmup.FlowRef{ID: s.req.Flow.ID, Version: s.req.Flow.Version, URL: s.req.Flow.URL, Inline: s.req.Flow.Inline},
		Greeting:  warmup.Greeting{Text: s.req.Greeting.Text, Locale: s.req.Greeting.Locale, Voice: s.req.Greeting.Voice},
		Providers: s.req.Providers,
		Tag:       s.b.tag(s.req),
	})
	if err != nil {
		return wire.Reply{}, s.failed(err)
	}
	s.verdict(func() { s.try.Done(nil) })
	s.prepared = p
	maxCall := s.b.cfg.MaxCall
	if asked := s.req.MaxCallMS.Duration(); asked > 0 {
		maxCall = min(maxCall, asked)
	}
	path, err := s.b.media.Open(media.Call{
		ID: s.req.CallID, Greeting: p.Greeting, MaxCall: maxCall,
		Talk: s.talk(), Connected: s.connected, Ended: s.ended, FirstAudio: s.b.minute.firstAudio,
	})
	if err != nil {
		p.Close()
		s.prepared = nil
		if errors.Is(err, media.ErrClosed) {
			return wire.Reply{}, claim.ErrStopped
		}
		return wire.Reply{}, errCallHere
	}
	s.media = wire.Media{URL: s.b.cfg.MediaURL + path, Params: p.Params, ExpiresMS: wire.ToMillis(s.mediaIn())}
	// From here on a release finds it: the asker's ack may come at any moment.
	s.b.keep(s)
	return wire.Reply{
		Media:     s.media,
		Warmup:    wire.Warmup{Steps: millis(p.Report.Millis()), GreetingReady: len(p.Greeting) > 0},
		Providers: p.Providers,
	}, nil
}

func millis(in map[string]int64) map[string]wire.Millis {
	out := make(map[string]wire.Millis, len(in))
	for k, v := range in {
		out[k] = wire.Millis(v)
	}
	return out
}

// failed turns a warm-up's error into what the asker is told, and counts it.
func (s *session) failed(err error) error {
	if warmup.Counts(err) {
		s.verdict(func() { s.try.Done(err) })
		s.b.minute.failed()
	} else {
		s.verdict(s.try.Forget)
	}
	e, ok := errors.AsType[*warmup.Error](err)
	if !ok {
		return &claim.Failure{Code: "warmup_failed", Detail: "warm-up failed"}
	}
	return &claim.Failure{Code: string(e.Code), Detail: e.Error(), CallsFault: e.Permanent, Steps: millis(e.Report.Millis())}
}

// verdict ends the try; only the first time counts.
func (s *session) verdict(end func()) {
	s.had.Do(func() {
		end()
		s.b.tried()
	})
}

func (s *session) mediaIn() time.Duration {
	if asked := s.req.MediaMS.Duration(); asked > 0 {
		return asked
	}
	return s.b.cfg.MediaIn
}

func (s *session) talk() func(context.Context, *media.Stream) error {
	if s.b.cfg.Talk == nil {
		return nil
	}
	return func(ctx context.Context, st *media.Stream) error {
		return s.b.cfg.Talk(ctx, &Call{Request: s.req, Prepared: s.prepared, Stream: st})
	}
}

// Assigned starts the wait for media; see [claim.Session].
func (s *session) Assigned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return // its media has come and gone before the ack
	}
	if !s.live {
		s.timer = time.AfterFunc(s.mediaIn(), func() { s.finish("media_never_came") })
	}
}

// Drop ends the session before it was assigned; see [claim.Session].
func (s *session) Drop(cause error) {
	s.verdict(s.try.Forget) // does nothing when the warm-up was counted
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	if errors.Is(cause, claim.ErrReleased) {
		s.b.forget(s, "released") // who asks for it later must not take it for lost
	} else {
		s.b.unkeep(s)
	}
	s.tidy()
}

func (s *session) connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.live = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.b.seats.Move(time.Now(), s.seat, s.req.ClaimID, wire.SeatLive)
}

// ended is the end of the media, and with it of the call.
func (s *session) ended(r media.Report) {
	if s.end() {
		s.b.minute.ended(r.Reason != media.Stopped && r.Reason != media.HungUp && r.Reason != media.PeerClosed)
		s.b.seats.Move(time.Now(), s.seat, s.req.ClaimID, wire.SeatWrapup)
		s.prepared.Close()
		s.leave(string(r.Reason))
	}
}

// finish ends the call from this side: its media did not come, or it was
// released. It reports whether this is what ended it.
func (s *session) finish(why string) bool {
	if !s.end() {
		return false
	}
	s.b.seats.Move(time.Now(), s.seat, s.req.ClaimID, wire.SeatWrapup)
	s.leave(why)
	s.tidy()
	return true
}

// end marks the session as over, once.
func (s *session) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return true
}

// tidy closes what the session has open. No lock is held: media may call ended.
// Providers get a goodbye that takes its time; neither the seat nor whoever asked
// for the end waits for it.
func (s *session) tidy() {
	if s.prepared != nil {
		s.b.media.Close(s.req.CallID)
		s.b.closing.Go(s.prepared.Close)
	}
}

// leave frees the seat.
func (s *session) leave(why string) {
	s.b.forget(s, why)
	s.b.seats.Move(time.Now(), s.seat, s.req.ClaimID, wire.SeatIdle)
	s.b.cfg.Log.Info().Str("call", s.req.CallID).Str("why", why).Msg("seat idle")
}

// tag is the proof a call's metadata asks for, when this bot gives proofs.
func (b *Bot) tag(req wire.ClaimRequest) string {
	if !b.cfg.Tag || len(req.Metadata) == 0 {
		return ""
	}
	var m struct {
		Tag string `json:"dibs_tag"`
	}
	if json.Unmarshal(req.Metadata, &m) != nil {
		return ""
	}
	return m.Tag
}
