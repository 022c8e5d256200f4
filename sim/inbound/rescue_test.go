package inbound

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"dibs/api"
	"dibs/bot"
	"dibs/call"
	"dibs/carrier/simcarrier"
	"dibs/cdr"
	"dibs/wire"
)

type cdrRev = cdr.Rev

// slowBot says accepted, and nothing ever after.
func slowBot(nc *nats.Conn) nats.MsgHandler {
	inbox := nc.NewInbox()
	_, _ = nc.Subscribe(inbox, func(*nats.Msg) {})
	return func(m *nats.Msg) {
		req, err := wire.Decode[wire.ClaimRequest](m.Data)
		if err != nil {
			return
		}
		data, _ := wire.Encode(wire.Reply{V: wire.Version, Status: wire.Accepted, ClaimID: req.ClaimID, BotID: "slow_1"})
		_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Reply: inbox, Data: data})
	}
}

// kills are the two directions in which a bot may be lost.
var kills = map[string]func(w *world) (sid, id string){
	"inbound": func(w *world) (string, string) {
		sid := w.callIn(caller, time.Minute)
		w.heard(sid, 0)
		return sid, w.find("the call is live", func(c api.Call) bool { return c.Class == call.ClassInbound && c.State == call.Live }).ID
	},
	"outbound": func(w *world) (string, string) {
		c, _, err := w.api.PlaceCall(w.t.Context(), api.PlaceCall{
			To: caller, Org: "acme", Metadata: json.RawMessage(`{"dibs_tag":"` + tag + `"}`), Greeting: api.Greeting{Text: "Hello"}, CallBack: true,
		}, "")
		check(w.t, err)
		w.until("it is dialled", func() bool { return len(w.carrier.CallsTo(caller)) == 1 })
		sid := w.carrier.CallsTo(caller)[0].SID
		w.heard(sid, 0)
		w.find("the call is live", func(c api.Call) bool { return c.State == call.Live })
		return sid, c.ID
	},
}

// talking waits for the bot that has the call.
func (w *world) talking() (*mortal, wire.ClaimRequest) {
	w.t.Helper()
	var who *mortal
	var req wire.ClaimRequest
	w.until("a bot talks", func() bool {
		for _, b := range w.bots {
			select {
			case req = <-b.took:
				who = b
				return true
			default:
			}
		}
		return false
	})
	return who, req
}

// The bot is killed in the middle of the call: the caller hears another one, which
// knows what the first one left.
func TestBotKilled(t *testing.T) {
	for name, begin := range kills {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.line()
			w.addBot()
			w.addBot()
			w.until("the bots are there", w.idle(2))
			sid, id := begin(w)
			first, _ := w.talking()
			check(t, w.api.Checkpoint(t.Context(), id, json.RawMessage(`{"step":1}`)))
			check(t, w.api.Checkpoint(t.Context(), id, json.RawMessage(`{"step":"ask_date","turns":4}`)))
			first.kill()
			w.heard(sid, 1)
			second, req := w.talking()
			if second == first || !req.Rescue || string(req.Checkpoint) != `{"step":"ask_date","turns":4}` || req.CallID != id || req.ElapsedMS <= 0 {
				t.Errorf("the second bot was asked %+v, checkpoint %s", req, req.Checkpoint)
			}
			s := w.sim(sid)
			silence := s.Streams[1].Opened.Add(s.Streams[1].Heard.FirstAudio).Sub(s.Streams[0].Closed)
			t.Logf("%s: %v of silence", name, silence)
			if silence > 10*time.Second {
				t.Errorf("%v of silence", silence)
			}
			w.carrier.Hangup(sid)
			got := w.outcome(id, call.Completed)
			if got.Attempts[0].Bot != second.bot.ID() {
				t.Errorf("the record names %s, want the second bot", got.Attempts[0].Bot)
			}
			w.until("the seat is idle", w.idle(1))
			if n := len(w.carrier.CallsTo(caller)); n > 1 {
				t.Errorf("the phone rang %d times", n)
			}
		})
	}
}

// No other bot is free: the sentence is heard to its end, the call is interrupted, and
// the caller is called back as soon as there is a bot.
func TestBotKilledNoOther(t *testing.T) {
	for name, begin := range kills {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.line(func(n *api.Number) { n.CallBack, n.Sorry = true, "We call you back." })
			b := w.addBot()
			w.until("a bot is there", w.idle(1))
			sid, id := begin(w)
			b.kill()
			w.until("the call is over", func() bool { return w.sim(sid).Status == "completed" })
			s := w.sim(sid)
			if said := s.Ended.Sub(s.Streams[0].Closed); s.EndedBy != "twiml" || said < 900*time.Millisecond {
				t.Errorf("ended by %s, %v after the bot: the sentence was cut", s.EndedBy, said)
			}
			w.outcome(id, call.Interrupted)
			cb := w.find("a callback", func(c api.Call) bool { return c.CallbackOf == id })
			if cb.To != caller {
				t.Errorf("callback %+v", cb)
			}
			before := len(w.carrier.CallsTo(caller))
			w.addBot()
			w.until("they are called back", func() bool { return len(w.carrier.CallsTo(caller)) == before+1 })
			w.outcomeAfterHangup(cb.ID)
		})
	}
}

func (w *world) outcomeAfterHangup(id string) {
	w.t.Helper()
	w.until("the callback is heard", func() bool {
		cs := w.carrier.CallsTo(caller)
		last := cs[len(cs)-1]
		if last.Heard.Tag != tag {
			return false
		}
		w.carrier.Hangup(last.SID)
		return true
	})
	w.outcome(id, call.Completed)
}

// The bot ends the call itself: the carrier is told to hang up, and no other bot comes.
func TestBotHangsUp(t *testing.T) {
	for name, begin := range kills {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.line()
			done := make(chan struct{})
			hangUp := func(c *bot.Config) {
				c.Talk = func(ctx context.Context, _ *bot.Call) error {
					select {
					case <-done:
					case <-ctx.Done():
					}
					return nil
				}
			}
			w.addBot(hangUp)
			w.addBot(hangUp)
			w.until("the bots are there", w.idle(2))
			sid, id := begin(w)
			close(done)
			w.until("the call is over", func() bool { return w.sim(sid).Status == "completed" })
			if s := w.sim(sid); len(s.Streams) != 1 || s.EndedBy == "callee" {
				t.Errorf("%d streams, ended by %s", len(s.Streams), s.EndedBy)
			}
			w.outcome(id, call.Completed)
			w.until("the seats are idle", w.idle(2))
		})
	}
}

// The media stalls: the bot gives up, and another one takes over.
func TestMediaStalls(t *testing.T) {
	w := newWorld(t, 1)
	w.line()
	babble := func(c *bot.Config) {
		c.Talk = func(ctx context.Context, call *bot.Call) error {
			for ctx.Err() == nil {
				if call.Stream.Send(ctx, make([]byte, 8000)) != nil {
					break
				}
			}
			<-ctx.Done()
			return nil
		}
	}
	check(t, w.carrier.SetFaults(simcarrier.Faults{Media: simcarrier.MediaStall}))
	w.addBot(babble)
	w.until("a bot is there", w.idle(1))
	sid := w.callIn(caller, time.Minute)
	c := w.find("the call is live", func(c api.Call) bool { return c.Class == call.ClassInbound && c.State == call.Live })
	w.addBot()
	w.until("the first bot gives up, and another one is led to", func() bool { return len(w.sim(sid).Streams) > 1 })
	check(t, w.carrier.SetFaults(simcarrier.Faults{}))
	w.heard(sid, 1)
	w.carrier.Hangup(sid)
	w.outcome(c.ID, call.Completed)
	w.until("the seats are idle", w.idle(2))
}

// The socket of the bot cannot be opened: the caller is led to another one.
func TestMediaRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.line()
	b := w.addBot()
	w.until("a bot is there", w.idle(1))
	_ = b.l.Close() // it claims, and its socket is not there
	sid := w.callIn(caller, time.Minute)
	w.until("the first socket failed", func() bool { return len(w.sim(sid).Streams) > 0 })
	w.addBot()
	w.until("led on, or told that nobody is there", func() bool { s := w.sim(sid); return len(s.Streams) > 1 || !s.Ended.IsZero() })
	w.carrier.Hangup(sid)
	c := w.find("it ends", func(c api.Call) bool { return c.Class == call.ClassInbound && c.State.Terminal() })
	if c.Outcome != call.Completed && c.Outcome != call.Interrupted {
		t.Errorf("ended as %s", c.Outcome)
	}
}

// Nobody is in office when the carrier asks: it is told again and again for 5 s, and
// then with a sentence; and what is asked about calls that are none of ours ends them.
func TestNextWithoutACall(t *testing.T) {
	w := newWorld(t, 1)
	w.line()
	form := voiceForm("CA0123456789abcdef0123456789abcdef", caller)
	form.Set("CallStatus", "in-progress")
	for _, attempt := range []string{"call_nobody-1", "in_nobody-1", "x", "a-b-c"} {
		status, body := w.ask(w.base, api.NextPath("twilio")+attempt, form)
		if status != 200 || !strings.Contains(body, "<Hangup>") || strings.Contains(body, "<Say>") {
			t.Errorf("%s: %d %s", attempt, status, body)
		}
	}
}
