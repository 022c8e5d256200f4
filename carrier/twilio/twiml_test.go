package twilio_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"dibs/carrier"
	"dibs/carrier/twilio"
)

func readCloser(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

func client2(t *testing.T, public string) *twilio.Client {
	return client(t, twilio.Config{PublicURL: public, StatusPath: "/v1/carriers/twilio/status/"})
}

func TestTwiML(t *testing.T) {
	for _, test := range []struct {
		name  string
		verbs []twilio.Verb
		want  string
	}{
		{"nothing", nil, ``},
		{"reject", []twilio.Verb{twilio.Reject{Busy: true}}, `<Reject reason="busy"></Reject>`},
		{"reject, no answer", []twilio.Verb{twilio.Reject{}}, `<Reject reason="rejected"></Reject>`},
		{
			"say and hang up",
			[]twilio.Verb{twilio.Say{Text: `a < b & "c" ]]>`, Voice: "Polly.Joanna"}, twilio.Hangup{}},
			`<Say voice="Polly.Joanna">a &lt; b &amp; &#34;c&#34; ]]&gt;</Say><Hangup></Hangup>`,
		},
		{"pause", []twilio.Verb{twilio.Pause{Length: 1500 * time.Millisecond}, twilio.Pause{}}, `<Pause length="2"></Pause><Pause length="1"></Pause>`},
		{"redirect", []twilio.Verb{twilio.Redirect{URL: "https://x/?a=1&b=2"}}, `<Redirect method="POST">https://x/?a=1&amp;b=2</Redirect>`},
		{
			"connect",
			[]twilio.Verb{twilio.Connect{URL: `wss://x/"`, Params: map[string]string{"b": "2", "a": "1\n"}, StatusURL: "https://s"}},
			`<Connect><Stream url="wss://x/&#34;" statusCallback="https://s"><Parameter name="a" value="1&#xA;"></Parameter><Parameter name="b" value="2"></Parameter></Stream></Connect>`,
		},
		{"what XML cannot hold", []twilio.Verb{twilio.Say{Text: "a\x00b\xff"}}, "<Say>a\uFFFDb\uFFFD</Say>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := `<?xml version="1.0" encoding="UTF-8"?>` + "\n<Response>" + test.want + "</Response>"
			if got := twilio.TwiML(test.verbs...); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Whatever goes in comes out of an XML reader again, in its place.
func FuzzTwiML(f *testing.F) {
	f.Add("name", "value", "text")
	f.Add("<>&'\"", "a\nb", "]]></Say><Hangup/>")
	f.Fuzz(func(t *testing.T, name, value, text string) {
		for _, s := range []string{name, value, text} {
			// XML cannot hold every character, and reads line ends its own way.
			if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0xFFFE || r == 0xFFFF }) {
				return
			}
		}
		doc := twilio.TwiML(twilio.Connect{URL: "wss://x", Params: map[string]string{name: value}}, twilio.Say{Text: text})
		var got struct {
			XMLName xml.Name `xml:"Response"`
			Params  []struct {
				Name  string `xml:"name,attr"`
				Value string `xml:"value,attr"`
			} `xml:"Connect>Stream>Parameter"`
			Say  []string `xml:"Say"`
			Rest []struct {
				XMLName xml.Name
			} `xml:",any"`
		}
		if err := xml.Unmarshal([]byte(doc), &got); err != nil {
			t.Fatalf("%v in %q", err, doc)
		}
		if len(got.Params) != 1 || got.Params[0].Name != name || got.Params[0].Value != value || len(got.Say) != 1 || got.Say[0] != text || len(got.Rest) != 0 {
			t.Errorf("%q became %+v", doc, got)
		}
	})
}

func TestConnectLimits(t *testing.T) {
	safe := client(t, twilio.Config{})
	loopback := client(t, twilio.Config{Insecure: true})
	long := func(n int) map[string]string { return map[string]string{"abc": strings.Repeat("ü", n-3)} }
	for _, test := range []struct {
		name   string
		c      *twilio.Client
		m      carrier.Media
		next   string
		refuse bool
	}{
		{"wss", safe, carrier.Media{URL: "wss://x/m/b/t"}, "", false},
		{"ws", safe, carrier.Media{URL: "ws://127.0.0.1/m"}, "", true},
		{"ws, loopback", loopback, carrier.Media{URL: "ws://127.0.0.1:99/m"}, "", false},
		{"ws, loopback by name", loopback, carrier.Media{URL: "ws://localhost/m"}, "", false},
		{"ws, IPv6 loopback", loopback, carrier.Media{URL: "ws://[::1]:99/m"}, "", false},
		{"ws, elsewhere", loopback, carrier.Media{URL: "ws://10.0.0.1/m"}, "", true},
		{"ws, a name like loopback", loopback, carrier.Media{URL: "ws://localhost.example.com/m"}, "", true},
		{"empty query", safe, carrier.Media{URL: "wss://x/m?"}, "", true},
		{"fragment", safe, carrier.Media{URL: "wss://x/m#f"}, "", true},
		{"relative", safe, carrier.Media{URL: "/m"}, "", true},
		{"parameter of 499", safe, carrier.Media{URL: "wss://x/m", Params: long(499)}, "", false},
		{"parameter of 500", safe, carrier.Media{URL: "wss://x/m", Params: long(500)}, "", true},
		{"parameter without a name", safe, carrier.Media{URL: "wss://x/m", Params: map[string]string{"": "v"}}, "", true},
		{"next", safe, carrier.Media{URL: "wss://x/m"}, "https://x/n", false},
		{"next is no address", safe, carrier.Media{URL: "wss://x/m"}, "javascript:x", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.c.Connect(test.m, test.next)
			if (err != nil) != test.refuse {
				t.Errorf("got %v, want refused: %v", err, test.refuse)
			}
		})
	}
	t.Run("4,000 characters", func(t *testing.T) {
		d := dial()
		d.Media.Params = map[string]string{}
		for i := range 10 {
			d.Media.Params[fmt.Sprint(i)] = strings.Repeat("x", 450)
		}
		if _, err := safe.Place(t.Context(), d); carrier.VerdictOf(err) != carrier.Refused {
			t.Errorf("got %v, want refused", err)
		}
	})
}

func TestConfig(t *testing.T) {
	good := twilio.Config{AccountSID: account, AuthToken: token}
	for _, test := range []struct {
		field string
		spoil func(*twilio.Config)
	}{
		{"AccountSID", func(c *twilio.Config) { c.AccountSID = "AC1" }},
		{"AuthToken", func(c *twilio.Config) { c.AuthToken = "" }},
		{"KeySID", func(c *twilio.Config) { c.KeySID = "SK1" }},
		{"BaseURL", func(c *twilio.Config) { c.BaseURL = "api.twilio.com" }},
		{"BaseURL", func(c *twilio.Config) { c.BaseURL = "https://user:pass@x" }},
		{"PublicURL", func(c *twilio.Config) { c.PublicURL = "https://x/?a=1" }},
		{"StatusPath", func(c *twilio.Config) { c.StatusPath = "status" }},
		{"Timeout", func(c *twilio.Config) { c.Timeout = time.Hour }},
	} {
		c := good
		test.spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), test.field) {
			t.Errorf("%s: got %v, want an error that names it", test.field, err)
		}
		if _, err := twilio.New(c); err == nil {
			t.Errorf("%s: New took it", test.field)
		}
	}
	if err := good.Validate(); err != nil {
		t.Errorf("a good one: %v", err)
	}
}
