package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

const lostDocuments = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: lossy}
spec: {provider: anthropic, model: lossy, apiKey: {env: KEY}, baseURL: %q, maxTokens: 100, prices: {input: 3, output: 15}}
---
apiVersion: holdfast/v1
kind: Budget
metadata: {name: night}
spec: {limit: %d}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: loser}
spec: {model: lossy, instructions: work, budget: {tokens: 5000, cost: 1, modelCalls: 3, pools: [night]}}
`

// The provider answered and billed, and the reply is lost: on the line, or with the
// process's work before its commit. Each booking is settled once, the attempt that
// was billed twice is counted twice, the pool is never passed, and a pool that has
// room for the lost one alone stops the retry.
func TestBudget_AReplyThatIsLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limit     int
		onTheLine bool
	}{
		"on the line":                            {limit: 4000, onTheLine: true},
		"before its commit":                      {limit: 4000},
		"on the line, with room for one attempt": {limit: 0, onTheLine: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var mu sync.Mutex
			var booked []int64
			server := scriptmodel.New(scriptmodel.Config{
				Script: func(scriptmodel.Request) (scriptmodel.Answer, error) {
					ceiling, used, reserved := r.pool()
					mu.Lock()
					defer mu.Unlock()
					if booked = append(booked, reserved); used+reserved > ceiling || reserved == 0 {
						t.Errorf("%d used and %d booked of %d while the model is asked", used, reserved, ceiling)
					}
					a := saying("a long answer that is lost")
					a.Usage = scriptmodel.Usage{InputTokens: 30, OutputTokens: 9}
					return a, nil
				},
				Fault: func(_ scriptmodel.Request, nth int) scriptmodel.Fault {
					if tc.onTheLine && nth == 1 {
						return scriptmodel.Fault{CutAfter: 4}
					}
					return scriptmodel.Fault{}
				},
			})
			web := httptest.NewServer(server)
			t.Cleanup(web.Close)
			limit := tc.limit
			if limit == 0 {
				limit = 1 << 20
			}
			r.defs.apply(t, fmt.Sprintf(lostDocuments, web.URL, limit))
			id := events.NewRunID()
			if !tc.onTheLine {
				defer arm(t, "runner.answered["+string(id)+"]=error#1")()
			}
			r.worker(model.All(model.Env{LookupEnv: func(string) (string, bool) { return "key", true }, ReadFile: os.ReadFile,
				Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})}))
			if tc.limit == 0 { // what one call may use, as the runner books it
				probe := r.start(events.KindAgent, "loser", `{"n":1}`)
				r.eventually("the first attempt failed", func() bool { return slices.Contains(r.kinds(probe), events.FactModelFailed) }, func() string { return r.journalText(probe) })
				r.command(probe, events.RunCancel, events.Command{})
				r.reaches(probe, events.StatusCancelled)
				_, used, _ := r.pool()
				mu.Lock()
				limit = int(used + booked[0])
				mu.Unlock()
				r.defs.apply(t, fmt.Sprintf(lostDocuments, web.URL, limit))
			}
			r.startAs(id, events.KindAgent, "loser", `{"n":2}`)
			ends := events.StatusCompleted
			if tc.limit == 0 {
				ends = events.StatusPaused
			}
			r.reaches(id, ends)
			var own, attempts int64
			for _, row := range r.journal(id) {
				var b struct {
					Usage *events.Usage `json:"usage"`
				}
				if row.Kind != events.FactModelFailed && row.Kind != events.FactModelAnswered {
					continue
				}
				if err := json.Unmarshal(row.Data, &b); err != nil || b.Usage == nil {
					t.Fatalf("%s says no usage: %s (%v)", row.Kind, row.Data, err)
				}
				if lost := row.Kind == events.FactModelFailed; lost != b.Usage.Estimated || b.Usage.InputTokens < 30 {
					t.Errorf("%s: %+v; a lost one is estimated, and not too low", row.Kind, b.Usage)
				}
				own, attempts = own+b.Usage.Total(), attempts+1
			}
			var tokens, calls int64
			if err := r.sql.QueryRow(t.Context(), `SELECT tokens, model_calls FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&tokens, &calls); err != nil || tokens != own || calls != attempts {
				t.Errorf("the run counts %d tokens and %d calls (%v), its rows %d and %d", tokens, calls, err, own, attempts)
			}
			ceiling, used, reserved := r.pool()
			left := r.count(`SELECT count(*) FROM runner.reservations`)
			switch {
			case reserved != 0 || left != 0 || used > ceiling:
				t.Errorf("%d used of %d, %d booked in %d bookings after all", used, ceiling, reserved, left)
			case tc.limit == 0:
				if attempts != 1 || server.Count("").Requests != 2 || !strings.Contains(r.journalText(id), "the next call may need") {
					t.Errorf("%d attempts of %d requests:\n%s", attempts, server.Count("").Requests, r.journalText(id))
				}
			case tc.onTheLine:
				if attempts != 2 || used != own {
					t.Errorf("%d attempts, the pool has %d used, the rows say %d", attempts, used, own)
				}
			default: // what the lost call cost is unknown: all that was booked
				if attempts != 1 || used != own+booked[0] || server.Count("").Requests != 2 {
					t.Errorf("%d attempts of %d requests, the pool has %d used, want %d and the %d booked for the lost one", attempts, server.Count("").Requests, used, own, booked[0])
				}
			}
		})
	}
}

// An agent starts ten runs at once that share a limit for the day, on two processes:
// three may ask the model, the seven others end with the numbers, and the agent reads
// which.
func TestCaseH01_TenChildrenUnderADailyLimit(t *testing.T) {
	r := newBuiltinRig(t)
	away := (time.Now().UTC().Hour() + 12) % 24 // no window ends meanwhile
	r.defs.apply(t, fmt.Sprintf(`
apiVersion: holdfast/v1
kind: Budget
metadata: {name: night}
spec: {unit: modelCalls, limit: 3, window: {timeZone: UTC, startHour: %d}, onExceeded: fail}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: helper}
spec: {model: scripted, instructions: help, budget: {pools: [night]}}
`, away))
	var ten []runner.ModelCall
	for i := range 10 {
		ten = append(ten, call("delegate", fmt.Sprintf(`{"input":%d}`, i)))
	}
	m := leads(ten...)
	answer := m.answer
	m.answer = func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		if strings.HasPrefix(q.System, "help") {
			if ceiling, used, reserved := r.pool(); used+reserved > ceiling {
				t.Errorf("%d used and %d booked of %d", used, reserved, ceiling)
			}
		}
		return answer(ctx, q, n)
	}
	r.worker(m)
	r.worker(m)
	id := r.start(events.KindAgent, "lead", `{}`)
	r.reaches(id, events.StatusCompleted)
	lines := strings.Split(r.output(id), "\n")
	var helped, refused int
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "help "):
			helped++
		case strings.Contains(line, "budget") && strings.Contains(line, "3 of 3 modelCalls used"):
			refused++
		}
	}
	if _, used, reserved := r.pool(); len(lines) != 10 || helped != 3 || refused != 7 || used != 3 || reserved != 0 {
		t.Errorf("%d of %d children helped and %d were refused, the pool has %d used and %d booked:\n%s", helped, len(lines), refused, used, reserved, r.output(id))
	}
}

// A runner is killed while a call that was refused with 429 waits: the wait is a row,
// and whoever is there asks when it is over and not before, with its slots free meanwhile.
func TestCaseF01_ARestartDuringBackOff(t *testing.T) {
	r := newBuiltinRig(t)
	id := events.NewRunID()
	dead := r.spawn(fmt.Sprintf("runner.published[%s]=kill#2", id))
	began := time.Now()
	r.startAs(id, events.KindAgent, "limited", `{}`)
	dead()
	var due time.Time
	if err := r.sql.QueryRow(t.Context(), `SELECT due FROM runner.timers WHERE run_id = $1`, string(id)).Scan(&due); err != nil {
		t.Fatal(err)
	}
	if due.Sub(began) < 3*time.Second {
		t.Errorf("the provider asked for 3s, the timer is due after %s", due.Sub(began))
	}
	var asked time.Time
	w := r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
		asked = time.Now()
		return said("done"), nil
	}})
	if n := r.count(`SELECT count(*) FROM runner.runs WHERE status = 'waiting' AND claim_worker IS NULL`); n != 1 {
		t.Errorf("the run does not wait without a claim:\n%s", r.journalText(id))
	}
	taken := 0
	for time.Now().Before(due.Add(-time.Second)) && w.Slots().TryAcquire() {
		taken++
	}
	for range taken {
		w.Slots().Release()
	}
	if taken != 16 && time.Now().Before(due.Add(-time.Second)) {
		t.Errorf("%d of 16 slots were free", taken)
	}
	r.reaches(id, events.StatusCompleted)
	if early := due.Sub(asked); early > 50*time.Millisecond {
		t.Errorf("the model was asked %s before the wait was over", early)
	}
	want := []string{events.FactStarted, events.FactModelFailed, events.FactTimerFired, events.FactModelAnswered, events.FactCompleted}
	if got := r.kinds(id); !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
}

const quoterDocuments = `
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: helper}
spec: {model: scripted, instructions: help, output: {schema: {type: object, properties: {price: {type: number}}, required: [price]}, repairs: 1}}
`

// What an agent reads of the run that it started is the child's output as it was
// accepted: JSON with every digit, or why there is none.
func TestRun_AParentReadsTheOutputThatWasAccepted(t *testing.T) {
	r := newBuiltinRig(t)
	r.defs.apply(t, quoterDocuments)
	r.worker(&script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		switch {
		case !strings.HasPrefix(q.System, "help"):
			return leads(call("delegate", `{"input":"good"}`), call("delegate", `{"input":"bad"}`)).answer(t.Context(), q, 0)
		case len(q.Entries) == 1 || strings.Contains(q.Entries[0].User, "bad"):
			return said("it is about 12"), nil
		}
		return said(`{"price": 12345678901234567890.10}`), nil
	}})
	id := r.start(events.KindAgent, "lead", `{}`)
	r.reaches(id, events.StatusCompleted)
	lines := strings.Split(r.output(id), "\n")
	if len(lines) != 2 || strings.ReplaceAll(lines[0], " ", "") != `{"price":12345678901234567890.10}` || !strings.Contains(lines[1], "output_schema") || strings.Contains(lines[1], `{"price"`) {
		t.Errorf("the parent reads %q", lines)
	}
}
