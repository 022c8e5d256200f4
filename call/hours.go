package call

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the zone database travels with the binary: a bare container dials at the right hour
)

// Hours say when a person may be called, on that person's own clock: weekday →
// intervals. Nil hours are no rule at all; hours without any interval are never.
// In JSON: {"mon": [["09:00","12:00"],["14:00","18:00"]]}.
type Hours map[Day][]Interval

// Day is a weekday as it stands in [Hours]: mon, tue, wed, thu, fri, sat, sun.
type Day string

// DayOf is the word for d.
func DayOf(d time.Weekday) Day {
	return [...]Day{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}[d]
}

// Interval is open from Open, closed from Close on: the closing minute is outside.
type Interval struct{ Open, Close Clock }

// Clock is a time of day in minutes since midnight, 0 to 1440.
type Clock int

// MarshalText writes "15:04".
func (c Clock) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%02d:%02d", c/60, c%60), nil }

// UnmarshalText reads "15:04"; "24:00" is the end of the day.
func (c *Clock) UnmarshalText(text []byte) error {
	if string(text) == "24:00" {
		*c = 24 * 60
		return nil
	}
	t, err := time.Parse("15:04", string(text))
	if err != nil || len(text) != 5 {
		return fmt.Errorf("time of day %.20q, want 00:00 to 24:00", text)
	}
	*c = Clock(t.Hour()*60 + t.Minute())
	return nil
}

// MarshalJSON writes ["09:00","20:00"].
func (i Interval) MarshalJSON() ([]byte, error) { return json.Marshal([2]Clock{i.Open, i.Close}) }

// UnmarshalJSON reads ["09:00","20:00"].
func (i *Interval) UnmarshalJSON(data []byte) error {
	var pair []Clock
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("interval of %d times, want 2", len(pair))
	}
	i.Open, i.Close = pair[0], pair[1]
	return nil
}

// Check reports the first day that cannot be kept.
func (h Hours) Check() error {
	if h == nil {
		return nil
	}
	open := false
	for _, day := range slices.Sorted(maps.Keys(h)) {
		if !slices.Contains([]Day{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}, day) {
			return fmt.Errorf("day %.20q, want mon, tue, wed, thu, fri, sat or sun", string(day))
		}
		for _, i := range h[day] {
			if i.Open < 0 || i.Close > 24*60 || i.Open >= i.Close {
				return fmt.Errorf("%s: closes before it opens; split at midnight what lasts over night", day)
			}
			open = true
		}
	}
	if !open {
		return errors.New("never open: leave them out if there is no rule")
	}
	return nil
}

// And is open when both are.
func (h Hours) And(other Hours) Hours {
	if h == nil {
		return other
	}
	if other == nil {
		return h
	}
	both := Hours{}
	for day, mine := range h {
		for _, a := range mine {
			for _, b := range other[day] {
				if i := (Interval{max(a.Open, b.Open), min(a.Close, b.Close)}); i.Open < i.Close {
					both[day] = append(both[day], i)
				}
			}
		}
	}
	return both
}

// Earliest is the first moment, at or after at, when the clock in loc shows a
// time inside the hours. When clocks are turned, the clock on the wall decides: a
// time that does not exist is not waited for, one that comes twice counts twice.
// ok is false when there is no such moment within 15 days, which is never.
func (h Hours) Earliest(at time.Time, loc *time.Location) (t time.Time, ok bool) {
	if h == nil {
		return at, true
	}
	for t = at.In(loc); t.Sub(at) < 15*24*time.Hour; {
		h0, m0, s0 := t.Clock()
		clock := time.Duration(h0)*time.Hour + time.Duration(m0)*time.Minute +
			time.Duration(s0)*time.Second + time.Duration(t.Nanosecond())
		next := 24 * time.Hour // midnight, unless something opens before
		for _, i := range h[DayOf(t.Weekday())] {
			opens, closes := time.Duration(i.Open)*time.Minute, time.Duration(i.Close)*time.Minute
			if opens <= clock && clock < closes {
				return t.In(at.Location()), true
			}
			if opens > clock {
				next = min(next, opens)
			}
		}
		step := t.Add(next - clock)
		// Between two changes of the zone's offset the clock runs as time does; at a
		// change look again.
		if _, turned := t.ZoneBounds(); !turned.IsZero() && turned.Before(step) {
			step = turned.In(loc)
		}
		t = step
	}
	return time.Time{}, false
}

// Zone is the IANA time zone of that name ("Europe/Berlin"). The zone of this
// machine is not one.
func Zone(name string) (*time.Location, error) {
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	if !zoneName(name) {
		return nil, fmt.Errorf("time zone %.60q, want an IANA name like Europe/Berlin", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %.60q is not known", name)
	}
	zones.Store(name, loc)
	return loc, nil
}

// zones remembers what was loaded: name → *time.Location. It is no state, only the zone
// database read once, which never changes in the life of a process; loading a zone
// costs more than everything else about an order. Only names that exist get in, and
// zoneName gives each of them one spelling, so it cannot grow without end.
var zones sync.Map

// zoneName reports whether s looks like a name of the zone database.
func zoneName(s string) bool {
	if s == "Local" || len(s) > 60 {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-") != "" || part == "" {
			return false
		}
	}
	return true
}
