package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"dibs/api"
	"dibs/call"
	"dibs/carrier/simcarrier"
)

// demoNumber is where people call the demo, and demoTag what its greeting proves.
const (
	demoNumber = "+493012345678"
	demoTag    = "1357"
)

// post asks the simulated carrier for something.
func (d *demo) post(ctx context.Context, path string, body, out any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.carrier+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("carrier: %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("carrier: %s: HTTP %d", path, resp.StatusCode)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// line sets our number, and the carrier's webhooks for it.
func (d *demo) line(ctx context.Context) error {
	_, err := d.api.PutNumber(ctx, api.Number{
		Number: demoNumber, Org: "demo", Region: demoRegion, Pool: "default", CallBack: true,
		Greeting: api.Greeting{Text: "Hello, this is a warm bot. How are you today?"}, Metadata: json.RawMessage(`{"dibs_tag":"` + demoTag + `"}`),
	})
	if err != nil {
		return err
	}
	return d.post(ctx, "/sim/lines", map[string]string{
		"number": demoNumber, "voice_url": d.base + api.InboundPath("twilio"), "status_url": d.base + api.InboundPath("twilio") + "/status",
	}, nil)
}

// callIn lets somebody call us.
func (d *demo) callIn(ctx context.Context, from string, talk time.Duration) (sid string, err error) {
	var out struct {
		SID string `json:"sid"`
	}
	err = d.post(ctx, "/sim/inbound", map[string]any{"to": demoNumber, "from": from, "talk_ms": talk.Milliseconds()}, &out)
	return out.SID, err
}

// at is the carrier's view of one call.
func (d *demo) at(ctx context.Context, sid string) (c simcarrier.Call, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.carrier+"/sim/calls/"+sid, nil)
	if err != nil {
		return c, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return c, err
	}
	defer func() { _ = resp.Body.Close() }()
	return c, json.NewDecoder(resp.Body).Decode(&c)
}

// theyCall: as many call as there are bots, and one more. That one hears the busy tone,
// is not billed for it, and is called back when a bot is free.
func (d *demo) theyCall(ctx context.Context) error {
	if err := d.line(ctx); err != nil {
		return err
	}
	var sids []string
	for i := range d.Bots {
		sid, err := d.callIn(ctx, fmt.Sprintf("+4915200000%03d", i), 6*time.Second)
		if err != nil {
			return err
		}
		sids = append(sids, sid)
	}
	heard := func() (n int) {
		for _, sid := range sids {
			if c, err := d.at(ctx, sid); err == nil && c.Heard.Tag == demoTag {
				n++
			}
		}
		return n
	}
	if err := until(ctx, 20*time.Second, "every caller hears a bot", func() bool { return heard() == len(sids) }); err != nil {
		return err
	}
	late := "+4915200000999"
	sid, err := d.callIn(ctx, late, time.Minute)
	if err != nil {
		return err
	}
	var c simcarrier.Call
	if err := until(ctx, 10*time.Second, "one more caller is refused", func() bool {
		c, err = d.at(ctx, sid)
		return err == nil && !c.Ended.IsZero()
	}); err != nil {
		return err
	}
	if c.Status != "busy" || !c.Answered.IsZero() {
		return fmt.Errorf("one more caller: %s, answered %v; want the busy tone, unanswered", c.Status, c.Answered)
	}
	refused := time.Now()
	fmt.Printf("      %d called and heard a bot; one more heard the busy tone after %v, unanswered and unbilled\n",
		len(sids), c.Ended.Sub(c.Created).Round(time.Millisecond))
	back := func() (simcarrier.Call, bool) {
		books, err := d.books(ctx)
		if err != nil || len(books[late]) == 0 {
			return simcarrier.Call{}, false
		}
		return books[late][len(books[late])-1], true
	}
	if err := until(ctx, 60*time.Second, "and is called back when a bot is free", func() bool {
		c, ok := back()
		return ok && !c.Ended.IsZero()
	}); err != nil {
		return err
	}
	c, _ = back()
	how := "hears a bot"
	if c.Answered.IsZero() {
		how = "does not pick up (" + c.Status + ")"
	} else if c.Heard.Tag != demoTag {
		return fmt.Errorf("who is called back hears %q", c.Heard.Tag)
	}
	fmt.Printf("      a callback waited on the line, was dialled %v later, and the callee %s\n", c.Created.Sub(refused).Round(100*time.Millisecond), how)
	d.totals.calls += len(sids) + 2
	d.totals.answered += len(sids)
	d.totals.heard += len(sids)
	if !c.Answered.IsZero() {
		d.totals.answered++
		d.totals.heard++
	}
	return until(ctx, 10*time.Second, "every seat is idle again (a leaked seat)", func() bool { return d.idle(ctx) == d.Bots })
}

// botKilled kills the process of a bot while somebody talks with it.
func (d *demo) botKilled(ctx context.Context) error {
	if d.Bots < 2 {
		fmt.Println("      left out: with one bot there is no other to take over")
		return nil
	}
	sid, err := d.callIn(ctx, "+4915200001000", time.Minute)
	if err != nil {
		return err
	}
	var c simcarrier.Call
	stream := func(n int) func() bool {
		return func() bool {
			c, err = d.at(ctx, sid)
			return err == nil && len(c.Streams) > n && c.Streams[n].Heard.Tag == demoTag
		}
	}
	if err := until(ctx, 20*time.Second, "the caller hears a bot", stream(0)); err != nil {
		return err
	}
	victim, rec, err := d.holder(ctx)
	if err != nil {
		return err
	}
	if err := d.api.Checkpoint(ctx, rec.ID, json.RawMessage(`{"step":"ask_date"}`)); err != nil {
		return err
	}
	killed := time.Now()
	victim.kill()
	if err := until(ctx, 20*time.Second, "the caller hears another bot", stream(1)); err != nil {
		return err
	}
	again := c.Streams[1].Opened.Add(c.Streams[1].Heard.FirstAudio)
	silence := again.Sub(killed)
	after, err := d.api.Call(ctx, rec.ID, false)
	if err != nil {
		return err
	}
	fmt.Printf("      %s killed with a caller on the line; %s took over: %d ms of silence\n", victim.name, after.Attempts[0].Bot, silence.Milliseconds())
	if silence > 3*time.Second {
		return fmt.Errorf("%v of silence, more than 3 s", silence)
	}
	if err := d.post(ctx, "/sim/calls/"+sid+"/hangup", nil, nil); err != nil {
		return err
	}
	if err := until(ctx, 20*time.Second, "the call ends", func() bool {
		after, err = d.api.Call(ctx, rec.ID, false)
		return err == nil && after.State.Terminal()
	}); err != nil {
		return err
	}
	if after.Outcome != call.Completed {
		return fmt.Errorf("the call ended as %s", after.Outcome)
	}
	d.totals.calls++
	d.totals.answered++
	d.totals.heard++
	if err := victim.start(); err != nil {
		return err
	}
	return until(ctx, 30*time.Second, "every seat is idle again (a leaked seat)", func() bool { return d.idle(ctx) == d.Bots })
}

// holder is the process of the bot that has the only live call, and the call.
func (d *demo) holder(ctx context.Context) (*child, api.Call, error) {
	var found *child
	var rec api.Call
	err := until(ctx, 10*time.Second, "the call is live", func() bool {
		page, err := d.api.Calls(ctx, api.ListQuery{State: call.Live}, false)
		if err != nil || len(page.Calls) != 1 || len(page.Calls[0].Attempts) == 0 {
			return false
		}
		rec = page.Calls[0]
		for _, c := range d.children {
			if strings.HasPrefix(rec.Attempts[0].Bot, c.name+"_") {
				found = c
			}
		}
		return found != nil
	})
	return found, rec, err
}
