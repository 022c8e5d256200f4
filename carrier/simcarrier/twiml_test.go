package simcarrier

import (
	"errors"
	"strings"
	"testing"
	"time"

	"dibs/carrier/twilio"
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

// What package twilio writes arrives here as it was meant.
func TestReadsWhatTwilioWrites(t *testing.T) {
	const odd = "a<b>&\"'\n\tü🙂 ]]>"
	doc := twilio.TwiML(
		twilio.Connect{URL: "wss://x/m?" + odd, Params: map[string]string{odd: odd, "b": ""}},
		twilio.Say{Text: odd}, twilio.Pause{Length: 3 * time.Second}, twilio.Redirect{URL: "https://x/?a=1&b=2"},
		twilio.Reject{Busy: true}, twilio.Hangup{},
	)
	verbs, err := parseTwiML([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(verbs), "Connect Say Pause Redirect Reject Hangup"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	stream := verbs[0].kids[0]
	if stream.name != "Stream" || stream.attrs["url"] != "wss://x/m?"+odd || len(stream.kids) != 2 {
		t.Errorf("stream: got %+v", stream)
	}
	if p := stream.kids[0]; p.attrs["name"] != odd || p.attrs["value"] != odd {
		t.Errorf("parameter: got %+v", p)
	}
	if verbs[1].text != odd || verbs[2].attrs["length"] != "3" || verbs[3].text != "https://x/?a=1&b=2" || verbs[4].attrs["reason"] != "busy" {
		t.Errorf("got %+v", verbs[1:])
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

func FuzzTwiMLRoundTrip(f *testing.F) {
	f.Add("name", "value", "text")
	f.Add("<>&'\"", "\x00\xff", "]]>")
	f.Fuzz(func(t *testing.T, name, value, text string) {
		doc := twilio.TwiML(twilio.Connect{URL: "wss://x", Params: map[string]string{name: value}}, twilio.Say{Text: text})
		verbs, err := parseTwiML([]byte(doc))
		if err != nil {
			if len(doc) > maxTwiML {
				return
			}
			t.Fatalf("%v in %q", err, doc)
		}
		if names(verbs) != "Connect Say" || len(verbs[0].kids) != 1 || len(verbs[0].kids[0].kids) != 1 {
			t.Errorf("%q became %+v", doc, verbs)
		}
	})
}
