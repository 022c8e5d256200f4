package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"dibs/api"
	"dibs/server"
)

func TestTokens(t *testing.T) {
	sum := sha256.Sum256([]byte("known-by-its-hash-only"))
	w := newWorld(t, func(c *server.Config) {
		c.Tokens = append(c.Tokens, server.Token{Name: "hashed", SHA256: strings.ToUpper(hex.EncodeToString(sum[:])), Role: server.Viewer})
	})
	for _, tt := range []struct {
		name, header, challenge string
		status                  int
	}{
		{"none", "", `Bearer realm="dibs"`, 401},
		{"another one", "Bearer wrong-token-000000", `Bearer realm="dibs", error="invalid_token"`, 401},
		{"a part of one", "Bearer " + viewer[:len(viewer)-1], `Bearer realm="dibs", error="invalid_token"`, 401},
		{"one and more", "Bearer " + viewer + "x", `Bearer realm="dibs", error="invalid_token"`, 401},
		{"the hash itself", "Bearer " + hex.EncodeToString(sum[:]), `Bearer realm="dibs", error="invalid_token"`, 401},
		{"a password", "Basic d2F0Y2g6dmlld2VyLXNlY3JldC0wMDAx", `Bearer realm="dibs", error="invalid_token"`, 401},
		{"no scheme", viewer, `Bearer realm="dibs", error="invalid_token"`, 401},
		{"nothing behind the scheme", "Bearer  ", `Bearer realm="dibs", error="invalid_token"`, 401},
		{"a very long one", "Bearer " + strings.Repeat("x", 8<<10), `Bearer realm="dibs", error="invalid_token"`, 401},
		{"a viewer", "Bearer " + viewer, "", 200},
		{"in another case", "bearer " + viewer, "", 200},
		{"by its hash", "Bearer known-by-its-hash-only", "", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.ask("GET", "/v1/calls", nil, "Authorization", tt.header)
			if r.status != tt.status || r.header.Get("WWW-Authenticate") != tt.challenge {
				t.Errorf("status %d, challenge %q, want %d %q", r.status, r.header.Get("WWW-Authenticate"), tt.status, tt.challenge)
			}
			if tt.status == 401 {
				denied(t, r, api.CodeUnauthorized)
			}
		})
	}
	r := w.ask("POST", "/v1/calls", body(), as(viewer)...)
	if denied(t, r, api.CodeForbidden); r.header.Get("WWW-Authenticate") != `Bearer realm="dibs", error="insufficient_scope"` {
		t.Errorf("challenge %q", r.header.Get("WWW-Authenticate"))
	}
	if puts, _, _ := w.calls.counts(); puts != 0 {
		t.Error("a viewer's call was put")
	}
	// A token in the query is none.
	denied(t, w.ask("GET", "/v1/calls?access_token="+viewer, nil, "Authorization", ""), api.CodeUnauthorized)
	// Not even a bad body is looked at before.
	denied(t, w.ask("POST", "/v1/calls", "{", "Authorization", ""), api.CodeUnauthorized)
	s := w.log.String()
	for _, secret := range []string{viewer, "wrong-token", "known-by-its-hash"} {
		if strings.Contains(s, secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
	if !strings.Contains(s, `"token":"hashed","status":200`) {
		t.Errorf("the log does not say who asked:\n%s", s)
	}
}

// TestEveryPathNeedsAToken takes the paths from the description, so that a new one
// cannot be forgotten; and one that is not described needs an admin.
func TestEveryPathNeedsAToken(t *testing.T) {
	w := newWorld(t)
	doc := read[struct {
		Paths map[string]map[string]struct{ Security []any }
	}](t, w.ask("GET", "/openapi.json", nil, "Authorization", ""), 200)
	n := 0
	for path, ops := range doc.Paths {
		for method, op := range ops {
			if strings.HasPrefix(path, "/v1/carriers/") || strings.HasPrefix(path, "/v1/inbound/") {
				continue
			}
			n++
			path := strings.NewReplacer("{id}", "x", "{call_id}", "x", "{number}", "x").Replace(path)
			denied(t, w.ask(strings.ToUpper(method), path, nil, "Authorization", ""), api.CodeUnauthorized)
			if len(op.Security) == 0 {
				t.Errorf("%s %s: the description does not say so", method, path)
			}
			if method != "get" {
				denied(t, w.ask(strings.ToUpper(method), path, nil, as(viewer)...), api.CodeForbidden)
			}
		}
	}
	if n != 30 {
		t.Errorf("%d operations, want 30", n)
	}
	w.srv.Mux().HandleFunc("GET /v1/forgotten/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	for secret, want := range map[string]int{"": 401, viewer: 403, operator: 403, admin: 200} {
		if r := w.ask("GET", "/v1/forgotten/x", nil, as(secret)...); r.status != want {
			t.Errorf("a path that nobody thought about, as %q: %d, want %d", secret, r.status, want)
		}
		if r := w.ask("GET", "/v1/x/../forgotten/x", nil, as(secret)...); r.status == 200 {
			t.Errorf("around a corner, as %q: 200", secret)
		}
	}
	none := newWorld(t, func(c *server.Config) { c.Tokens = nil })
	denied(t, none.ask("GET", "/v1/calls", nil, as(admin)...), api.CodeUnauthorized)
}

func TestParseTokens(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	got, err := server.ParseTokens([]byte(`[{"name":"crm","sha256":"` + sum + `","role":"operator","org_id":"acme"},{"name":"me","token":"0123456789abcdef","role":"admin"}]`))
	if err != nil || len(got) != 2 || got[0].Org != "acme" || got[1].Role != server.Admin {
		t.Errorf("got %v, %v", got, err)
	}
	for name, tt := range map[string]struct{ data, want string }{
		"no list":       {`{"name":"s3cretvalue"}`, "want a JSON list"},
		"unknown field": {`[{"name":"a","secret":"s3cretvalue","role":"admin"}]`, "want a JSON list"},
		"more":          {`[] []`, "something follows"},
		"short":         {`[{"name":"a","token":"s3cretvalue","role":"admin"}]`, "server: Tokens[0].Secret: want at least 16"},
		"white space":   {`[{"name":"a","token":"s3cretvalue s3cretvalue","role":"admin"}]`, "Tokens[0].Secret"},
		"both":          {`[{"name":"a","token":"s3cretvalue-0000","sha256":"` + sum + `","role":"admin"}]`, "want exactly one"},
		"neither":       {`[{"name":"a","role":"admin"}]`, "want exactly one"},
		"a short hash":  {`[{"name":"a","sha256":"abcd","role":"admin"}]`, "Tokens[0].SHA256: want 64"},
		"no role":       {`[{"name":"a","token":"s3cretvalue-0000"}]`, "Role"},
		"a role":        {`[{"name":"a","token":"s3cretvalue-0000","role":"god"}]`, "Role"},
		"no name":       {`[{"token":"s3cretvalue-0000","role":"admin"}]`, "Name"},
		"an org":        {`[{"name":"a","token":"s3cretvalue-0000","role":"admin","org_id":"a.b"}]`, "Org"},
		"twice":         {`[{"name":"a","token":"s3cretvalue-0000","role":"admin"},{"name":"a","token":"s3cretvalue-0001","role":"admin"}]`, "Tokens[1].Name: occurs twice"},
	} {
		_, err := server.ParseTokens([]byte(tt.data))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cretvalue") {
			t.Errorf("%s: %v, want it to say %q and no secret", name, err, tt.want)
		}
	}
	shown := fmt.Sprintf("%v %+v %#v %s", got[1], got, got[1], got[1])
	if strings.Contains(shown, "0123456789abcdef") {
		t.Errorf("printed: %s", shown)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for want, edit := range map[string]func(*server.Config){
		"Calls":                func(c *server.Config) { c.Calls = nil },
		"Asker":                func(c *server.Config) { c.Asker = nil },
		"Roster":               func(c *server.Config) { c.Roster = nil },
		"NC":                   func(c *server.Config) { c.NC = nil },
		"Registerer, Gatherer": func(c *server.Config) { c.Gatherer = nil },
		"Region":               func(c *server.Config) { c.Region = "eu.west" },
		"From":                 func(c *server.Config) { c.From = "0301234567" },
		"PublicURL":            func(c *server.Config) { c.PublicURL = "voice.example.com" },
		"Tokens[0].Role":       func(c *server.Config) { c.Tokens[0].Role = "" },
	} {
		var cfg server.Config
		newWorld(t, func(c *server.Config) {
			cfg = *c
			cfg.Registerer, cfg.Gatherer = registry(), registry()
			cfg.Tokens = append([]server.Token(nil), c.Tokens...)
		})
		if err := cfg.Validate(); err != nil {
			t.Fatalf("before: %v", err)
		}
		edit(&cfg)
		if _, err := server.New(cfg); err == nil || !strings.Contains(err.Error(), "server: "+want) {
			t.Errorf("%s: %v, want it named", want, err)
		}
	}
}
