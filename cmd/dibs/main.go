// Command dibs is everything in one program: the demo, which runs a whole system
// on loopback, and the parts it is made of. See --help.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"dibs/backend"
	"dibs/bot"
	"dibs/internal/program"
)

func main() {
	var cli struct {
		Demo    demoCommand     `cmd:"" help:"Run the whole system in one terminal: NATS, backend, bots, simulated carrier."`
		Bot     bot.Command     `cmd:"" help:"One warm bot."`
		Backend backend.Command `cmd:"" help:"One backend: API, webhooks, dispatcher."`
		Carrier struct {
			Serve carrierCommand `cmd:"" help:"A simulated Twilio on loopback."`
		} `cmd:"" help:"The simulated carrier."`
		NATS      natsCommand      `cmd:"" name:"nats" help:"The embedded NATS server with JetStream, on loopback."`
		Simulate  simulateCommand  `cmd:"" help:"What settings would do: a scenario in fake time, policy beside policy."`
		Calls     callsCommand     `cmd:"" help:"Calls: place, ls, info, why, cancel."`
		Bots      botsCommand      `cmd:"" help:"Bots: ls, cordon, uncordon, drain."`
		Orgs      orgsCommand      `cmd:"" help:"Envelopes: ls, set."`
		Campaigns campaignsCommand `cmd:"" help:"Campaigns: ls, set, pause, resume."`
		Scale     scaleCommand     `cmd:"" help:"What the autoscaler is told, and why."`
		Version   struct{}         `cmd:"" help:"Print the version."`
		Log       program.Log      `embed:""`
	}
	k := program.Parse(&cli, "dibs", "A warm pool of voice bots on NATS.", os.Args[1:])
	log := cli.Log.Logger()
	command, _, _ := strings.Cut(k.Command(), " <")
	switch command {
	case "demo":
		program.Main("dibs demo", cli.Demo.Run)
	case "bot":
		program.Main("dibs bot", func(ctx context.Context) error { return cli.Bot.Run(ctx, log) }, bot.ErrDrained)
	case "backend":
		program.Main("dibs backend", func(ctx context.Context) error { return cli.Backend.Run(ctx, log) })
	case "carrier serve":
		program.Main("dibs carrier", func(ctx context.Context) error { return cli.Carrier.Serve.Run(ctx, log) })
	case "nats":
		program.Main("dibs nats", func(ctx context.Context) error { return cli.NATS.Run(ctx, log) })
	case "simulate":
		os.Exit(cli.Simulate.Run(os.Stdout, os.Stderr))
	case "version":
		fmt.Println(program.Version())
	default: // noun verb: asks a server
		var ask asker
		switch noun, _, _ := strings.Cut(command, " "); noun {
		case "calls":
			ask = &cli.Calls
		case "bots":
			ask = &cli.Bots
		case "orgs":
			ask = &cli.Orgs
		case "campaigns":
			ask = &cli.Campaigns
		case "scale":
			ask = &cli.Scale
		}
		program.Main("dibs "+command, func(ctx context.Context) error { return ask.ask(ctx, command, os.Stdout) }, errNo)
	}
}
