package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"dibs/api"
	"dibs/carrier/twilio"
	"dibs/claim"
	"dibs/internal/natstest"
	"dibs/pool"
	"dibs/server"
	"dibs/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tokens of every test's server.
const (
	viewer   = "viewer-secret-0001"
	operator = "operator-secret-01"
	second   = "operator-secret-02" // another one with the same role
	admin    = "admin-secret-00001"
	acme     = "acme-only-secret-1" // an operator bound to org acme
)

const (
	region = "eu-west"
	from   = "+493012345678"
	to     = "+4915112345678"
)

// The carrier of every test's server.
const (
	account   = "AC0123456789abcdef0123456789abcdef"
	authToken = "carrier-auth-token"
	public    = "https://voice.example.com"
)

// world is a server with everything around it; all of it ends with the test.
type world struct {
	t      testing.TB
	broker *natstest.Broker
	nc     *nats.Conn
	roster *pool.Roster
	calls  *ledger
	log    *logged
	srv    *server.Server
	http   *httptest.Server
}

func newWorld(t testing.TB, edit ...func(*server.Config)) *world {
	t.Helper()
	w := &world{t: t, broker: natstest.Start(t), roster: pool.NewRoster(), calls: newLedger(), log: &logged{}}
	w.nc = w.broker.Connect(t)
	asker, err := claim.New(w.nc, claim.AskerConfig{
		Counts: func(region, p string) wire.Counts { return w.roster.Counts(time.Now(), region, p) },
	})
	if err != nil {
		t.Fatal(err)
	}
	tw, err := twilio.New(twilio.Config{AccountSID: account, AuthToken: authToken, PublicURL: public, StatusPath: api.StatusPath("twilio")})
	if err != nil {
		t.Fatal(err)
	}
	cfg := server.Config{
		Calls: w.calls, Asker: asker, Roster: w.roster, NC: w.nc, Carrier: tw, Region: region, From: from,
		Tokens: []server.Token{
			{Name: "watch", Secret: viewer, Role: server.Viewer},
			{Name: "crm", Secret: operator, Role: server.Operator},
			{Name: "crm2", Secret: second, Role: server.Operator},
			{Name: "root", Secret: admin, Role: server.Admin},
			{Name: "acme", Secret: acme, Role: server.Operator, Org: "acme"},
		},
		Log: zerolog.New(w.log),
	}
	for _, f := range edit {
		f(&cfg)
	}
	if w.srv, err = server.New(cfg); err != nil {
		t.Fatal(err)
	}
	w.http = httptest.NewServer(w.srv.Handler())
	t.Cleanup(func() {
		w.http.Close()
		_ = asker.Close()
	})
	return w
}

// logged is a log that can be looked through.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// reply is what was answered.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// ask is one request as operator unless head says otherwise. body is sent as JSON,
// or as it is when it is a string.
func (w *world) ask(method, path string, body any, head ...string) reply {
	w.t.Helper()
	var send io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		send = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			w.t.Fatal(err)
		}
		send = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, send)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+operator)
	if send != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(head); i += 2 {
		if r.Header.Del(head[i]); head[i+1] != "" {
			r.Header.Set(head[i], head[i+1])
		}
	}
	hc := *w.http.Client()
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := hc.Do(r)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, data}
}

// as is the header that asks with another token.
func as(secret string) []string { return []string{"Authorization", "Bearer " + secret} }

// read decodes an answer of the wanted status.
func read[T any](t *testing.T, r reply, want int) (out T) {
	t.Helper()
	if r.status != want {
		t.Fatalf("status %d, want %d: %s", r.status, want, r.body)
	}
	if err := json.Unmarshal(r.body, &out); err != nil {
		t.Fatalf("answer %s: %v", r.body, err)
	}
	return out
}

// denied is the problem of an answer, which must be one of the code's status.
func denied(t *testing.T, r reply, code string) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatalf("status %d, answer %q is no problem: %v", r.status, r.body, err)
	}
	if p.Code != code || r.status != api.CodeOf(code).Status || p.Status != r.status {
		t.Fatalf("status %d, problem %+v, want %s with %d", r.status, p, code, api.CodeOf(code).Status)
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q, want a problem's", got)
	}
	if p.Title == "" || p.Type != "/problems/"+code || p.RequestID == "" || p.RequestID != r.header.Get("X-Request-Id") {
		t.Errorf("problem %+v lacks its marks; request id %q", p, r.header.Get("X-Request-Id"))
	}
	return p
}

// body is a request for a call, with fields set as "name", value.
func body(fields ...any) map[string]any {
	b := map[string]any{"to": to, "org_id": "acme"}
	for i := 0; i < len(fields); i += 2 {
		if b[fields[i].(string)] = fields[i+1]; fields[i+1] == nil {
			delete(b, fields[i].(string))
		}
	}
	return b
}
