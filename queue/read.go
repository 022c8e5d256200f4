package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/wire"
)

// A work queue has one reader, so looking at the line uses no consumer but the
// server's direct get: one request, answered with many messages.

// MaxPage is the most messages [Line.List] reads at once.
const MaxPage = 1000

var linePrefix = strings.TrimSuffix(wire.LineAll(), ">")

// Filter chooses a part of the line. Empty fields choose everything.
type Filter struct {
	Region, Class, Org string
}

func (f Filter) subject() (string, error) {
	var b strings.Builder
	b.WriteString(linePrefix)
	for _, token := range []string{f.Region, f.Class, f.Org} {
		if token == "" {
			b.WriteString("*.")
			continue
		}
		if err := wire.CheckToken(token); err != nil {
			return "", fmt.Errorf("queue: filter %+v: %w", f, err)
		}
		b.WriteString(token + ".")
	}
	return b.String() + "*", nil
}

// Waiting is one message in line.
type Waiting struct {
	Key      Key    // zero when the subject is none that [Key.Subject] makes
	Subject  string // as it was published
	Seq      uint64
	Enqueued time.Time
	Order    []byte
}

// Page is a part of a listing.
type Page struct {
	Waiting []Waiting // oldest first
	Next    uint64    // cursor of the page that follows; 0: this was the last
}

// List reads the line by age: up to limit messages (1 to [MaxPage]; 0 means 100)
// from cursor on, which is 0 or the Next of the page before. Messages may leave
// and arrive between two pages; none that stays is shown twice or left out.
func (l *Line) List(ctx context.Context, f Filter, limit int, cursor uint64) (Page, error) {
	subj, err := f.subject()
	if err != nil {
		return Page{}, err
	}
	if limit == 0 {
		limit = 100
	}
	if limit < 0 || limit > MaxPage {
		return Page{}, fmt.Errorf("queue: list: limit: %d, want 1 to %d", limit, MaxPage)
	}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	found, err := l.batch(ctx, wire.StreamLine, get{Seq: cursor, NextFor: subj, Batch: limit})
	if err != nil {
		return Page{}, fmt.Errorf("queue: list: %w", err)
	}
	var p Page
	for _, m := range found.msgs {
		p.Waiting = append(p.Waiting, Waiting{
			Key: parseKey(m.Subject), Subject: m.Subject, Seq: m.Seq, Enqueued: m.Time, Order: m.Data,
		})
	}
	if n := len(found.msgs); n > 0 && found.behind > 0 {
		p.Next = found.msgs[n-1].Seq + 1
	}
	return p, nil
}

// Find is a call's message for whoever knows only the call's id; [ErrNotFound] when
// it is not in line.
func (l *Line) Find(ctx context.Context, callID string) (Waiting, error) {
	if err := wire.CheckToken(callID); err != nil {
		return Waiting{}, fmt.Errorf("queue: find: %w", err)
	}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	found, err := l.batch(ctx, wire.StreamLine, get{NextFor: linePrefix + "*.*.*." + callID, Batch: 1})
	if err != nil {
		return Waiting{}, fmt.Errorf("queue: find %s: %w", callID, err)
	}
	if len(found.msgs) == 0 {
		return Waiting{}, fmt.Errorf("queue: find %s: %w", callID, ErrNotFound)
	}
	m := found.msgs[0]
	return Waiting{Key: parseKey(m.Subject), Subject: m.Subject, Seq: m.Seq, Enqueued: m.Time, Order: m.Data}, nil
}

// Tally is how many wait, and since when.
type Tally struct {
	Waiting uint64
	Oldest  time.Time // zero: nobody waits
}

// Count counts what waits, without reading it.
func (l *Line) Count(ctx context.Context, f Filter) (Tally, error) {
	subj, err := f.subject()
	if err != nil {
		return Tally{}, err
	}
	ctx, cancel := l.deadline(ctx)
	defer cancel()
	found, err := l.batch(ctx, wire.StreamLine, get{NextFor: subj, Batch: 1})
	if err != nil {
		return Tally{}, fmt.Errorf("queue: count: %w", err)
	}
	if len(found.msgs) == 0 {
		return Tally{}, nil
	}
	return Tally{Waiting: found.behind + 1, Oldest: found.msgs[0].Time}, nil
}

// get is a request for stored messages, as the server takes it.
type get struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
	Batch   int    `json:"batch,omitempty"`
}

// message is what is stored.
type message struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Data    []byte    `json:"data"`
	Header  nats.Header
}

// Headers of the server's answers that nats.go does not name.
const (
	timeHeader    = "Nats-Time-Stamp"
	pendingHeader = "Nats-Num-Pending"
)

// codeNoMessage: the server looked and there is none.
const codeNoMessage = 10037

// leader asks the stream's leader, who knows every write; a direct get may be
// answered by a replica that lags.
func (l *Line) leader(ctx context.Context, g get) (message, error) {
	body, err := json.Marshal(g)
	if err != nil {
		return message{}, err
	}
	reply, err := l.js.Conn().RequestWithContext(ctx, l.api+"STREAM.MSG.GET."+wire.StreamLine, body)
	if err != nil {
		return message{}, unavailable(ctx, err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message message             `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return message{}, unavailable(ctx, err)
	}
	if answer.Error != nil && answer.Error.ErrorCode == codeNoMessage {
		return message{}, ErrNotFound
	}
	if answer.Error != nil {
		return message{}, unavailable(ctx, answer.Error)
	}
	return answer.Message, nil
}

type found struct {
	msgs   []message
	behind uint64 // more that match, after the last of msgs
}

// batch asks for up to g.Batch messages from g.Seq on that match g.NextFor.
func (l *Line) batch(ctx context.Context, stream string, g get) (found, error) {
	g.Seq = max(g.Seq, 1)
	body, err := json.Marshal(g)
	if err != nil {
		return found{}, err
	}
	nc := l.js.Conn()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return found{}, unavailable(ctx, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(l.api+"DIRECT.GET."+stream, inbox, body); err != nil {
		return found{}, unavailable(ctx, err)
	}
	var f found
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return found{}, unavailable(ctx, err)
		}
		if seq := m.Header.Get(jetstream.SequenceHeader); seq != "" {
			got := message{Subject: m.Header.Get(jetstream.SubjectHeader), Data: m.Data, Header: m.Header}
			got.Seq, err = strconv.ParseUint(seq, 10, 64)
			if err == nil {
				got.Time, err = time.Parse(time.RFC3339Nano, m.Header.Get(timeHeader))
			}
			if err != nil {
				return found{}, unavailable(ctx, err)
			}
			f.msgs = append(f.msgs, got)
			continue
		}
		switch status := m.Header.Get("Status"); status {
		case "204": // end of batch
			f.behind, err = strconv.ParseUint(m.Header.Get(pendingHeader), 10, 64)
			if err != nil {
				return found{}, unavailable(ctx, err)
			}
			return f, nil
		case "404": // nothing (more) matches
			return f, nil
		default:
			return found{}, unavailable(ctx, errors.New(status+" "+m.Header.Get("Description")))
		}
	}
}

// apiPrefix is where JetStream's own subjects of js begin.
func apiPrefix(js jetstream.JetStream) string {
	switch o := js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return jetstream.DefaultAPIPrefix
}
