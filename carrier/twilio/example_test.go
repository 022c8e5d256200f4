package twilio_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"dibs/carrier"
	"dibs/carrier/simcarrier"
	"dibs/carrier/twilio"
)

// One call, placed and looked up, at a simulated Twilio.
func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	far, err := simcarrier.New(simcarrier.Config{Listener: l, Profile: simcarrier.Profile{NoAnswer: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- far.Run(ctx) }()

	c, err := twilio.New(twilio.Config{
		AccountSID: simcarrier.AccountSID, AuthToken: simcarrier.AuthToken,
		BaseURL: far.URL(), PublicURL: "https://voice.example.com",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	placed, err := c.Place(ctx, carrier.Dial{
		To: "+14155550123", From: "+15005550006",
		Media: carrier.Media{URL: "wss://bot-7.example.com/m/bot-7/one-time-token"},
		Ring:  20 * time.Second,
	})
	fmt.Println(placed.Status, err)
	fmt.Println(c.Cancel(ctx, placed.ID))

	cancel()
	<-ended
	// Output:
	// queued <nil>
	// <nil>
}

// What an inbound webhook answers when there is no bot.
func ExampleTwiML() {
	fmt.Println(twilio.TwiML(twilio.Reject{Busy: true}))
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?>
	// <Response><Reject reason="busy"></Reject></Response>
}

// A webhook is believed only with the signature over its public address.
func ExampleValidate() {
	form := url.Values{"CallSid": {"CA0123456789abcdef0123456789abcdef"}, "CallStatus": {"completed"}}
	signature := twilio.Sign("auth-token", "https://voice.example.com/status/att_1", form)
	fmt.Println(twilio.Validate("auth-token", signature, "https://voice.example.com/status/att_1", form))
	fmt.Println(twilio.Validate("auth-token", signature, "https://voice.example.com/status/att_2", form))
	// Output:
	// true
	// false
}
