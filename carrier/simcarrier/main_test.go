package simcarrier_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"dibs/carrier/simcarrier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 20 * time.Second
	from     = "+15005550006"
	to       = "+14155550123"
)

// start runs a simulated carrier on loopback until the test ends. Its callees
// answer at once and stay, unless cfg says otherwise.
func start(t testing.TB, cfg simcarrier.Config) *simcarrier.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listener = l
	if cfg.Profile == (simcarrier.Profile{}) {
		cfg.Profile = simcarrier.Profile{Ring: simcarrier.Range{Min: time.Millisecond}}
	}
	s, err := simcarrier.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	<-s.Running()
	return s
}

// request asks the API and reads its JSON.
func request(t testing.TB, s *simcarrier.Server, method, path string, form url.Values, into any) (status int) {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(simcarrier.AccountSID, simcarrier.AuthToken)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, b)
		}
	}
	return resp.StatusCode
}

const api = "/2010-04-01/Accounts/" + simcarrier.AccountSID

// create makes a call and returns its id.
func create(t testing.TB, s *simcarrier.Server, fields ...string) string {
	t.Helper()
	var c struct{ SID string }
	if status := request(t, s, "POST", api+"/Calls.json", createForm(fields...), &c); status != 201 {
		t.Fatalf("create: HTTP %d", status)
	}
	return c.SID
}

func createForm(fields ...string) url.Values {
	form := url.Values{"To": {to}, "From": {from}}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return form
}

func update(t testing.TB, s *simcarrier.Server, sid string, fields ...string) int {
	t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return request(t, s, "POST", api+"/Calls/"+sid+".json", form, nil)
}

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

// until waits for a call's status and returns the call.
func until(t testing.TB, s *simcarrier.Server, sid, status string) (c simcarrier.Call) {
	t.Helper()
	eventually(t, sid+" "+status, func() bool {
		c, _ = s.Call(sid)
		return c.Status == status
	})
	return c
}

// signature is what Twilio's rule makes of a form without repeated names.
func signature(address string, form url.Values) string {
	mac := hmac.New(sha1.New, []byte(simcarrier.AuthToken))
	io.WriteString(mac, address)
	for _, name := range slices.Sorted(maps.Keys(form)) {
		io.WriteString(mac, name+form.Get(name))
	}
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// hooks is a server that answers TwiML and notes what it is told.
type hooks struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]string // path → TwiML
	fail  map[string]int    // path → status to answer, as often as fails says
	fails map[string]int
	got   []posted
}

type posted struct {
	path, token string
	form        url.Values
	signed      bool
}

func newHooks(t testing.TB, pages map[string]string) *hooks {
	t.Helper()
	h := &hooks{pages: pages, fail: map[string]int{}, fails: map[string]int{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, posted{
		path: r.URL.Path, token: r.Header.Get("I-Twilio-Idempotency-Token"), form: r.PostForm,
		signed: r.Header.Get("X-Twilio-Signature") == signature("http://"+r.Host+r.URL.RequestURI(), r.PostForm),
	})
	if h.fails[r.URL.Path] != 0 {
		h.fails[r.URL.Path]--
		w.WriteHeader(h.fail[r.URL.Path])
		return
	}
	page, ok := h.pages[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	fmt.Fprint(w, page)
}

// told are the forms that came to a path.
func (h *hooks) told(path string) (all []posted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.got {
		if p.path == path {
			all = append(all, p)
		}
	}
	return all
}

func (h *hooks) statuses(path string) string {
	var all []string
	for _, p := range h.told(path) {
		all = append(all, p.form.Get("CallStatus"))
	}
	return strings.Join(all, " ")
}

// bot is a media server: it notes every message and does what talk says.
type bot struct {
	*httptest.Server
	mu       sync.Mutex
	messages []message
	upgrades []bool // whether each one was signed
	closed   int
}

type message struct {
	Event string
	Raw   string
	At    time.Time
	SID   string `json:"streamSid"`
	Seq   string `json:"sequenceNumber"`
	Start struct {
		CallSID     string            `json:"callSid"`
		AccountSID  string            `json:"accountSid"`
		Tracks      []string          `json:"tracks"`
		Params      map[string]string `json:"customParameters"`
		MediaFormat struct {
			Encoding   string `json:"encoding"`
			SampleRate int    `json:"sampleRate"`
			Channels   int    `json:"channels"`
		} `json:"mediaFormat"`
	}
	Media struct{ Track, Chunk, Timestamp, Payload string }
	DTMF  struct{ Digit string }
	Mark  struct{ Name string }
}

// newBot starts one. Talk is asked for each message; false closes the socket.
func newBot(t testing.TB, talk func(c *websocket.Conn, m message) bool) *bot {
	t.Helper()
	b := &bot{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		b.mu.Lock()
		b.upgrades = append(b.upgrades, r.Header.Get("X-Twilio-Signature") == signature("ws://"+r.Host+r.URL.RequestURI(), nil))
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			b.closed++
			b.mu.Unlock()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		for {
			_, raw, err := c.Read(ctx)
			if err != nil {
				return
			}
			m := message{Raw: string(raw), At: time.Now()}
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Errorf("bot got %s: %v", raw, err)
				return
			}
			b.mu.Lock()
			b.messages = append(b.messages, m)
			b.mu.Unlock()
			if talk != nil && !talk(c, m) {
				c.Close(websocket.StatusNormalClosure, "")
				return
			}
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// url is the bot's media address.
func (b *bot) url() string { return "ws" + strings.TrimPrefix(b.URL, "http") + "/m/bot_1/token" }

// twiml leads a call to the bot.
func (b *bot) twiml(then string) string {
	return `<Response><Connect><Stream url="` + b.url() + `"><Parameter name="claim" value="c1"/></Stream></Connect>` + then + `</Response>`
}

// of are the messages of one event.
func (b *bot) of(event string) (all []message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		if m.Event == event {
			all = append(all, m)
		}
	}
	return all
}
