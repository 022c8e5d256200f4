package demand

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every count is rounded up exactly, for every ratio.
func TestExact(t *testing.T) {
	for _, s := range []string{"0.7", "0.1", "0.3", "0.001", "1", "1.4", "2.999", "1000"} {
		r, err := ParseRatio(s)
		if err != nil {
			t.Fatal(err)
		}
		per, _ := new(big.Rat).SetString(s)
		for n := range 2000 {
			q := new(big.Rat).Quo(new(big.Rat).SetInt64(int64(n)), per)
			whole, rest := new(big.Int).QuoRem(q.Num(), q.Denom(), new(big.Int))
			want := int(whole.Int64())
			if rest.Sign() != 0 {
				want++
			}
			if got := r.ceil(n); got != want {
				t.Fatalf("ceil(%d / %s) = %d, want %d", n, s, got, want)
			}
		}
		if got := r.ceil(most); got < 0 {
			t.Fatalf("ceil(%d / %s) = %d", most, s, got)
		}
	}
}

func TestRatio(t *testing.T) {
	for in, want := range map[string]string{"0.7": "0.7", "0.70": "0.7", "1": "1", "1.000": "1", "0": "0", "12.034": "12.034", "1000": "1000", "0.005": "0.005"} {
		r, err := ParseRatio(in)
		if err != nil || r.String() != want {
			t.Errorf("ParseRatio(%q) = %v, %v, want %s", in, r, err, want)
		}
		if r.IsZero() != (want == "0") {
			t.Errorf("%s: IsZero is %t", in, r.IsZero())
		}
	}
	for _, in := range []string{"", ".", "0.", ".7", "-1", "+1", "0.-7", "0.+7", "0.7001", "1001", "1000.1", "1e3", "0x1", "0_1", " 1", "0.7 ", "NaN", "٧"} {
		if r, err := ParseRatio(in); err == nil {
			t.Errorf("ParseRatio(%q) = %v, want an error", in, r)
		}
	}
	var c Config
	for _, in := range []string{`{"per_bot": 0.7}`, `{"per_bot": "0.7"}`} {
		if err := json.Unmarshal([]byte(in), &c); err != nil || c.PerBot != tenths(7) {
			t.Errorf("%s: %v, %v", in, c.PerBot, err)
		}
	}
	if b, err := json.Marshal(c); err != nil || string(b) != `{"per_bot":0.7}` {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestSentence(t *testing.T) {
	got, err := Compute(Config{}, Input{InFlight: new(5), Direct: new(0), Ready: new(0), Queued: new(104)})
	want := "wanted 8 bots = ceil(5 / 0.7 per bot), between floor 3 and ceiling 50: 5 in flight, 0 direct calls waiting for a bot, 0 of the campaigns (104 wait, policy headroom); unclamped it would be 156"
	if err != nil || got.Sentence != want {
		t.Errorf("got  %q (%v)\nwant %q", got.Sentence, err, want)
	}
}

// More calls never want fewer bots; the answer is inside its bounds and the terms
// add up.
func TestWantedHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 3000)
		c := Config{
			Policy: rapid.SampledFrom(Policies()).Draw(t, "policy"),
			Floor:  rapid.IntRange(1, 20).Draw(t, "floor"), Ceiling: rapid.IntRange(20, 5000).Draw(t, "ceiling"),
			PerBot: Ratio{num: rapid.Int64Range(1, 3000).Draw(t, "per bot"), den: 1000},
		}
		draw := func() [4]int {
			ready := n.Draw(t, "ready")
			return [4]int{n.Draw(t, "in flight"), n.Draw(t, "direct"), ready, ready + n.Draw(t, "queued")}
		}
		wanted := func(v [4]int) Wanted {
			w, err := Compute(c, Input{InFlight: &v[0], Direct: &v[1], Ready: &v[2], Queued: &v[3]})
			if err != nil {
				t.Fatal(err)
			}
			sum := 0
			for _, term := range w.Terms {
				sum += term.Counts
				if term.Counts > term.Seen {
					t.Fatalf("%+v counts more than there is", term)
				}
			}
			if sum != w.Demand || w.Bots < c.Floor || w.Bots > c.Ceiling {
				t.Fatalf("%+v", w)
			}
			if unbound := c.PerBot.ceil(w.Demand); unbound >= c.Floor && unbound <= c.Ceiling && w.Bots != unbound {
				t.Fatalf("%+v, want %d bots", w, unbound)
			}
			return w
		}
		a, more := draw(), draw()
		b := a
		for i := range b {
			b[i] += more[i]
		}
		if x, y := wanted(a), wanted(b); y.Bots < x.Bots {
			t.Fatalf("%v want %d bots, %v want %d", a, x.Bots, b, y.Bots)
		}
	})
}

func TestTooLarge(t *testing.T) {
	_, err := Compute(Config{}, Input{InFlight: new(most + 1), Direct: new(0), Ready: new(0)})
	if err == nil || errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "in_flight") {
		t.Errorf("got %v, want in_flight refused", err)
	}
}

// Whatever the metric does, the shipped autoscaler stays in its bounds, never
// shrinks by more than five a minute nor within 180 s of a higher recommendation,
// and holds while the metric cannot be read.
func TestHPAHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, err := NewHPA(HPAConfig{})
		if err != nil {
			t.Fatal(err)
		}
		now, pods := time.Unix(0, 0), 3
		past := []int{3}        // pods after each look
		advice := map[int]int{} // look → recommendation
		for look := range rapid.IntRange(1, 60).Draw(t, "looks") {
			value := new(rapid.IntRange(0, 60).Draw(t, "value"))
			if rapid.IntRange(0, 5).Draw(t, "failed") == 0 {
				value = nil
			}
			next := h.Sync(now, pods, value)
			if value == nil {
				if next != pods {
					t.Fatalf("%d pods became %d without a metric", pods, next)
				}
			} else if advice[look] = tenths(7).ceil(*value); *value*100 >= 63*pods && *value*100 <= 77*pods {
				advice[look] = pods
			}
			for ago := range 12 { // the window
				if a := advice[look-ago]; next < min(pods, a) {
					t.Fatalf("%d pods became %d, %d were recommended %d looks ago", pods, next, a, ago)
				}
			}
			if next < 3 || next > 50 {
				t.Fatalf("%d pods", next)
			}
			if next > max(2*pods, pods+10) {
				t.Fatalf("%d pods became %d in one look", pods, next)
			}
			if minuteAgo := past[max(0, len(past)-4)]; minuteAgo-next > 5 {
				t.Fatalf("%d pods a minute ago, %d now", minuteAgo, next)
			}
			pods, past, now = next, append(past, next), now.Add(15*time.Second)
		}
	})
}

func TestHPARefuses(t *testing.T) {
	one := []Rule{{Value: 1, Period: time.Minute}}
	for want, c := range map[string]HPAConfig{
		"Min: -1":              {Min: -1},
		"Max: 2":               {Max: 2},
		"Tolerance: 1":         {Tolerance: new(tenths(10))},
		"Up.Select":            {Up: Rules{Policies: one, Select: "Least"}},
		"Down.Window":          {Down: Rules{Policies: one, Window: 2 * time.Hour}},
		"Down.Policies[0]: 0":  {Down: Rules{Policies: []Rule{{Period: time.Minute}}}},
		"Up.Policies[1]: 1 pe": {Up: Rules{Policies: append(one, Rule{Value: 1, Period: time.Hour})}},
	} {
		if h, err := NewHPA(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want %q refused", h, err, want)
		}
	}
}
