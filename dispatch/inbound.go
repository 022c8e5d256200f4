package dispatch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/call"
	"dibs/carrier"
	"dibs/cdr"
	"dibs/claim"
	"dibs/events"
	"dibs/pool"
	"dibs/settings"
	"dibs/wire"
)

// InboundIn is how long everything about a call that comes in may take, so that the
// carrier has its answer well within its own limit for a webhook, 15 s.
const InboundIn = 8 * time.Second

// DefaultSorry is what a caller hears whose bot was lost, when no other is free and
// nobody has written another sentence.
const DefaultSorry = "We are sorry, the line was interrupted. Goodbye."

// Admit decides whether a call may come in: the providers that were chosen for it,
// or why not. It must be quick.
type Admit func(ctx context.Context, o call.Order) (providers map[string]string, refused string)

// Reception takes the calls that come in, on every replica: it finds each one a bot,
// stores its record once, and hands it over to whoever is in office. A question that
// is repeated, here or at another replica, is about the same call: its id follows
// from the carrier's. Safe for concurrent use.
type Reception struct {
	NC      *nats.Conn
	Desk    *Desk
	Asker   *claim.Asker
	Numbers *settings.Store
	Carrier carrier.Carrier

	PublicURL string          // as in [Config]
	Admit     Admit           // nil: everybody may come in
	Emit      func(Happening) // nil: nobody listens
	Log       zerolog.Logger

	mu     sync.Mutex
	asking map[string]*asking // call ID → the question that is being answered, or was just now
}

// asking is one question and its answer.
type asking struct {
	done chan struct{}
	do   carrier.Instruction
}

// remembered is how long an answer is remembered for the same question here.
const remembered = time.Minute

// handOverIn is how long after its record the office is told of a call.
const handOverIn = 100 * time.Millisecond

// inboundPrefix begins the id of every call that came in.
const inboundPrefix = "in_"

// InboundCall is the id of the call that a carrier knows under id.
func (r *Reception) InboundCall(id string) string {
	sum := sha256.Sum256([]byte(r.Carrier.Name() + "/" + id))
	return inboundPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])[:26])
}

// Attempt is the only attempt of that call, which status events are about.
func (r *Reception) Attempt(id string) string { return call.AttemptID(r.InboundCall(id), 1) }

// Answer says what the carrier is to do with a call that comes in.
func (r *Reception) Answer(ctx context.Context, q carrier.Question) carrier.Instruction {
	id := r.InboundCall(q.ID)
	r.mu.Lock()
	a := r.asking[id]
	if a == nil {
		a = &asking{done: make(chan struct{})}
		if r.asking == nil {
			r.asking = map[string]*asking{}
		}
		r.asking[id] = a
		// Not ended with the request: a carrier that asks again gets this answer.
		go r.answer(context.WithoutCancel(ctx), id, q, a)
	}
	r.mu.Unlock()
	select {
	case <-a.done:
		return a.do
	case <-ctx.Done():
		return carrier.Instruction{Busy: true} // nobody reads it
	}
}

func (r *Reception) answer(ctx context.Context, id string, q carrier.Question, a *asking) {
	ctx, cancel := context.WithTimeout(ctx, InboundIn)
	defer cancel()
	a.do = r.decide(ctx, id, q)
	close(a.done)
	time.AfterFunc(remembered, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.asking, id)
	})
}

// decide answers a question that this process has not answered yet.
func (r *Reception) decide(ctx context.Context, id string, q carrier.Question) carrier.Instruction {
	n, err := r.Numbers.Number(ctx, q.To)
	if err != nil {
		r.Log.Warn().Err(err).Str("call", id).Str("number", call.MaskNumber(q.To)).Msg("a call to a number that is not ours: refused")
		return carrier.Instruction{Busy: true}
	}
	// Whether the call is known already is asked beside the claim: nearly always it is
	// not, and the caller waits for each round trip.
	known := make(chan call.Record, 1)
	taking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(known)
		if rec, _, err := r.Desk.Records.Get(ctx, id); err == nil {
			known <- rec
			stop()
		}
	}()
	t := r.take(taking, r.order(id, n, q), n, q)
	if old, ok := <-known; ok {
		r.release(t, "answered before")
		if old.State.Terminal() { // the office may have let it in once more
			time.AfterFunc(handOverIn, func() { r.handOver(id) })
		}
		return r.again(ctx, old, n, q)
	}
	err = retry(ctx, func() error {
		_, err := r.Desk.Records.Create(ctx, t.rec)
		return err
	}, cdr.ErrExists, cdr.ErrTooLarge)
	switch {
	case errors.Is(err, cdr.ErrExists): // another replica was asked, too, and was quicker
		r.release(t, "answered elsewhere")
		other, _, err := r.Desk.Records.Get(ctx, id)
		if err != nil {
			return carrier.Instruction{Busy: true}
		}
		return r.again(ctx, other, n, q)
	case err != nil:
		r.Log.Error().Err(err).Str("call", id).Msg("a call that came in could not be recorded: refused")
		r.release(t, "not recorded")
		t.do = decline(n)
	}
	if r.Emit != nil {
		for _, h := range t.told {
			r.Emit(h)
		}
	}
	// Not urgent: the caller's answer goes first, and whoever takes office meanwhile, or
	// is told anything of the call, finds the record by itself.
	time.AfterFunc(handOverIn, func() { r.handOver(id) })
	return t.do
}

// order is the order that a call to one of our numbers makes.
func (r *Reception) order(id string, n api.Number, q carrier.Question) call.Order {
	o := call.Order{
		V: call.Version, CallID: id, Org: n.Org, Class: call.ClassInbound, Region: n.Region, Pool: n.Pool, Carrier: r.Carrier.Name(),
		From: q.From, To: q.To, Flow: call.Flow(n.Flow), Greeting: call.Greeting(n.Greeting), Metadata: n.Metadata,
		MaxCallMS: n.MaxCallMS, CallBack: n.CallBack, QueuedAt: time.Now().UTC().Round(0),
	}
	if !call.E164(o.From) {
		o.From = "" // a short code, say: nobody whom we could call back
	}
	return o
}

// taken is a call in the making: nobody else knows of it until its record is stored.
type taken struct {
	rec  call.Record
	got  *claim.Assignment // nil: no bot
	do   carrier.Instruction
	told []Happening
}

// take admits a call and finds it a bot: its whole record, and what the carrier is
// to do.
func (r *Reception) take(ctx context.Context, o call.Order, n api.Number, q carrier.Question) taken {
	t := taken{rec: call.New(o, o.QueuedAt), do: decline(n)}
	var providers map[string]string
	if r.Admit != nil {
		var refused string
		if providers, refused = r.Admit(ctx, o); refused != "" {
			t.step(events.CallRejected, call.Event{Kind: call.EvRejected, CarrierID: q.ID, Reason: refused}, nil)
			return t
		}
	}
	t.step(events.CallAdmitted, call.Event{Kind: call.EvAdmitted, CarrierID: q.ID, Providers: providers}, nil)
	req := claimRequest(t.rec, o.QueuedAt)
	req.ReadyMS = wire.ToMillis(InboundIn - time.Second)
	claiming, cancel := context.WithTimeout(ctx, InboundIn-500*time.Millisecond) // the rest is for the record
	defer cancel()
	got, err := r.Asker.Assign(claiming, req)
	if err != nil {
		code, detail := "claim_timeout", map[string]any{"detail": err.Error()}
		if refused, ok := errors.AsType[*claim.Refused](err); ok {
			code, detail = refused.Code, map[string]any{"code": refused.Code, "counts": refused.Counts, "attempts": refused.Attempts, "detail": refused.Detail}
		}
		t.tell(callClaimRefused, detail)
		t.step(events.CallEnded, call.Event{Kind: call.EvNoBot, Reason: code}, nil)
		return t
	}
	t.got = got
	t.step(events.CallClaimed, call.Event{Kind: call.EvBot, Bot: got.BotID}, map[string]any{
		"bot": got.BotID, "seat": got.Seat, "attempts": got.Attempts, "warmup": got.Warmup, "took_ms": got.Took.Milliseconds(),
	})
	t.do = lead(t.rec, got.Media, r.PublicURL, r.Carrier.Name())
	return t
}

// step applies one event. What it asks for is owed in the record, and done by the office.
func (t *taken) step(typ string, ev call.Event, detail map[string]any) {
	t.rec, _ = call.Apply(t.rec, ev, time.Now())
	if t.rec.State.Terminal() {
		detail = map[string]any{"outcome": string(t.rec.Outcome()), "reason": t.rec.Reason, "state": string(t.rec.State)}
	}
	t.tell(typ, detail)
}

func (t *taken) tell(typ string, detail map[string]any) {
	rec := t.rec
	var id string
	if rec.State.Terminal() {
		id = endID(rec)
	}
	t.told = append(t.told, Happening{ID: id, Type: typ, Order: rec.Order, At: time.Now().Truncate(time.Millisecond), Record: &rec, Detail: detail})
}

// decline is what a caller gets whom we cannot take.
func decline(n api.Number) carrier.Instruction {
	if n.Overflow != "" {
		return carrier.Instruction{Say: n.Overflow, Language: n.Language}
	}
	return carrier.Instruction{Busy: true}
}

// again answers about a call that has a record: with the same instruction, as far as
// it still makes sense.
func (r *Reception) again(ctx context.Context, rec call.Record, n api.Number, q carrier.Question) carrier.Instruction {
	a := rec.Current()
	if a == nil {
		if o := rec.Outcome(); o == call.Rejected || o == call.BotUnavailable {
			return decline(n)
		}
		return carrier.Instruction{}
	}
	answer, err := askCall(ctx, r.NC, a.Bot, rec.Order.CallID)
	switch {
	case err == nil && answer.State == wire.CallAssigned:
		return lead(rec, answer.Media, r.PublicURL, r.Carrier.Name())
	case err == nil && answer.State == wire.CallLive:
		return carrier.Instruction{} // a replay: nobody reads it
	}
	return r.Next(ctx, a.ID, q)
}

// handOver tells the office of a call that is recorded now.
func (r *Reception) handOver(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		_, err := r.Desk.ask(ctx, askAdopt, deskRequest{CallID: id})
		if err == nil || !errors.Is(err, api.ErrUnavailable) {
			return
		}
		if !sleep(ctx, time.Second) {
			r.Log.Warn().Err(err).Str("call", id).Msg("not handed over; the next office finds it")
			return
		}
	}
}

// release frees the seat of a call that goes no further.
func (r *Reception) release(t taken, why string) {
	if t.got == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	id := t.rec.Order.CallID
	_, err := pool.Tell(ctx, r.NC, t.got.BotID, wire.VerbRelease, wire.Command{CallID: id, ClaimID: t.got.ClaimID, Reason: why})
	if err != nil && !goneBot(err) {
		r.Log.Warn().Err(err).Str("call", id).Msg("seat not released; the bot frees it when no media comes")
	}
}

// claimRequest is what a bot is asked for: the call as its record has it.
func claimRequest(rec call.Record, now time.Time) claim.Request {
	o := rec.Order
	req := claim.Request{
		CallID: o.CallID, Region: o.Region, Pool: o.Pool, Org: o.Org, Campaign: o.Campaign, Class: string(o.Class), Direction: "outbound",
		From: o.From, To: o.To, Flow: wire.Flow(o.Flow), Greeting: wire.Greeting(o.Greeting), Metadata: o.Metadata,
		MediaMS: wire.Millis(o.MediaMS), MaxCallMS: wire.ToMillis(o.MaxCallMS.Or(call.DefaultMaxCall)),
		WaitedMS: wire.ToMillis(min(max(now.Sub(o.QueuedAt), 0), 24*time.Hour)),
	}
	if a := rec.Current(); a != nil {
		req.Providers = a.Providers
	}
	switch {
	case o.Inbound():
		req.Direction, req.MediaMS = "inbound", cmp.Or(req.MediaMS, wire.ToMillis(30*time.Second)) // the carrier connects at once
	case o.MediaMS == 0: // the phone may ring for so long, and then the media must come
		wait := o.RingMS.Or(call.DefaultRing) + 15*time.Second
		if o.Detect == carrier.DetectMessageEnd {
			wait += carrier.DetectTime // it listens first, and connects then
		}
		req.MediaMS = wire.ToMillis(wait)
	}
	return req
}

// lead is the instruction that leads a call to its bot, and back to us when the
// socket closes.
func lead(rec call.Record, m wire.Media, public, carrierName string) carrier.Instruction {
	return carrier.Instruction{Media: mediaOf(rec, m), Next: nextURL(public, carrierName, rec.Last().ID)}
}

// mediaOf is a bot's socket with what its stream is told of the call.
func mediaOf(rec call.Record, m wire.Media) *carrier.Media {
	o := rec.Order
	params := map[string]string{"dibs_call_id": o.CallID, "from_number": o.From, "to_number": o.To, "traceparent": traceparent(o.CallID)}
	maps.Copy(params, m.Params)
	return &carrier.Media{URL: m.URL, Params: params}
}

// traceparent is the W3C trace context of a call. It follows from the call's id, so
// that whoever says it again says the same.
func traceparent(callID string) string {
	sum := sha256.Sum256([]byte("trace/" + callID))
	return fmt.Sprintf("00-%s-%s-01", hex.EncodeToString(sum[:16]), hex.EncodeToString(sum[16:24]))
}

// nextURL is where the carrier asks how to go on with an attempt.
func nextURL(public, carrierName, attempt string) string {
	return public + api.NextPath(carrierName) + attempt
}
