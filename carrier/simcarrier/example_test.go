package simcarrier_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dibs/carrier/simcarrier"
)

// A callee who is busy, called as Twilio's API is called.
func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := simcarrier.New(simcarrier.Config{
		Listener: l,
		Numbers:  map[string]simcarrier.Profile{"0199": {Busy: 1}}, // all numbers that end with 0199
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()

	form := url.Values{"To": {"+14155550199"}, "From": {"+15005550006"}, "Twiml": {"<Response><Hangup/></Response>"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		s.URL()+"/2010-04-01/Accounts/"+simcarrier.AccountSID+"/Calls.json", strings.NewReader(form.Encode()))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(simcarrier.AccountSID, simcarrier.AuthToken)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)

	tick := time.NewTicker(time.Millisecond)
	for s.Stats().Live > 0 && ctx.Err() == nil {
		<-tick.C
	}
	tick.Stop()
	for _, c := range s.CallsTo("+14155550199") {
		fmt.Println(c.Status, c.SIP)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// 201 Created
	// busy 486
	// <nil>
}
