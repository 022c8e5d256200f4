package deploytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const token = "a-token-for-the-scrape"

// A real Prometheus that has loaded our rules scrapes two real backends, while one call
// waits for a bot: what the autoscaler asks is answered with 1, not with 2 because there
// are two of them, and our recording rules say the same. When nobody is in office any
// more, the answer becomes none, and never 0.
func TestScrape(t *testing.T) {
	promtool(t, ".", "--version") // skips where Debian's package is not there
	dir := t.TempDir()
	program := filepath.Join(dir, "dibs")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/dibs")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ports := free(t, 4)
	addr := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	start(t, dir, nil, program, "nats", "--port", strconv.Itoa(ports[0]), "--store", filepath.Join(dir, "nats"), "--log-level", "warn")
	var stops []func()
	for i := 1; i <= 2; i++ {
		env := []string{"DIBS_TOKEN=" + token, "TWILIO_ACCOUNT_SID=AC" + strings.Repeat("0", 32), "TWILIO_AUTH_TOKEN=nobody-is-called"}
		stops = append(stops, start(
			t, dir, env, program, "backend", "--nats", "nats://"+addr(0), "--addr", addr(i), "--name", fmt.Sprint("b", i), "--public-url", "https://voice.example.com",
			"--region", "eu-west", "--from", "+15005550006", "--log-level", "warn",
		))
	}
	until(t, "the backends are ready", func() bool { return get("http://"+addr(1)+"/readyz") != nil && get("http://"+addr(2)+"/readyz") != nil })
	place(t, "http://"+addr(1))

	rules, err := filepath.Abs("../prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"global":{"scrape_interval":"500ms","evaluation_interval":"500ms"},"rule_files":[%q],
		"scrape_configs":[{"job_name":"dibs","static_configs":[{"targets":[%q,%q]}]}]}`, rules, addr(1), addr(2))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, dir, nil, "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", "--web.listen-address="+addr(3), "--log.level=error")

	ask := func(q string) (values []string) {
		return answers(get("http://" + addr(3) + "/api/v1/query?query=" + url.QueryEscape(q)))
	}
	is := func(q, want string) {
		t.Helper()
		var got []string
		defer func() {
			if t.Failed() {
				t.Logf("%s is %v", q, got)
			}
		}()
		until(t, q+" is "+want, func() bool { got = ask(q); return len(got) == 1 && got[0] == want })
	}
	until(t, "both are scraped", func() bool { return len(ask(`dibs_demand_units{term="direct"} == 1`)) == 2 })
	is(query("eu-west"), "1")
	is(`max(dibs_wanted_bots{region="eu-west"})`, "3") // the floor
	is(`dibs:demand_units{region="eu-west"}`, "1")
	is(`dibs:wanted_bots{region="eu-west"}`, "3")
	is(`max(dibs_call_outcomes_total{region="eu-west",outcome="bot_unavailable"})`, "0") // so that the first is an increase

	for _, stop := range stops {
		stop()
	}
	until(t, "unknown is no answer", func() bool {
		got := ask(query("eu-west"))
		if len(got) == 1 && got[0] != "1" {
			t.Errorf("with nobody in office the demand is %v", got)
		}
		return len(got) == 0
	})
}

// place puts a call that has no bot to go to.
func place(t *testing.T, base string) {
	t.Helper()
	body := `{"to":"+4915112345678","org_id":"acme"}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/calls", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", resp.StatusCode, said)
	}
}

// answers are the values of an instant query's answer.
func answers(body []byte) (values []string) {
	var r struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if json.Unmarshal(body, &r) != nil {
		return nil
	}
	for _, x := range r.Data.Result {
		values = append(values, fmt.Sprint(x.Value[1]))
	}
	return values
}

// get is the body of an answer that is 200, else nil.
func get(u string) []byte {
	c := http.Client{Timeout: 2 * time.Second}
	resp, err := c.Get(u)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	return body
}

// start starts a process, which ends with the test or by what is returned; what it says is shown
// when the test fails.
func start(t *testing.T, dir string, env []string, name string, args ...string) (stop func()) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s %s:\n%s", name, args[0], said.String())
		}
	})
	return stop
}

// until waits for a state, a minute at most.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, end := time.NewTicker(100*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within 1 min: %s", what)
		}
	}
}

// free are ports that nobody listened on a moment ago.
func free(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
