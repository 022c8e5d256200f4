package cdr_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/call"
	"dibs/cdr"
	"dibs/internal/natsd"
)

// Of two who have seen the same revision one advances the record.
func Example() {
	js, end := connect() // in your program: nats.Connect, jetstream.New
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	records, err := cdr.Open(ctx, js, cdr.Config{})
	must(err)
	now := time.Now()
	r := call.New(call.Order{
		V: call.Version, CallID: "call_1", Org: "acme", Class: call.ClassAPI, Region: "eu-west",
		From: "+4930123456", To: "+4915112345678", QueuedAt: now,
	}, now)
	rev, err := records.Create(ctx, r)
	must(err)

	mine, _ := call.Apply(r, call.Event{Kind: call.EvAdmitted, Owner: "backend-1"}, now)
	_, err = records.Update(ctx, mine, rev)
	fmt.Println(mine.State, err)
	theirs, _ := call.Apply(r, call.Event{Kind: call.EvAdmitted, Owner: "backend-2"}, now)
	_, err = records.Update(ctx, theirs, rev)
	fmt.Println(err)
	// Output:
	// placing <nil>
	// cdr: update: call call_1: somebody else has written, revision 2
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
