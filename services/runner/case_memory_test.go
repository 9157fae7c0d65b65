package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// childMemory is how many MiB a runner process may ask for beyond what it has when it
// starts to work; nothing is no limit.
const childMemory = "HOLDFAST_TEST_RUNNER_MEMORY"

func limitMemory() error {
	text := os.Getenv(childMemory)
	if text == "" {
		return nil
	}
	var more, pages uint64
	if _, err := fmt.Sscan(text, &more); err != nil {
		return err
	}
	now, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(string(now), &pages); err != nil {
		return err
	}
	most := pages*uint64(os.Getpagesize()) + more<<20
	return syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most})
}

// greedy is what a tool's result becomes: a gibibyte, where there is room for it.
func greedy(result string) runner.Answer {
	var text []byte
	for range 16 {
		text = append(text, strings.Repeat(result, 64<<20/len(result))...)
	}
	return said(string(text))
}

// Runner processes under a real limit of memory die of what they make of a tool's result,
// a model's answer that none holds: no deferred code runs. After as many as the limit says
// the run is parked, the runs beside it end, and once there is memory a person lets it go
// on. The result is there from before the first death: no tool is asked again.
func TestCaseC04_AResultThatNoMemoryHolds(t *testing.T) {
	r := newRig(t)
	poison := events.NewRunID()
	var dead []func()
	for range 5 {
		dead = append(dead, r.limited(256))
	}
	calls := r.tools(`"` + strings.Repeat("r", 100<<10) + `"`)
	r.startAs(poison, events.KindAgent, "clerk", `"greedy"`)
	var others []events.RunID
	for range 20 {
		others = append(others, r.start(events.KindAgent, "clerk", `{}`))
	}
	r.eventually("the others have ended", func() bool {
		return r.count(`SELECT count(*) FROM runner.v_runs WHERE status = 'completed'`) == len(others)
	}, func() string { return r.journalText(others[0]) })
	for _, wait := range dead {
		wait()
	}
	m := &script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("cured"), nil }}
	r.worker(m)
	r.reaches(poison, events.StatusAttention)
	rows := r.journal(poison)
	if last := rows[len(rows)-1]; last.Kind != events.FactAttention || !strings.Contains(string(last.Data), `"code":"lost_workers"`) {
		t.Errorf("parked by %s %s", last.Kind, last.Data)
	}
	if n := m.count(poison); n != 0 {
		t.Errorf("%d model calls after five processes were lost", n)
	}
	r.command(poison, events.RunResume, events.Command{Reason: "more memory"})
	r.reaches(poison, events.StatusCompleted)
	asked := 0
	for _, c := range calls.all() {
		if c.RunID == poison {
			asked++
		}
	}
	if asked != 1 || m.count(poison) != 1 {
		t.Errorf("the tool was asked %d times, and the model %d times behind the result, want once each", asked, m.count(poison))
	}
	r.consistent(append(others, poison)...)
}

// limited starts a runner process with room for some MiB and returns what waits for
// its death of that.
func (r *rig) limited(mib int) (dead func()) {
	r.t.Helper()
	var said bytes.Buffer
	cmd := r.child(&said, fmt.Sprintf("%s=%d", childMemory, mib), "GOTRACEBACK=none")
	return func() {
		r.t.Helper()
		err := cmd.Wait()
		text := said.String()
		if err == nil || !strings.Contains(text, "memory") && !strings.Contains(text, "allocate") {
			r.t.Fatalf("the child did not die of its memory: %v\n%.2000s", err, text)
		}
	}
}
