package call

import "time"

// Person is one human as one org knows them. The zero Number is nobody: a caller
// who withholds it is not kept in the book.
type Person struct {
	Org    string
	Number string // E.164
}

// How long people are left alone, and called back.
const (
	PersonGap    = 15 * time.Minute // from the end of a call that reached them: no campaign, retry or workflow
	CallbackLife = 30 * time.Minute // from a call that was turned away or broken: one callback
)

// People is the book of who is on the phone, who must be left alone and who is to
// be called back. It belongs to one goroutine, the dispatcher's, and is made anew from
// the records ([People.Note]) and the line ([People.NoteOrder]). The zero value is
// empty and ready.
//
// A person has at most one call in flight over all campaigns and the API of an org,
// whoever called whom. After a call that reached them, campaign, retry and workflow
// wait for [PersonGap]; an api call is a decision somebody has just made and does not.
type People struct {
	book map[Person]*page
}

// page is what is known of one person.
type page struct {
	calls    map[string]struct{} // ids of their calls in flight
	last     time.Time           // end of the last call that reached them
	callback string              // id of the callback that is to come, "" none
	until    time.Time           // of the callback
}

// PersonVerdict says whether a person may be dialled now.
type PersonVerdict string

// The verdicts.
const (
	PersonOK   PersonVerdict = "ok"
	PersonBusy PersonVerdict = "person_busy" // a call with them is in flight
	PersonLeft PersonVerdict = "person_gap"  // they are left alone for a while
)

func (p *People) page(who Person) *page {
	if p.book == nil {
		p.book = map[Person]*page{}
	}
	g := p.book[who]
	if g == nil {
		g = &page{calls: map[string]struct{}{}}
		p.book[who] = g
	}
	return g
}

// May says whether the call may be dialled now, and changes nothing. With
// [PersonLeft], at is when the gap ends.
func (p *People) May(who Person, call string, class Class, now time.Time) (v PersonVerdict, at time.Time) {
	g := p.book[who]
	if g == nil {
		return PersonOK, time.Time{}
	}
	_, mine := g.calls[call]
	if len(g.calls) > 1 || len(g.calls) == 1 && !mine {
		return PersonBusy, time.Time{}
	}
	if at = g.last.Add(PersonGap); !mine && class.HasGap() && !g.last.IsZero() && now.Before(at) {
		return PersonLeft, at
	}
	return PersonOK, time.Time{}
}

// Dial asks May and, if it is ok, takes the person for the call, until a record of
// it that is not in flight is noted. Asked again for the same call it says the same.
func (p *People) Dial(who Person, call string, class Class, now time.Time) (v PersonVerdict, at time.Time) {
	v, at = p.May(who, call, class, now)
	if v == PersonOK && who.Number != "" {
		p.page(who).calls[call] = struct{}{}
	}
	return v, at
}

// Inbound takes the person for an inbound call that was let in, whatever else they
// are in. A callback that waited for them is not needed any more: its id is
// returned, to be cancelled.
func (p *People) Inbound(who Person, call string, now time.Time) (cancel string) {
	if who.Number == "" {
		return ""
	}
	g := p.page(who)
	if cancel = g.waiting(now); cancel != "" {
		g.callback = ""
	}
	g.calls[call] = struct{}{}
	return cancel
}

// CallBack promises the person one callback, under the id given, for
// [CallbackLife]. When one is promised already it stays, and its id is returned with
// made false. An empty id means that the number is withheld.
func (p *People) CallBack(who Person, callback string, now time.Time) (id string, made bool) {
	if who.Number == "" {
		return "", false
	}
	g := p.page(who)
	if id = g.waiting(now); id != "" {
		return id, id == callback
	}
	g.callback, g.until = callback, now.Add(CallbackLife)
	return callback, true
}

func (g *page) waiting(now time.Time) string {
	if now.Before(g.until) {
		return g.callback
	}
	return ""
}

// Note makes the book agree with a record: with every one when it is made anew, in
// whatever order, and with each one that was stored since. A call in flight has its
// person, any other has not; one that reached them begins their gap when it ends.
func (p *People) Note(r Record) {
	who, call := r.Order.Person(), r.Order.CallID
	if who.Number == "" {
		return
	}
	if r.InFlight() {
		p.page(who).calls[call] = struct{}{}
	} else if g := p.book[who]; g != nil {
		delete(g.calls, call)
	}
	if !r.State.Terminal() {
		p.NoteOrder(r.Order)
		return
	}
	if r.Reached() {
		if g := p.page(who); r.EndedAt.After(g.last) {
			g.last = r.EndedAt
		}
	}
	if g := p.book[who]; g != nil && g.callback == call {
		g.callback = ""
	}
}

// NoteOrder reads an order of the line: a callback that was promised.
func (p *People) NoteOrder(o Order) {
	if o.CallbackOf == "" {
		return
	}
	g := p.page(o.Person())
	g.callback, g.until = o.CallID, o.QueuedAt.Add(CallbackLife)
}

// Tidy forgets everybody of whom nothing is left to remember. Once a minute is enough.
func (p *People) Tidy(now time.Time) {
	for who, g := range p.book {
		if len(g.calls) == 0 && g.waiting(now) == "" && now.Sub(g.last) >= PersonGap {
			delete(p.book, who)
		}
	}
}
