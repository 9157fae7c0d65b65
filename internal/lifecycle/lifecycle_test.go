package lifecycle_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/lifecycle"
)

// journal records what happened in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, s)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}

func (j *journal) service(name string) lifecycle.Funcs {
	return lifecycle.Funcs{
		ServiceName: name,
		OnStart:     func(context.Context) error { j.add("start " + name); return nil },
		OnRun: func(ctx context.Context) error {
			<-ctx.Done()
			j.add("end " + name + ": " + context.Cause(ctx).Error())
			return ctx.Err()
		},
		OnStop: func(context.Context) error { j.add("stop " + name); return nil },
	}
}

func TestGroup_StopsInReverseAndEndsRunAfterStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := &lifecycle.Group{
			OnReady:    func() { j.add("ready") },
			OnStopping: func(reason error) { j.add("stopping"); cmpEqual(t, nil, reason) },
		}
		g.Add(j.service("db"))
		g.Add(j.service("bus"))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := g.Run(ctx, time.Minute); err != nil {
			t.Fatalf("Run: %v", err)
		}
		want := []string{"start db", "start bus", "ready", "stopping", "stop bus", "end bus: stopping", "stop db", "end db: stopping"}
		if diff := cmp.Diff(want, j.all()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestGroup_RunMayReturnOnceStopped(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	returned := make(chan struct{})
	var g lifecycle.Group
	g.Add(lifecycle.Funcs{
		ServiceName: "worker",
		OnRun:       func(context.Context) error { defer close(returned); <-stopped; return nil },
		OnStop:      func(context.Context) error { close(stopped); <-returned; return nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	g.OnReady = cancel
	if err := g.Run(ctx, time.Minute); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func cmpEqual(t *testing.T, want, got error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestGroup_FirstExitStopsAll(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	cases := map[string]struct {
		run  func(context.Context) error
		want string
	}{
		"a failure is reported":                    {run: func(context.Context) error { return boom }, want: "worker: boom"},
		"a silent end is a failure too":            {run: func(context.Context) error { return nil }, want: "worker: exited while it should run"},
		"its own cancelled error is still failure": {run: func(context.Context) error { return context.Canceled }, want: "worker: context canceled"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var j journal
			var g lifecycle.Group
			g.Add(j.service("db"))
			g.Add(lifecycle.Funcs{ServiceName: "worker", OnRun: tc.run})
			err := g.Run(t.Context(), time.Minute)
			if err == nil || err.Error() != tc.want {
				t.Errorf("Run = %v, want %q", err, tc.want)
			}
			if diff := cmp.Diff([]string{"start db", "stop db", "end db: stopping"}, j.all()); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroup_FailedStartStopsOnlyWhatRan(t *testing.T) {
	t.Parallel()
	var j journal
	var g lifecycle.Group
	boom := errors.New("boom")
	g.Add(j.service("db"))
	g.Add(lifecycle.Funcs{
		ServiceName: "bus",
		OnStart:     func(context.Context) error { return boom },
		OnStop:      func(context.Context) error { j.add("stop bus"); return nil },
	})
	g.Add(j.service("runner"))
	err := g.Run(t.Context(), time.Minute)
	if !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "start bus: ") {
		t.Errorf("Run = %v, want start bus: boom", err)
	}
	if diff := cmp.Diff([]string{"start db", "stop db", "end db: stopping"}, j.all()); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestGroup_CancelDuringStartStopsQuietly(t *testing.T) {
	t.Parallel()
	var j journal
	var g lifecycle.Group
	g.Add(j.service("db"))
	ctx, cancel := context.WithCancel(t.Context())
	g.Add(lifecycle.Funcs{ServiceName: "bus", OnStart: func(start context.Context) error {
		cancel()
		<-start.Done()
		return start.Err()
	}})
	if err := g.Run(ctx, time.Minute); err != nil {
		t.Errorf("Run = %v, want nil: an ordered stop while starting is no failure", err)
	}
	if diff := cmp.Diff([]string{"start db", "stop db", "end db: stopping"}, j.all()); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestGroup_NamesWhatMissesTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		var g lifecycle.Group
		g.Add(j.service("db"))
		g.Add(lifecycle.Funcs{ServiceName: "stuck", OnStop: func(ctx context.Context) error {
			time.Sleep(time.Hour) // ignores its deadline
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		err := g.Run(ctx, 5*time.Second)
		if err == nil || !strings.Contains(err.Error(), "stop stuck: still busy at the deadline") {
			t.Errorf("Run = %v, want it to name stuck", err)
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("took %s, want about 6s", took)
		}
		if diff := cmp.Diff([]string{"start db", "stop db", "end db: stopping"}, j.all()); diff != "" {
			t.Errorf("db was not stopped in order after the deadline (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Hour) // let the stuck goroutine go
	})
}
