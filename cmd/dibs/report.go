package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"dibs/api"
	"dibs/call"
	"dibs/carrier/simcarrier"
)

// report is what an act led to, seen from both ends.
type report struct {
	calls    int
	outcomes map[call.Outcome]int
	answered int // the callee picked up
	heard    int // and heard their own greeting
	wrong    []string
	audio    []time.Duration // first sound, from the stream's start
	warm     []time.Duration
	asks     map[int]int // asks a claim → claims
	waited   int         // found no bot at first
	longest  time.Duration
}

// report compares what the API says of each call with what its callee says.
func (d *demo) report(ctx context.Context, orders []order, calls []api.Call) (*report, error) {
	books, err := d.books(ctx)
	if err != nil {
		return nil, err
	}
	r := &report{calls: len(orders), outcomes: map[call.Outcome]int{}, asks: map[int]int{}}
	type use struct {
		id       string
		from, to time.Time
	}
	uses := map[string][]use{} // bot → its calls
	for i, c := range calls {
		o := orders[i]
		r.outcomes[c.Outcome]++
		dials := 0
		for _, a := range c.Attempts {
			if !a.IntentAt.IsZero() {
				dials++
			}
			if a.Bot != "" && !a.LiveAt.IsZero() {
				uses[a.Bot] = append(uses[a.Bot], use{c.ID, a.LiveAt, a.ClosedAt})
			}
		}
		if n := len(books[o.to]); n > 1 || n > dials {
			r.wrong = append(r.wrong, fmt.Sprintf("%s: the phone rang %d times", c.ID, n))
		}
		for _, b := range books[o.to] {
			if b.Answered.IsZero() {
				continue
			}
			r.answered++
			switch {
			case !b.Heard.Sound:
				r.wrong = append(r.wrong, fmt.Sprintf("%s: the callee heard silence", c.ID))
			case b.Heard.Tag != o.tag:
				r.wrong = append(r.wrong, fmt.Sprintf("%s: the callee heard greeting %q, not %q", c.ID, b.Heard.Tag, o.tag))
			default:
				r.heard++
				r.audio = append(r.audio, b.Heard.FirstAudio)
			}
		}
		r.timeline(c)
	}
	for bot, us := range uses {
		slices.SortFunc(us, func(a, b use) int { return a.from.Compare(b.from) })
		for i := 1; i < len(us); i++ {
			if us[i].from.Before(us[i-1].to) && us[i].id != us[i-1].id {
				r.wrong = append(r.wrong, fmt.Sprintf("%s was in %s and %s at once", bot, us[i-1].id, us[i].id))
			}
		}
	}
	return r, nil
}

// timeline reads what happened to one call.
func (r *report) timeline(c api.Call) {
	var missed, found time.Time
	for _, e := range c.Timeline {
		var data struct {
			Attempts []struct{} `json:"attempts"`
			Warmup   struct {
				TotalMS int64 `json:"total_ms"`
			} `json:"warmup"`
		}
		switch e.Type {
		case "call.claim_refused":
			if missed.IsZero() {
				missed = e.At
			}
		case "call.claimed":
			found = e.At
			if json.Unmarshal(e.Data, &data) == nil {
				r.asks[len(data.Attempts)]++
				r.warm = append(r.warm, time.Duration(data.Warmup.TotalMS)*time.Millisecond)
			}
		}
	}
	if !missed.IsZero() && found.After(missed) {
		r.waited++
		r.longest = max(r.longest, found.Sub(missed))
	}
}

// books are the carrier's: every call it made, by number.
func (d *demo) books(ctx context.Context) (map[string][]simcarrier.Call, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.carrier+"/sim/calls", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the carrier's books: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var all []simcarrier.Call
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("the carrier's books: %w", err)
	}
	by := map[string][]simcarrier.Call{}
	for _, c := range all {
		by[c.To] = append(by[c.To], c)
	}
	return by, nil
}

func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(ds))
	return s[min(len(s)-1, int(float64(len(s))*q))]
}

func (r *report) print() {
	var parts []string
	for _, o := range call.Outcomes() {
		if n := r.outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	fmt.Printf("      %d placed · %s      %d of %d heard their own greeting\n", r.calls, strings.Join(parts, " · "), r.heard, r.answered)
	var asks []string
	for n := 1; n <= 10; n++ {
		if r.asks[n] > 0 {
			asks = append(asks, fmt.Sprintf("%d:%d", n, r.asks[n]))
		}
	}
	fmt.Printf("      asks a claim %s · warm-up p50 %v · first audio after start p95 %v", strings.Join(asks, " "), quantile(r.warm, .5), quantile(r.audio, .95).Round(time.Millisecond))
	if r.waited > 0 {
		fmt.Printf(" · %d waited for a bot (longest %v of 90 s)", r.waited, r.longest.Round(100*time.Millisecond))
	}
	fmt.Println()
}

// slowest is how late the first sound may be before the demo calls it a failure.
const slowest = 500 * time.Millisecond

func (r *report) check() error {
	if len(r.wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(r.wrong, "\n       "))
	}
	if p := quantile(r.audio, .95); p > slowest {
		return fmt.Errorf("first audio p95 %v, more than %v", p, slowest)
	}
	return nil
}

// totals are the sums over all acts.
type totals struct{ calls, answered, heard, wrong int }

func (t *totals) add(r *report) {
	t.calls += r.calls
	t.answered += r.answered
	t.heard += r.heard
	t.wrong += len(r.wrong)
}

func (t *totals) judge(took time.Duration) error {
	fmt.Printf("\nok  %d calls · %d answered · %d heard their own greeting · %d silent or wrong · seats back to idle      %v\n",
		t.calls, t.answered, t.heard, t.answered-t.heard, took.Round(100*time.Millisecond))
	if t.answered == 0 {
		return fmt.Errorf("nobody answered, so nothing was shown: try another --seed")
	}
	if t.answered != t.heard || t.wrong > 0 {
		return fmt.Errorf("%d answered, %d heard their own greeting", t.answered, t.heard)
	}
	return nil
}
