package media_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/coder/websocket"

	"dibs/internal/audio"
	"dibs/media"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := media.New(media.Config{Bot: "bot-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := httptest.NewServer(s)
	defer web.Close()

	over := make(chan media.Report, 1)
	path, err := s.Open(media.Call{
		ID:       "call-1",
		Greeting: audio.EncodeMuLaw(audio.Tone([]float64{440}, 500*time.Millisecond, 0.5)),
		Talk: func(ctx context.Context, st *media.Stream) error {
			fmt.Println("talking to", st.Start().CallSID)
			fmt.Println("played:", <-st.Marks())
			return nil // hang up
		},
		Ended: func(r media.Report) { over <- r },
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The carrier's side, most of which is listening.
	conn, _, err := websocket.Dial(ctx, strings.Replace(web.URL, "http", "ws", 1)+path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, message := range []string{
		`{"event":"connected","protocol":"Call","version":"1.0.0"}`,
		`{"event":"start","streamSid":"MZ1","start":{"streamSid":"MZ1","callSid":"CA1"}}`,
		`{"event":"mark","streamSid":"MZ1","mark":{"name":"greeting"}}`,
	} {
		if err := conn.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
			fmt.Println(err)
			return
		}
	}
	for err == nil {
		_, _, err = conn.Read(ctx)
	}
	r := <-over
	fmt.Println(r.Reason, r.FramesOut, "frames")
	// Output:
	// talking to CA1
	// played: greeting
	// hung_up 25 frames
}
