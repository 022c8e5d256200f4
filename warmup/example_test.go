package warmup_test

import (
	"context"
	"fmt"

	"dibs/internal/audio"
	"dibs/warmup"
)

func ExampleWarmer_Prepare() {
	voice, err := warmup.NewVoice(warmup.VoiceConfig{Engine: warmup.VoiceTone})
	if err != nil {
		panic(err)
	}
	w, err := warmup.New(warmup.Config{Voice: voice})
	if err != nil {
		panic(err)
	}
	defer w.Close()
	p, err := w.Prepare(context.Background(), warmup.Call{
		CallID: "call_1",
		Flow:   warmup.FlowRef{Inline: []byte(`{"id": "recall", "greeting": {"text": "Hello, this is the practice."}}`)},
	})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	fmt.Println(p.Flow.ID, "is ready with", len(audio.Frames(p.Greeting)) > 0, "frames of greeting")

	_, err = w.Prepare(context.Background(), warmup.Call{
		Flow: warmup.FlowRef{Inline: []byte(`{"greeting": {"txt": "Hello"}}`)},
	})
	fmt.Println(err)
	fmt.Println("counts against this bot:", warmup.Counts(err))
	// Output:
	// recall is ready with true frames of greeting
	// warm-up: flow: flow_malformed: greeting.txt: there is no such field
	// counts against this bot: false
}

func ExampleRun() {
	report, err := warmup.Run(context.Background(), 0, []warmup.Step{
		{Name: "greeting", After: []string{"flow"}, Run: func(context.Context) error { return nil }},
		{Name: "flow", Run: func(context.Context) error { return fmt.Errorf("no such table") }},
	})
	fmt.Println(err)
	for _, s := range report.Steps {
		fmt.Println(s.Step, s.Outcome)
	}
	// Output:
	// warm-up: flow: step_failed: no such table
	// greeting skipped
	// flow failed
}
