package dispatch

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"dibs/admission"
	"dibs/call"
	"dibs/cdr"
	"dibs/queue"
)

// office is one term: who waits, who is in flight, who is on the phone. Its state
// belongs to the goroutine of run; a call in flight belongs to its caller.
type office struct {
	d     *Dispatcher
	term  uint64
	owner string // of the attempts of this term

	items    chan delivery
	ended    chan *caller // callers that are done with their call
	asks     chan deskAsk // questions from the desk
	fail     chan error   // a caller found that the office is another's
	adopts   chan adoption
	promises chan promise

	// owned by run
	known    map[string]*waiter // call ID → everything not in flight that waits
	inFlight map[string]*caller // call ID → its caller
	adm      *admission.State   // who waits and is due, who is in flight, who goes next
	room     *room              // what admission asks of the world
	regions  map[string]bool    // in which somebody has waited
	verdicts verdicts           // how the answers changed
	later    moments            // looked at again at a moment
	urgent   []urgent           // goes whether or not a bot seems idle
	over     map[string]bool    // call ID → it had ended, lately, when the office was taken
	people   call.People
	blocked  map[call.Person][]*waiter // who waits for another call of their person to end
	ids      *ids                      // the carrier's ids and whose they are; any goroutine
	found    foundlings
	limits   limits               // as admission was told
	expected map[string]time.Time // calls that were let in, until they are adopted → real time
	empty    bool                 // nothing was on the line when the office was taken: no batch will say so
	read     bool                 // the line was read to its end once

	callers sync.WaitGroup
}

func newOffice(d *Dispatcher, term uint64) *office {
	o := &office{
		d: d, term: term, owner: d.cfg.ID + "-" + strconv.FormatUint(term, 10),
		items: make(chan delivery), ended: make(chan *caller), asks: make(chan deskAsk), fail: make(chan error, 1),
		adopts: make(chan adoption), promises: make(chan promise), found: newFoundlings(), expected: map[string]time.Time{},
		known: map[string]*waiter{}, ids: &ids{of: map[string]idEntry{}}, inFlight: map[string]*caller{}, over: map[string]bool{}, blocked: map[call.Person][]*waiter{}, regions: map[string]bool{}, room: newRoom(),
		verdicts: verdicts{groups: map[string]*history{}, changes: map[string]int64{}},
	}
	o.adm = admission.New(admission.Platform{Cap: d.cfg.Cap}, o.room)
	return o
}

// load notes one record that was found on taking office. It is called before run.
func (o *office) load(r call.Record, rev cdr.Rev) {
	id := r.Order.CallID
	o.people.Note(r)
	o.knowAll(r)
	delete(o.inFlight, id)
	delete(o.known, id)
	if r.State.Terminal() {
		o.tellEnd(r)
	}
	switch {
	case r.InFlight() || len(call.Pending(r)) > 0:
		o.inFlight[id] = newCaller(o, r, rev)
		o.restore(r)
	case r.State.Terminal():
		o.over[id] = true
	default:
		o.known[id] = &waiter{
			key:   queue.Key{Region: r.Order.Region, Class: string(r.Order.Class), Org: r.Order.Org, Call: id},
			class: r.Order.Class, campaign: r.Order.Campaign, patient: r.Order.CallbackOf != "", needs: needsOf(r.Order), until: r.Order.NotAfter, rec: &tried{r, rev},
		}
	}
}

// restore counts a call that is in flight, whoever let it go.
func (o *office) restore(r call.Record) {
	if !r.InFlight() {
		return
	}
	c := admission.Call{ID: r.Order.CallID, Org: r.Order.Org, Class: r.Order.Class, Region: r.Order.Region, Campaign: r.Order.Campaign}
	var held []string
	if a := r.Current(); a != nil {
		for _, kind := range sortedKeys(a.Providers) {
			c.Needs = append(c.Needs, []string{kind + ":" + a.Providers[kind]})
			held = append(held, kind+":"+a.Providers[kind])
		}
	}
	if err := o.adm.Restore(c, held); err != nil {
		o.d.cfg.Log.Error().Err(err).Str("call", c.ID).Msg("not counted")
	}
}

// atOnce is how many orders are read before the loop looks at everything else.
const atOnce = 256

// deliver hands a batch from the line over to run, a part at a time.
func (o *office) deliver(ctx context.Context, items []*queue.Item, behind uint64) {
	left := len(items)
	for part := range slices.Chunk(items, atOnce) {
		left -= len(part)
		select {
		case o.items <- delivery{part, behind + uint64(left)}:
		case <-ctx.Done():
			return
		}
	}
}

// run is the loop of the office: everything that waits or is decided passes here,
// and nothing in it waits for anybody.
func (o *office) run(ctx context.Context) error {
	desk, err := o.openDesk(ctx)
	if err != nil {
		return err
	}
	defer desk.close()
	beats := o.d.cfg.Roster.Watch()
	defer o.d.cfg.Roster.Unwatch(beats)
	limits, unwatch := o.watchLimits()
	defer unwatch()
	for _, c := range o.inFlight {
		o.start(ctx, c)
	}
	if o.empty {
		o.read = true
		o.recover(ctx)
	}
	second := time.NewTicker(scaleEvery)
	defer second.Stop()
	// Who asks for a bot in vain is in flight for a moment. Asked at the tick of the
	// second, it would be so whenever the demand is counted.
	between := time.After(scaleEvery / 2)
	netEvery := max(o.d.clock.real(5*time.Second), 10*time.Millisecond)
	net := time.NewTicker(netEvery)
	defer net.Stop()
	hour := time.NewTicker(time.Minute)
	defer hour.Stop()
	for {
		o.wake()
		o.serve(ctx)
		var due <-chan time.Time
		if at, ok := o.later.next(); ok {
			due = time.After(o.d.clock.until(at))
		}
		var seats <-chan time.Time
		if at := o.room.next(time.Now()); !at.IsZero() {
			seats = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-o.fail:
			return err
		case b := <-o.items:
			for _, it := range b.items {
				o.arrived(ctx, it)
			}
			if b.behind == 0 && !o.read {
				o.read = true
				o.recover(ctx)
			}
		case c := <-o.ended:
			o.left(ctx, c)
		case ask := <-o.asks:
			o.answer(ctx, ask)
		case a := <-o.adopts:
			o.adopt(ctx, a)
		case p := <-o.promises:
			o.promised(p)
		case <-limits:
			o.applyLimits()
		case <-beats:
		case <-due:
		case <-seats:
		case <-between:
			net.Reset(netEvery)
		case <-net.C:
			o.probe()
		case <-second.C:
			o.giveUpExpected(time.Now())
			if o.read {
				o.tellVerdicts()
				o.spread()
			}
		case <-hour.C:
			o.people.Tidy(o.d.clock.now())
			o.ids.tidy(time.Now())
			o.found.tidy(o.d.clock.now())
		}
	}
}

// arrived takes one message of the line. What cannot be read is set aside and
// blocks nothing.
func (o *office) arrived(ctx context.Context, it *queue.Item) {
	id := it.Key.Call
	if c := o.inFlight[id]; c != nil { // it was given back with a delay, and its turn came first
		if !c.send(letter{item: it}) {
			o.callers.Go(func() { _ = it.Nak(ctx, time.Second) }) // it floods: later
		}
		return
	}
	if o.over[id] { // the office before ours had no time to take it off
		o.callers.Go(func() { _ = it.Ack(ctx) })
		return
	}
	if w := o.known[id]; w != nil {
		w.item, w.seq, w.order = it, it.Seq, it.Order
		o.place(w)
		return
	}
	order, err := call.DecodeOrder(it.Order)
	if err == nil && (order.Region != it.Key.Region || string(order.Class) != it.Key.Class && order.Class != "api" || order.Org != it.Key.Org || order.CallID != it.Key.Call) {
		err = errors.New("the order is not the one of its subject")
	}
	if err == nil && order.Inbound() {
		err = errors.New("an inbound call does not wait on the line")
	}
	if err != nil {
		o.callers.Go(func() { o.park(ctx, it, err) })
		return
	}
	w := &waiter{key: it.Key, seq: it.Seq, item: it, order: it.Order, class: order.Class, campaign: order.Campaign, needs: needsOf(order), until: order.NotAfter}
	it.Order = nil
	var ok bool
	if w.opens, ok = order.Opens(o.d.clock.now()); !ok {
		w.until = o.d.clock.now() // it would never open in time
	}
	w.patient = order.CallbackOf != ""
	o.people.NoteOrder(order)
	o.known[id] = w
	o.d.cfg.At(StepReceived, id)
	if _, gone := o.found.revoked[id]; gone {
		delete(o.found.revoked, id)
		o.urgent = append(o.urgent, urgent{w: w, ev: &call.Event{Kind: call.EvCancel, Reason: "called_again"}})
		return
	}
	o.place(w)
}

// place puts a waiter where it belongs: in line, with what is urgent, or with
// what is looked at again at a moment.
func (o *office) place(w *waiter) {
	now := o.d.clock.now()
	if w.rec == nil {
		switch {
		case !w.until.IsZero() && !w.until.After(now):
			o.urgent = append(o.urgent, urgent{w: w, ev: &call.Event{Kind: call.EvWindowClosed}})
			return
		case !w.until.IsZero():
			o.later.push(w.until, w)
		}
		if w.opens.After(now) {
			o.later.push(w.opens, w)
			return
		}
		o.enqueue(w)
		return
	}
	r := w.rec.rec
	if d, ok := call.Deadline(r, now); ok && d.At.After(now) {
		o.later.push(d.At, w)
	} else if ok && d.Do == call.DoWindowClose {
		o.urgent = append(o.urgent, urgent{w: w, ev: &call.Event{Kind: call.EvWindowClosed}})
		return
	}
	switch {
	case r.NextAt.After(now):
	default:
		o.enqueue(w)
	}
}

// wake looks again at whom the moment has come for.
func (o *office) wake() {
	now := o.d.clock.now()
	for {
		at, ok := o.later.next()
		if !ok || at.After(now) {
			return
		}
		if w := o.later.pop(); o.known[w.key.Call] == w {
			o.place(w)
		}
	}
}

// recover runs once, when the line was read to its end: a call that is recorded as
// waiting and has no message was taken off the line by somebody's hand, or by a
// crash between two writes; its order is in its record, so it goes on.
func (o *office) recover(ctx context.Context) {
	for id, w := range o.known {
		if w.seq != 0 {
			continue
		}
		order, err := w.rec.rec.Order.Encode()
		if err != nil {
			continue
		}
		o.d.cfg.Log.Warn().Str("call", id).Msg("recorded as waiting, not in line: put again")
		key := w.key
		o.callers.Go(func() {
			if _, err := o.d.cfg.Line.Put(ctx, key, order); err != nil && !errors.Is(err, queue.ErrDuplicate) {
				o.d.cfg.Log.Warn().Err(err).Str("call", key.Call).Msg("not put again; the next term tries")
			}
		})
	}
}

// start gives a call to its caller.
func (o *office) start(ctx context.Context, c *caller) {
	o.inFlight[c.id] = c
	o.callers.Go(func() {
		c.run(ctx)
		select {
		case o.ended <- c:
		case <-ctx.Done():
		}
	})
}

// left takes a call back from its caller: it waits again, or it is over.
func (o *office) left(ctx context.Context, c *caller) {
	delete(o.inFlight, c.id)
	o.adm.End(c.id)
	if c.missed {
		o.room.miss(c.region, c.ups, time.Now())
	}
	if c.lost != nil {
		select {
		case o.fail <- c.lost:
		default:
		}
		return
	}
	c.clearLetters()
	o.people.Note(c.rec)
	o.unblock(c.rec.Order.Person())
	if c.rev == 0 || c.rec.State.Terminal() { // without a record it had left the line before
		if c.item != nil {
			o.callers.Go(func() { c.ack(ctx) })
		}
		return
	}
	w := &waiter{
		key:   queue.Key{Region: c.rec.Order.Region, Class: string(c.rec.Order.Class), Org: c.rec.Order.Org, Call: c.id},
		class: c.rec.Order.Class, campaign: c.rec.Order.Campaign, patient: c.rec.Order.CallbackOf != "", needs: needsOf(c.rec.Order), until: c.rec.Order.NotAfter, seq: c.seq, item: c.item, rec: &tried{c.rec, c.rev},
	}
	o.known[c.id] = w
	if a := c.rec.Last(); a != nil && a.Why == call.WhyTakenBack { // the carrier is not there just now
		o.later.push(o.d.clock.now().Add(call.Pace), w)
	} else {
		o.place(w)
	}
	if w.item != nil { // the re-queue: it survives whatever dies now
		item := w.item
		w.item = nil
		delay := requeueDelay(w, o.d.clock)
		o.callers.Go(func() {
			if err := item.Nak(ctx, delay); err != nil && ctx.Err() == nil {
				o.d.cfg.Log.Warn().Err(err).Str("call", c.id).Msg("not given back to the line; the next term reads it again")
			}
		})
	}
}
