package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"dibs/wire"
)

// How often a member beats, and how soon after a change.
const (
	BeatEvery = 5 * time.Second
	beatGap   = 100 * time.Millisecond // a storm of changes is told ten times a second, not once each
)

// MemberConfig says who a member is and what it knows of itself.
type MemberConfig struct {
	// Beat returns the bot's present truth without Seq, which the member sets. It
	// must not block.
	Beat func() wire.Beat
	// Command carries out one verb of the bot's own subjects (release, cordon,
	// uncordon, drain, call) and must not block; ping is answered here.
	Command func(verb string, cmd wire.Command) wire.Answer
	// Changed tells of changes that are not the seats' (cordon, drain, breaker).
	// Nil: there are none.
	Changed <-chan struct{}
	Log     zerolog.Logger
}

// Member is the bot's side: it beats and obeys commands.
type Member struct {
	nc    *nats.Conn
	seats *Seats
	cfg   MemberConfig
	moved <-chan struct{}

	beats wire.Beat // the identity, for subjects
	seq   uint64    // owned by Run
}

// NewMember checks the bot's identity and makes its member; Run starts it.
func NewMember(nc *nats.Conn, seats *Seats, cfg MemberConfig) (*Member, error) {
	if cfg.Beat == nil || cfg.Command == nil {
		return nil, errors.New("pool: member: Beat and Command are required")
	}
	b := cfg.Beat().Fit()
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("pool: member: %w", err)
	}
	return &Member{nc: nc, seats: seats, cfg: cfg, beats: b, moved: seats.Watch()}, nil
}

// Run beats and obeys until ctx ends, then says goodbye. It returns an error
// only when it could not begin.
func (m *Member) Run(ctx context.Context) error {
	for _, verb := range []string{wire.VerbRelease, wire.VerbCordon, wire.VerbUncordon, wire.VerbDrain, wire.VerbCall, wire.VerbPing} {
		subj, err := wire.Bot(m.beats.BotID, verb)
		if err != nil {
			return fmt.Errorf("pool: member: %w", err)
		}
		sub, err := m.nc.Subscribe(subj, func(msg *nats.Msg) { m.obey(verb, msg) })
		if err != nil {
			return fmt.Errorf("pool: member: subscribe %s: %w", verb, err)
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	tick := time.NewTicker(BeatEvery)
	defer tick.Stop()
	m.beat(false)
	last := time.Now()
	var soon <-chan time.Time // set while a change waits for its beat
	for {
		select {
		case <-ctx.Done():
			m.beat(true)
			return nil
		case <-tick.C:
			m.beat(false)
			last, soon = time.Now(), nil
		case <-m.moved:
			soon = later(soon, last)
		case <-m.cfg.Changed:
			soon = later(soon, last)
		case <-soon:
			m.beat(false)
			last, soon = time.Now(), nil
		}
	}
}

// later is when a change is told: at once after a quiet time, else when the gap is over.
func later(soon <-chan time.Time, last time.Time) <-chan time.Time {
	if soon != nil {
		return soon
	}
	return time.After(max(0, beatGap-time.Since(last)))
}

func (m *Member) beat(goodbye bool) {
	b := m.cfg.Beat().Fit()
	m.seq++
	b.Seq, b.Goodbye = m.seq, goodbye
	subj, err := wire.BeatOf(b.Region, b.BotID)
	if err != nil {
		m.cfg.Log.Error().Err(err).Msg("beat has no subject")
		return
	}
	data, err := wire.Encode(b)
	if err != nil {
		m.cfg.Log.Error().Err(err).Msg("beat cannot be encoded")
		return
	}
	// While the connection is away nats.go buffers; a beat that is refused because
	// the buffer is full is mended by the next one.
	if err := m.nc.Publish(subj, data); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		m.cfg.Log.Warn().Err(err).Msg("beat not sent")
	}
	if goodbye {
		_ = m.nc.FlushTimeout(time.Second)
	}
}

func (m *Member) obey(verb string, msg *nats.Msg) {
	var answer wire.Answer
	if cmd, err := wire.Decode[wire.Command](orEmpty(msg.Data)); err != nil {
		answer = wire.Answer{Code: "malformed", Detail: err.Error()}
	} else if verb == wire.VerbPing {
		answer = wire.Answer{OK: true}
	} else {
		answer = m.cfg.Command(verb, cmd)
	}
	answer.V, answer.BotID = wire.Version, m.beats.BotID
	if msg.Reply == "" {
		return
	}
	data, err := wire.Encode(answer)
	if err != nil {
		m.cfg.Log.Error().Err(err).Str("verb", verb).Msg("answer cannot be encoded")
		return
	}
	_ = msg.Respond(data)
}

// orEmpty lets a person ping or drain by hand without a body.
func orEmpty(data []byte) []byte {
	if len(data) == 0 {
		return []byte("{}")
	}
	return data
}

// tellIn is the longest wait for a bot's answer: it may die between the server's
// sending and its own reading.
const tellIn = 5 * time.Second

// Tell sends one command to one bot and waits for its answer, at most until ctx
// ends, and never more than 5 s. A bot that is gone answers [nats.ErrNoResponders] at once.
func Tell(ctx context.Context, nc *nats.Conn, botID, verb string, cmd wire.Command) (wire.Answer, error) {
	subj, err := wire.Bot(botID, verb)
	if err != nil {
		return wire.Answer{}, fmt.Errorf("pool: tell: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, tellIn)
	defer cancel()
	cmd.V = wire.Version
	data, err := wire.Encode(cmd)
	if err != nil {
		return wire.Answer{}, fmt.Errorf("pool: tell: %w", err)
	}
	msg, err := nc.RequestWithContext(ctx, subj, data)
	if err != nil {
		return wire.Answer{}, fmt.Errorf("pool: tell %s to %s: %w", botID, verb, err)
	}
	answer, err := wire.Decode[wire.Answer](msg.Data)
	if err != nil {
		return wire.Answer{}, fmt.Errorf("pool: tell %s to %s: %w", botID, verb, err)
	}
	return answer, nil
}
