package bot

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/wire"
)

// The last minute is told as it was, and forgotten after a minute.
func TestMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m minute
		if diff := cmp.Diff(wire.Minute{}, m.view(time.Now())); diff != "" {
			t.Errorf("empty: %s", diff)
		}
		for i := range 100 {
			m.firstAudio(time.Duration(i+1) * time.Millisecond)
		}
		m.ended(false)
		m.ended(true)
		m.failed()
		time.Sleep(time.Minute)
		want := wire.Minute{Ended: 2, Failed: 1, Errors: 1, FirstAudioP95MS: 95}
		if diff := cmp.Diff(want, m.view(time.Now())); diff != "" {
			t.Errorf("at the end of the minute: %s", diff)
		}
		m.firstAudio(7 * time.Millisecond)
		time.Sleep(time.Millisecond)
		if diff := cmp.Diff(wire.Minute{FirstAudioP95MS: 7}, m.view(time.Now())); diff != "" {
			t.Errorf("a millisecond later: %s", diff)
		}
		for range 2 * mostRemembered {
			m.ended(false)
		}
		if got := m.view(time.Now()).Ended; got != mostRemembered {
			t.Errorf("%d ends told, want the newest %d", got, mostRemembered)
		}
	})
}
