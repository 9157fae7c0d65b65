package trigger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// labLong, when set in the environment, kills at a third of the fires each; else
// a few of each are killed.
const labLong = "HOLDFAST_LAB_LONG"

// Four replicas make 400 fires. Some processes are killed after they have
// committed a fire and before they announce it, as many after they have
// announced it and before they note that; one is stopped for a while in the
// middle of it. There are exactly 400 runs: one per schedule and nominal time,
// also of schedules with one and the same expression.
func TestCaseB02_ExactlyOnceUnderKills(t *testing.T) {
	t.Parallel()
	const schedules, replicas = 400, 4
	kills := 10 // of each kind
	if os.Getenv(labLong) != "" {
		kills = schedules / 3
	}
	w := setup(t)
	at := past()
	var docs strings.Builder
	for i := range schedules {
		docs.WriteString(scheduleDoc(fmt.Sprintf("s%03d", i), at, ""))
	}
	w.apply(t, docs.String())
	first := w.start(t)
	w.hands(t, schedules)
	first.stop()
	starts := w.collect(t, true)
	w.moveHands(t, at)

	// Each replica is started again whenever it dies, until nobody is to die any
	// more; then it may go on.
	var points []string
	for range kills {
		points = append(points, "trigger.committed=kill", "trigger.published=kill")
	}
	rand.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	next := make(chan string, len(points))
	for _, p := range points {
		next <- p
	}
	close(next)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var died atomic.Int64
	for i := range replicas {
		wg.Go(func() {
			for alive := true; alive && ctx.Err() == nil; {
				var point string
				point, alive = <-next
				stall := i == 0 && !alive // the first one without a failpoint is stopped for a while
				if w.replicaDies(ctx, t, point, stall) {
					died.Add(1)
				}
			}
		})
	}
	runs := func() map[string]int {
		seen := map[string]int{}
		for _, m := range starts.all() {
			seen[m.About]++
		}
		return seen
	}
	for end := time.Now().Add(5 * time.Minute); len(runs()) < schedules || died.Load() < int64(min(2*kills, schedules/2)) && len(next) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d runs after %d kills; want %d", len(runs()), died.Load(), schedules)
		}
	}
	time.Sleep(1500 * time.Millisecond) // one more sweep of every relay
	cancel()
	wg.Wait()

	if n := len(runs()); n != schedules {
		t.Errorf("%d runs, want %d", n, schedules)
	}
	names := map[string]int{}
	seen := map[string]bool{}
	messages := 0
	for _, m := range starts.all() {
		messages++
		var body events.StartRun
		if err := events.Decode(m.Message, &body); err != nil {
			t.Fatal(err)
		}
		if !seen[m.About] {
			names[body.Trigger.Name+" "+body.Trigger.ID]++
		}
		seen[m.About] = true
	}
	if len(names) != schedules {
		t.Errorf("%d schedules fired, want %d", len(names), schedules)
	}
	for name, n := range names {
		if n != 1 {
			t.Errorf("%s has %d runs", name, n)
		}
	}
	if n := w.count(t, "trigger.fires WHERE state = 'started'"); n != schedules {
		t.Errorf("%d fires, want %d", n, schedules)
	}
	if died.Load() == 0 {
		t.Error("no process died: the lab proves nothing")
	}
	t.Logf("%d fires, %d processes killed, %d messages, %d runs", schedules, died.Load(), messages, len(seen))
}

// replicaDies runs one replica process until it dies at its failpoint or ctx
// ends, and reports whether it died by itself.
func (w *world) replicaDies(ctx context.Context, t *testing.T, point string, stall bool) bool {
	exe, err := os.Executable()
	if err != nil {
		t.Error(err)
		return false
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childDatabase+"="+w.db.URL.Reveal(), childNATS+"="+w.nats.URL().Reveal())
	if point != "" {
		cmd.Env = append(cmd.Env, failpoint.Env+"="+point)
	}
	if err := cmd.Start(); err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return false
	}
	if stall {
		time.Sleep(300 * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(3 * time.Second)
		_ = cmd.Process.Signal(syscall.SIGCONT)
	}
	_ = cmd.Wait()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed := ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	if !killed && ctx.Err() == nil {
		t.Errorf("a replica with the failpoint %q ended by itself: %v", point, cmd.ProcessState)
	}
	return killed && ctx.Err() == nil
}
