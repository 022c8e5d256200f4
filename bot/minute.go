package bot

import (
	"slices"
	"sync"
	"time"

	"dibs/wire"
)

// minute remembers what happened in the last minute, for beats: enough to eject
// a bot that is up but bad.
type minute struct {
	mu     sync.Mutex
	events []happening // in order of time
}

type happening struct {
	at    time.Time
	what  byte // e: ended, f: ended and failed, x: warm-up failed, a: first audio
	audio time.Duration
}

const mostRemembered = 4096 // a bot that has more in a minute reports on the newest

func (m *minute) add(h happening) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h.at = time.Now()
	m.events = append(m.events, h)
	if len(m.events) > mostRemembered {
		m.events = slices.Delete(m.events, 0, len(m.events)-mostRemembered)
	}
}

func (m *minute) ended(failed bool) {
	what := byte('e')
	if failed {
		what = 'f'
	}
	m.add(happening{what: what})
}

func (m *minute) failed() { m.add(happening{what: 'x'}) }

func (m *minute) firstAudio(d time.Duration) { m.add(happening{what: 'a', audio: d}) }

func (m *minute) view(now time.Time) wire.Minute {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = slices.DeleteFunc(m.events, func(h happening) bool { return now.Sub(h.at) > time.Minute })
	var v wire.Minute
	var audio []time.Duration
	for _, h := range m.events {
		switch h.what {
		case 'e':
			v.Ended++
		case 'f':
			v.Ended++
			v.Failed++
		case 'x':
			v.Errors++
		case 'a':
			audio = append(audio, h.audio)
		}
	}
	if n := len(audio); n > 0 {
		slices.Sort(audio)
		v.FirstAudioP95MS = wire.ToMillis(audio[(n*95+99)/100-1])
	}
	return v
}
