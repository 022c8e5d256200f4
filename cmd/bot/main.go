// Command bot is one warm bot: it waits for calls, prepares and answers them.
// Every flag has an environment variable; see --help. It runs against any NATS.
package main

import (
	"context"
	"os"

	"dibs/bot"
	"dibs/internal/program"
)

func main() {
	var cli struct {
		bot.Command
		Log program.Log `embed:""`
	}
	program.Parse(&cli, "bot", "One warm voice bot.", os.Args[1:])
	program.Main("bot", func(ctx context.Context) error { return cli.Command.Run(ctx, cli.Log.Logger()) }, bot.ErrDrained)
}
