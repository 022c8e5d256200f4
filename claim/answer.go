package claim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/wire"
)

// Why a session ended before its seat was assigned; [Session.Drop] gets one of them.
var (
	ErrBusy        = errors.New("no idle seat")
	ErrUnconfirmed = errors.New("no confirm from the asker")
	ErrWithdrawn   = errors.New("withdrawn by the asker")
	ErrAskerGone   = errors.New("the asker is gone")
	ErrNoAck       = errors.New("no ack from the asker")
	ErrLate        = errors.New("warm-up over its budget")
	ErrReleased    = errors.New("released")
	ErrStopped     = errors.New("the bot stops")
)

// Bot is what the answerer needs of the bot it answers for.
type Bot interface {
	// Closed says why no call is taken now: draining, cordoned, breaker_open; nil
	// when calls are taken. It has no side effects: offers follow it, too.
	Closed() *wire.Reply
	// Begin makes the session of one claim, before a seat is taken. A non-nil reply
	// refuses it.
	Begin(wire.ClaimRequest) (Session, *wire.Reply)
}

// Session is one claim inside the bot until its seat is assigned. Exactly one of
// Assigned and Drop is called, once, and never while Warm runs.
type Session interface {
	// Warm prepares the call in its seat. ctx ends, with the reason as its cause,
	// when the claim is withdrawn, released or late; Warm returns at once then. The
	// reply needs only what a ready tells: Media, Warmup, Providers. An error that is
	// a [*Failure] tells its code.
	Warm(ctx context.Context, seat int) (wire.Reply, error)
	// Assigned hands the seat over: the asker has it and media will come. From here
	// on the session moves the seat itself.
	Assigned()
	// Drop ends the session before it was assigned; what Warm made is to be closed.
	// The seat is free again, or was never this session's ([ErrBusy]).
	Drop(cause error)
}

// Failure is why a warm-up failed, as the asker is told.
type Failure struct {
	Code   string // stable: flow_not_found, provider_refused …
	Detail string // one sentence, safe to show
	// CallsFault says that no other bot would do better: the asker is told rejected,
	// not failed.
	CallsFault bool
	Steps      map[string]wire.Millis
}

func (f *Failure) Error() string { return f.Code + ": " + f.Detail }

// Seats is what the answerer needs of the bot's seat table; [dibs/pool.Seats] has it.
type Seats interface {
	Take(now time.Time, claimID, callID string, prefer int) (seat int, again, ok bool)
	Move(now time.Time, seat int, claimID string, to wire.SeatState) bool
	Holds(seat int, claimID string) (wire.SeatState, bool)
	View(now time.Time) []wire.SeatView
	InUse() wire.InUse
	Watch() <-chan struct{}
}

// AnswererConfig says who answers.
type AnswererConfig struct {
	Identity wire.Reply // BotID, Instance, Revision, Pod: in every reply
	Region   string
	Pool     string

	ConfirmIn time.Duration   // default 1 s
	AckIn     time.Duration   // default 1 s
	WarmIn    time.Duration   // default 8 s, and never more than 1 s less than the asker's window
	Changed   <-chan struct{} // Closed may answer differently now; nil: it never does
	Log       zerolog.Logger
}

// Answerer offers a bot's idle seats and answers for them.
type Answerer struct {
	nc    *nats.Conn
	seats Seats
	bot   Bot
	cfg   AnswererConfig
	moved <-chan struct{}

	asks     chan *nats.Msg // from offers and from the bot's own claim subject
	controls chan *nats.Msg // from askers, to this bot's inbox
	ended    chan *talk
	release  chan releaseAsk
	inbox    string

	// owned by Run
	offers  *offers
	talks   map[string]*talk // claim ID → its conversation
	kept    map[int]*talk    // seat → the conversation that assigned it last, for repeated asks
	byReply map[string]*talk // token of the inbox → its conversation
	next    uint64
	running sync.WaitGroup // conversations
}

type releaseAsk struct {
	callID string
	found  chan *talk
}

// NewAnswerer checks the configuration; Run starts it.
func NewAnswerer(nc *nats.Conn, seats Seats, bot Bot, cfg AnswererConfig) (*Answerer, error) {
	if err := wire.CheckToken(cfg.Identity.BotID); err != nil {
		return nil, fmt.Errorf("claim: bot id: %w", err)
	}
	if cfg.ConfirmIn == 0 {
		cfg.ConfirmIn = time.Second
	}
	if cfg.AckIn == 0 {
		cfg.AckIn = time.Second
	}
	if cfg.WarmIn == 0 {
		cfg.WarmIn = 8 * time.Second
	}
	cfg.Identity.V = wire.Version
	n := seats.InUse().Total
	a := &Answerer{
		nc: nc, seats: seats, bot: bot, cfg: cfg, moved: seats.Watch(),
		asks: make(chan *nats.Msg, 4*n+64), controls: make(chan *nats.Msg, 4*n+64),
		ended: make(chan *talk, 2*n), release: make(chan releaseAsk),
		talks: map[string]*talk{}, kept: map[int]*talk{}, byReply: map[string]*talk{}, inbox: nc.NewInbox(),
	}
	var err error
	a.offers, err = newOffers(nc, cfg.Region, cfg.Pool, a.asks)
	return a, err
}

// Run offers idle seats and answers claims until ctx ends; then it withdraws
// every offer and aborts what is not assigned yet. Calls that are assigned are
// not its business any more.
func (a *Answerer) Run(ctx context.Context) error {
	subj, err := wire.Bot(a.cfg.Identity.BotID, wire.VerbClaim)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	own, err := a.nc.ChanSubscribe(subj, a.asks)
	if err != nil {
		return fmt.Errorf("claim: subscribe: %w", err)
	}
	defer func() { _ = own.Unsubscribe() }()
	inbox, err := a.nc.ChanSubscribe(a.inbox+".*", a.controls)
	if err != nil {
		return fmt.Errorf("claim: subscribe: %w", err)
	}
	defer func() { _ = inbox.Unsubscribe() }()
	talking, stop := context.WithCancelCause(ctx)
	defer func() {
		stop(ErrStopped)
		for len(a.talks) > 0 {
			a.forget(<-a.ended)
		}
		a.running.Wait()
	}()
	var retry <-chan time.Time // set while an offer could not be made
	for {
		if a.sync() {
			retry = nil
		} else if retry == nil {
			retry = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
			for seat := range a.offers.bySeat {
				a.offers.withdraw(seat)
			}
			return nil
		case m := <-a.asks:
			a.answer(talking, m)
		case m := <-a.controls:
			a.control(m)
		case t := <-a.ended:
			a.forget(t)
		case r := <-a.release:
			r.found <- a.find(r.callID)
		case <-a.moved:
		case <-a.cfg.Changed:
		case <-retry:
			retry = nil
		}
	}
}

// sync makes the offers what they should be: a pair for every idle seat of a bot
// that takes calls, none for the others. It reports whether it could.
func (a *Answerer) sync() bool {
	open, all := a.bot.Closed() == nil, true
	for seat, v := range a.seats.View(time.Now()) {
		switch {
		case v.State != wire.SeatIdle || !open:
			a.offers.withdraw(seat)
		case !a.offers.complete(seat):
			a.offers.withdraw(seat)
			if err := a.offers.make(seat); err != nil {
				all = false
				a.cfg.Log.Warn().Err(err).Int("seat", seat).Msg("seat not offered")
			}
		}
	}
	return all
}

// Release aborts the conversation of a call and reports whether it ended without
// an assignment: then the seat is free. False means that there is none, or that
// its seat was assigned in this very moment: the release is the bot's to carry
// out. It waits at most until ctx ends.
func (a *Answerer) Release(ctx context.Context, callID string) bool {
	ask := releaseAsk{callID: callID, found: make(chan *talk, 1)}
	select {
	case a.release <- ask:
	case <-ctx.Done():
		return false
	}
	t := <-ask.found
	if t == nil {
		return false
	}
	t.tell(ErrReleased)
	select {
	case <-t.over:
		return !t.assigned
	case <-ctx.Done():
		return false
	}
}

func (a *Answerer) find(callID string) *talk {
	for _, t := range a.talks {
		if t.req.CallID == callID {
			return t
		}
	}
	return nil
}

// answer decides about one ask. The order of the questions is DESIGN section 4's.
func (a *Answerer) answer(ctx context.Context, m *nats.Msg) {
	prefer := a.offers.used(m.Sub)
	if m.Reply == "" {
		return // nobody to answer: a publish by mistake
	}
	req, err := wire.Decode[wire.ClaimRequest](m.Data)
	if err != nil {
		a.reply(m.Reply, "", &wire.Reply{Status: wire.Rejected, ClaimID: orUnknown(req.ClaimID), Code: "bad_request", Detail: err.Error()})
		return
	}
	a.forgetEnded()
	if t := a.talks[req.ClaimID]; t != nil { // asked again: the same answer, to the new inbox
		t.again(m.Reply)
		return
	}
	for _, t := range a.kept {
		if _, held := a.seats.Holds(t.seat, req.ClaimID); held && t.req.ClaimID == req.ClaimID {
			t.repeat(m.Reply)
			return
		}
	}
	refuse := func(r *wire.Reply) {
		r.ClaimID = req.ClaimID
		a.reply(m.Reply, "", r)
	}
	if r := a.bot.Closed(); r != nil {
		refuse(r)
		return
	}
	session, r := a.bot.Begin(req)
	if r != nil {
		refuse(r)
		return
	}
	seat, _, ok := a.seats.Take(time.Now(), req.ClaimID, req.CallID, prefer)
	if !ok {
		session.Drop(ErrBusy)
		refuse(a.busy())
		return
	}
	a.next++
	t := &talk{a: a, req: req, seat: seat, session: session, token: strconv.FormatUint(a.next, 36), to: m.Reply,
		said: make(chan error, 4), more: make(chan string, 4), over: make(chan struct{})}
	a.talks[req.ClaimID], a.byReply[t.token] = t, t
	t.reply(&wire.Reply{Status: wire.Accepted})
	a.running.Go(func() { t.run(ctx) })
}

func (a *Answerer) busy() *wire.Reply {
	r := &wire.Reply{Status: wire.Busy, RetryAfterMS: wire.ToMillis(Pause), Seats: a.seats.InUse()}
	for _, v := range a.seats.View(time.Now()) {
		if v.CallID != "" {
			r.Busy = &wire.BusyWith{CallID: v.CallID, SinceMS: v.ForMS}
			break
		}
	}
	return r
}

// control hands an asker's word to its conversation.
func (a *Answerer) control(m *nats.Msg) {
	t := a.byReply[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]]
	if t == nil {
		return // over already
	}
	if noResponders(m) {
		t.tell(ErrAskerGone)
		return
	}
	c, err := wire.Decode[wire.Control](m.Data)
	if err != nil || c.ClaimID != t.req.ClaimID {
		return // a foreign message; the deadlines decide
	}
	switch c.Say {
	case wire.Confirm:
		t.tell(errConfirmed)
	case wire.Ack:
		t.tell(errAcked)
	case wire.Withdraw:
		t.tell(ErrWithdrawn)
	}
}

// forgetEnded forgets the conversations that are over by now.
func (a *Answerer) forgetEnded() {
	for {
		select {
		case t := <-a.ended:
			a.forget(t)
		default:
			return
		}
	}
}

func (a *Answerer) forget(t *talk) {
	delete(a.talks, t.req.ClaimID)
	delete(a.byReply, t.token)
	if !t.assigned {
		return
	}
	a.kept[t.seat] = t
	for {
		select {
		case to := <-t.more: // asked again in the moment it was assigned
			t.repeat(to)
		default:
			return
		}
	}
}

// reply publishes one reply; back is the subject on which its answer is heard.
func (a *Answerer) reply(to, back string, r *wire.Reply) {
	id := &a.cfg.Identity
	r.V, r.BotID, r.Instance, r.Revision, r.Pod = wire.Version, id.BotID, id.Instance, id.Revision, id.Pod
	data, err := wire.Encode(*r)
	if err != nil { // params too large, say: the asker must hear something
		a.cfg.Log.Error().Err(err).Str("status", string(r.Status)).Msg("reply cannot be encoded")
		data, err = wire.Encode(wire.Reply{V: wire.Version, Status: wire.Failed, ClaimID: r.ClaimID, BotID: id.BotID, Code: "reply_invalid", Detail: err.Error()})
		if err != nil {
			return
		}
	}
	if err := a.nc.PublishMsg(&nats.Msg{Subject: to, Reply: back, Data: data}); err != nil {
		a.cfg.Log.Warn().Err(err).Msg("reply not sent")
	}
}

func noResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header != nil && m.Header.Get("Status") == "503"
}

func orUnknown(id string) string {
	if wire.CheckToken(id) != nil {
		return "unknown"
	}
	return id
}
