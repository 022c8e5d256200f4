package events_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/events"
	"dibs/internal/natsd"
)

// What happened is emitted without waiting and read back by call.
func Example() {
	js, end := connect() // in your program: nats.Connect, jetstream.New
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	log, err := events.Open(ctx, js, events.Config{Source: "/dibs/backend-1"})
	must(err)
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- log.Run(running) }()

	began := time.Now()
	log.Emit(events.Event{Type: events.CallRinging, Subject: "call_1", Org: "acme", Data: []byte(`{"attempt":"call_1-1"}`)})
	log.Emit(events.Event{Type: events.CallEnded, Subject: "call_1", Org: "acme", Data: []byte(`{"outcome":"busy","to":"+4915112345678"}`)})
	stop() // what was taken is stored first
	must(<-done)

	timeline, err := log.Timeline(ctx, "call_1", began, 0)
	must(err)
	for _, e := range timeline {
		fmt.Println(e.Org, e.Type, string(e.Data))
	}
	// Output:
	// acme call.ringing {"attempt":"call_1-1"}
	// acme call.ended {"outcome":"busy","to":"+49151•••78"}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// connect gives a NATS of one server that ends with the example.
func connect() (js jetstream.JetStream, end func()) {
	dir, err := os.MkdirTemp("", "example")
	must(err)
	s, err := natsd.New(natsd.Config{StoreDir: dir, MaxStore: 2 << 30})
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	nc, err := nats.Connect("", nats.InProcessServer(s.InProcess()))
	must(err)
	js, err = jetstream.New(nc)
	must(err)
	return js, func() {
		nc.Close()
		stop()
		<-done
		_ = os.RemoveAll(dir)
	}
}
