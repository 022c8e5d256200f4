package bot

import (
	"fmt"
	"testing"
	"time"
)

func TestPast(t *testing.T) {
	now := time.Unix(1000, 0)
	var p past
	if why, ok := p.why(now, "c"); ok {
		t.Fatalf("an empty past knows %q", why)
	}
	p.note(now, "c", "peer_closed")
	p.note(now.Add(time.Minute), "c", "hung_up") // rescued by the same bot
	if why, ok := p.why(now.Add(2*time.Minute), "c"); !ok || why != "hung_up" {
		t.Errorf("got %q, %v, want the newest end", why, ok)
	}
	p.note(now.Add(10*time.Minute+time.Second), "d", "stopped") // the first note of c is too old
	if why, ok := p.why(now.Add(10*time.Minute+time.Second), "c"); !ok || why != "hung_up" {
		t.Errorf("got %q, %v: the newer note went with the older one", why, ok)
	}
	if _, ok := p.why(now.Add(12*time.Minute), "c"); ok {
		t.Error("known for longer than it should be")
	}
	for i := range 3 * pastMost {
		p.note(now.Add(11*time.Minute), fmt.Sprint(i), "stopped")
	}
	if len(p.of) > pastMost || len(p.order) > pastMost {
		t.Errorf("%d and %d kept, want at most %d", len(p.of), len(p.order), pastMost)
	}
}
