package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/nats-io/nats.go"

	"dibs/api"
	"dibs/claim"
	"dibs/internal/natsd"
	"dibs/pool"
	"dibs/server"
)

// A backend serves its calls, and somebody asks for one.
func ExampleServer() {
	nc, close := connected()
	defer close()
	asker, err := claim.New(nc, claim.AskerConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv, err := server.New(server.Config{
		Calls: newLedger(), Asker: asker, Roster: pool.NewRoster(), NC: nc, Region: "eu-west", From: "+493012345678",
		Tokens: []server.Token{{Name: "crm", Secret: "a-long-enough-secret", Role: server.Operator}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx, l) }()

	c, err := api.NewClient(api.ClientConfig{
		BaseURL: "http://" + l.Addr().String(), Token: "a-long-enough-secret",
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	order := api.PlaceCall{To: "+4915112345678", Org: "acme", Flow: api.Flow{ID: "recall"}}
	got, replayed, err := c.PlaceCall(ctx, order, "order-4711")
	fmt.Println(got.State, got.To, replayed, err)
	_, replayed, err = c.PlaceCall(ctx, order, "order-4711")
	fmt.Println("again:", replayed, err)
	order.To = "0151 12345678"
	_, _, err = c.PlaceCall(ctx, order, "")
	fmt.Println(err)

	cancel()
	fmt.Println(<-ended)
	// Output:
	// queued +49151•••78 false <nil>
	// again: true <nil>
	// invalid_number: to: expected string to be E.164: + and 7 to 15 digits
	// <nil>
}

// connected is the connection that a backend has from its configuration; here its
// broker comes with it.
func connected() (nc *nats.Conn, close func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	broker, err := natsd.New(natsd.Config{StoreDir: dir})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- broker.Run(ctx) }()
	<-broker.Ready()
	if nc, err = nats.Connect("", nats.InProcessServer(broker.InProcess())); err != nil {
		panic(err)
	}
	return nc, func() {
		nc.Close()
		cancel()
		<-ended
		_ = os.RemoveAll(dir)
	}
}
