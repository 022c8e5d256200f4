package warmup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// Whatever a warm-up is doing when it is called off: it comes back at once, and
// nothing of it is left, here or at the vendors.
func TestCancelAtEveryStep(t *testing.T) {
	type stage struct {
		cfg     Config
		call    Call
		reached <-chan struct{} // the warm-up is in the middle of it
		left    func(*testing.T)
	}
	greeting := Greeting{Text: "hello"}
	for _, tc := range []struct {
		name  string
		step  string // "": any that runs
		stage func(*testing.T) stage
	}{
		{"while the flow loads", StepFlow, func(t *testing.T) stage {
			reached := make(chan struct{}, 1)
			s := newFlowServer(t)
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				reached <- struct{}{}
				<-r.Context().Done()
			})
			return stage{Config{Flows: Flows{Template: s.URL + "/{id}"}}, Call{Flow: FlowRef{ID: "a"}}, reached, nil}
		}},
		{"while the flow's body comes", StepFlow, func(t *testing.T) stage {
			reached := make(chan struct{}, 1)
			s := newFlowServer(t)
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, `{"id": `)
				w.(http.Flusher).Flush()
				reached <- struct{}{}
				<-r.Context().Done()
			})
			return stage{Config{Flows: Flows{Template: s.URL + "/{id}"}}, Call{Flow: FlowRef{ID: "a"}}, reached, nil}
		}},
		{"while a copy is checked", StepFlow, func(t *testing.T) stage {
			reached := make(chan struct{}, 1)
			s := newFlowServer(t)
			var asked atomic.Bool
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				if !asked.Swap(true) {
					fmt.Fprint(w, `{}`)
					return
				}
				reached <- struct{}{}
				<-r.Context().Done()
			})
			return stage{Config{Flows: Flows{Template: s.URL + "/{id}"}}, Call{Flow: FlowRef{ID: "warm"}}, reached, nil}
		}},
		{"while a source of one's own hangs", StepFlow, func(t *testing.T) stage {
			reached, release := make(chan struct{}, 1), make(chan struct{})
			t.Cleanup(func() { close(release) })
			fetch := func(context.Context, string) ([]byte, error) { // deaf to its context, like a dead file system
				reached <- struct{}{}
				<-release
				return nil, nil
			}
			return stage{Config{Flows: Flows{Fetch: fetch}}, Call{Flow: FlowRef{ID: "a"}}, reached, nil}
		}},
		{"while the handshake hangs", stepSTT, func(t *testing.T) stage {
			reached, left := make(chan struct{}, 1), make(chan struct{}, 1)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached <- struct{}{}
				<-r.Context().Done()
				left <- struct{}{}
			}))
			t.Cleanup(s.Close)
			return stage{stt(Provider{URL: "ws" + strings.TrimPrefix(s.URL, "http")}), Call{}, reached, func(t *testing.T) { await(t, left, "the end of the handshake") }}
		}},
		{"while the flow's source is dialled", StepFlow, func(t *testing.T) stage {
			addr, reached, _ := deafDoor(t)
			return stage{Config{Flows: Flows{Template: "https://" + addr + "/{id}"}}, Call{Flow: FlowRef{ID: "a"}}, reached, nil}
		}},
		{"while the provider is dialled", stepSTT, func(t *testing.T) stage {
			addr, reached, gone := deafDoor(t)
			return stage{stt(Provider{URL: "wss://" + addr}), Call{}, reached, func(t *testing.T) { await(t, gone, "the end of the connection") }}
		}},
		{"while the provider is dialled for HTTP", stepSTT, func(t *testing.T) stage {
			addr, reached, gone := deafDoor(t)
			return stage{stt(Provider{URL: "https://" + addr}), Call{}, reached, func(t *testing.T) { await(t, gone, "the end of the connection") }}
		}},
		{"while the provider is silent", stepSTT, func(t *testing.T) stage {
			reached := make(chan struct{}, 1)
			v := newVendorDouble(t, func(*websocket.Conn, *http.Request) { reached <- struct{}{} })
			return stage{stt(Provider{URL: v.ws(), Expect: true}), Call{}, reached, v.free}
		}},
		{"while a health check hangs", stepSTT, func(t *testing.T) stage {
			reached := make(chan struct{}, 1)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached <- struct{}{}
				<-r.Context().Done()
			}))
			t.Cleanup(s.Close)
			return stage{stt(Provider{URL: s.URL}), Call{}, reached, nil}
		}},
		{"while the sessions are open and the greeting is awaited", "", func(t *testing.T) stage {
			reached := make(chan struct{}, 1)
			v := newVendorDouble(t, nil)
			cfg := stt(Provider{URL: v.ws()})
			cfg.Providers = append(cfg.Providers, Provider{Name: "brain", Kind: LLM, URL: v.ws()})
			cfg.Voice = voiceFunc(func(ctx context.Context, _, _, _ string) ([]int16, int, error) {
				eventually(t, "both sessions", func() bool { return v.held.Load() == 2 })
				reached <- struct{}{}
				<-ctx.Done()
				return nil, 0, ctx.Err()
			})
			return stage{cfg, Call{Greeting: greeting}, reached, v.free}
		}},
		{"while the speech streams", StepGreeting, func(t *testing.T) stage {
			reached, left := make(chan struct{}, 1), make(chan struct{}, 1)
			d := newSpeechDouble(t, "xi-api-key", nil)
			d.answers(func(w http.ResponseWriter, r *http.Request) {
				w.Write(make([]byte, 8000))
				w.(http.Flusher).Flush()
				reached <- struct{}{}
				<-r.Context().Done()
				left <- struct{}{}
			})
			voice := newTestVoice(t, VoiceConfig{Engine: VoiceElevenLabs, URL: d.URL, Key: "k", Voice: "v"})
			return stage{Config{Voice: voice}, Call{Greeting: greeting}, reached, func(t *testing.T) { await(t, left, "the end of the stream") }}
		}},
		{"while espeak-ng runs", StepGreeting, func(t *testing.T) stage {
			dir := t.TempDir()
			// With a child that holds its pipes, as a wrapper script would have.
			path := script(t, `cd "`+dir+`" && sleep 600 & echo $! $$ >"`+dir+`/new" && mv "`+dir+`/new" "`+dir+`/pids" && wait`)
			reached := make(chan struct{}, 1)
			var pids []int
			go func() {
				eventually(t, "espeak-ng's start", func() bool {
					b, err := os.ReadFile(filepath.Join(dir, "pids"))
					for f := range strings.FieldsSeq(string(b)) {
						pid, _ := strconv.Atoi(f)
						pids = append(pids, pid)
					}
					return err == nil
				})
				reached <- struct{}{}
			}()
			return stage{
				Config{Voice: newTestVoice(t, VoiceConfig{Engine: VoiceEspeak, Program: path})},
				Call{Greeting: greeting},
				reached,
				func(t *testing.T) {
					if len(pids) != 2 {
						t.Fatalf("got pids %v", pids)
					}
					for _, pid := range pids {
						eventually(t, fmt.Sprintf("the end of process %d", pid), func() bool { return gone(pid) })
					}
				},
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			noLeaks(t)
			s := tc.stage(t)
			// No time-out of ours may end it before the cancel does.
			s.cfg.Budget, s.cfg.GreetingBudget, s.cfg.Flows.Timeout = time.Minute, time.Minute, time.Minute
			for i := range s.cfg.Providers {
				s.cfg.Providers[i].Timeout = time.Minute
			}
			w := newWarmer(t, s.cfg)
			if s.call.Flow.ID == "warm" {
				prepare(t, w, s.call)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var cancelled atomic.Int64
			go func() {
				select {
				case <-s.reached:
				case <-time.After(patience):
					t.Error("never got that far")
				}
				cancelled.Store(time.Now().UnixNano())
				cancel()
			}()
			p, err := w.Prepare(ctx, s.call)
			if late := time.Since(time.Unix(0, cancelled.Load())); late > 5*time.Second {
				t.Errorf("came back %v after the cancel", late)
			}
			if p != nil {
				t.Errorf("got a prepared call")
			}
			e := coded(t, err)
			wantError(t, e, cmp.Or(tc.step, e.Step), Cancelled, false, "no longer wanted")
			if !errors.Is(err, context.Canceled) || Counts(err) {
				t.Errorf("%v: is context.Canceled %v, counts %v; want true, false", err, errors.Is(err, context.Canceled), Counts(err))
			}
			if s.left != nil {
				s.left(t)
			}
		})
	}
}

// deafDoor takes one connection and never answers in TLS.
func deafDoor(t *testing.T) (addr string, reached <-chan struct{}, gone <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in, out := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 4096)
		_, err = c.Read(b)
		in <- struct{}{}
		for err == nil {
			_, err = c.Read(b)
		}
		out <- err
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), in, out
}

// gone reports whether a process has ended; one that only waits for its parent
// to look has ended too.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

// The budget ends a warm-up the same way, and says who was slow.
func TestBudgetOfAWarmup(t *testing.T) {
	noLeaks(t)
	release := make(chan struct{})
	v := newVendorDouble(t, func(*websocket.Conn, *http.Request) { <-release })
	defer close(release)
	cfg := stt(Provider{URL: v.ws(), Expect: true, Timeout: time.Minute})
	cfg.Budget = 200 * ms
	e := prepareFails(t, newWarmer(t, cfg), Call{})
	wantError(t, e, stepSTT, TimedOut, false, "200ms are over, while provider_stt ran")
	if !Counts(e) {
		t.Error("does not count")
	}
}
