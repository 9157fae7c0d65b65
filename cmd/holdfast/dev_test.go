package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
)

const devReady = "Ctrl-C lets work finish" // the last line of the welcome

// printed returns what a pattern's group matches in the welcome.
func printed(t *testing.T, s *server, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(s.output())
	if m == nil {
		t.Fatalf("no %s in:\n%s", pattern, s.output())
	}
	return m[1]
}

func TestDev(t *testing.T) {
	t.Parallel()
	requirePostgres(t)
	dir := dataDir(t)
	// Whoever has the usual port, we or another: dev must look further.
	if l, err := net.Listen("tcp", localhost(devPort)); err == nil {
		defer l.Close()
	}
	s := start(t, nil, devReady, "dev", "--data-dir", dir, "-f", example(t))
	url := printed(t, s, `console +(http://\S+)/\n`)
	if url == client.DefaultServer || !strings.Contains(s.output(), "port 8787 is taken") {
		t.Errorf("console at %s, want the next free port and a word about it:\n%s", url, s.output())
	}

	var first, took float64
	if _, err := fmt.Sscan(printed(t, s, `is ready \(([0-9.]+) s\)`), &first); err != nil {
		t.Fatal(err)
	}

	// The delivery that it prints is accepted as it stands; so is the start.
	body, key := printed(t, s, `  b='(.*)'; t=`), printed(t, s, `; k=([0-9a-f]{64})\n`)
	var runs []string
	for range 2 {
		resp := sendDelivery(t, printed(t, s, `curl -sS -X POST (\S+/hooks/\S+) `), body, key)
		var answer struct {
			RunID string `json:"run_id"`
		}
		text := read(t, resp.Body)
		if err := json.Unmarshal([]byte(text), &answer); err != nil || resp.StatusCode != http.StatusAccepted {
			t.Fatalf("the printed delivery: %s %s", resp.Status, text)
		}
		runs = append(runs, answer.RunID)
	}
	if runs[0] != runs[1] {
		t.Errorf("one delivery started two runs: %q", runs)
	}
	if input := printed(t, s, `agents/competitor-check/runs(?s:.*?)-d '(.*)'\n`); !json.Valid([]byte(input)) {
		t.Errorf("the printed input is no JSON: %s", input)
	} else if resp := send(t, http.MethodPost, url+"/v1/agents/competitor-check/runs", input); resp.StatusCode != http.StatusAccepted {
		t.Errorf("the printed start: %s %s", resp.Status, read(t, resp.Body))
	}
	for _, page := range []string{"/", "/live", "/ready", "/started", "/metrics", "/openapi.json", "/v1/system"} {
		if resp := send(t, http.MethodGet, url+page, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s", page, resp.Status)
		}
	}

	text, code := output(t, nil, "dev", "--data-dir", dir)
	if code != exitFailure || !strings.Contains(text, fmt.Sprintf("pid %d", s.cmd.Process.Pid)) {
		t.Errorf("a second dev on the same data: exit %d, want an error that names the first:\n%s", code, text)
	}

	if state := s.stop(syscall.SIGINT); !state.Success() {
		t.Fatalf("after Ctrl-C: %s\n%s", state, s.output())
	}
	// Kept between starts, and quicker when the cluster exists. A busy machine
	// gets three chances.
	for range 3 {
		s = start(t, nil, devReady, "dev", "--data-dir", dir)
		if _, err := fmt.Sscan(printed(t, s, `is ready \(([0-9.]+) s\)`), &took); err != nil {
			t.Fatal(err)
		}
		page, err := remote(t, printed(t, s, `console +(http://\S+)/\n`), "").Runs(t.Context(), client.RunFilter{}, client.PageRequest{})
		if err != nil || len(page.Items) != 2 {
			t.Fatalf("%d runs after a restart, %v; want 2", len(page.Items), err)
		}
		if state := s.stop(syscall.SIGTERM); !state.Success() {
			t.Fatalf("after SIGTERM: %s\n%s", state, s.output())
		}
		if took < 3 || took < first*2/3 {
			return
		}
	}
	t.Errorf("ready after %.1f s three times, want under 3 or under two thirds of the %.1f s of the first start", took, first)
}

// sendDelivery signs as the printed shell command does.
func sendDelivery(t *testing.T, url, body, hexKey string) *http.Response {
	t.Helper()
	key, err := hex.DecodeString(hexKey)
	if err != nil {
		t.Fatal(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "msg_1.%s.%s", at, body)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", "msg_1")
	req.Header.Set("webhook-timestamp", at)
	req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestDev_SecondInterruptLeavesAtOnce(t *testing.T) {
	t.Parallel()
	requirePostgres(t)
	s := start(t, nil, devReady, "dev", "--data-dir", dataDir(t), "--shutdown-delay", "10m", "--listen", free(t))
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	await(t, "the first interrupt to be noticed", func() bool { return strings.Contains(s.output(), "msg=stopping") })
	began := time.Now()
	state := s.stop(syscall.SIGINT)
	if state.ExitCode() != 130 || time.Since(began) > 10*time.Second {
		t.Errorf("ended with %s after %s, want 130 at once:\n%s", state, time.Since(began), s.output())
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	const agent = `{"spec":{"input":{"type":"object","required":["shop","night","n","tags","mode","deep"],"properties":{
		"shop":{"type":"string"},"night":{"type":"string","format":"date"},"n":{"type":"integer"},"optional":{"type":"string"},
		"tags":{"type":"array","items":{"type":"string"}},"mode":{"enum":["fast","slow"]},
		"deep":{"type":"object","required":["on"],"properties":{"on":{"type":"boolean"}}}}}}}`
	const want = `{"deep":{"on":true},"mode":"fast","n":1,"night":"2026-01-31","shop":"shop","tags":["tags"]}`
	if got := string(sampleInput(json.RawMessage(agent))); got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	const hook = `{"spec":{"input":{"shop":"${body.data.shop.name}","night":"${body.at}","x":"on ${body.at}"},"dedupe":"${body.id}"}}`
	const wantBody = `{"at":"2026-01-31","data":{"shop":{"name":"shop"}},"id":"id"}`
	if got := sampleBody(json.RawMessage(hook), json.RawMessage(agent)); got != wantBody {
		t.Errorf("body %s, want %s", got, wantBody)
	}
	if got := sampleBody(json.RawMessage(`{"spec":{"input":"${body}"}}`), nil); got != "{}" {
		t.Errorf("body %s, want {}", got)
	}
	if got := quote("it's"); got != `'it'\''s'` {
		t.Errorf("quote = %s", got)
	}
}
