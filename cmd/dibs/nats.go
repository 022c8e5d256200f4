package main

import (
	"context"

	"github.com/rs/zerolog"

	"dibs/internal/natsd"
)

// natsCommand is the embedded server as a program of its own: for development, and
// for whoever wants to kill it.
type natsCommand struct {
	Port     int    `default:"4222" help:"Of clients, on 127.0.0.1."`
	Store    string `type:"path" required:"" help:"Folder of streams and buckets."`
	User     string `env:"NATS_USER" help:"User that clients must give, with a password."`
	Password string `env:"NATS_PASSWORD" help:"Its password; by environment only, please."`
}

// Run is the whole program.
func (c *natsCommand) Run(ctx context.Context, log zerolog.Logger) error {
	s, err := natsd.New(natsd.Config{StoreDir: c.Store, Port: c.Port, Username: c.User, Password: c.Password, Logger: log})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
