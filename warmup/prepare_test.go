package warmup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"dibs/internal/audio"
)

func TestPrepare(t *testing.T) {
	noLeaks(t)
	v := newVendorDouble(t, nil)
	health := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(health.Close)
	w := newWarmer(t, Config{
		Flows: Flows{Dir: write(t, map[string]string{"recall.json": `{
			"id": "recall", "version": "7",
			"greeting": {"text": "Hello, this is the practice.", "locale": "en-GB"},
			"params": {"lang": "en"}
		}`})},
		Providers: []Provider{{Name: "acme", Kind: STT, URL: v.ws()}, {Name: "brain", Kind: LLM, URL: health.URL}},
	})
	p := prepare(t, w, Call{CallID: "call_1", Flow: FlowRef{ID: "recall", Version: "7"}, Tag: "4711"})

	tune, _, _ := tone{}.Speak(t.Context(), "Hello, this is the practice.", "", "")
	front, err := audio.Tag("4711")
	if err != nil {
		t.Fatal(err)
	}
	want := audio.EncodeMuLaw(append(front, tune...))
	if !bytes.HasPrefix(p.Greeting, want) || len(p.Greeting)%audio.FrameBytes != 0 || len(p.Greeting)-len(want) >= audio.FrameBytes {
		t.Errorf("got %d bytes of greeting, want the tag, the tune and silence up to a whole frame: %d", len(p.Greeting), len(want))
	}
	var listener audio.Detector
	listener.Write(audio.DecodeMuLaw(p.Greeting))
	if got := listener.Digits(); got != "4711" {
		t.Errorf("a listener hears the tag %q, want 4711", got)
	}
	if diff := cmp.Diff(map[string]string{"lang": "en"}, p.Params); diff != "" {
		t.Errorf("Params (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{STT: "acme", LLM: "brain"}, p.Providers); diff != "" {
		t.Errorf("Providers (-want +got):\n%s", diff)
	}
	if len(p.Sessions) != 2 || p.Sessions[STT].Err() != nil || p.Sessions[LLM].Client() == nil {
		t.Errorf("got sessions %v", p.Sessions)
	}
	wantSteps := []Took{
		{Step: "flow", Outcome: OutcomeDone},
		{Step: "provider_stt", Outcome: OutcomeDone},
		{Step: "provider_llm", Outcome: OutcomeDone},
		{Step: "greeting", Outcome: OutcomeDone},
	}
	if diff := cmp.Diff(wantSteps, p.Report.Steps, cmpopts.IgnoreFields(Took{}, "Began", "Took")); diff != "" || p.Report.Total <= 0 {
		t.Errorf("Report of %v (-want +got):\n%s", p.Report.Total, diff)
	}
	p.Close()
	v.free(t)
}

func TestGreetingOfTheCallWins(t *testing.T) {
	noLeaks(t)
	var asked []Greeting
	record := voiceFunc(func(ctx context.Context, text, voice, locale string) ([]int16, int, error) {
		asked = append(asked, Greeting{text, locale, voice})
		return sine(audio.Rate), audio.Rate, nil
	})
	other := voiceFunc(func(context.Context, string, string, string) ([]int16, int, error) {
		return sine(audio.Rate)[:audio.FrameBytes], audio.Rate, nil
	})
	w := newWarmer(t, Config{Voice: record, Voices: map[string]Voice{"singer": other}})
	flow := FlowRef{Inline: []byte(`{"greeting": {"text": "from the flow", "locale": "en", "voice": "anna"}}`)}
	for _, g := range []Greeting{{}, {Text: "from the call"}, {Locale: "de", Voice: "bert"}} {
		prepare(t, w, Call{Flow: flow, Greeting: g})
	}
	want := []Greeting{{"from the flow", "en", "anna"}, {"from the call", "en", "anna"}, {"from the flow", "de", "bert"}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("spoken (-want +got):\n%s", diff)
	}

	// The same again is not spoken again, and what one call does to it is its own.
	first := prepare(t, w, Call{Flow: flow}).Greeting
	clear(first)
	again := prepare(t, w, Call{Flow: flow, Tag: "1"})
	if len(asked) != 3 || bytes.Count(again.Greeting, []byte{0}) > len(again.Greeting)/10 {
		t.Errorf("spoken %d times, want 3; or the copy was spoilt", len(asked))
	}
	if got := testutil.ToFloat64(w.metrics.hits); got != 2 {
		t.Errorf("cache hits: got %v, want 2", got)
	}

	// The provider that was chosen speaks, if it has a voice here; and the two are
	// not mixed up in the cache.
	if p := prepare(t, w, Call{Flow: flow, Providers: map[string]string{TTS: "singer"}}); len(p.Greeting) != audio.FrameBytes || len(asked) != 3 {
		t.Errorf("got %d bytes, want the singer's %d", len(p.Greeting), audio.FrameBytes)
	}
	if p := prepare(t, w, Call{Flow: flow, Providers: map[string]string{TTS: "mute"}}); len(p.Greeting) != audio.Rate {
		t.Errorf("got %d bytes, want those of the bot's voice", len(p.Greeting))
	}

	if p := prepare(t, w, Call{Tag: "12"}); len(p.Greeting) != 1600 {
		t.Errorf("a tag alone: got %d bytes, want 1600", len(p.Greeting))
	}
	for name, call := range map[string]Call{
		"tag":    {Tag: "12x"},
		"text":   {Greeting: Greeting{Text: strings.Repeat("x", MaxText+1)}},
		"locale": {Greeting: Greeting{Locale: "-v"}},
		"voice":  {Greeting: Greeting{Voice: strings.Repeat("x", 129)}},
	} {
		if e := prepareFails(t, w, call); e.Step != StepGreeting || e.Code != GreetingFailed || !e.Permanent {
			t.Errorf("%s: got %+v, want greeting_failed, permanent", name, e)
		}
	}
}

type voiceFunc func(ctx context.Context, text, voice, locale string) ([]int16, int, error)

func (f voiceFunc) Speak(ctx context.Context, text, voice, locale string) ([]int16, int, error) {
	return f(ctx, text, voice, locale)
}

func TestVoiceOfOnesOwnThatFails(t *testing.T) {
	noLeaks(t)
	for name, tc := range map[string]struct {
		pcm  []int16
		rate int
		err  error
		text string
	}{
		"error":   {nil, 0, errors.New("boom"), "boom"},
		"nothing": {nil, audio.Rate, nil, "no sound"},
		"no rate": {sine(audio.Rate), 0, nil, "0 samples a second"},
	} {
		w := newWarmer(t, Config{Voice: voiceFunc(func(context.Context, string, string, string) ([]int16, int, error) { return tc.pcm, tc.rate, tc.err })})
		t.Log(name)
		wantError(t, prepareFails(t, w, Call{Greeting: Greeting{Text: "x"}}), StepGreeting, GreetingFailed, false, tc.text)
	}
}

// Many seats share one Warmer.
func TestPrepareConcurrently(t *testing.T) {
	noLeaks(t)
	v := newVendorDouble(t, nil)
	s := newFlowServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		document(fmt.Sprintf(`{"greeting": {"text": "this is flow %s"}}`, r.URL.Path), `"x"`)(w, r)
	})
	cfg := stt(Provider{URL: v.ws()})
	cfg.Flows = Flows{Template: s.URL + "/{id}", Cache: 3, Timeout: patience}
	cfg.GreetingCache = 3
	cfg.Budget = 2 * patience
	w := newWarmer(t, cfg)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%4 == 0 {
				time.AfterFunc(time.Duration(i)*ms, cancel)
			}
			p, err := w.Prepare(ctx, Call{Flow: FlowRef{ID: fmt.Sprint("f", i%5)}, Tag: fmt.Sprint(100 + i)})
			if err != nil {
				if i%4 != 0 || coded(t, err).Code != Cancelled {
					t.Errorf("call %d: %v", i, err)
				}
				return
			}
			defer p.Close()
			var d audio.Detector
			d.Write(audio.DecodeMuLaw(p.Greeting))
			if d.Digits() != fmt.Sprint(100+i) {
				t.Errorf("call %d hears %q", i, d.Digits())
			}
			w.Cached()
		})
	}
	wg.Wait()
	v.free(t)
}

func TestMetrics(t *testing.T) {
	noLeaks(t)
	s := newFlowServer(t)
	w := newWarmer(t, Config{Flows: Flows{Template: s.URL + "/{id}"}})
	call := Call{Flow: FlowRef{ID: "a"}, Greeting: Greeting{Text: "x"}}
	s.answer(says(404))
	prepareFails(t, w, call)
	s.answer(document(`{}`, ""))
	prepare(t, w, call)
	s.answer(says(503))
	prepare(t, w, call)

	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(w.Collector()); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP dibs_warmup_failures_total Warm-ups that failed, by the step that failed first and its code.
# TYPE dibs_warmup_failures_total counter
dibs_warmup_failures_total{code="flow_not_found",step="flow"} 1
# HELP dibs_warmup_greeting_cache_hits_total Greetings that did not have to be spoken again.
# TYPE dibs_warmup_greeting_cache_hits_total counter
dibs_warmup_greeting_cache_hits_total 1
# HELP dibs_warmup_stale_flows_total Flows whose copy stood in for a source that did not answer.
# TYPE dibs_warmup_stale_flows_total counter
dibs_warmup_stale_flows_total 1
`), metricFailures, metricHits, metricStale); err != nil {
		t.Error(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]uint64)
	for _, f := range families {
		if f.GetName() == metricDuration {
			for _, m := range f.GetMetric() {
				counts[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	if diff := cmp.Diff(map[string]uint64{"flow": 3, "greeting": 2, "total": 3}, counts); diff != "" {
		t.Errorf("durations (-want +got):\n%s", diff)
	}
}
