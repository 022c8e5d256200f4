package wire_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"dibs/wire"
)

// vectorFile is one file of testdata/protocol: data that every implementation
// of the protocol reads, in whatever language.
type vectorFile struct {
	What    string   `json:"what"`
	Schema  int      `json:"schema"`
	Message string   `json:"message"` // empty in subjects.json
	Vectors []vector `json:"vectors"`
}

type vector struct {
	Name string `json:"name"`
	Fill int    `json:"fill"` // "<fill>" stands for so many x, wherever it is

	// Of a message: the bytes, as an object or, where every byte matters, as a text.
	JSON       json.RawMessage `json:"json"`
	Valid      bool            `json:"valid"`
	Field      string          `json:"field"`      // the error names this field
	Normalized json.RawMessage `json:"normalized"` // what a sender of this version writes to say the same

	// Of a subject: what to make or to read, and what comes out.
	Fn      string   `json:"fn"`
	Args    []string `json:"args"`
	Subject string   `json:"subject"`
	Parts   []string `json:"parts"`

	Error string `json:"error"` // too_large, malformed, version, invalid; token, subject
}

// TestVectors reads the vectors from the folder in DIBS_VECTORS, so that a fork
// of the protocol can be held against ours and the other way round.
func TestVectors(t *testing.T) {
	dir := cmp.Or(os.Getenv("DIBS_VECTORS"), filepath.Join("..", "testdata", "protocol"))
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors in %s (%v)", dir, err)
	}
	seen := map[string]bool{}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var f vectorFile
			strict := json.NewDecoder(bytes.NewReader(data))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&f); err != nil {
				t.Fatal(err)
			}
			if f.Schema != 1 || f.What == "" || len(f.Vectors) == 0 {
				t.Fatalf("schema %d, what %q, %d vectors", f.Schema, f.What, len(f.Vectors))
			}
			seen[f.Message] = true
			for _, v := range f.Vectors {
				t.Run(v.Name, func(t *testing.T) {
					if f.Message == "" {
						v.checkSubject(t)
					} else {
						v.checkMessage(t, f.Message)
					}
				})
			}
		})
	}
	if os.Getenv("DIBS_VECTORS") == "" {
		for _, kind := range slices.Concat(slices.Collect(maps.Keys(recodings)), []string{""}) {
			if !seen[kind] {
				t.Errorf("no vectors for %q", kind)
			}
		}
	}
}

// recodings read a message of a kind and write it again.
var recodings = map[string]func([]byte) ([]byte, error){
	"ClaimRequest": recode[wire.ClaimRequest],
	"Reply":        recode[wire.Reply],
	"Beat":         recode[wire.Beat],
	"Control":      recode[wire.Control],
	"Command":      recode[wire.Command],
	"Answer":       recode[wire.Answer],
}

func recode[T wire.Message](data []byte) ([]byte, error) {
	m, err := wire.Decode[T](data)
	if err != nil {
		return nil, err
	}
	return wire.Encode(m)
}

var decodeErrors = map[string]error{
	"too_large": wire.ErrTooLarge, "malformed": wire.ErrMalformed, "version": wire.ErrVersion, "invalid": wire.ErrInvalid,
}

func (v vector) checkMessage(t *testing.T, kind string) {
	run, ok := recodings[kind]
	if !ok {
		t.Fatalf("no message of kind %q", kind)
	}
	got, err := run(v.text(t))
	if !v.Valid {
		want, ok := decodeErrors[v.Error]
		if !ok {
			t.Fatalf("the vector's error %q is none of %v", v.Error, slices.Sorted(maps.Keys(decodeErrors)))
		}
		if !errors.Is(err, want) {
			t.Fatalf("error %v, want %v", err, want)
		}
		if !strings.Contains(err.Error(), v.Field) {
			t.Errorf("error %v does not name the field %q", err, v.Field)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if v.Normalized != nil {
		if diff := gocmp.Diff(generic(t, v.Normalized), generic(t, got)); diff != "" {
			t.Errorf("read and written again (-want +got):\n%s", diff)
		}
	}
}

// text is the message as it travels.
func (v vector) text(t *testing.T) []byte {
	s := string(v.JSON)
	if strings.HasPrefix(s, `"`) {
		if err := json.Unmarshal(v.JSON, &s); err != nil {
			t.Fatal(err)
		}
	}
	return []byte(v.fill(s))
}

func (v vector) fill(s string) string {
	return strings.ReplaceAll(s, "<fill>", strings.Repeat("x", v.Fill))
}

func generic(t *testing.T, data []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// making are the functions that make a subject, by their name in the vectors.
var making = map[string]func(a []string) (string, error){
	"claim_pool":   func(a []string) (string, error) { return wire.ClaimPool(a[0], a[1]) },
	"claim_region": func(a []string) (string, error) { return wire.ClaimRegion(a[0]) },
	"bot":          func(a []string) (string, error) { return wire.Bot(a[0], a[1]) },
	"bot_all":      func(a []string) (string, error) { return wire.BotAll(a[0]) },
	"beat_of":      func(a []string) (string, error) { return wire.BeatOf(a[0], a[1]) },
	"beat_all":     func([]string) (string, error) { return wire.BeatAll(), nil },
	"line":         func(a []string) (string, error) { return wire.Line(a[0], a[1], a[2], a[3]) },
	"line_all":     func([]string) (string, error) { return wire.LineAll(), nil },
	"event_of":     func(a []string) (string, error) { return wire.EventOf(a[0]) },
	"events_all":   func([]string) (string, error) { return wire.EventsAll(), nil },
	"desk":         func(a []string) (string, error) { return wire.Desk(a[0]) },
	"roll":         func([]string) (string, error) { return wire.Roll(), nil },
}

// parsing are the functions that read one.
var parsing = map[string]func(subj string) (parts []string, ok bool){
	"parse_bot_verb": func(subj string) ([]string, bool) {
		verb, ok := wire.ParseBotVerb(subj)
		return []string{verb}, ok
	},
	"parse_line": func(subj string) ([]string, bool) {
		region, class, org, call, ok := wire.ParseLine(subj)
		return []string{region, class, org, call}, ok
	},
}

func (v vector) checkSubject(t *testing.T) {
	args := slices.Clone(v.Args)
	for i, a := range args {
		args[i] = v.fill(a)
	}
	if parse, ok := parsing[v.Fn]; ok {
		got, ok := parse(args[0])
		if ok != (v.Error == "") {
			t.Fatalf("ok %v, the vector's error is %q", ok, v.Error)
		}
		if ok && !slices.Equal(got, v.Parts) {
			t.Errorf("parts %q, want %q", got, v.Parts)
		}
		return
	}
	make, ok := making[v.Fn]
	if !ok {
		t.Fatalf("no function %q", v.Fn)
	}
	got, err := make(args)
	if v.Error == "token" {
		if !errors.Is(err, wire.ErrToken) || got != "" {
			t.Errorf("subject %q, error %v, want none and %v", got, err, wire.ErrToken)
		}
		return
	}
	if want := v.fill(v.Subject); err != nil || got != want {
		t.Errorf("subject %q, error %v, want %q", got, err, want)
	}
}
