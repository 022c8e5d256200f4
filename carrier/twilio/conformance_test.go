package twilio_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dibs/carrier"
	"dibs/carrier/carriertest"
	"dibs/carrier/simcarrier"
	"dibs/carrier/twilio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	account = "AC0123456789abcdef0123456789abcdef"
	token   = "the-auth-token"
	from    = "+15005550006"
)

func TestConformance(t *testing.T) { carriertest.Run(t, harness) }

// sim starts a simulated Twilio that ends with the test.
func sim(t *testing.T) *simcarrier.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := simcarrier.New(simcarrier.Config{
		AccountSID: account, AuthToken: token, Listener: l, Insecure: true,
		Profile: simcarrier.Profile{Talk: simcarrier.Range{Min: 200 * time.Millisecond}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("simcarrier: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return s
}

func client(t *testing.T, cfg twilio.Config) *twilio.Client {
	t.Helper()
	cfg.AccountSID, cfg.AuthToken = account, cmp.Or(cfg.AuthToken, token)
	c, err := twilio.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// deadAddress is one where nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

var callees = map[carriertest.Callee]simcarrier.Profile{
	carriertest.Answers: {Ring: simcarrier.Range{Min: 20 * time.Millisecond}, Talk: simcarrier.Range{Min: 200 * time.Millisecond}},
	carriertest.Stays:   {Ring: simcarrier.Range{Min: 20 * time.Millisecond}},
	carriertest.Machine: {Machine: 1, Ring: simcarrier.Range{Min: 20 * time.Millisecond}},
	carriertest.Rings:   {NoAnswer: 1},
	carriertest.IsBusy:  {Busy: 1, Ring: simcarrier.Range{Min: 20 * time.Millisecond}},
	carriertest.Nobody:  {NoAnswer: 1, GivesUp: 50 * time.Millisecond},
	carriertest.Dead:    {Fail: 1},
	carriertest.Queued:  {Queue: time.Hour},
}

var faults = map[carriertest.Fault]simcarrier.Faults{
	carriertest.NoFault:      {},
	carriertest.LoseReply:    {Create: simcarrier.LoseReply},
	carriertest.Truncate:     {Create: simcarrier.TruncateReply},
	carriertest.LoseRequest:  {Create: simcarrier.LoseRequest},
	carriertest.RateLimit:    {Create: simcarrier.TooMany},
	carriertest.ServerError:  {Create: simcarrier.ServerError},
	carriertest.ErrorButMade: {Create: simcarrier.ServerErrorMade},
	carriertest.Slow:         {Delay: time.Minute},
	carriertest.LookupDown:   {LookupDown: true},
}

func harness(t *testing.T) carriertest.Harness {
	s := sim(t)
	r := carriertest.NewReceiver(t)
	cfg := twilio.Config{BaseURL: s.URL(), PublicURL: r.URL(), StatusPath: carriertest.StatusPath, Insecure: true}
	dead := cfg
	dead.BaseURL = deadAddress(t)
	var numbers atomic.Int64
	return carriertest.Harness{
		Carrier: client(t, cfg),
		Refused: client(t, dead),
		From:    from,
		Number: func(c carriertest.Callee) string {
			n := fmt.Sprintf("+1415555%04d", numbers.Add(1))
			if err := s.SetNumber(n, callees[c]); err != nil {
				t.Fatal(err)
			}
			return n
		},
		BadNumber: simcarrier.BadNumber,
		Calls: func(number string) (ids []string) {
			for _, c := range s.CallsTo(number) {
				ids = append(ids, c.SID)
			}
			return ids
		},
		Fault: func(t *testing.T, f carriertest.Fault) {
			if err := s.SetFaults(faults[f]); err != nil {
				t.Fatal(err)
			}
		},
		Receiver: r,
		StartOf:  startOf,
		Webhook:  func(f carriertest.Forgery, attempt string) *http.Request { return webhook(r, f, attempt) },
	}
}

func startOf(message []byte) (map[string]string, bool) {
	var m struct {
		Event string `json:"event"`
		Start struct {
			Params map[string]string `json:"customParameters"`
		} `json:"start"`
	}
	err := json.Unmarshal(message, &m)
	return m.Start.Params, err == nil && m.Event == "start"
}

func webhook(r *carriertest.Receiver, f carriertest.Forgery, attempt string) *http.Request {
	form := url.Values{
		"CallSid": {"CA" + strings.Repeat("0123456789abcdef", 2)}, "AccountSid": {account},
		"From": {from}, "To": {"+14155550100"}, "CallStatus": {"completed"}, "CallDuration": {"3"},
		"SequenceNumber": {"3"}, "SipResponseCode": {"200"}, "CallbackSource": {"call-progress-events"},
	}
	address, key := r.StatusURL(attempt), token
	switch f {
	case carriertest.OtherKey:
		key = "another"
	case carriertest.OtherAccount:
		form.Set("AccountSid", "AC"+strings.Repeat("f", 32))
	case carriertest.OtherPath:
		address = r.StatusURL("att_other")
	case carriertest.Huge:
		form.Set("Padding", strings.Repeat("x", 5<<20))
	case carriertest.NoForm:
		form.Del("CallStatus")
	}
	signature := twilio.Sign(key, address, form)
	if f == carriertest.Tampered {
		form.Set("CallStatus", "busy")
	}
	req := httptest.NewRequest(http.MethodPost, r.StatusURL(attempt), strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	if f != carriertest.Unsigned {
		req.Header.Set(twilio.SignatureHeader, signature)
	}
	return req
}

// A call that dies with its connection can be looked up even when every webhook is
// lost: the two ways of section "What a failed create means" do not lean on each other.
func TestLostReplyAndLostWebhooks(t *testing.T) {
	s := sim(t)
	c := client(t, twilio.Config{BaseURL: s.URL(), Insecure: true})
	began := time.Now()
	if err := s.SetFaults(simcarrier.Faults{Create: simcarrier.LoseReply, Times: 1, DropCallbacks: []string{"all"}}); err != nil {
		t.Fatal(err)
	}
	d := carrier.Dial{To: "+14155550100", From: from, Media: carrier.Media{URL: "wss://bot.example.com/m/b/t"}}
	if _, err := c.Place(t.Context(), d); carrier.VerdictOf(err) != carrier.Unknown {
		t.Fatalf("Place: got %v, want unknown", err)
	}
	f, err := c.Find(t.Context(), carrier.Query{To: d.To, From: d.From, StartedSince: began})
	if err != nil || len(f) != 1 {
		t.Fatalf("Find: got %v, %v; want the one call", f, err)
	}
}
