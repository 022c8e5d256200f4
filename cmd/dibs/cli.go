package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"dibs/api"
	"dibs/call"
)

// asker is a command that asks a server: noun and verb, and where results go.
type asker interface {
	ask(ctx context.Context, command string, out io.Writer) error
}

// errNo is the answer no, which is no failure: exit code 3.
var errNo = errors.New("the answer is no")

// remote is how a command reaches its server.
type remote struct {
	Server string `env:"DIBS_SERVER" default:"http://127.0.0.1:8080" help:"Address of a backend."`
	Token  string `env:"DIBS_TOKEN" help:"Bearer token; by environment only, please."`
	Output string `short:"o" name:"output" default:"table" enum:"table,json" help:"How results are written to stdout."`
}

func (r remote) client() (*api.Client, error) {
	return api.NewClient(api.ClientConfig{BaseURL: r.Server, Token: r.Token, Timeout: 30 * time.Second})
}

// show writes v as JSON, or lets table write its rows, aligned.
func (r remote) show(out io.Writer, v any, table func(w io.Writer)) error {
	if r.Output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}

func row(w io.Writer, cells ...any) {
	for i, c := range cells {
		if i > 0 {
			_, _ = fmt.Fprint(w, "\t")
		}
		_, _ = fmt.Fprint(w, c)
	}
	_, _ = fmt.Fprintln(w)
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func ago(at time.Time) string {
	if at.IsZero() {
		return "–"
	}
	return time.Since(at).Round(time.Second).String()
}

func ms(d call.Millis) time.Duration { return d.Duration().Round(time.Second) }

// callsCommand is everything about calls.
type callsCommand struct {
	remote `embed:""`

	Place struct {
		To     string `required:"" help:"Whom to call, E.164."`
		From   string `help:"The number that is shown."`
		Org    string `name:"org" help:"Whose call it is."`
		Flow   string `help:"The flow's id."`
		Region string `help:"Whose bots it may have."`
		Key    string `help:"Idempotency key: the same key means the same call."`
		NoWait bool   `help:"Now or not at all."`
	} `cmd:"" help:"Ask for a call."`
	LS struct {
		State string `help:"Only calls in this state."`
		Org   string `name:"org" help:"Only this org's."`
		Limit int    `default:"20" help:"How many."`
	} `cmd:"" name:"ls" help:"Calls, newest first."`
	Info struct {
		ID string `arg:"" help:"The call's id."`
	} `cmd:"" help:"One call, its attempts and its timeline."`
	Why struct {
		ID string `arg:"" help:"The call's id."`
	} `cmd:"" help:"Why it has not gone out; exit code 3 when it would not be dialled now."`
	Cancel struct {
		ID     string `arg:"" help:"The call's id."`
		Reason string `help:"For people who look at it later."`
	} `cmd:"" help:"Stop it, in whatever state it is."`
}

func (c *callsCommand) ask(ctx context.Context, command string, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	switch command {
	case "calls place":
		p := &c.Place
		got, _, err := client.PlaceCall(ctx, api.PlaceCall{To: p.To, From: p.From, Org: p.Org, Flow: api.Flow{ID: p.Flow}, Region: p.Region, NoWait: p.NoWait}, p.Key)
		if err != nil {
			return err
		}
		return c.show(out, got, func(w io.Writer) { row(w, got.ID, got.State) })
	case "calls ls":
		got, err := client.Calls(ctx, api.ListQuery{State: call.State(c.LS.State), Org: c.LS.Org, Limit: c.LS.Limit}, false)
		if err != nil {
			return err
		}
		return c.show(out, got, func(w io.Writer) {
			row(w, "CALL", "STATE", "FOR", "ORG", "CLASS", "TO", "WAITING FOR", "REASON")
			for _, k := range got.Calls {
				row(w, k.ID, k.State, ago(k.UpdatedAt), k.Org, k.Class, k.To, dash(k.WaitingFor), dash(k.Reason))
			}
		})
	case "calls info":
		got, err := client.Call(ctx, c.Info.ID, false)
		if err != nil {
			return err
		}
		return c.show(out, got, func(w io.Writer) { info(w, got) })
	case "calls why":
		got, err := client.Why(ctx, c.Why.ID)
		if err != nil {
			return err
		}
		if err := c.show(out, got, func(w io.Writer) { why(w, got) }); err != nil || got.WouldDial {
			return err
		}
		return errNo
	case "calls cancel":
		got, err := client.CancelCall(ctx, c.Cancel.ID, c.Cancel.Reason)
		if err != nil {
			return err
		}
		return c.show(out, got, func(w io.Writer) { row(w, got.ID, got.State) })
	}
	return fmt.Errorf("no such command: %s", command)
}

// info is one call for people: who took it, and why.
func info(w io.Writer, c api.Call) {
	row(w, c.ID, c.State, c.Class, c.Org, "to "+c.To, dash(c.Reason))
	for _, e := range c.Timeline {
		var detail []string
		var data map[string]any
		if json.Unmarshal(e.Data, &data) == nil {
			for _, k := range []string{"bot", "attempt", "carrier_id", "outcome", "reason", "code", "took_ms", "length_ms", "left_ms"} {
				if v, ok := data[k]; ok {
					detail = append(detail, fmt.Sprintf("%s %v", k, v))
				}
			}
		}
		row(w, e.At.Local().Format("15:04:05.000"), e.Type, strings.Join(detail, " · "))
	}
}

// why is every gate for people.
func why(w io.Writer, y api.Why) {
	answer := "NO"
	if y.WouldDial {
		answer = "yes"
	}
	row(w, y.Call, y.State)
	row(w, "Would it be dialled now?", answer)
	for _, g := range y.Gates {
		mark, limit := "✔", "no limit"
		if !g.OK {
			mark = "✘ " + g.Code
		}
		if g.Limit != nil {
			limit = fmt.Sprint("of ", *g.Limit)
		}
		text := fmt.Sprint(g.InUse, " ", limit)
		if g.Gate == "time" || g.Gate == "person" {
			text = ""
		}
		if g.Owed > 0 {
			text += fmt.Sprint(", ", g.Owed, " kept for inbound")
		}
		row(w, "  "+g.Gate, mark, text, g.Scope)
	}
	if y.Position > 0 {
		row(w, "Position", fmt.Sprintf("%d of %d (%d by floor, %d by fewest running)", y.Position, y.Of, y.AheadFloor, y.AheadBurst))
	}
	if b := y.BotWait; b != nil {
		row(w, "Waits for a bot", fmt.Sprintf("%v left of 90 s", ms(b.RemainingMS)))
	}
	for _, v := range y.Verdicts {
		row(w, "  "+v.At.Local().Format("15:04:05"), v.Reason, v.Scope)
	}
}

// botsCommand is everything about bots.
type botsCommand struct {
	remote `embed:""`

	LS struct {
		Region string `help:"Only this region's."`
	} `cmd:"" name:"ls" help:"Bots, seat by seat."`
	Cordon   botCommand `cmd:"" help:"No new calls."`
	Uncordon botCommand `cmd:"" help:"Take calls again."`
	Drain    botCommand `cmd:"" help:"Finish the calls and leave."`
}

type botCommand struct {
	ID     string `arg:"" help:"The bot's id."`
	Reason string `help:"For people who look at it later."`
}

func (c *botsCommand) ask(ctx context.Context, command string, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var got api.Bot
	switch command {
	case "bots ls":
		page, err := client.Bots(ctx, c.LS.Region, "")
		if err != nil {
			return err
		}
		return c.show(out, page, func(w io.Writer) {
			n := page.Counts
			row(w, fmt.Sprintf("%d bots · %d idle · %d claimed · %d live · %d draining · %d broken · %d stuck", n.Bots, n.Idle, n.Claimed, n.Live, n.Draining, n.Broken, n.Stuck))
			row(w, "BOT", "REGION", "POOL", "SEAT", "STATE", "FOR", "CALL", "HEARD")
			for _, b := range page.Bots {
				for i, s := range b.Seats {
					state := s.State
					if b.State == api.BotDraining || b.State == api.BotCordoned || b.State == api.BotFailing || b.State == api.BotLost {
						state += " (" + b.State + ")"
					}
					if s.Stuck {
						state += " !"
					}
					row(w, b.ID, b.Region, b.Pool, i, state, ms(s.ForMS), dash(s.Call), ms(b.HeardMS))
				}
			}
		})
	case "bots cordon":
		got, err = client.CordonBot(ctx, c.Cordon.ID, c.Cordon.Reason)
	case "bots uncordon":
		got, err = client.UncordonBot(ctx, c.Uncordon.ID, c.Uncordon.Reason)
	case "bots drain":
		got, err = client.DrainBot(ctx, c.Drain.ID, c.Drain.Reason)
	default:
		return fmt.Errorf("no such command: %s", command)
	}
	if err != nil {
		return err
	}
	return c.show(out, got, func(w io.Writer) { row(w, got.ID, got.State) })
}

// scaleCommand explains the demand.
type scaleCommand struct {
	remote `embed:""`

	Explain struct {
		Region string `required:"" env:"DIBS_REGION" help:"Whose bots are scaled."`
	} `cmd:"" help:"How many bots are wanted, term by term."`
}

func (c *scaleCommand) ask(ctx context.Context, _ string, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	got, err := client.Scale(ctx, c.Explain.Region)
	if err != nil {
		return err
	}
	return c.show(out, got, func(w io.Writer) {
		row(w, fmt.Sprintf("wanted %d bots  =  ceil(%d demand / %s per bot), between floor %d and ceiling %d", got.Wanted, got.Demand, got.PerBot, got.Floor, got.Ceiling))
		for _, t := range got.Terms {
			row(w, "  "+t.Name, t.Seen, "→", t.Counts)
		}
		for _, k := range got.Clamps {
			row(w, "  clamped by "+k.Name, k.From, "→", k.To)
		}
		n := got.Bots
		row(w, fmt.Sprintf("bots now %d: %d idle, %d claimed, %d live; not capacity: %d draining, %d broken, %d stuck", n.Bots, n.Idle, n.Claimed, n.Live, n.Draining, n.Broken, n.Stuck))
		row(w, fmt.Sprintf("policy %s, numbers %v old", got.Policy, got.AgeMS.Duration()))
	})
}
