package bot

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/internal/audio"
	"dibs/internal/natstest"
	"dibs/warmup"
	"dibs/wire"
)

type silent struct{}

func (silent) Speak(context.Context, string, string, string) ([]int16, int, error) {
	return make([]int16, audio.Rate/10), audio.Rate, nil
}

// Between the asker's ack and the hand-over the call belongs to nobody but the
// session: a release finds it there, and the hand-over then does nothing.
func TestReleaseBeforeHandOver(t *testing.T) {
	b, err := New(natstest.Start(t).Connect(t), Config{
		Name: "bot", Region: "eu-west", MediaURL: "wss://bot.example", MediaIn: time.Hour, Warmup: warmup.Config{Voice: silent{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	req := wire.ClaimRequest{V: 1, ClaimID: "k1", CallID: "c1", Region: "eu-west", AcceptMS: 150, ReadyMS: 10_000}
	s, refusal := (*door)(b).Begin(req)
	if refusal != nil {
		t.Fatalf("refused: %+v", refusal)
	}
	seat, _, _ := b.seats.Take(time.Now(), req.ClaimID, req.CallID, -1)
	if _, err := s.Warm(t.Context(), seat); err != nil {
		t.Fatal(err)
	}
	b.seats.Move(time.Now(), seat, req.ClaimID, wire.SeatAssigned)

	if a := b.command(wire.VerbCall, wire.Command{CallID: "c1"}); a.State != wire.CallAssigned || a.Media.URL == "" {
		t.Errorf("it stands as %+v", a)
	}
	if a := b.command(wire.VerbRelease, wire.Command{CallID: "c1"}); !a.OK {
		t.Errorf("release: %+v", a)
	}
	s.Assigned()
	if diff := cmp.Diff([]wire.SeatState{wire.SeatIdle}, b.seats.States(nil)); diff != "" {
		t.Errorf("the seat: %s", diff)
	}
	if s.(*session).timer != nil {
		t.Error("media is waited for")
	}
	if len(b.sessions) != 0 || b.trying != 0 {
		t.Errorf("left in the books: %d sessions, %d tries", len(b.sessions), b.trying)
	}
	if a := b.command(wire.VerbCall, wire.Command{CallID: "c1"}); a.State != wire.CallEnded || a.Why != "released" {
		t.Errorf("afterwards it stands as %+v", a)
	}
	b.closing.Wait()
}
