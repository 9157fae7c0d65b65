package trigger_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// stage plays a runner: it records starts, and ends runs as the test says.
type stage struct {
	t   *testing.T
	w   *world
	bus *bus.Bus

	mu     sync.Mutex
	starts []events.StartRun
}

// stage consumes RUNS until t ends.
func (w *world) stage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, w: w, bus: w.nats.Connect(t)}
	c, err := s.bus.Consume(t.Context(), bus.Consumption{
		Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 4,
		Handle: func(ctx context.Context, m events.Received) error {
			var start events.StartRun
			if err := events.Decode(m.Message, &start); err != nil {
				return err
			}
			_, err := w.db.Pool.Exec(ctx, `
				INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at)
				VALUES ($1, $2, $3, $4, $5, 'running', 1, '{}', $6, $7) ON CONFLICT DO NOTHING`,
				string(start.RunID), start.Namespace, start.Ref.Kind, start.Ref.Name, string(start.Ref.Digest), start.Trigger, start.AcceptedAt)
			if err != nil {
				return err
			}
			if err := s.row(ctx, start, 1, events.FactStarted, events.StatusRunning, m.ID, `{}`); err != nil {
				return err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.starts = append(s.starts, start)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.WithoutCancel(t.Context())) })
	return s
}

// row appends a journal row and publishes its event.
func (s *stage) row(ctx context.Context, start events.StartRun, seq int64, kind, status, cause, data string) error {
	e := events.RunEvent{RunID: start.RunID, Namespace: start.Namespace, Seq: seq, Kind: kind, Status: status, Cause: cause, Worker: "stage", Data: json.RawMessage(data)}
	_, err := s.w.db.Pool.Exec(ctx, `
		INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		VALUES ($1, $2, $3, $4, $5, true, 'stage', clock_timestamp(), $6) ON CONFLICT DO NOTHING`,
		string(e.RunID), seq, kind, status, cause, data)
	if err != nil {
		return err
	}
	body, err := events.Marshal(e)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%s:%d", e.RunID, seq)
	return s.bus.Publish(ctx, events.Message{Subject: events.RunEventSubject(e.RunID), MsgID: id, ID: id, Source: "/stage", Type: events.TypeRunEvent,
		About: string(e.RunID), Namespace: e.Namespace, Data: body})
}

// started waits for the start of a run.
func (s *stage) started(run string) events.StartRun {
	s.t.Helper()
	var found events.StartRun
	until(s.t, "the start of run "+run, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, start := range s.starts {
			if run == "" || string(start.RunID) == run {
				found = start
				return true
			}
		}
		return false
	})
	return found
}

// end ends a run with an output, or with an error when status says so.
func (s *stage) end(start events.StartRun, status, output string) {
	s.t.Helper()
	var out, problem *string
	if status == events.StatusCompleted {
		out = &output
	} else {
		problem = &output
	}
	if _, err := s.w.db.Pool.Exec(s.t.Context(), `
		UPDATE runner.runs SET seq = 2, status = $2, output = $3::json, error = $4::json, ended_at = clock_timestamp() WHERE run_id = $1`,
		string(start.RunID), status, out, problem); err != nil {
		s.t.Fatal(err)
	}
	kind := events.FactCompleted
	if status != events.StatusCompleted {
		kind = events.FactFailed
	}
	if err := s.row(s.t.Context(), start, 2, kind, status, "end:"+string(start.RunID), `{"output":9007199254740993}`); err != nil {
		s.t.Fatal(err)
	}
}

const startAnything = "/v1/agents/anything/runs"

// outcome is the answer to a start that waited.
type outcome struct {
	RunID  string          `json:"run_id"`
	Status string          `json:"status"`
	URL    string          `json:"status_url"`
	Output json.RawMessage `json:"output"`
	Error  json.RawMessage `json:"error"`
}

func outcomeOf(t *testing.T, a answer) outcome {
	t.Helper()
	var o outcome
	if err := json.Unmarshal(a.body, &o); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	if o.URL != "/v1/runs/"+o.RunID || a.header.Get("Location") != o.URL || a.header.Get("Holdfast-Run-Id") != o.RunID {
		t.Errorf("answer %s with Location %q and run %q", a.body, a.header.Get("Location"), a.header.Get("Holdfast-Run-Id"))
	}
	return o
}

// ended is the answer to a start whose run is ended while it waits.
func (s *stage) ended(r *replica, path, status, output string, header ...string) answer {
	s.t.Helper()
	answers := make(chan answer, 1)
	go func() { answers <- r.api(authn.Operator, "POST", path, `{"input":1}`, header...) }()
	s.end(s.started(""), status, output)
	return <-answers
}

func TestWait_AnswersWithTheEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, status, output string
		header               []string
	}{
		"by preference":             {startAnything, events.StatusCompleted, `{"id":9007199254740993,"x":1.50}`, []string{"Prefer", "respond-async, wait=30"}},
		"by parameter":              {startAnything + "?wait=30", events.StatusCompleted, `"done"`, nil},
		"of a flow that failed":     {"/v1/flows/night/runs?wait=30", events.StatusFailed, `{"code":"model","message":"it is away"}`, nil},
		"longer than is allowed":    {startAnything, events.StatusCompleted, `null`, []string{"Prefer", `WAIT="3600"; x=y`}},
		"the parameter counts more": {startAnything + "?wait=30", events.StatusCompleted, `1`, []string{"Prefer", "wait=0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			r, s := w.start(t), w.stage(t)
			begun := time.Now()
			a := s.ended(r, tc.path, tc.status, tc.output, tc.header...)
			o := outcomeOf(t, a)
			want := outcome{RunID: o.RunID, Status: tc.status, URL: o.URL}
			if tc.status == events.StatusCompleted {
				want.Output = json.RawMessage(tc.output)
			} else {
				want.Error = json.RawMessage(tc.output)
			}
			if diff := cmp.Diff(want, o); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			applied := "wait=30"
			if strings.Contains(name, "longer") {
				applied = "wait=60"
			}
			if got := a.header.Get("Preference-Applied"); got != applied {
				t.Errorf("Preference-Applied %q, want %q", got, applied)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("answered after %s", took)
			}
		})
	}
}

// A run that takes longer is answered as if nobody had waited; it goes on, and a
// repeat of the start waits for the same run.
func TestWait_TooShortThenTheRepeat(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r, s := w.start(t), w.stage(t)
	first := r.api(authn.Operator, "POST", startAnything+"?wait=1", `{}`, "Idempotency-Key", "k")
	accepted(t, first)
	if first.header.Get("Preference-Applied") != "wait=1" || first.header.Get("Holdfast-Run-Id") != first.RunID {
		t.Errorf("headers %v", first.header)
	}
	start := s.started(first.RunID)
	answers := make(chan answer, 2)
	for range 2 { // on the same key at once
		go func() {
			answers <- r.api(authn.Operator, "POST", startAnything, `{}`, "Idempotency-Key", `"k"`, "Prefer", "wait=30")
		}()
	}
	time.Sleep(100 * time.Millisecond) // so that they wait; the result is the same if they do not
	s.end(start, events.StatusCompleted, `{"n":1}`)
	for range 2 {
		a := <-answers
		if o := outcomeOf(t, a); o.RunID != first.RunID || string(o.Output) != `{"n":1}` || a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("the repeat was answered %s, replayed %q", a.body, a.header.Get("Idempotency-Replayed"))
		}
	}
	if a := r.api(authn.Operator, "POST", startAnything, `{"input":2}`, "Idempotency-Key", "k", "Prefer", "wait=30"); a.status != 422 {
		t.Errorf("another payload: %d %s", a.status, a.body)
	}
	accepted(t, r.api(authn.Operator, "POST", startAnything, `{}`, "Idempotency-Key", "k")) // plain stays 202
	if n := w.count(t, "trigger.deliveries"); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
}

// Who hangs up while waiting or reading leaves the run alone.
func TestWait_DisconnectCancelsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r, s := w.start(t), w.stage(t)
	for _, accept := range []string{"application/json", "text/event-stream"} {
		ctx, hangUp := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", r.url+startAnything+"?wait=30", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		req.Header.Set("Idempotency-Key", accept)
		req.Header.Set("Authorization", "Bearer "+doortest.Token(authn.Operator))
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}()
		until(t, "the start", func() bool { return w.count(t, "trigger.deliveries WHERE dedupe_key = '"+accept+"'") == 1 })
		hangUp()
		<-gone
		again := r.api(authn.Operator, "POST", startAnything, `{}`, "Idempotency-Key", accept)
		accepted(t, again)
		s.end(s.started(again.RunID), events.StatusCompleted, `"done"`)
		o := outcomeOf(t, r.api(authn.Operator, "POST", startAnything+"?wait=30", `{}`, "Idempotency-Key", accept))
		if o.RunID != again.RunID || o.Status != events.StatusCompleted {
			t.Errorf("after hanging up: %+v", o)
		}
	}
	if n := w.count(t, "runner.runs WHERE status <> 'completed'"); n != 0 {
		t.Errorf("%d runs did not complete", n)
	}
}

func TestWait_BadParameters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	for query, want := range map[string]string{"wait=soon": "query.wait", "wait=-1": "query.wait", "wait=1.5": "query.wait", "wait=": "query.wait",
		"wait=1&wait=2": "query.wait", "later=1": "query.later"} {
		if a := r.api(authn.Operator, "POST", startAnything+"?"+query, `{}`); a.status != 422 || len(a.Errors) != 1 || a.Errors[0].Field != want {
			t.Errorf("?%s: %d %s", query, a.status, a.body)
		}
	}
	if n := w.count(t, "trigger.deliveries"); n != 0 {
		t.Errorf("%d starts of refused requests", n)
	}
	for _, prefer := range []string{"wait", "wait=soon", "wait=-3", "handling=lenient", ""} { // ignored, as preferences are
		a := r.api(authn.Operator, "POST", startAnything, `{}`, "Prefer", prefer)
		if accepted(t, a); a.header.Get("Preference-Applied") != "" {
			t.Errorf("Prefer %q was applied", prefer)
		}
	}
}

// A start that asks for events gets the run's from the first one to the end,
// numbered as the run's own stream numbers them.
func TestStream_FromTheFirstEvent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+startAnything, strings.NewReader(`{"input":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+doortest.Token(authn.Operator))
	res, err := http.DefaultClient.Do(req) // answered before there is a runner
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	run := res.Header.Get("Holdfast-Run-Id")
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Location") != "/v1/runs/"+run || !events.RunID(run).Valid() {
		t.Fatalf("%s %v", res.Status, res.Header)
	}
	s := w.stage(t)
	start := s.started(run)
	lines := bufio.NewScanner(res.Body)
	var got []string
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "retry:") || strings.HasPrefix(line, ":") {
			continue
		}
		if name, value, _ := strings.Cut(line, ": "); name == "data" {
			var e struct{ Kind, Status string }
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				t.Fatal(err)
			}
			line = strings.TrimSpace(e.Kind + " " + e.Status)
			if strings.Contains(value, `"output"`) && !strings.Contains(value, `"data":{"output":9007199254740993}`) {
				t.Errorf("event %s", value)
			}
		}
		if got = append(got, line); line == "run_started running" {
			s.end(start, events.StatusCompleted, `"done"`)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	want := []string{"id: 1", "run_started running", "id: 2", "run_completed completed", "event: end", "completed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What the door reads of runs is only what the API started, in the namespace of
// who asked.
func TestStream_SeesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r, s := w.start(t), w.stage(t)
	hook := r.post("/hooks/raw", `{}`)
	accepted(t, hook)
	ours := r.api(authn.Operator, "POST", startAnything, `{}`)
	accepted(t, ours)
	s.started(hook.RunID)
	s.started(ours.RunID)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, tc := range map[string]struct {
		namespace, run string
		found          bool
	}{
		"our own":                     {"default", ours.RunID, true},
		"of another namespace":        {"other", ours.RunID, false},
		"that a webhook started":      {"default", hook.RunID, false},
		"that nobody started (no id)": {"default", string(events.NewRunID()), false},
	} {
		sink := &counting{}
		short, end := context.WithTimeout(ctx, 300*time.Millisecond)
		err := r.svc.Stream(short, tc.namespace, events.RunID(tc.run), sink)
		end()
		if tc.found != (sink.n == 1) || err == nil {
			t.Errorf("a run %s: %d events, %v", name, sink.n, err)
		}
	}
}

type counting struct{ n int }

func (c *counting) Send(string, string, []byte) error { c.n++; return nil }
func (c *counting) Beat() error                       { return nil }
