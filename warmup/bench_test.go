package warmup

import "testing"

// What a bot adds to a claim when there is nothing to wait for.
func BenchmarkPrepare(b *testing.B) {
	w, err := New(Config{Voice: tone{}})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	flow := FlowRef{Inline: []byte(`{"id": "recall", "greeting": {"text": "Hello, this is the practice."}, "params": {"lang": "en"}}`)}
	for name, call := range map[string]Call{
		"nothing":        {},
		"flow":           {Flow: flow},
		"flow and a tag": {Flow: flow, Tag: "4711"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := w.Prepare(b.Context(), call)
				if err != nil {
					b.Fatal(err)
				}
				p.Close()
			}
		})
	}
}
