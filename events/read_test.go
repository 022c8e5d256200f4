package events

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/natstest"
	"dibs/wire"
)

func TestTimeline(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		js := natstest.Start(t).JetStream(t)
		l := openLog(t, js, Config{})
		// Two subjects of one shard, told apart, and types of any depth.
		other := ""
		for i := 0; other == ""; i++ {
			if s := fmt.Sprintf("c%d", i); s != "c1" && shard(s) == shard("c1") {
				other = s
			}
		}
		start := time.Now()
		want := []string{"x", CallQueued, CallClaimAttempted, CallEnded}
		for _, typ := range want {
			publish(t, l, Event{Type: typ, Subject: "c1"})
			publish(t, l, Event{Type: typ, Subject: other})
			time.Sleep(time.Minute)
		}
		for _, tt := range []struct {
			from  time.Duration
			limit int
			want  []string
		}{
			{0, 0, want},
			{0, 2, want[:2]},
			{90 * time.Second, 0, want[2:]},
			{time.Hour, 0, nil},
		} {
			got, err := l.Timeline(t.Context(), "c1", start.Add(tt.from), tt.limit)
			if err != nil || !slices.Equal(typesOf(got), tt.want) {
				t.Errorf("from %v, limit %d: %v, %v, want %v", tt.from, tt.limit, typesOf(got), err, tt.want)
			}
		}
		_, err := l.Timeline(t.Context(), "c*", time.Time{}, 0)
		checkErr(t, "timeline", err, wire.ErrToken)
		if _, err := l.Timeline(t.Context(), "c1", time.Time{}, MaxPage+1); err == nil {
			t.Error("a timeline that is too long was read")
		}

		// An event of another program, with the least it may have.
		if _, err := js.Publish(t.Context(), "dibs.v1.events.call.note."+shard("c1"), []byte("hello")); err != nil {
			t.Fatal(err)
		}
		p, err := l.Since(t.Context(), time.Time{}, []string{"call.note"}, 0, 0)
		if err != nil || len(p.Events) != 1 {
			t.Fatalf("%v, %v", p, err)
		}
		if e := p.Events[0]; e.Type != "call.note" || e.ID == "" || e.At.IsZero() || e.Data != nil {
			t.Errorf("read %+v", e)
		}
		if info, err := l.stream.Info(t.Context()); err != nil || info.State.Consumers != 0 {
			t.Errorf("%d readers left behind", info.State.Consumers)
		}
	})
}

func TestSince(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		l := openLog(t, natstest.Start(t).JetStream(t), Config{})
		start := time.Now()
		for i := range 1200 {
			publish(t, l, Event{Type: []string{CallQueued, CallEnded, BotLost}[i%3], Subject: fmt.Sprintf("s%d", i)})
			time.Sleep(time.Second)
		}
		for _, tt := range []struct {
			types []string
			from  time.Duration
			limit int
			want  int
			pages int
		}{
			{nil, 0, 500, 1200, 3},
			{nil, 20 * time.Minute, 0, 0, 1},
			{nil, 10 * time.Minute, MaxPage, 600, 1},
			{[]string{"call"}, 0, 1000, 800, 1},
			{[]string{"call", CallEnded, "bot.lost", "call.queued"}, 0, 1000, 1200, 2},
			{[]string{CallEnded}, 0, 0, 400, 3},
			{[]string{"cal"}, 0, 0, 0, 1},
		} {
			var cursor uint64
			got, pages := 0, 0
			for {
				p, err := l.Since(t.Context(), start.Add(tt.from), tt.types, cursor, tt.limit)
				if err != nil {
					t.Fatal(err)
				}
				pages++
				for _, e := range p.Events {
					if e.Seq <= cursor {
						t.Fatalf("event %d after the cursor %d", e.Seq, cursor)
					}
					cursor = e.Seq
				}
				if cursor != p.Next {
					t.Errorf("next %d, want %d", p.Next, cursor)
				}
				if got += len(p.Events); len(p.Events) < tt.limit || len(p.Events) == 0 || tt.limit == 0 && len(p.Events) < 200 {
					break
				}
			}
			if got != tt.want || pages != tt.pages {
				t.Errorf("%v from %v by %d: %d events in %d pages, want %d in %d", tt.types, tt.from, tt.limit, got, pages, tt.want, tt.pages)
			}
		}
		_, err := l.Since(t.Context(), start, []string{"call.>"}, 0, 0)
		checkErr(t, "since", err, wire.ErrToken)
	})
}

func TestFollow(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		l := openLog(t, b.JetStream(t), Config{})
		other := openLog(t, b.JetStream(t), Config{})
		for _, typ := range []string{CallQueued, CallRinging, BotLost} {
			publish(t, other, Event{Type: typ, Subject: "before"})
		}
		follow := func(types []string, cursor uint64) (got chan Event, stop func()) {
			got = make(chan Event, 100)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- l.Follow(ctx, types, cursor, func(e Event) { got <- e }) }()
			synctest.Wait()
			return got, func() {
				cancel()
				if err := <-done; err != nil {
					t.Errorf("follow: %v, want nil when the context ends", err)
				}
			}
		}
		live, stopLive := follow([]string{"call"}, 0)
		resumed, stopResumed := follow(nil, 1)
		publish(t, other, Event{Type: CallEnded, Subject: "after"})
		b.Stop()
		time.Sleep(30 * time.Second)
		b.Restart()
		time.Sleep(time.Second)
		publish(t, other, Event{Type: BotLost, Subject: "after"})
		publish(t, other, Event{Type: CallFailed, Subject: "after"})
		time.Sleep(20 * time.Second)
		for _, tt := range []struct {
			name string
			got  chan Event
			want []string
		}{
			{"live", live, []string{CallEnded, CallFailed}},
			{"resumed", resumed, []string{CallRinging, BotLost, CallEnded, BotLost, CallFailed}},
		} {
			var got []Event
			for len(tt.got) > 0 {
				got = append(got, <-tt.got)
			}
			if !slices.Equal(typesOf(got), tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, typesOf(got), tt.want)
			}
		}
		stopLive()
		b.Stop() // the other waits for a broker
		time.Sleep(time.Minute)
		stopResumed()
	})
}
