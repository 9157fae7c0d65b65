package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-run/holdfast/internal/clocktest"
)

// TestMain makes the test binary the command when it is called by its name, so
// that tests run real processes without a build of their own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"holdfast": func() {
			if err := clocktest.FromEnv(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
			os.Exit(run(os.Args[1:]))
		},
	})
}

// TestDataCommands runs the transcripts in testdata/script. Each has a server
// of its own that answers from the script's files: GET /v1/runs/x is api/GET/v1/runs/x.json,
// .sse for a stream. A first line "409" is the status. What was asked is in
// requests.txt, one "METHOD path?query body" a line.
func TestDataCommands(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			s := httptest.NewServer(&files{dir: e.WorkDir})
			e.Defer(s.Close)
			e.Vars = append(e.Vars, "HOLDFAST_SERVER="+s.URL, "HOME="+e.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits is "exits CODE COMMAND ARGS...": it runs the command and checks its exit
// code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// files serves a script's files.
type files struct {
	dir string
	mu  sync.Mutex
}

func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	log, err := os.OpenFile(filepath.Join(f.dir, "requests.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(log, "%s %s %s\n", r.Method, r.URL.RequestURI(), strings.TrimSpace(string(body)))
		_ = log.Close()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	base := filepath.Join(f.dir, "api", r.Method, filepath.FromSlash(r.URL.Path))
	if text, err := os.ReadFile(base + ".sse"); err == nil {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(text)
		return
	}
	text, err := os.ReadFile(base + ".json")
	status := http.StatusOK
	if err != nil {
		status, text = http.StatusNotFound, []byte(`{"status":404,"code":"not_found","detail":"there is nothing at `+r.URL.Path+`"}`)
	} else if first, rest, ok := strings.Cut(string(text), "\n"); ok && len(first) == 3 {
		if n, err := strconv.Atoi(first); err == nil {
			status, text = n, []byte(rest)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
