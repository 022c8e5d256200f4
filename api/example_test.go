package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"dibs/api"
)

// A program branches on the code of a problem.
func ExampleClient() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"no_idle_bot","detail":"eu-west: 2 bots, 2 seats: 0 idle","retry_after_ms":5000}`)
	}))
	defer srv.Close()
	c, err := api.NewClient(api.ClientConfig{BaseURL: srv.URL, Token: "a-long-enough-secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Claim(context.Background(), api.Claim{CallID: "my-call-1", Region: "eu-west"})
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeNoIdleBot {
		fmt.Println("again in", p.RetryAfterMS.Duration())
	}
	// Output: again in 5s
}
