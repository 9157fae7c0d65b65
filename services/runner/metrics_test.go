package runner_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// counted is the value of a metric of all workers of the test; series is its name,
// with its labels as Prometheus writes them. What nobody counted yet is 0.
func (r *rig) counted(series string) float64 {
	r.t.Helper()
	rec := httptest.NewRecorder()
	r.metrics.MetricsHandler().ServeHTTP(rec, httptest.NewRequestWithContext(context.WithoutCancel(r.t.Context()), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				r.t.Fatalf("%s: %v", line, err)
			}
			return n
		}
	}
	return 0
}

// counts waits until a series has come to want and fails when it is passed: a process
// counts what it has committed a moment later.
func (r *rig) counts(series string, want float64) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%s is %v", series, want), func() bool { return r.counted(series) >= want }, func() string { return fmt.Sprint(r.counted(series)) })
	if got := r.counted(series); got != want {
		r.t.Errorf("%s is %v, want %v", series, got, want)
	}
}

// How long a running run has made no progress can be seen from outside; what waits
// for a person does not count.
func TestCaseC06_TheOldestRunningRunIsAMetric(t *testing.T) {
	r := newRig(t)
	asked, release := make(chan struct{}), make(chan struct{})
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
		close(asked)
		<-release
		return said("done"), nil
	}})
	id := r.start(events.KindAgent, "clerk", `{}`)
	<-asked
	r.exec(`UPDATE runner.runs SET updated_at = clock_timestamp() - interval '90 s' WHERE run_id = $1`, string(id))
	r.worker(&script{}) // it looks as soon as it starts
	stalled := func() float64 { return r.counted("holdfast_runner_stalled_seconds") }
	r.eventually("the run that stands still is seen", func() bool { return stalled() >= 90 }, func() string { return strconv.FormatFloat(stalled(), 'f', 1, 64) })
	close(release)
	r.reaches(id, events.StatusCompleted)
	r.counts(`holdfast_runner_ends_total{status="completed"}`, 1)
	r.counts(`holdfast_runner_model_calls_total{outcome="answered"}`, 1)
}

// A model call that no runner takes is a metric of every runner that lives: here nobody
// is told that it waits.
func TestCaseC08_QueuedButNotPickedUpIsAMetric(t *testing.T) {
	r := newRig(t)
	id := string(events.NewRunID())
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at)
		VALUES ($1, 'default', 'agent', 'clerk', 'd', 'running', 1, '{}', '{}', clock_timestamp())`, id)
	r.exec(`INSERT INTO runner.pending (run_id, namespace, item, kind, since, next_nudge) VALUES ($1, 'default', 'model', 'model', clock_timestamp() - interval '90 s', clock_timestamp() + interval '1 h')`, id)
	r.worker(&script{}) // it looks as soon as it starts
	unasked := func() float64 { return r.counted("holdfast_runner_unasked_age_seconds") }
	r.eventually("the call that waits is seen", func() bool { return unasked() >= 90 }, func() string { return strconv.FormatFloat(unasked(), 'f', 1, 64) })
}

// Two runners whose clocks are ten minutes ahead of the database's run as any: what
// they decide, the database's clock decides. How far they are apart is told.
func TestCaseC14_ClocksThatAreApartAreTold(t *testing.T) {
	r := newRig(t)
	forward := r.db.Clock(t)
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if n == 1 {
			return asks(call("look", `{"n":1}`)), nil
		}
		return said("done"), nil
	}}
	r.worker(m)
	r.worker(m)
	forward(-10 * time.Minute)
	r.tools(`1`)
	ids := []events.RunID{r.start(events.KindAgent, "clerk", `{}`), r.start(events.KindAgent, "clerk", `{}`)}
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		if n := m.count(id); n != 2 {
			t.Errorf("%d model calls, want 2", n)
		}
	}
	told := func() int {
		return r.count(`SELECT count(*) FROM runner.v_clocks WHERE skew_ms BETWEEN 590000 AND 600000`)
	}
	r.eventually("both say that their clock is ten minutes ahead", func() bool { return told() == 2 }, func() string { return strconv.Itoa(told()) })
	if n := r.count(`SELECT count(*) FROM runner.journal a JOIN runner.journal b ON b.run_id = a.run_id AND b.seq = a.seq + 1 WHERE a.seq > 1 AND b.at < a.at`); n != 0 {
		t.Errorf("%d rows are from before the row in front of them", n) // the first has the time of a column default, which the test cannot move
	}
	if n := r.counted("holdfast_runner_takeovers_total"); n != 0 {
		t.Errorf("%v live runs were taken over", n)
	}
	r.consistent(ids...)
}
