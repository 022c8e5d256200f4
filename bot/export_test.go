package bot

import (
	"time"

	"dibs/breaker"
	"dibs/wire"
)

// Seats is the seat table itself, which beats tell a moment later.
func (b *Bot) Seats() []wire.SeatView { return b.seats.View(time.Now()) }

// Release is what the command does, for tests without a broker to send it by.
func (b *Bot) Release(callID string) { b.release(wire.Command{CallID: callID}) }

// Breaker is the breaker as it stands now.
func (b *Bot) Breaker() breaker.View { return b.breaker.View() }

// Command carries out a verb.
func (b *Bot) Command(verb string, cmd wire.Command) wire.Answer { return b.command(verb, cmd) }
