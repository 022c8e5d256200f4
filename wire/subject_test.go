package wire_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dibs/wire"
)

// TestTokens holds CheckToken against the sentence in its comment.
func TestTokens(t *testing.T) {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	words := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9_-]{0,130}`), rapid.StringOf(rapid.SampledFrom([]rune("a.*> $\x00é"))))
	rapid.Check(t, func(t *rapid.T) {
		s := words.Draw(t, "token")
		want := s != "" && len(s) <= wire.MaxToken && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
		err := wire.CheckToken(s)
		if (err == nil) != want {
			t.Fatalf("CheckToken(%q) = %v, want ok %v", s, err, want)
		}
		if err != nil && !errors.Is(err, wire.ErrToken) {
			t.Fatalf("CheckToken(%q) = %v, which is not ErrToken", s, err)
		}
	})
}

// TestSubjectsHoldTheirTokens makes subjects of any words: either every word is
// one token of the subject, or there is an error that says so.
func TestSubjectsHoldTheirTokens(t *testing.T) {
	word := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{1,20}`), rapid.StringOf(rapid.SampledFrom([]rune("ab.*> \n"))))
	kinds := map[string]struct {
		words int
		make  func(a []string) (string, error)
	}{
		"claim": {2, func(a []string) (string, error) { return wire.ClaimPool(a[0], a[1]) }},
		"bot":   {2, func(a []string) (string, error) { return wire.Bot(a[0], a[1]) }},
		"beat":  {2, func(a []string) (string, error) { return wire.BeatOf(a[0], a[1]) }},
		"line":  {4, func(a []string) (string, error) { return wire.Line(a[0], a[1], a[2], a[3]) }},
	}
	for first, k := range kinds {
		t.Run(first, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				words := rapid.SliceOfN(word, k.words, k.words).Draw(t, "words")
				good := !slices.ContainsFunc(words, func(w string) bool { return wire.CheckToken(w) != nil })
				subj, err := k.make(words)
				if (err == nil) != good {
					t.Fatalf("%q made %q, error %v", words, subj, err)
				}
				if err != nil {
					if !errors.Is(err, wire.ErrToken) {
						t.Fatalf("error %v is not ErrToken", err)
					}
					return
				}
				want := append([]string{"dibs", "v1", first}, words...)
				if got := strings.Split(subj, "."); !slices.Equal(got, want) {
					t.Fatalf("tokens %q, want %q", got, want)
				}
			})
		})
	}
}

// TestParsedTokensAreTokens reads any text: what comes out could be made again.
func TestParsedTokensAreTokens(t *testing.T) {
	part := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{1,6}`), rapid.SampledFrom([]string{"dibs", "v1", "bot", "line", "", "*", ">", "a b"}))
	rapid.Check(t, func(t *rapid.T) {
		subj := strings.Join(rapid.SliceOfN(part, 3, 8).Draw(t, "tokens"), ".")
		if rapid.Bool().Draw(t, "ours") {
			subj = wire.Prefix + subj
		}
		if verb, ok := wire.ParseBotVerb(subj); ok && wire.CheckToken(verb) != nil {
			t.Fatalf("ParseBotVerb(%q) = %q", subj, verb)
		}
		if region, class, org, call, ok := wire.ParseLine(subj); ok {
			if again, err := wire.Line(region, class, org, call); err != nil || again != subj {
				t.Fatalf("ParseLine(%q) made %q, error %v", subj, again, err)
			}
		}
	})
}

func TestParsingUndoesMaking(t *testing.T) {
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`)
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(token, 4, 4).Draw(t, "tokens")

		subj, err := wire.Bot(a[0], a[1])
		if err != nil {
			t.Fatal(err)
		}
		if verb, ok := wire.ParseBotVerb(subj); !ok || verb != a[1] {
			t.Fatalf("ParseBotVerb(%q) = %q, %v", subj, verb, ok)
		}
		if region, class, org, call, ok := wire.ParseLine(subj); ok {
			t.Fatalf("ParseLine(%q) = %q", subj, []string{region, class, org, call})
		}

		subj, err = wire.Line(a[0], a[1], a[2], a[3])
		if err != nil {
			t.Fatal(err)
		}
		region, class, org, call, ok := wire.ParseLine(subj)
		if got := []string{region, class, org, call}; !ok || !slices.Equal(got, a) {
			t.Fatalf("ParseLine(%q) = %q, %v, want %q", subj, got, ok, a)
		}
		if verb, ok := wire.ParseBotVerb(subj); ok {
			t.Fatalf("ParseBotVerb(%q) = %q", subj, verb)
		}
	})
}

// TestWildcardsMatchOnlyTheirOwn holds the patterns against the subjects that
// they are for.
func TestWildcardsMatchOnlyTheirOwn(t *testing.T) {
	all, err := wire.BotAll("b1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		pattern, like string
		others        []string
	}{
		{all, must(wire.Bot("b1", wire.VerbClaim)), []string{must(wire.Bot("b2", wire.VerbClaim)), must(wire.ClaimRegion("b1"))}},
		{wire.BeatAll(), must(wire.BeatOf("eu-west", "b1")), []string{all, wire.Roll()}},
		{wire.LineAll(), must(wire.Line("eu-west", "api", "acme", "call_1")), []string{wire.BeatAll(), wire.EventsAll()}},
		{wire.EventsAll(), must(wire.EventOf("call.ended")), []string{must(wire.Desk("lease.take"))}},
	} {
		head := strings.TrimRight(tt.pattern, "*>")
		if !strings.HasPrefix(tt.like, head) {
			t.Errorf("%s does not match %s", tt.pattern, tt.like)
		}
		for _, o := range tt.others {
			if strings.HasPrefix(o, head) {
				t.Errorf("%s matches %s", tt.pattern, o)
			}
		}
	}
}

func must(subj string, err error) string {
	if err != nil {
		panic(err)
	}
	return subj
}

func ExampleClaimPool() {
	fmt.Println(wire.ClaimPool("eu-west", "acme"))
	fmt.Println(wire.ClaimPool("eu-west", "acme.evil"))
	// Output:
	// dibs.v1.claim.eu-west.acme <nil>
	//  not a subject token: "acme.evil"
}
