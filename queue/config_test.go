package queue

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/internal/natstest"
	"dibs/wire"
)

func TestOpenRefusesWhatIsNotTheLine(t *testing.T) {
	for _, tt := range []struct {
		field  string
		change func(*jetstream.StreamConfig)
	}{
		{"Retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy }},
		{"Subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"orders.>"} }},
		{"Storage", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		{"Discard", func(c *jetstream.StreamConfig) { c.Discard, c.DiscardNewPerSubject = jetstream.DiscardOld, false }},
		{"MaxMsgsPerSubject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 }},
		{"DiscardNewPerSubject", func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = false }},
		{"MaxAge", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"NoAck", func(c *jetstream.StreamConfig) { c.NoAck = true }},
		{"", func(c *jetstream.StreamConfig) { c.MaxMsgSize, c.AllowDirect, c.Description = 1000, false, "mine" }},
	} {
		t.Run(tt.field, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				js := natstest.Start(t).JetStream(t)
				cfg := lineConfig(1)
				tt.change(&cfg)
				if _, err := js.CreateStream(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
				_, err := Open(t.Context(), js, Config{})
				if tt.field == "" {
					if err != nil {
						t.Fatalf("a line of other limits: %v", err)
					}
					l := openLine(t, js, Config{})
					if got := l.stream.CachedInfo().Config; got.MaxMsgSize < wire.MaxMessage || !got.AllowDirect || got.Description != "mine" {
						t.Errorf("after opening: %+v", got)
					}
					return
				}
				se, ok := errors.AsType[*SettingError](err)
				if !ok || se.Field != tt.field || se.Stream != wire.StreamLine {
					t.Errorf("open: %v, want a SettingError of %s", err, tt.field)
				}
			})
		})
	}
}

func TestOpenTogether(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		b := natstest.Start(t)
		var wg sync.WaitGroup
		for range 8 {
			js := b.JetStream(t)
			wg.Go(func() {
				if _, err := Open(t.Context(), js, Config{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, ""},
		{Config{Replicas: 3, Timeout: time.Second}, ""},
		{Config{Replicas: 2}, "queue: Replicas: 2, want 1, 3 or 5"},
		{Config{Timeout: -1}, "queue: Timeout: -1ns, want a positive duration"},
	} {
		got := ""
		if err := tt.cfg.Validate(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.cfg, got, tt.want)
		}
	}
}
