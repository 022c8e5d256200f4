// Package program is what every Dibs binary does before and after its work:
// parse flags and environment, log to stderr, end on SIGTERM or Ctrl-C, turn
// what happened into an exit code.
//
// Exit codes: 0 done, 1 an error, 2 wrong flags, 3 drained by command.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"
)

// Log are the flags about logging.
type Log struct {
	Level string `name:"log-level" env:"DIBS_LOG_LEVEL" default:"info" enum:"trace,debug,info,warn,error,disabled" help:"Least level that is logged."`
}

// Logger logs JSON lines to stderr.
func (l Log) Logger() zerolog.Logger {
	level, err := zerolog.ParseLevel(l.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	return zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
}

// Parse reads args and environment into cli, which names its commands. Wrong
// flags end the process with 2.
func Parse(cli any, name, about string, args []string) *kong.Context {
	parser, err := kong.New(cli, kong.Name(name), kong.Description(about), kong.UsageOnError(), kong.Vars{"version": Version()})
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err) // a mistake of ours in the flags' tags
		os.Exit(2)
	}
	k, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
	return k
}

// Main runs a program until it ends by itself or is told to, and exits. The
// first signal ends the context; a second one ends the process at once. An
// error that is in quiet exits with 3.
func Main(name string, run func(ctx context.Context) error, quiet ...error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from now on a signal does what it does by default
	err := run(ctx)
	stop()
	for _, q := range quiet {
		if errors.Is(err, q) {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(3)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Version is the module's version as built, or the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return info.Main.Version + " " + s.Value[:min(12, len(s.Value))]
		}
	}
	return info.Main.Version
}
