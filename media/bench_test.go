package media

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"dibs/internal/audio"
)

// BenchmarkFirstFrame asks how long after start a caller is sent the first frame
// of the greeting, with 50 streams that start within 100 ms and bring a frame
// every 20 ms. A bare WebSocket that echoes the same messages, under the same
// load, says how much of it the machine and the sockets take. Bar: 40 ms.
func BenchmarkFirstFrame(b *testing.B) {
	const streams = 50
	greeting := audio.EncodeMuLaw(audio.Tone([]float64{440}, 3*time.Second, 0.5))
	s, url := serve(b, Config{})
	echo := httptest.NewServer(http.HandlerFunc(echo))
	defer echo.Close()

	var media, raw []time.Duration
	calls := 0
	for b.Loop() {
		media = append(media, round(b, streams, func() string {
			calls++
			path, err := s.Open(Call{
				ID: fmt.Sprint(calls), Greeting: greeting,
				Talk: func(_ context.Context, st *Stream) error {
					for range st.Audio() {
					}
					return nil
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			return url + path
		})...)
		raw = append(raw, round(b, streams, func() string { return echo.URL })...)
	}
	report := func(name string, d []time.Duration, share float64) {
		slices.Sort(d)
		b.ReportMetric(d[int(share*float64(len(d)-1))].Seconds()*1000, name)
	}
	report("first_frame_p50_ms", media, .5)
	report("first_frame_p95_ms", media, .95)
	report("echo_p50_ms", raw, .5)
	report("echo_p95_ms", raw, .95)
}

// echo sends every message back, until the connection ends.
func echo(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		kind, b, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if err := conn.Write(r.Context(), kind, b); err != nil {
			return
		}
	}
}

// round runs n streams at once and is how long each waited, after its start, for
// the first message.
func round(b *testing.B, n int, address func() string) []time.Duration {
	waits := make([]time.Duration, n)
	failed := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		url := strings.Replace(address(), "http", "ws", 1)
		wg.Go(func() { waits[i], failed[i] = listenIn(b.Context(), url) })
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		b.Fatal(err)
	}
	return waits
}

// listenIn is one stream: dial, some time later start, then 500 ms of voice.
func listenIn(ctx context.Context, url string) (first time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return 0, err
	}
	defer conn.CloseNow()
	frame := []byte(`{"event":"media","sequenceNumber":"2","streamSid":"MZ1","media":{"track":"inbound","chunk":"1","timestamp":"5","payload":"` +
		strings.Repeat("/", 4*(audio.FrameBytes/3)) + `"}}`)

	<-time.After(rand.N(100 * time.Millisecond))
	began := time.Now()
	if err := conn.Write(ctx, websocket.MessageText, []byte(startMessage)); err != nil {
		return 0, err
	}
	answered := make(chan time.Duration, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if _, _, err := conn.Read(ctx); err != nil {
				return
			}
			select {
			case answered <- time.Since(began):
			default:
			}
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 25 {
		<-tick.C
		if err := conn.Write(ctx, websocket.MessageText, frame); err != nil {
			return 0, err
		}
	}
	select {
	case first = <-answered:
	case <-ctx.Done():
		return 0, errors.New("no first message")
	}
	conn.CloseNow()
	wg.Wait()
	return first, nil
}
