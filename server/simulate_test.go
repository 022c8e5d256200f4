package server_test

import (
	"strings"
	"testing"

	"dibs/api"
	"dibs/simulate"
)

// 25 August, asked over HTTP: what each policy would have wanted.
func TestSimulate(t *testing.T) {
	w := newWorld(t)
	data, err := simulate.Shipped("2026-08-25")
	if err != nil {
		t.Fatal(err)
	}
	got := read[simulate.Report](t, w.ask("POST", "/v1/simulate", string(data)), 200)
	peaks := map[string]int{}
	for _, r := range got.Results {
		peaks[string(r.Policy)] = r.PeakBots
	}
	if peaks["raw"] != 50 || peaks["active+4"] != 20 || peaks["headroom"] != 8 {
		t.Errorf("peak bots %v, want raw 50, active+4 20, headroom 8", peaks)
	}
	for name, body := range map[string]string{
		"an unknown field": strings.Replace(string(data), "{", `{"nonsense":1,`, 1),
		"a list":           `[]`,
		"nothing in it":    `{}`,
	} {
		if p := denied(t, w.ask("POST", "/v1/simulate", body), api.CodeInvalidField); len(p.Errors) == 0 {
			t.Errorf("%s: no field is named: %+v", name, p)
		}
	}
}
