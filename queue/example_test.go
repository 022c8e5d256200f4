package queue_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dibs/internal/natsd"
	"dibs/queue"
)

// A call is put in line, read by the one who has office, and leaves.
func Example() {
	js, end := connect() // in your program: nats.Connect, jetstream.New
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	line, err := queue.Open(ctx, js, queue.Config{})
	must(err)
	key := queue.Key{Region: "eu-west", Class: "api", Org: "acme", Call: "call_1"}
	receipt, err := line.Put(ctx, key, []byte(`{"v":1,"call_id":"call_1"}`))
	must(err)
	fmt.Println("in line as", receipt.Seq)
	_, err = line.Put(ctx, key, []byte(`{"v":1,"call_id":"call_1"}`))
	fmt.Println(err)

	office, err := line.TakeOffice(ctx, "backend-1")
	must(err)
	must(office.Run(ctx, func(items []*queue.Item, behind uint64) {
		for _, it := range items {
			fmt.Printf("%s %s, %d behind\n", it.Key.Call, it.Order, behind)
			must(it.Ack(ctx)) // dialled
		}
		cancel()
	}))
	// Output:
	// in line as 1
	// queue: put call_1: the call is in line already
	// call_1 {"v":1,"call_id":"call_1"}, 0 behind
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
