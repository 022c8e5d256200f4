package simcarrier

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
)

func names(verbs []element) string {
	var all []string
	for _, v := range verbs {
		all = append(all, v.name)
	}
	return strings.Join(all, " ")
}

func TestParseTwiML(t *testing.T) {
	for _, test := range []struct {
		name, doc, want string
		bad             bool
	}{
		{"empty", `<Response/>`, "", false},
		{"header, comment, space", "<?xml version=\"1.0\"?>\n<!-- c -->\n<Response> <Hangup/> </Response>\n", "Hangup", false},
		{"several", `<Response><Say>a</Say><Pause length="2"/><Redirect>/x</Redirect></Response>`, "Say Pause Redirect", false},
		{"unknown", `<Response><Dance/></Response>`, "Dance", false},
		{"another root", `<response/>`, "", true},
		{"no root", ``, "", true},
		{"two roots", `<Response/><Response/>`, "", true},
		{"half", `<Response><Say>`, "", true},
		{"not XML", `hello`, "", true},
		{"JSON", `{"a":1}`, "", true},
		{"wrong nesting", `<Response><Say></Response></Say>`, "", true},
		{"document type", `<!DOCTYPE Response SYSTEM "http://evil/x.dtd"><Response/>`, "", true},
		{"entities of its own", `<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><Response>&b;</Response>`, "", true},
		{"entity that is not known", `<Response><Say>&nbsp;</Say></Response>`, "", true},
		{"too deep", "<Response>" + strings.Repeat("<a>", 10) + strings.Repeat("</a>", 10) + "</Response>", "", true},
		{"too many", "<Response>" + strings.Repeat("<a/>", 500) + "</Response>", "", true},
		{"too long", "<Response>" + strings.Repeat(" ", maxTwiML) + "</Response>", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseTwiML([]byte(test.doc))
			if (err != nil) != test.bad || names(got) != test.want {
				t.Errorf("got %q, %v; want %q, bad: %v", names(got), err, test.want, test.bad)
			}
			if err != nil && !errors.Is(err, errTwiML) {
				t.Errorf("got %v, want errTwiML", err)
			}
		})
	}
}

// What is escaped arrives as it was meant.
func TestEscapes(t *testing.T) {
	const odd = "a<b>&\"'\n\tü🙂 ]]>"
	var b strings.Builder
	xml.EscapeText(&b, []byte(odd))
	verbs, err := parseTwiML([]byte(`<Response><Connect><Stream url="` + b.String() + `"><Parameter name="` + b.String() + `" value=""/></Stream></Connect>` +
		`<Say>` + b.String() + `<Break/>!</Say></Response>`))
	if err != nil {
		t.Fatal(err)
	}
	if stream := verbs[0].kids[0]; stream.attrs["url"] != odd || stream.kids[0].attrs["name"] != odd {
		t.Errorf("stream: got %+v", stream)
	}
	if verbs[1].text != odd+"!" {
		t.Errorf("text: got %q, want %q", verbs[1].text, odd+"!")
	}
}

// The signature is written twice in this tree, and both are held to the same vectors.
func TestSignatureVectors(t *testing.T) {
	b, err := os.ReadFile("../twilio/testdata/signatures.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Forms []struct {
			Name, Token, URL, Body, Signature string
			Valid                             bool
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, v := range file.Forms {
		if !v.Valid || strings.Contains(v.Name, "port") { // ports are for whoever checks
			continue
		}
		form, err := url.ParseQuery(v.Body)
		if err != nil {
			t.Fatal(err)
		}
		s := Server{cfg: Config{AuthToken: v.Token}}
		if got := s.sign(v.URL, form); got != v.Signature {
			t.Errorf("%s: got %s, want %s", v.Name, got, v.Signature)
		}
		checked++
	}
	if checked < 10 {
		t.Errorf("only %d vectors were checked", checked)
	}
}

func FuzzParseTwiML(f *testing.F) {
	f.Add([]byte(`<Response><Connect><Stream url="wss://x"><Parameter name="a" value="b"/></Stream></Connect></Response>`))
	f.Add([]byte(`<!DOCTYPE r [<!ENTITY a "b">]><Response>&a;</Response>`))
	f.Add([]byte("<Response>" + strings.Repeat("<a>", 20)))
	f.Fuzz(func(t *testing.T, doc []byte) {
		verbs, err := parseTwiML(doc)
		if err != nil && verbs != nil {
			t.Errorf("got %v beside %v", verbs, err)
		}
		n := 0
		var count func([]element, int)
		count = func(all []element, depth int) {
			for _, e := range all {
				if n++; n > maxElements || depth > maxDepth {
					t.Fatal("the limits do not hold")
				}
				count(e.kids, depth+1)
			}
		}
		count(verbs, 2)
	})
}
