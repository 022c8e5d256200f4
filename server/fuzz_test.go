package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"dibs/api"
	"dibs/call"
	"dibs/server"
)

// FuzzPlaceCall sends any body: it is refused with a problem that fits its status, or
// it becomes an order that the line takes and that can be told apart from others.
func FuzzPlaceCall(f *testing.F) {
	for _, seed := range []string{
		`{"to":"` + to + `","org_id":"acme"}`,
		`{"to":"` + to + `","org_id":"acme","class":"campaign","campaign_id":"c","hours":{"mon":[["09:00","24:00"]]},"tz":"Europe/Berlin"}`,
		`{"to":"` + to + `","org_id":"acme","retry":{"max_attempts":3,"backoff_ms":[1,2],"on":["busy"]},"metadata":{"a":[1,{"b":null}]}}`,
		`{"to":"` + to + `","org_id":"acme","not_before":"2026-01-01T00:00:00Z","not_after":"2998-01-01T00:00:00+01:00","no_wait":true}`,
		`{"to":"` + to + `","org_id":"acme","flow":{"id":"x","inline":{"say":"\u0000"}},"needs":{"stt":["a","b"]},"metadata":null}`,
		`{"TO":"` + to + `"}`, `{"to":1e9}`, `[]`, `null`, `"`, "{\"to\":\"\xff\"}", `{"retry":{"on":[[]]}}`, `{"to":"a","to":"` + to + `","org_id":"b"}`,
	} {
		f.Add([]byte(seed), "key")
	}
	w, rec := fuzzed(f)
	f.Fuzz(func(t *testing.T, data []byte, key string) {
		rec.order = nil
		r := httptest.NewRequest("POST", "/v1/calls", strings.NewReader(string(data)))
		r.Header.Set("Authorization", "Bearer "+operator)
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header["Idempotency-Key"] = []string{key}
		}
		got := httptest.NewRecorder()
		w.srv.Handler().ServeHTTP(got, r)
		if got.Code == http.StatusAccepted {
			var c api.Call
			if err := json.Unmarshal(got.Body.Bytes(), &c); err != nil || rec.order == nil || c.ID != rec.order.CallID {
				t.Fatalf("accepted %q as %s: %v", data, got.Body, err)
			}
			wire, err := rec.order.Encode()
			if err != nil {
				t.Fatalf("%q became an order that nobody takes: %v", data, err)
			}
			if back, err := call.DecodeOrder(wire); err != nil || back.CallID != c.ID || back.To != rec.order.To {
				t.Fatalf("%q became an order that is not read back: %v", data, err)
			}
			return
		}
		var p api.Problem
		if err := json.Unmarshal(got.Body.Bytes(), &p); err != nil || p.Status != got.Code || api.CodeOf(p.Code).Status != got.Code || got.Code >= 500 {
			t.Fatalf("%q was answered %d %s", data, got.Code, got.Body)
		}
		if rec.order != nil || got.Body.Len() > 16<<10 {
			t.Fatalf("%q was refused with %d bytes, and put: %v", data, got.Body.Len(), rec.order)
		}
	})
}

// recorder takes every order and knows none.
type recorder struct {
	*ledger
	order *call.Order
}

func fuzzed(t testing.TB) (*world, *recorder) {
	rec := &recorder{ledger: newLedger()}
	rec.onGet = func(string) error { return api.ErrNotFound }
	rec.onPut = func(o call.Order) (error, bool) {
		rec.order = &o
		rec.set(func(l *ledger) { clear(l.records); clear(l.line); l.order = nil })
		return nil, false
	}
	w := newWorld(t, func(c *server.Config) { c.Calls, c.Log = rec, zerolog.Nop() })
	return w, rec
}
