package dispatch

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"dibs/call"
	"dibs/carrier"
	"dibs/claim"
	"dibs/media"
	"dibs/pool"
	"dibs/wire"
)

// How a lost bot is noticed and replaced. These are real time: the carrier and the
// bots keep it, too.
const (
	botAnswersIn = 300 * time.Millisecond // or it is taken for dead
	botSettlesIn = time.Second            // a bot that has not noticed yet that its socket is gone
	rescueIn     = 8 * time.Second        // the claim of another bot; the carrier waits for 15 s
	maxRescues   = 3                      // of one call within rescuesPer: then the line is at fault
	rescuesPer   = time.Minute

	ringCheck   = time.Second      // a call that came in: whether its bot hears it
	liveCheck   = 5 * time.Second  // a live one: whether its bot still has it
	endedFor    = 2                // checks in a row that say it has not, before we hang up
	closeIn     = 2 * time.Second  // after the carrier was told to end the call: we end it
	closeAgain  = 10 * time.Second // and again
	capMargin   = 15 * time.Second // over the longest call: carrier and bot end it before
	perLetter   = 90 * time.Millisecond
	sorryReason = "bot_lost"
	maxTold     = 100 // answers that are remembered, for questions that are put again
)

const callRescued = "call.rescued" // another bot has taken it over

// following is what a caller does about a call that somebody hears.
type following struct {
	nexts   []letter                       // the carrier's questions that wait for an answer
	told    map[string]carrier.Instruction // questions that have theirs
	asked   bool                           // the bot is being asked
	stood   chan standing
	rescue  bool // a claim for another bot runs
	rescues []time.Time

	checkAt  time.Time // real: ask the bot
	checks   chan finding
	checking bool      // a check runs
	missing  int       // checks in a row that said it has not got the call
	silent   int       // checks in a row to which nobody answered
	closeAt  time.Time // real: end the call ourselves

	takenFrom string // the bot that the carrier was told to take the call away from
}

// standing is what is found out of a call's bot.
type standing string

const (
	botHas   standing = "has"   // it has the call
	botWaits standing = "waits" // it has prepared it, and its media has not come
	botEnded standing = "ended" // it ended the call, or its caller hung up
	botBroke standing = "broke" // it is there, and the media is not
	botDead  standing = "dead"
	botGone  standing = "gone" // and nothing of it answers anywhere, for long
	botMute  standing = "mute" // it says nothing that we understand
)

// inOrder are the ends after which nobody needs another bot.
func inOrder(why string) bool {
	switch media.Reason(why) {
	case media.Stopped, media.HungUp, media.MaxCall, media.Withdrawn:
		return true
	}
	return len(why) >= 8 && why[:8] == "released"
}

// stands asks a bot once how a call stands with it.
func (c *caller) stands(ctx context.Context, bot string) standing {
	a, err := askCall(ctx, c.o.d.cfg.NC, bot, c.id)
	switch {
	case goneBot(err), errors.Is(err, context.DeadlineExceeded):
		return botDead
	case err != nil:
		return botMute
	case a.State == wire.CallLive:
		return botHas
	case a.State == wire.CallAssigned:
		return botWaits
	case a.State == wire.CallEnded && inOrder(a.Why):
		return botEnded
	case a.State == wire.CallEnded, a.Code == "unknown_call":
		return botBroke
	}
	return botMute
}

// askCall asks up to three times: a question that was on its way to a bot as it
// died is lost, and the next one learns at once that nobody is there.
func askCall(ctx context.Context, nc *nats.Conn, bot, callID string) (a wire.Answer, err error) {
	for range 3 {
		short, cancel := context.WithTimeout(ctx, botAnswersIn/3)
		a, err = pool.Tell(short, nc, bot, wire.VerbCall, wire.Command{CallID: callID})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return a, err
}

// next is the carrier's question: the socket has closed, and somebody is there.
func (c *caller) next(ctx context.Context, l letter) bool {
	if do, ok := c.told[l.ask]; ok {
		l.next <- do // put again while its answer was on its way
		return true
	}
	a := c.rec.Current()
	if a == nil || l.ev.Attempt != a.ID || l.ev.CarrierID != "" && a.CarrierID != "" && l.ev.CarrierID != a.CarrierID {
		l.next <- carrier.Instruction{}
		return true
	}
	if !c.apply(ctx, l.ev) { // it is answered, whatever we knew of it
		return false
	}
	if a = c.rec.Current(); a == nil || !a.HangupAt.IsZero() || !c.rec.CancelAt.IsZero() || a.BotLost || a.Bot == "" {
		l.next <- carrier.Instruction{}
		c.closeAt = time.Now().Add(closeIn)
		return true
	}
	c.nexts = append(c.nexts, l)
	if c.asked || c.rescue {
		return true
	}
	c.asked = true
	bot := a.Bot
	go func() { c.stood <- c.settles(ctx, bot) }()
	return true
}

// settles asks until the bot knows what the carrier knows: that its socket is gone.
func (c *caller) settles(ctx context.Context, bot string) standing {
	give := time.Now().Add(botSettlesIn)
	for {
		s := c.stands(ctx, bot)
		if s != botHas || time.Now().After(give) || !sleep(ctx, 50*time.Millisecond) {
			return s
		}
	}
}

// settled goes on when it is known what became of the bot.
func (c *caller) settled(ctx context.Context, s standing) bool {
	c.asked = false
	if !c.rec.InFlight() {
		return true
	}
	// What it says of its end means nothing when it was the carrier that took the call away.
	if a := c.rec.Current(); (s == botEnded || s == botMute) && (a == nil || a.Bot != c.takenFrom) {
		c.reply(carrier.Instruction{})
		c.closeAt = time.Now().Add(closeIn) // a closed socket alone ends no call
		return true
	}
	now := time.Now()
	for len(c.rescues) > 0 && now.Sub(c.rescues[0]) > rescuesPer {
		c.rescues = c.rescues[1:]
	}
	if len(c.rescues) >= maxRescues {
		return c.noRescue(ctx, "too_many_rescues")
	}
	c.rescues = append(c.rescues, now)
	return c.claimRescuer(ctx)
}

// claimRescuer asks for another bot, and gives it what the last one left.
func (c *caller) claimRescuer(ctx context.Context) bool {
	req := claimRequest(c.rec, c.now())
	req.Rescue, req.ReadyMS, req.WaitedMS, req.MediaMS = true, wire.ToMillis(rescueIn), 0, wire.ToMillis(30*time.Second)
	if a := c.rec.Current(); !a.LiveAt.IsZero() {
		req.ElapsedMS = wire.ToMillis(max(0, c.now().Sub(a.LiveAt)))
		left := req.MaxCallMS - req.ElapsedMS
		req.MaxCallMS = max(left, wire.ToMillis(time.Second)) // the cap is the call's, not the bot's
	}
	c.rescue = true
	c.seeking.Store(true)
	ctx, c.unclaim = context.WithCancel(ctx)
	done := c.claimed
	go func() {
		ctx, cancel := context.WithTimeout(ctx, rescueIn)
		defer cancel()
		if load := c.o.d.cfg.Checkpoint; load != nil {
			short, stop := context.WithTimeout(ctx, botAnswersIn)
			req.Checkpoint = load(short, c.id)
			stop()
			if _, err := wire.Encode(req); errors.Is(err, wire.ErrTooLarge) {
				req.Checkpoint = nil // the order itself fills a message
			}
		}
		got, err := c.o.d.cfg.Asker.Assign(ctx, req)
		done <- claimed{got, err}
	}()
	return true
}

// gotRescuer goes on after the claim of another bot.
func (c *caller) gotRescuer(ctx context.Context, got claimed) bool {
	c.rescue = false
	c.seeking.Store(false)
	if got.err != nil {
		reason := "no_bot"
		if r, ok := errors.AsType[*claim.Refused](got.err); ok {
			reason = r.Code
			c.emit(callClaimRefused, map[string]any{"code": r.Code, "counts": r.Counts, "attempts": r.Attempts, "detail": r.Detail, "rescue": true})
		}
		return c.noRescue(ctx, reason)
	}
	a := c.rec.Current()
	if a == nil {
		c.o.callers.Go(func() { c.sendHome(got.got) })
		return true
	}
	old := a.Bot
	if !c.apply(ctx, call.Event{Kind: call.EvBot, Attempt: a.ID, Bot: got.got.BotID}) {
		c.keepOrSendHome(got.got)
		return false
	}
	c.bot, c.missing, c.silent, c.takenFrom = got.got, 0, 0, ""
	c.checkAt, c.closeAt = time.Now().Add(liveCheck), time.Time{}
	c.emit(callRescued, map[string]any{
		"attempt": a.ID, "bot": got.got.BotID, "from": old, "attempts": got.got.Attempts, "warmup": got.got.Warmup, "took_ms": got.got.Took.Milliseconds(),
	})
	if old != got.got.BotID { // it may be there and believe that it has the call
		c.o.callers.Go(func() { _ = c.release(ctx, old, "", "rescued by another bot") })
	}
	c.reply(lead(c.rec, got.got.Media, c.o.d.cfg.PublicURL, c.o.d.cfg.Carrier.Name()))
	return true
}

// noRescue ends the call with a sentence. It is interrupted when the carrier says
// that it is over, or when the sentence must have been heard.
func (c *caller) noRescue(ctx context.Context, reason string) bool {
	if !c.rec.InFlight() {
		return true
	}
	say, language := DefaultSorry, ""
	if f := c.o.d.cfg.Sorry; f != nil {
		say, language = f(ctx, c.rec.Order)
	}
	if !c.apply(ctx, call.Event{Kind: call.EvWorkerLost, Saying: true, Reason: reason}) {
		return false
	}
	c.reply(carrier.Instruction{Say: say, Language: language})
	c.closeAt = time.Now().Add(closeAgain + time.Duration(utf8.RuneCountInString(say))*perLetter)
	return true
}

// reply answers every question that waits.
func (c *caller) reply(do carrier.Instruction) {
	if c.told == nil || len(c.told) > maxTold {
		c.told = map[string]carrier.Instruction{}
	}
	for _, l := range c.nexts {
		l.next <- do // each has room for one
		if l.ask != "" {
			c.told[l.ask] = do
		}
	}
	c.nexts = nil
}

// chore is when the caller has something to do about a call that somebody hears,
// in real time; zero: nothing.
func (c *caller) chore() time.Time {
	a := c.rec.Current()
	if a == nil || c.rec.State.Rank() < call.Ringing.Rank() {
		return time.Time{}
	}
	if c.closeAt.IsZero() && a.BotLost && c.rec.State == call.Live { // of an earlier term
		c.closeAt = time.Now().Add(2 * closeAgain)
	}
	at := c.closeAt
	add := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if c.rec.State == call.Live && !a.LiveAt.IsZero() && c.closeAt.IsZero() {
		add(c.o.d.clock.outside(a.LiveAt.Add(c.rec.Order.MaxCallMS.Or(call.DefaultMaxCall))).Add(capMargin))
	}
	if a.Bot != "" && !a.BotLost && !c.asked && !c.rescue && (c.rec.State == call.Live || c.rec.Order.Inbound()) {
		if c.checkAt.IsZero() {
			c.checkAt = time.Now().Add(c.checkEvery())
		}
		add(c.checkAt)
	}
	return at
}

func (c *caller) checkEvery() time.Duration {
	if c.rec.State == call.Ringing {
		return ringCheck
	}
	return liveCheck
}

// doChores does what is due.
func (c *caller) doChores(ctx context.Context) bool {
	a, now := c.rec.Current(), time.Now()
	if a == nil {
		return true
	}
	if !c.checkAt.IsZero() && !now.Before(c.checkAt) {
		c.checkAt = now.Add(c.checkEvery())
		if !c.asked && !c.rescue && !c.checking && a.Bot != "" {
			c.checking = true
			bot, long := a.Bot, c.rec.State == call.Live && c.silent+1 >= silentChecks
			go func() { c.checks <- finding{bot, c.check(ctx, bot, long)} }()
		}
	}
	over := c.rec.State == call.Live && c.closeAt.IsZero() &&
		!now.Before(c.o.d.clock.outside(a.LiveAt.Add(c.rec.Order.MaxCallMS.Or(call.DefaultMaxCall))).Add(capMargin))
	if over {
		c.closeAt = now
	}
	if c.closeAt.IsZero() || now.Before(c.closeAt) {
		return true
	}
	c.closeAt = now.Add(closeAgain)
	if a.BotLost {
		return c.apply(ctx, call.Event{Kind: call.EvWorkerLost, Reason: sorryReason})
	}
	c.endAtCarrier(ctx, a.CarrierID)
	return true
}

// endAtCarrier ends a call that nobody of ours is in any more, and looks what became
// of it. A call that has ended already is success.
func (c *caller) endAtCarrier(ctx context.Context, id string) {
	if id == "" || c.looking {
		return
	}
	c.looking = true
	ev := call.Evidence{}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, placeIn+lookUpIn)
		defer cancel()
		_ = c.o.d.cfg.Carrier.Hangup(ctx, id)
		found, err := c.o.d.cfg.Carrier.Find(ctx, carrier.Query{ID: id})
		switch {
		case err != nil:
			ev.Lookup = call.LookupDown
		case len(found) == 0:
			ev.Lookup = call.LookupNone
		default:
			saw(&ev, found[0])
		}
		c.looked <- ev
	}()
}
