package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"dibs/call"
	"dibs/dispatch"
	"dibs/wire"
)

// A program in another language puts a call with one request.
func TestPutByHand(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		subj := "dibs.v1.line.eu-west.api.acme.c1"
		m, err := w.nc.RequestWithContext(w.t.Context(), subj, []byte(`{"v":1,"call_id":"c1","org_id":"acme","class":"api","region":"eu-west","from":"+15005550006","to":"`+somebody+`","something_new":true}`))
		check(w.t, err)
		var ack struct {
			Stream string
			Seq    int
			Error  *struct{ Description string }
		}
		check(w.t, json.Unmarshal(m.Data, &ack))
		if ack.Error != nil || ack.Stream != wire.StreamLine || ack.Seq == 0 {
			w.t.Errorf("answered %s", m.Data)
		}
		w.until("it ends", w.ended("c1"))
		w.wantEnd("c1", call.Completed, 1)
		w.nothingLeft()
	})
}

// What nobody can read is set aside, with its event, and the line goes on.
func TestParked(t *testing.T) {
	good := func(change func(o map[string]any)) string {
		o := map[string]any{"v": 1, "call_id": "bad", "org_id": "acme", "class": "api", "region": "eu-west", "from": "+15005550006", "to": somebody}
		change(o)
		data, err := json.Marshal(o)
		check(t, err)
		return string(data)
	}
	for _, tt := range []struct {
		name, class, data, why string
	}{
		{"not JSON", "api", `{"v":1,"call_id":`, "order"},
		{"empty", "api", ``, "order"},
		{"a newer version", "api", good(func(o map[string]any) { o["v"] = 2 }), "newer version: 2"},
		{"of another subject", "api", good(func(o map[string]any) { o["org_id"] = "other" }), "subject"},
		{"a class that nobody knows", "urgent", good(func(o map[string]any) { o["class"] = "urgent" }), "class"},
		{"inbound", "inbound", good(func(o map[string]any) { o["class"] = "inbound" }), "inbound"},
		{"no number", "api", good(func(o map[string]any) { o["to"] = "0151 2345678" }), "to: want E.164"},
		{"metadata too long", "api", good(func(o map[string]any) { o["metadata"] = map[string]string{"x": strings.Repeat("x", 9000)} }), "metadata"},
		{"a list", "api", `[]`, "order"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, answers, func(w *world) {
				w.addBots(1)
				_, err := w.nc.RequestWithContext(w.t.Context(), "dibs.v1.line.eu-west."+tt.class+".acme.bad", []byte(tt.data))
				check(w.t, err)
				w.put("c1")
				w.until("the good one ends", w.ended("c1"))
				w.wantEnd("c1", call.Completed, 1)
				w.nothingLeft()
				parked, _, err := w.line.Parked(w.t.Context(), 10, 0)
				check(w.t, err)
				if len(parked) != 1 || string(parked[0].Order) != tt.data || !strings.Contains(parked[0].Reason, tt.why) {
					w.t.Errorf("parked: %+v, want one because of %q", parked, tt.why)
				}
				var told []string
				for _, h := range w.heard("") {
					told = append(told, h.Type)
					if why := fmt.Sprint(h.Detail["why"]); !strings.Contains(why, tt.why) || strings.Contains(why, somebody) {
						w.t.Errorf("told why: %q", why)
					}
				}
				if diff := cmp.Diff([]string{"operator.order_parked"}, told); diff != "" {
					w.t.Error(diff)
				}
			})
		})
	}
}

// A thousand messages that cannot be read hold nobody up.
func TestParkedThousand(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		for i := range 1000 {
			check(w.t, w.nc.Publish(fmt.Sprintf("dibs.v1.line.eu-west.api.acme.bad%d", i), []byte("?")))
		}
		w.put("c1")
		w.within(10*time.Second, "the good one ends", w.ended("c1"))
		w.nothingLeft()
	})
}

// A record that somebody has edited to nonsense is reported when an office begins;
// its call is not dialled, and all others go on.
func TestRecordEditedByHand(t *testing.T) {
	for _, tt := range []struct{ name, value string }{
		{"not JSON", "oops"},
		{"dialled, and waiting again", `{"v":1,"order":{"v":1,"call_id":"c1","org_id":"acme","class":"api","region":"eu-west","from":"+15005550006","to":"` + somebody + `"},"state":"queued","attempts":[{"n":1,"id":"c1-1","at":"2000-01-01T00:00:00Z","intent_at":"2000-01-01T00:00:00Z","closed_at":"2000-01-01T00:00:01Z","why":"completed"}],"updated_at":"2000-01-01T00:00:00Z"}`},
		{"of another call", `{"v":1,"order":{"v":1,"call_id":"c9","org_id":"acme","class":"api","region":"eu-west","from":"+15005550006","to":"` + somebody + `"},"state":"queued","updated_at":"2000-01-01T00:00:00Z"}`},
		{"a state that nobody knows", `{"v":1,"order":{"v":1,"call_id":"c1","org_id":"acme","class":"api","region":"eu-west","from":"+15005550006","to":"` + somebody + `"},"state":"dreaming","updated_at":"2000-01-01T00:00:00Z"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, answers, func(w *world) {
				w.put("c1", func(o *call.Order) { o.To = somebody })
				w.until("it waits for a bot", func() bool { return !w.get("c1").BotWaitSince.IsZero() })
				w.nodes[0].stop()
				_, err := w.nc.RequestWithContext(w.t.Context(), "$KV."+wire.BucketCalls+".open.c1", []byte(tt.value))
				check(w.t, err)
				w.addNode("two")
				w.addBots(1)
				w.put("c2")
				w.until("the other ends", w.ended("c2"))
				w.wantEnd("c2", call.Completed, 1)
				time.Sleep(2 * time.Minute)
				if n := len(w.carrier.CallsTo(somebody)); n != 0 {
					w.t.Errorf("the call of the broken record was dialled %d times\n%s", n, w.story())
				}
				parked, _, err := w.line.Parked(w.t.Context(), 10, 0)
				check(w.t, err)
				if len(parked) != 1 || !w.emptyLine() {
					w.t.Errorf("%d parked, want its order", len(parked))
				}
				told := w.heard("")
				if !slices.ContainsFunc(told, func(h dispatch.Happening) bool {
					return h.Type == "operator.record_broken" && h.Detail["record"] == "open.c1"
				}) {
					w.t.Errorf("not reported: %+v", told)
				}
			})
		})
	}
}

// A waiting call whose message somebody has purged is put again from its record.
func TestMessagePurgedByHand(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.put("c1")
		w.until("it waits for a bot", func() bool { return !w.get("c1").BotWaitSince.IsZero() })
		w.nodes[0].stop()
		js := w.broker.JetStream(w.t)
		s, err := js.Stream(w.t.Context(), wire.StreamLine)
		check(w.t, err)
		check(w.t, s.Purge(w.t.Context()))
		w.addNode("two")
		w.addBots(1)
		w.until("it ends", w.ended("c1"))
		w.wantEnd("c1", call.Completed, 1)
		w.nothingLeft()
	})
}

// The message of a call that had ended before the office was taken is taken off at
// once, and waits for no seat.
func TestMessageLeftBehind(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		campaign := func(o *call.Order) { o.Class, o.Campaign = call.ClassCampaign, "spring" }
		w.put("c1", campaign)
		_, err := w.desk.Cancel(w.t.Context(), "c1", "")
		check(w.t, err)
		w.until("it is over", w.emptyLine)
		w.nodes[0].stop()
		w.put("c1", campaign)
		w.addNode("two")
		w.until("it is off the line", w.emptyLine)
		w.wantEnd("c1", call.Cancelled, 0)
	})
}

// The event of an attempt that nobody knows, or of one that is long over, changes
// nothing and is answered.
func TestStrayEvents(t *testing.T) {
	inWorld(t, answers, func(w *world) {
		w.addBots(1)
		w.put("c1")
		w.until("it ends", w.ended("c1"))
		before := w.get("c1")
		for _, attempt := range []string{"c1-1", "c1-7", "nobody-1"} {
			_, err := w.nc.RequestWithContext(w.t.Context(), "dibs.v1.desk.call.event", fmt.Appendf(nil, `{"event":{"Carrier":"twilio","ID":"CAother","Attempt":%q,"Status":"ringing"}}`, attempt))
			check(w.t, err)
		}
		for _, junk := range []string{"", "{", `{"event":null}`, `{"event":{"Attempt":"x","Status":"completed"}}`, `{"event":{"Attempt":"c1-1","Status":"dreaming"}}`} {
			m, err := w.nc.RequestMsgWithContext(w.t.Context(), &nats.Msg{Subject: "dibs.v1.desk.call.event", Data: []byte(junk)})
			check(w.t, err)
			if !strings.Contains(string(m.Data), "malformed") {
				w.t.Errorf("%q is answered %s", junk, m.Data)
			}
		}
		if diff := cmp.Diff(before, w.get("c1")); diff != "" {
			w.t.Errorf("the record has changed:\n%s", diff)
		}
	})
}
