package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/api"
	"dibs/call"
	"dibs/cdr"
	"dibs/queue"
)

// listBack is how far back a list looks for calls that have ended.
const listBack = 24 * time.Hour

// List is a page of calls, the newest change first: those on the line, those that
// are going on, and those that ended within a day.
func (d *Desk) List(ctx context.Context, q api.ListQuery) (page []call.Record, next string, err error) {
	limit := q.Limit
	if limit == 0 {
		limit = api.DefaultLimit
	}
	if limit < 1 || limit > api.MaxLimit {
		return nil, "", fmt.Errorf("dispatch: list: limit: %d, want 1 to %d", limit, api.MaxLimit)
	}
	before, err := parseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	top := &newest{limit: limit + 1, before: before, seen: map[string]bool{}}
	add := func(r call.Record) {
		if (q.State == "" || r.State == q.State) && (q.Org == "" || r.Order.Org == q.Org) && (q.Campaign == "" || r.Order.Campaign == q.Campaign) {
			top.add(r)
		}
	}
	if _, err := d.Records.Load(ctx, time.Now().Add(-listBack), func(r call.Record, _ cdr.Rev) { add(r) }); err != nil {
		return nil, "", fmt.Errorf("dispatch: list: %w: %w", api.ErrUnavailable, err)
	}
	if q.State == "" || q.State == call.Queued || q.State == call.Scheduled {
		for cursor := uint64(0); ; {
			p, err := d.Line.List(ctx, queue.Filter{Org: q.Org}, queue.MaxPage, cursor)
			if err != nil {
				return nil, "", fmt.Errorf("dispatch: list: %w: %w", api.ErrUnavailable, err)
			}
			for _, w := range p.Waiting {
				if o, err := call.DecodeOrder(w.Order); err == nil && !top.seen[o.CallID] {
					add(call.New(o, w.Enqueued))
				}
			}
			if cursor = p.Next; cursor == 0 {
				break
			}
		}
	}
	page = top.sorted()
	if len(page) > limit {
		page = page[:limit]
		last := page[limit-1]
		next = strconv.FormatInt(last.UpdatedAt.UnixMilli(), 36) + "." + last.Order.CallID
	}
	return page, next, nil
}

type place struct {
	at int64 // ms
	id string
}

func (p place) zero() bool { return p == place{} }

func placeOf(r call.Record) place { return place{r.UpdatedAt.UnixMilli(), r.Order.CallID} }

// compare orders the newest first.
func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(q.at, p.at), cmp.Compare(p.id, q.id))
}

func parseCursor(s string) (place, error) {
	if s == "" {
		return place{}, nil
	}
	at, id, ok := strings.Cut(s, ".")
	ms, err := strconv.ParseInt(at, 36, 64)
	if !ok || err != nil {
		return place{}, fmt.Errorf("dispatch: list: cursor %q is none of ours: %w", s, api.ErrNotFound)
	}
	return place{ms, id}, nil
}

// newest keeps the first so many records behind a place; what it has seen of a
// call twice (it changed while it was read) counts once, the newer one.
type newest struct {
	limit  int
	before place
	seen   map[string]bool
	rs     []call.Record
}

func (n *newest) add(r call.Record) {
	if n.seen[r.Order.CallID] {
		n.rs = slices.DeleteFunc(n.rs, func(o call.Record) bool { return o.Order.CallID == r.Order.CallID })
	}
	n.seen[r.Order.CallID] = true
	if !n.before.zero() && placeOf(r).compare(n.before) <= 0 {
		return
	}
	n.rs = append(n.rs, r)
	if len(n.rs) > 4*n.limit {
		n.rs = n.sorted()[:n.limit]
	}
}

func (n *newest) sorted() []call.Record {
	slices.SortFunc(n.rs, func(a, b call.Record) int { return placeOf(a).compare(placeOf(b)) })
	return n.rs
}
