package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// TestDataCommandsAgainstServices drives every command against the real
// services, on a Postgres of its own and an embedded NATS.
func TestDataCommandsAgainstServices(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(scriptmodel.New(scriptmodel.Config{Script: refunds}))
	t.Cleanup(model.Close)
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"refunded":true,"key":%q}`, r.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(bank.Close)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/real",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			addr, err := freeAddress()
			if err != nil {
				return err
			}
			e.Vars = append(e.Vars, "ADDR="+addr, "HOLDFAST_SERVER=http://"+addr, "HOME="+e.WorkDir,
				"DATABASE_URL="+pgtest.New(t).URL.Reveal(),
				"SCRIPT_MODEL_URL="+model.URL, "SCRIPT_MODEL_KEY=key", "HOLDFAST_TOOL_BANK_URL="+bank.URL)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "until": until, "capture": capture},
	})
}

// refunds asks for one refund and then says that it is done.
func refunds(r scriptmodel.Request) (scriptmodel.Answer, error) {
	var in struct {
		Charge string          `json:"charge"`
		Cents  json.RawMessage `json:"cents"`
	}
	text := r.FirstText()
	if err := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &in); err != nil {
		return scriptmodel.Answer{}, err
	}
	if r.Turn() == 0 {
		return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Call("refund", map[string]any{"charge": in.Charge, "cents": in.Cents})}}, nil
	}
	return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("refunded " + in.Charge)}}, nil
}

// freeAddress is a loopback address where nobody listens at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// until is "until PATTERN COMMAND ARGS...": it repeats the command until its
// standard output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND ARGS...")
	}
	want := regexp.MustCompile(args[0])
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("standard output does not match %s after a minute", want)
		}
	}
}

// capture is "capture NAME PATTERN": it keeps the first group of the pattern in
// the standard output of the last command.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME PATTERN")
	}
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("standard output does not match %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}
