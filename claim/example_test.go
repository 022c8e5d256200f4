package claim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"dibs/claim"
	"dibs/internal/natsd"
	"dibs/wire"
)

// A backend gives calls a bot. This is all of it.
func ExampleAsker_Assign() {
	nc, end := poolOfOne() // in your program: nats.Connect
	defer end()

	asker, err := claim.New(nc, claim.AskerConfig{})
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"call-1", "call-2"} {
		got, err := asker.Assign(context.Background(), claim.Request{CallID: id, Region: "eu-west", Pool: "default"})
		if refused, ok := errors.AsType[*claim.Refused](err); ok {
			fmt.Println(id, refused.Code)
			continue
		}
		fmt.Println(id, got.BotID, got.Media.URL)
	}
	// Output:
	// call-1 bot-1 wss://bot-1.example/m/call-1
	// call-2 no_idle_bot
}

// poolOfOne is a NATS with the smallest of bots: one offer, good for one request.
func poolOfOne() (nc *nats.Conn, end func()) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	dir, err := os.MkdirTemp("", "example")
	must(err)
	s, err := natsd.New(natsd.Config{StoreDir: dir})
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	nc, err = nats.Connect("", nats.InProcessServer(s.InProcess()))
	must(err)
	subj, err := wire.ClaimPool("eu-west", "default")
	must(err)
	sub, err := nc.QueueSubscribe(subj, wire.IdleGroup, func(m *nats.Msg) {
		var req wire.ClaimRequest
		must(json.Unmarshal(m.Data, &req))
		_ = m.Respond(fmt.Appendf(nil, `{"status":"ready","claim_id":%q,"bot_id":"bot-1","media":{"url":"wss://bot-1.example/m/%s"}}`, req.ClaimID, req.CallID))
	})
	must(err)
	must(sub.AutoUnsubscribe(1))
	return nc, func() {
		nc.Close()
		stop()
		<-done
		_ = os.RemoveAll(dir)
	}
}
