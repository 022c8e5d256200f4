package call_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dibs/call"
)

// vectorFile reads an acceptance file from DIBS_VECTORS, by default those of this module.
func vectorFile(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cmp.Or(os.Getenv("DIBS_VECTORS"), "../testdata"), name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

type vectors struct {
	Hours []struct {
		About  string
		At     string     `json:"at_utc"`
		TZ     string     `json:"tz"`
		Hours  call.Hours `json:"hours"`
		Expect *string    `json:"expect_utc"`
	}
	Retries []struct {
		About  string
		Policy struct {
			MaxAttempts int            `json:"max_attempts"`
			BackoffMin  []int          `json:"backoff_min"`
			On          []call.Outcome `json:"on"`
			Hours       call.Hours     `json:"hours"`
			MinGapMin   int            `json:"min_gap_min"`
		}
		Outcome  call.Outcome
		Attempt  int
		Ended    string `json:"ended_utc"`
		TZ       string
		NotAfter *string      `json:"not_after_utc"`
		Expect   *string      `json:"expect_utc"`
		WhyNot   *call.WhyNot `json:"expect_why_not"`
	}
	Events []struct {
		About  string
		Events []struct {
			Ev      call.Kind
			New     string
			T       *float64
			Attempt string
			Outcome call.Outcome
		}
		State   call.State `json:"expect_state"`
		Effects []call.Act `json:"expect_effects"`
	}
	People []struct {
		About string
		Steps [][]any
	}
}

func TestVectors(t *testing.T) {
	var v vectors
	vectorFile(t, "call.json", &v)
	if len(v.Hours) == 0 || len(v.Retries) == 0 || len(v.Events) == 0 || len(v.People) == 0 {
		t.Fatalf("a section is empty: %d hours, %d retries, %d events, %d people",
			len(v.Hours), len(v.Retries), len(v.Events), len(v.People))
	}
	t.Run("hours", func(t *testing.T) { testHours(t, v) })
	t.Run("retries", func(t *testing.T) { testRetries(t, v) })
	t.Run("events", func(t *testing.T) { testEvents(t, v) })
	t.Run("people", func(t *testing.T) { testPeople(t, v) })
}

func utc(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := call.Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// show writes a moment as the vectors do; nil is never.
func show(at time.Time, ok bool) string {
	if !ok {
		return "never"
	}
	return at.UTC().Format("2006-01-02 15:04:05")
}

func expect(t *testing.T, s *string) string {
	if s == nil {
		return "never"
	}
	return show(utc(t, *s), true)
}

func testHours(t *testing.T, v vectors) {
	for _, c := range v.Hours {
		t.Run(c.About, func(t *testing.T) {
			if c.Hours == nil {
				t.Fatal("hours: null")
			}
			got := show(c.Hours.Earliest(utc(t, c.At), zone(t, c.TZ)))
			if want := expect(t, c.Expect); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func testRetries(t *testing.T, v vectors) {
	for _, c := range v.Retries {
		t.Run(c.About, func(t *testing.T) {
			p := call.RetryPolicy{
				MaxAttempts: c.Policy.MaxAttempts, On: c.Policy.On, Hours: c.Policy.Hours,
				MinGapMS: call.ToMillis(time.Duration(c.Policy.MinGapMin) * time.Minute),
			}
			for _, m := range c.Policy.BackoffMin {
				p.BackoffMS = append(p.BackoffMS, call.ToMillis(time.Duration(m)*time.Minute))
			}
			var notAfter time.Time
			if c.NotAfter != nil {
				notAfter = utc(t, *c.NotAfter)
			}
			at, why := call.NextAttempt(p, c.Outcome, c.Attempt, utc(t, c.Ended), zone(t, c.TZ), notAfter)
			if got, want := show(at, why == ""), expect(t, c.Expect); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if c.WhyNot != nil && why != *c.WhyNot || c.WhyNot == nil && why != "" {
				t.Errorf("got why not %q, want %v", why, c.WhyNot)
			}
		})
	}
}

func testEvents(t *testing.T, v vectors) {
	for _, c := range v.Events {
		t.Run(c.About, func(t *testing.T) {
			now := t0
			rec := call.New(order(), now)
			effects := []call.Act{}
			id := func(vectorID string) string { // A1 is the first attempt
				if vectorID == "" {
					return ""
				}
				var n int
				if _, err := fmt.Sscanf(vectorID, "A%d", &n); err != nil {
					t.Fatalf("attempt %q: %v", vectorID, err)
				}
				return call.AttemptID(rec.Order.CallID, n)
			}
			for i, e := range c.Events {
				if e.T != nil {
					now = t0.Add(time.Duration(*e.T * float64(time.Second)))
				}
				ev := call.Event{Kind: e.Ev, Attempt: id(e.Attempt + e.New), Outcome: e.Outcome}
				next, todo := call.Apply(rec, ev, now)
				rec = next
				for _, f := range todo {
					effects = append(effects, f.Act)
				}
				if err := rec.Check(); err != nil {
					t.Fatalf("after event %d (%s): %v", i, e.Ev, err)
				}
			}
			if rec.State != c.State {
				t.Errorf("got state %s, want %s", rec.State, c.State)
			}
			if !slices.Equal(effects, c.Effects) {
				t.Errorf("got effects %v, want %v", effects, c.Effects)
			}
		})
	}
}

func testPeople(t *testing.T, v vectors) {
	for _, c := range v.People {
		t.Run(c.About, func(t *testing.T) {
			var book call.People
			running := map[call.Person]map[string]call.Record{} // who → call id → the record while it is in flight
			take := func(o call.Order, now time.Time, evs ...call.Kind) {
				r := call.New(o, now)
				for _, k := range evs {
					r, _ = call.Apply(r, call.Event{Kind: k}, now)
				}
				if !r.InFlight() {
					t.Fatalf("call %s: %s", o.CallID, r.State)
				}
				book.Note(r)
				if running[o.Person()] == nil {
					running[o.Person()] = map[string]call.Record{}
				}
				running[o.Person()][o.CallID] = r
			}
			for i, s := range c.Steps {
				now := t0.Add(time.Duration(s[1].(float64) * float64(time.Second)))
				number := s[2].(string)
				o := order()
				o.To = number
				who := o.Person()
				switch s[0] {
				case "dial":
					o.CallID, o.Class = s[3].(string), call.Class(s[4].(string))
					got, _ := book.Dial(who, o.CallID, o.Class, now)
					if got == call.PersonOK {
						take(o, now, call.EvAdmitted, call.EvIntent, call.EvLive)
					}
					if want := s[5].(string); string(got) != want {
						t.Errorf("step %d: dial %s: got %s, want %s", i, o.CallID, got, want)
					}
				case "end":
					for _, r := range running[who] {
						r, _ = call.Apply(r, call.Event{Kind: call.EvEnd, Outcome: call.Completed}, now)
						book.Note(r)
					}
					delete(running, who)
				case "in":
					at := fmt.Sprintf("cb@%v", s[1])
					got := ""
					if s[3].(bool) {
						o.Class, o.From, o.To, o.CallID = call.ClassInbound, number, o.From, "in"+fmt.Sprint(i)
						if old := book.Inbound(who, o.CallID, now); old != "" {
							got = "cancelled " + old
						}
						take(o, now, call.EvAdmitted, call.EvLive)
					} else if id, made := book.CallBack(who, at, now); made {
						got = "callback " + id
					} else {
						got = "already " + id
					}
					want, _ := s[4].(string)
					if got != want {
						t.Errorf("step %d: in: got %q, want %q", i, got, want)
					}
				default:
					t.Fatalf("step %d: unknown kind %v", i, s[0])
				}
			}
		})
	}
}
