package warmup

import (
	"fmt"
	"time"
)

// Config is all that a bot needs to warm up. The zero value works: inline flows,
// no providers, a voice that needs no account.
type Config struct {
	Budget         time.Duration // of a whole warm-up; 0: DefaultBudget
	GreetingBudget time.Duration // of the greeting; 0: 6 s
	GreetingCache  int           // greetings remembered; 0: 32, negative: none

	Flows     Flows
	Providers []Provider       // a kind without any is not this bot's business: nothing is opened, whatever is chosen
	Voice     Voice            // speaks the greetings; nil: NewVoice's auto
	Voices    map[string]Voice // TTS provider name → the voice in its place, when it is chosen
}

// New makes a Warmer. The error names the field, and never a secret.
func New(cfg Config) (*Warmer, error) {
	for _, f := range []struct {
		name string
		to   *time.Duration
		zero time.Duration
	}{{"Budget", &cfg.Budget, DefaultBudget}, {"GreetingBudget", &cfg.GreetingBudget, 6 * time.Second}} {
		if *f.to < 0 {
			return nil, fmt.Errorf("warm-up: %s: %v, want more than 0", f.name, *f.to)
		}
		if *f.to == 0 {
			*f.to = f.zero
		}
	}
	if cfg.GreetingCache == 0 {
		cfg.GreetingCache = 32
	}
	w := &Warmer{
		budget:         cfg.Budget,
		greetingBudget: cfg.GreetingBudget,
		providers:      make(map[string][]*provider),
		metrics:        newMetrics(),
	}
	var err error
	if w.flows, err = newSource(cfg.Flows); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	names := make(map[string]bool)
	for i, p := range cfg.Providers {
		r, err := newProvider(p)
		if err == nil && names[p.Kind+" "+p.Name] {
			err = &fieldError{"Name", fmt.Sprintf("%s %q is there twice", p.Kind, p.Name)}
		}
		if err != nil {
			return nil, fmt.Errorf("warm-up: Providers[%d].%w", i, err)
		}
		names[p.Kind+" "+p.Name] = true
		w.providers[p.Kind] = append(w.providers[p.Kind], r)
	}
	if cfg.Voice == nil {
		if cfg.Voice, err = NewVoice(VoiceConfig{}); err != nil {
			return nil, fmt.Errorf("warm-up: Voice: %w", err)
		}
	}
	for name, v := range cfg.Voices {
		if v == nil || name == "" {
			return nil, fmt.Errorf("warm-up: Voices[%q]: want a name and a voice", name)
		}
	}
	w.greeter = &greeter{voice: cfg.Voice, voices: cfg.Voices, cache: newLRU[spoken, []byte](cfg.GreetingCache)}
	return w, nil
}
