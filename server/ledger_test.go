package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/api"
	"dibs/call"
	"dibs/carrier"
)

// ledger keeps calls in memory as the brain would keep them in NATS: the records
// are the real machine's, only where they lie is not. Like the line it refuses a call
// only while one of the same region, class, org and id waits.
type ledger struct {
	mu      sync.Mutex
	line    map[string]bool // subject → it waits there
	records map[string]call.Record
	order   []string // ids as they came
	puts    int
	events  []carrier.Event

	// What goes wrong, when set; called without the lock held.
	onPut   func(call.Order) (err error, stored bool)
	onGet   func(id string) error
	onOther func(op string) error
}

func newLedger() *ledger { return &ledger{line: map[string]bool{}, records: map[string]call.Record{}} }

func subject(o call.Order) string {
	return strings.Join([]string{o.Region, string(o.Class), o.Org, o.CallID}, ".")
}

func (l *ledger) Put(_ context.Context, o call.Order) error {
	l.mu.Lock()
	l.puts++
	hook := l.onPut
	l.mu.Unlock()
	if hook != nil {
		if err, stored := hook(o); err != nil {
			if stored {
				_ = l.store(o)
			}
			return err
		}
	}
	return l.store(o)
}

func (l *ledger) store(o call.Order) error {
	if err := o.Check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line[subject(o)] {
		return fmt.Errorf("ledger: put %s: %w", o.CallID, api.ErrDuplicate)
	}
	l.line[subject(o)] = true
	if _, ok := l.records[o.CallID]; ok {
		return nil // whoever reads the line will see that it was dealt with
	}
	l.records[o.CallID] = call.New(o, o.QueuedAt)
	l.order = append(l.order, o.CallID)
	return nil
}

func (l *ledger) Get(_ context.Context, id string) (call.Record, error) {
	l.mu.Lock()
	hook := l.onGet
	l.mu.Unlock()
	if hook != nil {
		if err := hook(id); err != nil {
			return call.Record{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.records[id]
	if !ok {
		return call.Record{}, fmt.Errorf("ledger: get: %w", api.ErrNotFound)
	}
	return r, nil
}

func (l *ledger) fault(op string) error {
	l.mu.Lock()
	hook := l.onOther
	l.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op)
}

func (l *ledger) List(_ context.Context, q api.ListQuery) (page []call.Record, next string, err error) {
	if err := l.fault("list"); err != nil {
		return nil, "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	from := len(l.order)
	if q.Cursor != "" {
		if from = slices.Index(l.order, q.Cursor); from < 0 {
			return nil, "", fmt.Errorf("ledger: cursor: %w", api.ErrNotFound)
		}
	}
	for i := from - 1; i >= 0; i-- {
		r := l.records[l.order[i]]
		if q.State != "" && r.State != q.State || q.Org != "" && r.Order.Org != q.Org || q.Campaign != "" && r.Order.Campaign != q.Campaign {
			continue
		}
		if len(page) == q.Limit {
			return page, page[len(page)-1].Order.CallID, nil
		}
		page = append(page, r)
	}
	return page, "", nil
}

func (l *ledger) Cancel(_ context.Context, id, reason string) (call.Record, error) {
	if err := l.fault("cancel"); err != nil {
		return call.Record{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.records[id]
	switch {
	case !ok:
		return call.Record{}, api.ErrNotFound
	case r.State.Terminal():
		return r, fmt.Errorf("ledger: cancel: %w", api.ErrEnded)
	}
	l.records[id], _ = call.Apply(r, call.Event{Kind: call.EvCancel, Reason: reason}, time.Now())
	return l.records[id], nil
}

func (l *ledger) CarrierEvent(_ context.Context, ev carrier.Event) error {
	if err := l.fault("event"); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id := ev.Attempt[:max(0, strings.LastIndexByte(ev.Attempt, '-'))]
	r, ok := l.records[id]
	if !ok || r.Attempt(ev.Attempt) == nil {
		return fmt.Errorf("ledger: event: %w", api.ErrNotFound)
	}
	l.events = append(l.events, ev)
	e, ok := call.StatusEvent(string(ev.Status))
	if !ok {
		return nil
	}
	e.Attempt, e.CarrierID = ev.Attempt, ev.ID
	l.records[id], _ = call.Apply(r, e, time.Now())
	return nil
}

func (l *ledger) Timeline(_ context.Context, id string, limit int) ([]api.TimelineEntry, error) {
	if err := l.fault("timeline"); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return []api.TimelineEntry{{At: l.records[id].Order.QueuedAt, Type: "call.accepted"}}, nil
}

// dial takes a call to where its intent is stored, and returns the attempt's id.
func (l *ledger) dial(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.records[id]
	for _, ev := range []call.Event{{Kind: call.EvAdmitted, Owner: "backend-1"}, {Kind: call.EvBot, Bot: "bot-1_1"}, {Kind: call.EvIntent}} {
		r, _ = call.Apply(r, ev, time.Now())
	}
	l.records[id] = r
	delete(l.line, subject(r.Order))
	return r.Current().ID
}

// record is a call as it is kept, the zero record when it is not.
func (l *ledger) record(id string) call.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[id]
}

// set makes something go wrong from now on.
func (l *ledger) set(f func(*ledger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

// counts are the puts, the calls, and the events that were believed.
func (l *ledger) counts() (puts, stored, events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.puts, len(l.records), len(l.events)
}

func (l *ledger) Why(_ context.Context, id string) (api.Why, error) {
	l.mu.Lock()
	hook := l.onOther
	l.mu.Unlock()
	if hook != nil {
		if err := hook("why"); err != nil {
			return api.Why{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.records[id]
	switch {
	case !ok:
		return api.Why{}, fmt.Errorf("ledger: why: %w", api.ErrNotFound)
	case r.State.Terminal():
		return api.Why{}, fmt.Errorf("ledger: why: %w", api.ErrEnded)
	}
	return api.Why{Call: id, State: r.State, Reason: "no_idle_bot", Gates: []api.WhyGate{{Gate: "bot", Code: "no_idle_bot"}}, Verdicts: []api.VerdictChange{}}, nil
}
