package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"dibs/api"
	"dibs/call"
	"dibs/wire"
)

// play plays the acts, each with one line of what is shown and one of what was seen.
func (d *demo) play(ctx context.Context) error {
	acts := []struct {
		title string
		play  func(context.Context) error
	}{
		{fmt.Sprintf("%s, %s", count(d.Calls, "call"), count(d.Bots, "bot")), d.twelveCalls},
		{fmt.Sprintf("a burst of %d on %s, now or not at all: who gets none is told why, at once", d.Burst, count(d.Bots, "bot")), d.burstNow},
		{fmt.Sprintf("a burst of %d on %s: the rest waits on the line and is dialled as seats free", d.Burst, count(d.Bots, "bot")), d.burstWaits},
		{"the backend is killed (kill -9) in the middle of a burst, and comes back", d.backendKilled},
		{fmt.Sprintf("they call us: %s on %s, and one more, who is called back", count(d.Bots, "caller"), count(d.Bots, "bot")), d.theyCall},
		{"a bot is killed (kill -9) in the middle of a call", d.botKilled},
	}
	for i, act := range acts {
		fmt.Printf("\n[%d/%d] %s\n", i+1, len(acts), act.title)
		if err := act.play(ctx); err != nil {
			return fmt.Errorf("act %d: %w", i+1, err)
		}
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// order is one call of the demo, with a tag that only its own greeting carries.
type order struct {
	key string
	to  string
	tag string
	id  string
	at  time.Time
}

func (d *demo) order() order {
	d.placed++
	n := d.placed
	return order{key: fmt.Sprintf("demo-%d-%04d", d.Seed, n), to: fmt.Sprintf("+4915100%06d", n), tag: fmt.Sprintf("%04d", (n*7919)%10000)}
}

// place asks for n calls at once and returns them with their ids. A request whose
// answer does not come is sent again with the same key: it is the same call.
func (d *demo) place(ctx context.Context, n int, noWait bool) ([]order, error) {
	orders := make([]order, n)
	for i := range orders {
		orders[i] = d.order()
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range orders {
		wg.Go(func() {
			o := &orders[i]
			o.at = time.Now()
			meta, _ := json.Marshal(map[string]string{"dibs_tag": o.tag})
			errs[i] = until(ctx, 30*time.Second, "POST /v1/calls", func() bool {
				c, _, err := d.api.PlaceCall(ctx, api.PlaceCall{
					To: o.to, Org: "demo", Metadata: meta, NoWait: noWait, RingMS: 10_000, Greeting: api.Greeting{Text: "Hello, this is a warm bot. How are you today?"},
				}, o.key)
				o.id = c.ID
				return err == nil
			})
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return orders, nil
}

// wait waits until every call has ended and the seats are idle again, and shows
// how many have.
func (d *demo) wait(ctx context.Context, orders []order) ([]api.Call, error) {
	calls := make([]api.Call, len(orders))
	ended := 0
	err := until(ctx, 3*time.Minute, "every call ends", func() bool {
		for i, o := range orders {
			if calls[i].State.Terminal() {
				continue
			}
			if c, err := d.api.Call(ctx, o.id, false); err == nil {
				if calls[i] = c; c.State.Terminal() {
					ended++
				}
			}
		}
		progress("%d of %d calls have ended", ended, len(orders))
		return ended == len(orders)
	})
	progress("")
	if err != nil {
		return calls, err
	}
	// A seat is idle within a second of its call's end; a little more for its beat.
	if err := until(ctx, 5*time.Second, "every seat is idle again (a leaked seat)", func() bool { return d.idle(ctx) == d.Bots }); err != nil {
		return calls, err
	}
	// Now that all is over, each call once more: with its whole timeline.
	for i, o := range orders {
		if calls[i], err = d.api.Call(ctx, o.id, false); err != nil {
			return calls, err
		}
	}
	return calls, nil
}

// progress shows a line that the next one overwrites, to whoever sits before a
// terminal.
func progress(format string, args ...any) {
	if fi, err := os.Stdout.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
		fmt.Printf("\r%-60s\r      %s", "", fmt.Sprintf(format, args...))
		if format == "" {
			fmt.Printf("\r%-60s\r", "")
		}
	}
}

func (d *demo) twelveCalls(ctx context.Context) error {
	orders, err := d.place(ctx, d.Calls, false)
	if err != nil {
		return err
	}
	return d.see(ctx, orders)
}

func (d *demo) burstWaits(ctx context.Context) error {
	orders, err := d.place(ctx, d.Burst, false)
	if err != nil {
		return err
	}
	return d.see(ctx, orders)
}

// see waits, checks what the callees heard, and says so.
func (d *demo) see(ctx context.Context, orders []order) error {
	calls, err := d.wait(ctx, orders)
	if err != nil {
		return err
	}
	r, err := d.report(ctx, orders, calls)
	if err != nil {
		return err
	}
	r.print()
	d.totals.add(r)
	return r.check()
}

// burstNow: calls that do not wait. Each of them learns at once, with the numbers.
func (d *demo) burstNow(ctx context.Context) error {
	orders, err := d.place(ctx, d.Burst, true)
	if err != nil {
		return err
	}
	calls, err := d.wait(ctx, orders)
	if err != nil {
		return err
	}
	r, err := d.report(ctx, orders, calls)
	if err != nil {
		return err
	}
	r.print()
	d.totals.add(r)
	var told []time.Duration
	reasons := map[string]int{}
	var sample *wire.Counts
	for i, c := range calls {
		if c.Outcome != call.BotUnavailable {
			continue
		}
		reasons[c.Reason]++
		told = append(told, c.EndedAt.Sub(orders[i].at))
		if n := countsIn(c); n != nil && sample == nil {
			sample = n
		}
	}
	if len(told) > 0 {
		slices.Sort(told)
		fmt.Printf("      %d got no bot: %v, told after p50 %v\n", len(told), reasons, told[len(told)/2].Round(time.Millisecond))
		if sample == nil {
			return fmt.Errorf("a call without a bot was not told the counts")
		}
		fmt.Printf("      e.g. %d bots, %d seats: %d idle, %d claimed, %d live\n", sample.Bots, sample.Seats, sample.Idle, sample.Claimed, sample.Live)
	}
	if d.Burst > d.Bots && len(told) == 0 {
		return fmt.Errorf("%d calls at once on %d bots, and nobody went without", d.Burst, d.Bots)
	}
	return r.check()
}

// countsIn are the numbers a refused claim left in the timeline.
func countsIn(c api.Call) *wire.Counts {
	for _, e := range c.Timeline {
		var data struct {
			Counts *wire.Counts `json:"counts"`
		}
		if e.Type == "call.claim_refused" && json.Unmarshal(e.Data, &data) == nil && data.Counts != nil {
			return data.Counts
		}
	}
	return nil
}

// backendKilled kills the backend while calls ring, talk and wait.
func (d *demo) backendKilled(ctx context.Context) error {
	orders, err := d.place(ctx, d.Burst, false)
	if err != nil {
		return err
	}
	if err := until(ctx, 20*time.Second, "a call is live", func() bool {
		page, err := d.api.Bots(ctx, demoRegion, "")
		return err == nil && page.Counts.Live > 0
	}); err != nil {
		return err
	}
	d.backend.kill()
	killed := time.Now()
	if err := d.backend.start(); err != nil {
		return err
	}
	if err := until(ctx, 30*time.Second, "the backend is back", d.backendReady); err != nil {
		return err
	}
	fmt.Printf("      killed with calls ringing, talking and waiting; back after %v\n", time.Since(killed).Round(time.Millisecond))
	return d.see(ctx, orders)
}
