package settings_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/api"
	"dibs/internal/natstest"
	"dibs/settings"
)

func TestMain(m *testing.M) { os.Exit(natstest.Main(m)) }

func number() api.Number {
	return api.Number{Number: "+493012345678", Org: "acme", Region: "eu-west", Pool: "default", CallBack: true, Flow: api.Flow{ID: "recall"}}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name string
		with func(*api.Number)
		want []string // paths
	}{
		{"all is well", func(*api.Number) {}, nil},
		{"no number", func(n *api.Number) { n.Number = "030 1234" }, []string{"number"}},
		{"no org, no region", func(n *api.Number) { n.Org, n.Region = "", "" }, []string{"org_id", "region"}},
		{"an org that is no token", func(n *api.Number) { n.Org = "a.b" }, []string{"org_id"}},
		{"no pool is the region's", func(n *api.Number) { n.Pool = "" }, nil},
		{"metadata that is a list", func(n *api.Number) { n.Metadata = json.RawMessage(`[1]`) }, []string{"metadata"}},
		{"a flow that is no JSON", func(n *api.Number) { n.Flow.Inline = json.RawMessage(`{`) }, []string{"flow.inline"}},
		{"half a second", func(n *api.Number) { n.MaxCallMS = 500 }, []string{"max_call_ms"}},
		{"an endless sentence", func(n *api.Number) { n.Overflow = strings.Repeat("ä", 501) }, []string{"overflow"}},
		{"500 letters of two bytes", func(n *api.Number) { n.Sorry = strings.Repeat("ä", 500) }, nil},
		{"a language in words", func(n *api.Number) { n.Language = "German please" }, []string{"language"}},
		{"a flow of 50 KiB", func(n *api.Number) { n.Flow.Inline = json.RawMessage(`"` + strings.Repeat("a", 50<<10) + `"`) }, []string{"flow"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := number()
			tt.with(&n)
			var got []string
			if bad, ok := errors.AsType[*settings.Invalid](settings.Check(n)); ok {
				for _, f := range bad.Fields {
					got = append(got, f.Path)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ name, file, err string }{
		{"one number", `{"numbers":[{"number":"+493012345678","org_id":"acme"}]}`, ""},
		{"none", `{"numbers":[]}`, ""},
		{"a field misspelt", `{"numbers":[{"number":"+493012345678","org_id":"acme","callback":true}]}`, "callback"},
		{"a number twice", `{"numbers":[{"number":"+493012345678","org_id":"a"},{"number":"+493012345678","org_id":"b"}]}`, "numbers[1]"},
		{"no org", `{"numbers":[{"number":"+493012345678"}]}`, "org_id"},
		{"all of it", `{"numbers":[],"orgs":[{"id":"acme","floor":2,"ceiling":4,"reserve":1}],"campaigns":[{"id":"recall","org_id":"acme","cap":2}],"platform":{"cap":10}}`, ""},
		{"an org without an id", `{"orgs":[{"floor":2}]}`, "orgs[0]: id"},
		{"an org twice", `{"orgs":[{"id":"a"},{"id":"a"}]}`, "orgs[1]: it occurs twice"},
		{"an org that could never dial", `{"orgs":[{"id":"a"},{"id":"b","floor":1,"ceiling":1,"reserve":1}]}`, "orgs[1]: reserve: reserve 1 leaves 0 lines for outbound at ceiling 1"},
		{"reserves over the file's cap", `{"orgs":[{"id":"a","floor":5,"reserve":5}],"platform":{"cap":5}}`, "platform: cap: reserves of 5 leave 0 lines for outbound at platform cap 5"},
		{"a campaign of nobody", `{"campaigns":[{"id":"a"}]}`, "campaigns[0]: org_id"},
		{"an unknown policy", `{"platform":{"full":"queue"}}`, "platform: full"},
		{"a class that cannot be protected", `{"platform":{"withhold":{"api":3}}}`, `platform: withhold: "api" cannot be protected`},
		{"a field misspelt in an org", `{"orgs":[{"id":"a","flor":2}]}`, "flor"},
		{"two objects", `{"numbers":[]}{}`, "follows"},
		{"YAML", "numbers:\n  - {number: \"+493012345678\", org_id: acme}\norgs:\n  - id: acme\n    floor: 2\n", ""},
		{"a number that YAML takes for one", "numbers:\n  - {number: +493012345678, org_id: acme}\n", "number"},
		{"a key twice in YAML", "orgs: []\norgs: []\n", "already defined"},
		{"a key that is no word", "1: 2\n", "settings"},
		{"a list", "- 1\n", "settings"},
		{"neither", "\tnumbers", "settings"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := settings.Parse([]byte(tt.file), "eu-west")
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			for _, n := range f.Numbers {
				if n.Region != "eu-west" {
					t.Errorf("region %q, want the server's", n.Region)
				}
			}
		})
	}
}

// world is two replicas over one broker.
func world(t *testing.T) (a, b *settings.Store) {
	t.Helper()
	broker := natstest.Start(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 2)
	var both [2]*settings.Store
	for i := range both {
		s, err := settings.Open(t.Context(), broker.JetStream(t), settings.Config{})
		if err != nil {
			t.Fatal(err)
		}
		go func() { done <- s.Run(ctx) }()
		both[i] = s
	}
	t.Cleanup(func() { stop(); <-done; <-done })
	return both[0], both[1]
}

func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// A change on one replica is known on the other without a restart.
func TestChangesAreSeen(t *testing.T) {
	a, b := world(t)
	ctx := t.Context()
	n := number()
	if _, err := b.Number(ctx, n.Number); !errors.Is(err, settings.ErrNotFound) {
		t.Fatalf("a number nobody has set: %v", err)
	}
	if err := a.Put(ctx, n); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Number(ctx, n.Number); err != nil || got.Org != "acme" {
		t.Errorf("whoever put it sees %+v, %v", got, err)
	}
	soon(t, "the other sees it", func() bool { _, err := b.Number(ctx, n.Number); return err == nil })
	n.Org = "other"
	if err := b.Put(ctx, n); err != nil {
		t.Fatal(err)
	}
	soon(t, "a change is seen", func() bool { got, _ := a.Number(ctx, n.Number); return got.Org == "other" })
	all, err := a.Numbers(ctx)
	if err != nil || len(all) != 1 || all[0].Org != "other" {
		t.Errorf("all: %+v, %v", all, err)
	}
	if err := a.Delete(ctx, n.Number); err != nil {
		t.Fatal(err)
	}
	soon(t, "it is gone", func() bool { _, err := b.Number(ctx, n.Number); return errors.Is(err, settings.ErrNotFound) })
	if err := b.Delete(ctx, n.Number); !errors.Is(err, settings.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	n.Number = "12"
	if _, ok := errors.AsType[*settings.Invalid](a.Put(ctx, n)); !ok {
		t.Error("a number that is none was stored")
	}
}

// What the file says goes in when the file has changed, and not over a change that
// was made meanwhile.
func TestSeed(t *testing.T) {
	a, _ := world(t)
	ctx := t.Context()
	seed := func(n api.Number, want int) {
		t.Helper()
		if put, err := a.Seed(ctx, settings.File{Numbers: []api.Number{n}}); err != nil || put != want {
			t.Fatalf("put %d, %v, want %d", put, err, want)
		}
	}
	org := func(want string) {
		t.Helper()
		if got, err := a.Number(ctx, number().Number); err != nil || got.Org != want {
			t.Errorf("org %q, %v, want %q", got.Org, err, want)
		}
	}
	n := number()
	seed(n, 1)
	seed(n, 0) // a restart
	changed := n
	changed.Org = "by-hand"
	if err := a.Put(ctx, changed); err != nil {
		t.Fatal(err)
	}
	seed(n, 0)
	org("by-hand")
	n.Org = "edited"
	seed(n, 1)
	org("edited")
}
