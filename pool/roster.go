package pool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/wire"
)

// What a silence means.
const (
	NotAsked    = 12 * time.Second // not asked directly any more
	NotCapacity = 30 * time.Second // not counted any more
	Forgotten   = time.Hour        // not listed any more
)

// Roster is what a backend believes of all bots. It only ever believes beats.
// Safe for concurrent use.
type Roster struct {
	mu    sync.Mutex // guards what follows
	bots  map[string]*heard
	swept time.Time
	bad   int64 // beats that could not be read

	watchers []chan struct{}
}

type heard struct {
	beat wire.Beat
	at   time.Time
}

// Bot is one bot as the roster believes it at one moment.
type Bot struct {
	Beat  wire.Beat     // its seats' ages include the time since it was heard
	Heard time.Duration // how long ago
}

// NewRoster makes an empty roster.
func NewRoster() *Roster { return &Roster{bots: map[string]*heard{}} }

// Watch returns a channel that holds a token after every beat that was new,
// however many there were. Each watcher has its own.
func (r *Roster) Watch() <-chan struct{} {
	ch := make(chan struct{}, 1)
	r.mu.Lock()
	r.watchers = append(r.watchers, ch)
	r.mu.Unlock()
	return ch
}

// Unwatch ends a Watch.
func (r *Roster) Unwatch(ch <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = slices.DeleteFunc(r.watchers, func(w chan struct{}) bool { return w == ch })
}

// Live reports whether a bot that was heard of lately says that it talks on a call.
func (r *Roster) Live(now time.Time, callID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.bots {
		if now.Sub(h.at) > NotCapacity {
			continue
		}
		for _, s := range h.beat.Seats {
			if s.CallID == callID && s.State == wire.SeatLive {
				return true
			}
		}
	}
	return false
}

// Shows reports whether the newest beat of any bot names the call in one of its
// seats, whatever the state of that.
func (r *Roster) Shows(callID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.bots {
		for _, s := range h.beat.Seats {
			if s.CallID == callID {
				return true
			}
		}
	}
	return false
}

// Hear takes one beat. An older beat than the newest of that bot is dropped; a
// goodbye forgets the bot.
func (r *Roster) Hear(now time.Time, b wire.Beat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ch := range r.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	if now.Sub(r.swept) > time.Minute {
		r.swept = now
		for id, h := range r.bots {
			if now.Sub(h.at) > Forgotten {
				delete(r.bots, id)
			}
		}
	}
	if b.Goodbye {
		delete(r.bots, b.BotID)
		return
	}
	if h := r.bots[b.BotID]; h != nil && h.beat.Instance == b.Instance && b.Seq <= h.beat.Seq {
		return
	}
	r.bots[b.BotID] = &heard{beat: b, at: now}
}

// Bots lists the bots heard within the hour, by region, pool and id.
func (r *Roster) Bots(now time.Time) []Bot {
	r.mu.Lock()
	out := make([]Bot, 0, len(r.bots))
	for _, h := range r.bots {
		age := now.Sub(h.at)
		if age > Forgotten {
			continue
		}
		b := Bot{Beat: h.beat, Heard: age}
		b.Beat.Seats = slices.Clone(h.beat.Seats)
		for i := range b.Beat.Seats {
			b.Beat.Seats[i].ForMS += wire.ToMillis(age)
		}
		out = append(out, b)
	}
	r.mu.Unlock()
	slices.SortFunc(out, func(a, b Bot) int {
		return cmp.Or(strings.Compare(a.Beat.Region, b.Beat.Region), strings.Compare(a.Beat.Pool, b.Beat.Pool), strings.Compare(a.Beat.BotID, b.Beat.BotID))
	})
	return out
}

// Counts adds up the seats of one region, or of one of its pools when pool is
// not empty. Bots not heard for [NotCapacity] count as nothing but stuck.
func (r *Roster) Counts(now time.Time, region, pool string) wire.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	var c wire.Counts
	for _, h := range r.bots {
		if h.beat.Region != region || pool != "" && h.beat.Pool != pool {
			continue
		}
		if age := now.Sub(h.at); age > NotCapacity {
			if age <= Forgotten {
				c.Stuck += len(h.beat.Seats)
			}
			continue
		}
		c.Bots++
		c.Seats += len(h.beat.Seats)
		for _, s := range h.beat.Seats {
			switch {
			case s.Stuck:
				c.Stuck++
			case h.beat.Draining || h.beat.Cordoned:
				c.Draining++
			case h.beat.Breaker != nil && h.beat.Breaker.State == "open":
				c.Broken++
			case s.State == wire.SeatIdle:
				c.Idle++
			case s.State == wire.SeatLive || s.State == wire.SeatWrapup:
				c.Live++
			default:
				c.Claimed++
			}
		}
	}
	return c
}

// Malformed is how many beats could not be read since the start.
func (r *Roster) Malformed() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

// Run hears the beats of all bots until ctx ends.
func (r *Roster) Run(ctx context.Context, nc *nats.Conn, log zerolog.Logger) error {
	sub, err := nc.Subscribe(wire.BeatAll(), func(m *nats.Msg) {
		b, err := wire.Decode[wire.Beat](m.Data)
		if err != nil {
			r.mu.Lock()
			r.bad++
			first := r.bad == 1
			r.mu.Unlock()
			if first { // once: a foreign program must not fill the log
				log.Warn().Err(err).Str("subject", m.Subject).Msg("beat cannot be read")
			}
			return
		}
		r.Hear(time.Now(), b)
	})
	if err != nil {
		return fmt.Errorf("pool: roster: %w", err)
	}
	<-ctx.Done()
	return sub.Unsubscribe()
}
