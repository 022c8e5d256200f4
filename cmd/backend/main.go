// Command backend is one backend: the HTTP API, carrier webhooks, and the
// dispatcher that runs for office. Every flag has an environment variable; see
// --help.
package main

import (
	"context"
	"os"

	"dibs/backend"
	"dibs/internal/program"
)

func main() {
	var cli struct {
		backend.Command
		Log program.Log `embed:""`
	}
	program.Parse(&cli, "backend", "The Dibs backend: API, webhooks, dispatcher.", os.Args[1:])
	program.Main("backend", func(ctx context.Context) error { return cli.Command.Run(ctx, cli.Log.Logger()) })
}
