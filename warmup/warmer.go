package warmup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Call is what warm-up needs to know of a call.
type Call struct {
	CallID    string
	Flow      FlowRef
	Greeting  Greeting          // what is not empty wins over the flow's
	Providers map[string]string // kind → the provider that admission chose; empty: the flow's choice, else the first configured
	Tag       string            // DTMF digits (0-9, *, #) to play before the greeting, so that a listener can prove which one it heard
}

// The steps of [Warmer.Prepare]; a provider's step is StepProvider + its kind.
const (
	StepFlow     = "flow"
	StepProvider = "provider_"
	StepGreeting = "greeting"
)

// Warmer prepares calls. It is safe for concurrent use: every seat of a bot
// shares one, with its caches.
type Warmer struct {
	budget, greetingBudget time.Duration
	flows                  *source
	providers              map[string][]*provider // kind → in the order of the config
	greeter                *greeter
	metrics                *metrics
}

// Prepared is a call for which everything is ready. Close it when the call ends.
type Prepared struct {
	Flow      *Flow               // never nil; shared, do not change
	Greeting  []byte              // 8 kHz µ-law in whole frames of 160 bytes; empty: nothing to say
	Sessions  map[string]*Session // kind → open session
	Providers map[string]string   // kind → the provider chosen, also where nothing had to be opened
	Params    map[string]string   // of the flow, for the media stream; the caller's own
	Report    Report

	mu     sync.Mutex // guards Sessions while steps run
	closed sync.Once
}

// Close ends the sessions, politely, within about a second. Calling it again does
// nothing.
func (p *Prepared) Close() {
	p.closed.Do(func() {
		var wg sync.WaitGroup
		for _, s := range p.Sessions {
			wg.Go(s.Close)
		}
		wg.Wait()
	})
}

// Prepare warms up for one call: the flow, and beside it the providers that the
// call chooses; then, beside each other, the other providers and the greeting.
// When it fails, nothing is left open, and the error is an [*Error] with the
// Report so far. An end of ctx aborts every step at once.
func (w *Warmer) Prepare(ctx context.Context, call Call) (*Prepared, error) {
	p := &Prepared{Sessions: make(map[string]*Session), Providers: make(map[string]string)}
	report, err := w.run(ctx, call, p)
	if err == nil {
		// Each was open when its step ended; now all of them must be.
		for kind, s := range p.Sessions {
			if s.Err() != nil {
				err = died(kind, s, report)
			}
		}
	}
	w.metrics.observe(report, err)
	if err != nil {
		p.abort()
		return nil, err
	}
	for _, kind := range kinds {
		if name := cmp.Or(p.Providers[kind], call.Providers[kind], p.Flow.Providers[kind]); name != "" {
			p.Providers[kind] = name
		}
	}
	p.Params, p.Report = maps.Clone(p.Flow.Params), report
	return p, nil
}

func (w *Warmer) run(ctx context.Context, call Call, p *Prepared) (Report, error) {
	// Sessions are watched until all is ready: one that dies ends the warm-up.
	ctx, cancel := context.WithCancelCause(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel(nil)

	steps := []Step{{
		Name:   StepFlow,
		Budget: w.flows.cfg.Timeout + time.Second, // the look-up's own time-out comes first, so that a copy can stand in
		Run: func(ctx context.Context) (err error) {
			p.Flow, err = w.flows.load(ctx, call.Flow)
			return err
		},
	}}
	for _, kind := range kinds {
		if len(w.providers[kind]) == 0 {
			continue
		}
		step := Step{Name: StepProvider + kind}
		if call.Providers[kind] == "" {
			step.After = []string{StepFlow} // which may choose
		}
		step.Run = func(stepCtx context.Context) error {
			name := call.Providers[kind]
			if name == "" {
				name = p.Flow.Providers[kind]
			}
			chosen, err := w.choose(kind, name)
			if err != nil {
				return err
			}
			s, err := chosen.open(stepCtx)
			if err != nil {
				return err
			}
			p.add(s)
			watchers.Go(func() {
				select {
				case <-s.Done():
					cancel(died(kind, s, Report{}))
				case <-ctx.Done():
				}
			})
			return nil
		}
		steps = append(steps, step)
	}
	steps = append(steps, Step{
		Name: StepGreeting, Budget: w.greetingBudget, After: []string{StepFlow},
		Run: func(ctx context.Context) (err error) {
			p.Greeting, err = w.greet(ctx, call, p.Flow)
			return err
		},
	})
	return Run(ctx, w.budget, steps)
}

// choose finds a provider; the first of its kind if no name is given.
func (w *Warmer) choose(kind, name string) (*provider, error) {
	for _, p := range w.providers[kind] {
		if name == "" || p.Name == name {
			return p, nil
		}
	}
	return nil, &Error{
		Code: ProviderUnknown, Permanent: true, Provider: oneLine(name),
		Detail: fmt.Sprintf("no %s provider %q is configured", kind, oneLine(name)),
	}
}

// greet makes the call's greeting: what the call says, else what the flow says.
func (w *Warmer) greet(ctx context.Context, call Call, f *Flow) ([]byte, error) {
	g := Greeting{
		Text:   cmp.Or(call.Greeting.Text, f.Greeting.Text),
		Locale: cmp.Or(call.Greeting.Locale, f.Greeting.Locale),
		Voice:  cmp.Or(call.Greeting.Voice, f.Greeting.Voice),
	}
	for _, err := range []error{checkText(g.Text), checkLocale(g.Locale), checkShort(g.Voice)} {
		if err != nil {
			return nil, &Error{Code: GreetingFailed, Permanent: true, Detail: err.Error(), Err: err}
		}
	}
	provider := cmp.Or(call.Providers[TTS], f.Providers[TTS])
	if provider == "" && len(w.providers[TTS]) > 0 {
		provider = w.providers[TTS][0].Name
	}
	ulaw, hit, err := w.greeter.make(ctx, g, provider, call.Tag)
	if hit {
		w.metrics.hits.Inc()
	}
	return ulaw, err
}

// died is the error of a session that did not live to the end of the warm-up.
func died(kind string, s *Session, r Report) error {
	e := &Error{Code: ProviderClosed, Provider: s.Provider, Err: s.Err()}
	if own, ok := errors.AsType[*Error](s.Err()); ok {
		*e = *own
	}
	e.Step, e.Report = StepProvider+kind, r
	return e
}

func (p *Prepared) add(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Sessions[s.Kind] = s
	p.Providers[s.Kind] = s.Provider
}

// abort ends the sessions of a call that nobody will take.
func (p *Prepared) abort() {
	var wg sync.WaitGroup
	for _, s := range p.Sessions {
		wg.Go(s.abort)
	}
	wg.Wait()
}

// Cached are the ids of the flows that are in memory, the last used first.
func (w *Warmer) Cached() []string { return w.flows.cached() }

// Close drops the idle connections to flow sources and speech engines. What is
// prepared stays.
func (w *Warmer) Close() {
	w.flows.client.CloseIdleConnections()
	idle := func(v Voice) {
		if c, ok := v.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
	idle(w.greeter.voice)
	for _, v := range w.greeter.voices {
		idle(v)
	}
}

// Collector has the metrics of all warm-ups.
func (w *Warmer) Collector() prometheus.Collector { return collector{w} }
