package bot

import (
	"time"

	"dibs/wire"
)

// pastLife is how long a bot remembers how a call ended: for longer than any
// carrier takes to ask what follows. And most is how many of them.
const (
	pastLife = 10 * time.Minute
	pastMost = 1000
)

// past remembers how calls ended here. Its zero value is empty and ready.
type past struct {
	of    map[string]ending // call ID → the newest end of it
	order []ending          // oldest first
}

type ending struct {
	call string
	why  string
	at   time.Time
}

func (p *past) note(now time.Time, call, why string) {
	if p.of == nil {
		p.of = map[string]ending{}
	}
	e := ending{call, why, now}
	p.of[call] = e
	p.order = append(p.order, e)
	for len(p.order) > pastMost || now.Sub(p.order[0].at) > pastLife {
		if old := p.order[0]; p.of[old.call] == old {
			delete(p.of, old.call)
		}
		p.order = p.order[1:]
	}
}

func (p *past) why(now time.Time, call string) (string, bool) {
	e, ok := p.of[call]
	return e.why, ok && now.Sub(e.at) <= pastLife
}

// stands says how a call stands here: what a backend asks when the carrier tells it
// that the media socket has closed.
func (b *Bot) stands(cmd wire.Command) wire.Answer {
	if cmd.CallID == "" {
		return wire.Answer{Code: "malformed", Detail: "call_id: missing"}
	}
	b.mu.Lock()
	s := b.sessions[cmd.CallID]
	why, was := b.past.why(time.Now(), cmd.CallID)
	b.mu.Unlock()
	if s != nil {
		s.mu.Lock()
		live, over := s.live, s.over
		s.mu.Unlock()
		switch {
		case live && !over:
			return wire.Answer{OK: true, State: wire.CallLive}
		case !over:
			return wire.Answer{OK: true, State: wire.CallAssigned, Media: s.media}
		}
		// It is just leaving: in a moment it is known why.
		return wire.Answer{OK: true, State: wire.CallLive}
	}
	if was {
		return wire.Answer{OK: true, State: wire.CallEnded, Why: why}
	}
	return wire.Answer{Code: "unknown_call", Detail: "this bot does not have the call"}
}
