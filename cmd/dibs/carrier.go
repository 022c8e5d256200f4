package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"

	"dibs/carrier/simcarrier"
)

// carrierCommand is the simulated carrier as a program.
type carrierCommand struct {
	Addr     string        `default:"127.0.0.1:8090" help:"Where it is listened for; loopback only, its control addresses ask for no password."`
	Seed     uint64        `default:"1" help:"Of all chance."`
	Busy     float64       `default:"0.10" help:"Chance that a callee is on the phone."`
	NoAnswer float64       `default:"0.15" help:"Chance that nobody picks up."`
	Fail     float64       `default:"0.05" help:"Chance that the call fails."`
	RingMin  time.Duration `default:"500ms" help:"Shortest ring."`
	RingMax  time.Duration `default:"2s" help:"Longest ring."`
	TalkMin  time.Duration `default:"3s" help:"Shortest talk."`
	TalkMax  time.Duration `default:"8s" help:"Longest talk."`
	GivesUp  time.Duration `default:"3s" help:"A call that nobody answers ends after this."`
	Record   string        `type:"path" help:"Folder for what callees heard, one WAV a call."`
	Insecure bool          `help:"Take ws:// media to loopback."`
}

// Run is the whole program.
func (c *carrierCommand) Run(ctx context.Context, log zerolog.Logger) error {
	l, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("carrier: --addr: %w", err)
	}
	s, err := simcarrier.New(simcarrier.Config{
		Listener: l, Insecure: c.Insecure, Seed: c.Seed, Record: c.Record,
		Profile: simcarrier.Profile{
			Busy: c.Busy, NoAnswer: c.NoAnswer, Fail: c.Fail, GivesUp: c.GivesUp,
			Ring: simcarrier.Range{Min: c.RingMin, Max: c.RingMax}, Talk: simcarrier.Range{Min: c.TalkMin, Max: c.TalkMax},
		},
	})
	if err != nil {
		return err
	}
	log.Info().Str("addr", l.Addr().String()).Str("account", simcarrier.AccountSID).Msg("simulated carrier")
	return s.Run(ctx)
}
