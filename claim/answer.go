package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	States(into []wire.SeatState) []wire.SeatState
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
	nc      *nats.Conn
	seats   Seats
	bot     Bot
	cfg     AnswererConfig
	moved   <-chan struct{}
	look    chan struct{} // the offers may have to change although no seat did
	inbox   string
	offers  *offers          // owned by Run
	states  []wire.SeatState // owned by Run: of the seats, when last looked at
	running sync.WaitGroup   // warm-ups

	// deciding is held while one ask is decided, so that the questions and the
	// taking of the seat are one step. Nothing waits in that time.
	deciding sync.Mutex

	mu      sync.Mutex // guards what follows; taken after deciding, never with a talk's lock
	stopped bool
	talks   map[string]*talk // claim ID → its conversation; an assigned one stays until its seat is taken again
	byReply map[string]*talk // token of the inbox → its conversation
	bySeat  map[int]*talk    // seat → its last conversation
	next    uint64
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
	a := &Answerer{
		nc: nc, seats: seats, bot: bot, cfg: cfg, moved: seats.Watch(), look: make(chan struct{}, 1), inbox: nc.NewInbox(),
		talks: map[string]*talk{}, byReply: map[string]*talk{}, bySeat: map[int]*talk{},
	}
	var err error
	a.offers, err = newOffers(nc, cfg.Region, cfg.Pool, a.answer)
	return a, err
}

// Run offers idle seats and answers claims until ctx ends; then it withdraws
// every offer and ends what is not assigned yet. Calls that are assigned are not
// its business any more.
func (a *Answerer) Run(ctx context.Context) error {
	subj, err := wire.Bot(a.cfg.Identity.BotID, wire.VerbClaim)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	inbox, err := a.nc.Subscribe(a.inbox+".*", a.control)
	if err != nil {
		return fmt.Errorf("claim: subscribe: %w", err)
	}
	defer func() { _ = inbox.Unsubscribe() }()
	// Unlike an offer it hears more than one ask, and must not wait for a warm-up.
	own, err := a.nc.Subscribe(subj, func(m *nats.Msg) { go a.answer(m, -1) })
	if err != nil {
		return fmt.Errorf("claim: subscribe: %w", err)
	}
	defer func() { _ = own.Unsubscribe() }()
	defer a.stop()
	var retry <-chan time.Time // set while an offer could not be made
	for {
		if a.sync() {
			retry = nil
		} else if retry == nil {
			retry = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.moved:
		case <-a.look:
		case <-a.cfg.Changed:
		case <-retry:
			retry = nil
		}
	}
}

// stop takes no ask any more, ends the conversations and waits for the warm-ups.
func (a *Answerer) stop() {
	for seat := range a.offers.bySeat {
		a.offers.withdraw(seat)
	}
	a.mu.Lock()
	a.stopped = true
	talks := slices.Collect(maps.Values(a.talks))
	a.mu.Unlock()
	for _, t := range talks {
		t.end(ErrStopped)
	}
	a.running.Wait()
}

// Release ends the conversation of a call, of this claim unless that is empty, and
// reports whether it did: then the seat is free. False means that there is none, or
// that its seat is assigned: the release is the bot's to carry out.
func (a *Answerer) Release(callID, claimID string) bool {
	a.mu.Lock()
	var of []*talk // of one call may be another, which is over
	for _, t := range a.talks {
		if t.req.CallID == callID && (claimID == "" || claimID == t.req.ClaimID) {
			of = append(of, t)
		}
	}
	a.mu.Unlock()
	return slices.ContainsFunc(of, func(t *talk) bool { return t.end(ErrReleased) })
}

// answer answers one ask, with the seat whose offer it came by or -1. It warms up
// where it runs: on the goroutine of an offer, which has nothing more to deliver.
func (a *Answerer) answer(m *nats.Msg, prefer int) {
	if t := a.respond(m, prefer); t != nil {
		t.begin()
		return
	}
	a.lookAgain() // the offer is used up, and its seat may be idle still
}

// respond decides about an ask. It returns the conversation that begins with it;
// with nil, all that there is to say was said.
func (a *Answerer) respond(m *nats.Msg, prefer int) *talk {
	if m.Reply == "" {
		return nil // nobody to answer: a publish by mistake
	}
	req, err := wire.Decode[wire.ClaimRequest](m.Data)
	if err != nil {
		a.reply(m.Reply, "", unreadable(err))
		return nil
	}
	t, fresh, refusal := a.decide(&req, m.Reply, prefer)
	switch {
	case refusal != nil:
		refusal.ClaimID = req.ClaimID
		a.reply(m.Reply, "", refusal)
	case t == nil: // stopped
	case fresh:
		return t
	default:
		t.again(m.Reply)
	}
	return nil
}

// unreadable is the answer to what is no request. One of a newer version is not
// the call's fault: another bot may speak it.
func unreadable(err error) *wire.Reply {
	r := &wire.Reply{Status: wire.Rejected, ClaimID: "unknown", Code: "bad_request", Detail: err.Error()}
	if errors.Is(err, wire.ErrVersion) {
		r.Status, r.Code = wire.Failed, "version"
	}
	return r
}

// decide asks the questions in the package comment's order and takes the seat, in
// one step. It returns the claim's conversation, fresh or not, or a refusal.
func (a *Answerer) decide(req *wire.ClaimRequest, to string, prefer int) (t *talk, fresh bool, refusal *wire.Reply) {
	a.deciding.Lock()
	defer a.deciding.Unlock()
	if t := a.talkOf(req.ClaimID); t != nil {
		return t, false, nil
	}
	if r := a.bot.Closed(); r != nil {
		return nil, false, r
	}
	session, r := a.bot.Begin(*req)
	if r != nil {
		return nil, false, r
	}
	seat, again, ok := a.seats.Take(time.Now(), req.ClaimID, req.CallID, prefer)
	if !ok || again { // again: its last conversation is just ending
		session.Drop(ErrBusy)
		return nil, false, a.busy()
	}
	t = newTalk(a, req, seat, session, to)
	if !a.add(t) {
		a.seats.Move(time.Now(), seat, req.ClaimID, wire.SeatIdle)
		session.Drop(ErrStopped)
		return nil, false, nil
	}
	return t, true, nil
}

// talkOf is the conversation of a claim that still has its seat.
func (a *Answerer) talkOf(claimID string) *talk {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.talks[claimID]
	if t == nil {
		return nil
	}
	if _, held := a.seats.Holds(t.seat, claimID); !held {
		return nil
	}
	return t
}

// add notes a new conversation; what its seat had before is forgotten. It refuses
// after the stop.
func (a *Answerer) add(t *talk) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	if old := a.bySeat[t.seat]; old != nil {
		a.forgetLocked(old)
	}
	a.next++
	t.token = strconv.FormatUint(a.next, 36)
	a.talks[t.req.ClaimID], a.byReply[t.token], a.bySeat[t.seat] = t, t, t
	return true
}

func (a *Answerer) forget(t *talk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetLocked(t)
}

func (a *Answerer) forgetLocked(t *talk) {
	if a.talks[t.req.ClaimID] == t {
		delete(a.talks, t.req.ClaimID)
	}
	delete(a.byReply, t.token)
	if a.bySeat[t.seat] == t {
		delete(a.bySeat, t.seat)
	}
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
	a.mu.Lock()
	t := a.byReply[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]]
	a.mu.Unlock()
	if t == nil {
		return // over already
	}
	if noResponders(m) {
		t.end(ErrAskerGone)
		return
	}
	c, err := wire.Decode[wire.Control](m.Data)
	if err != nil || c.ClaimID != t.req.ClaimID {
		return // a foreign message; the deadlines decide
	}
	switch c.Say {
	case wire.Confirm:
		t.confirm()
	case wire.Ack:
		t.ack()
	case wire.Withdraw:
		t.end(ErrWithdrawn)
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
