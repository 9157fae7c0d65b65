package trigger_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// payload is a body of testdata/payloads.
func payload(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "payloads", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whole deliveries of senders, each sent to both replicas at once and again later:
// one run each, with the body as it came, and repeats known as each sender lets
// them be.
func TestCaseA01_Payloads(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hooks(
		hook("stripe", "provider: stripe, secrets: [{env: SENDER_SECRET}], agent: anything"),
		hook("slack", "provider: slack, secrets: [{env: SENDER_SECRET}], agent: anything"),
		hook("alerts", `provider: alertmanager, secrets: [{env: SENDER_SECRET}], agent: anything, dedupe: "${body.groupKey}/${body.status}/${body.alerts[0].startsAt}"`),
		hook("byheader", `provider: none, agent: anything, dedupe: "${headers.x-request-key}"`),
		hook("crm", `provider: hubspot, secrets: [{env: SENDER_SECRET}], publicURL: "`+hubspotURL+`", agent: anything`)))
	r := w.pair(t)
	issue, refund := payload(t, "github_issues_opened.json"), payload(t, "stripe_refund_created.json")
	alert, action := payload(t, "alertmanager_webhook.json"), payload(t, "slack_block_actions_approval.json")
	form := "payload=" + url.QueryEscape(action)
	for name, tc := range map[string]struct {
		path, body, input string
		header            func() []string
	}{
		"github": {"/hooks/github", issue, issue, func() []string { return github("guid-9", jsonType, issue) }},
		"github as a form": {"/hooks/github", "payload=" + url.QueryEscape(issue), issue, func() []string {
			return github("guid-10", formType, "payload="+url.QueryEscape(issue))
		}},
		"stripe": {"/hooks/stripe", refund, refund, func() []string { // signed anew at each attempt
			return append(senders()["stripe"].header("", refund, time.Now().Add(-time.Second)), "Content-Type", jsonType)
		}},
		"slack": {"/hooks/slack", form, action, func() []string {
			return append(senders()["slack"].header("", form, time.Now()), "Content-Type", formType)
		}},
		"alertmanager": {"/hooks/alerts", alert, alert, func() []string {
			return append(senders()["alertmanager"].header("", alert, time.Now()), "Content-Type", jsonType)
		}},
		"a key in a header": {"/hooks/byheader", `{"sent_at":1}`, `{"sent_at":1}`, func() []string { return []string{"X-Request-Key", "k1"} }},
	} {
		answers := make([]answer, 2)
		var both sync.WaitGroup
		for i := range answers {
			both.Go(func() { answers[i] = r.post(tc.path, tc.body, tc.header()...) })
		}
		both.Wait()
		answers = append(answers, r.post(tc.path, tc.body, tc.header()...))
		repeats := 0
		for _, a := range answers {
			accepted(t, a)
			if a.RunID != answers[0].RunID {
				t.Errorf("%s: runs %s and %s", name, a.RunID, answers[0].RunID)
			}
			if a.header.Get("Idempotency-Replayed") == "true" {
				repeats++
			}
		}
		if got := w.input(t, answers[0].RunID); repeats != 2 || got != tc.input {
			t.Errorf("%s: %d repeats are marked, want 2; the input has %d bytes, sent were %d", name, repeats, len(got), len(tc.input))
		}
	}
	leads := payload(t, "crm_lead_events.json")
	first := batch(t, r.hubspot("crm", leads))
	if len(first.Runs) != 4 || !first.Runs[3].Duplicate || first.Runs[3].RunID != first.Runs[0].RunID || first.Runs[0].RunID == first.Runs[1].RunID {
		t.Errorf("crm: %+v", first)
	}
	if got := w.input(t, first.Runs[0].RunID); !strings.Contains(got, "9007199254740993") {
		t.Errorf("crm: input %s", got)
	}
	for i, again := range batch(t, r.hubspot("crm", leads)).Runs {
		if !again.Duplicate || again.RunID != first.Runs[i].RunID {
			t.Errorf("crm: event %d of the list that is sent again: %+v", i, again)
		}
	}
	if n := w.count(t, "trigger.deliveries"); n != 6+3 {
		t.Errorf("%d deliveries, want 9", n)
	}
}

// How old a signed time may be is the webhook's own.
func TestCaseA08_Tolerance(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hooks(hook("patient", "provider: standard, secrets: [{env: HOOK_SECRET}], agent: anything, tolerance: 15m"),
		hook("strict", "provider: standard, secrets: [{env: HOOK_SECRET}], agent: anything, tolerance: 1m")))
	r := w.pair(t)
	for n, tc := range []struct {
		path string
		off  time.Duration
		want int
	}{
		{"/hooks/patient", -10 * time.Minute, 202}, {"/hooks/patient", 10 * time.Minute, 202}, {"/hooks/patient", -16 * time.Minute, 401},
		{"/hooks/strict", -30 * time.Second, 202}, {"/hooks/strict", -4 * time.Minute, 401}, {"/hooks/strict", 4 * time.Minute, 401},
	} {
		if a := r.post(tc.path, `{}`, signed(fmt.Sprint("m", n), `{}`, time.Now().Add(tc.off))...); a.status != tc.want {
			t.Errorf("%s at %s: %d %s, want %d", tc.path, tc.off, a.status, a.body, tc.want)
		}
	}
}

// Two replicas take a stream of deliveries while NATS goes and comes back: each
// 2xx is one run, and there is no other.
func TestCaseA11_EveryAnswerBecomesOneRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	var mu sync.Mutex
	answered := map[string]bool{}
	var stop atomic.Bool
	var senders sync.WaitGroup
	for s := range 4 {
		senders.Go(func() {
			for i := 0; !stop.Load(); i++ {
				a := r.post("/hooks/orders", order, signed(fmt.Sprintf("m-%d-%d", s, i), order, time.Now())...)
				if a.status != http.StatusAccepted {
					t.Errorf("%d %s", a.status, a.body)
					return
				}
				mu.Lock()
				answered[a.RunID] = true
				mu.Unlock()
				time.Sleep(40 * time.Millisecond) // 100 a second of all
			}
		})
	}
	enough := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(answered) >= n
		}
	}
	until(t, "deliveries before", enough(30))
	w.nats.Stop()
	until(t, "deliveries without NATS", enough(130))
	w.nats.Start()
	until(t, "deliveries after", enough(160))
	stop.Store(true)
	senders.Wait()
	starts := w.collect(t, true)
	until(t, "every start to land", func() bool { return w.count(t, "trigger.announcements WHERE landed_at IS NULL") == 0 })
	seen := map[string]bool{}
	for _, m := range starts.all() {
		seen[m.About] = true
		if !answered[m.About] {
			t.Errorf("run %s was never answered", m.About)
		}
	}
	if n := w.count(t, "trigger.deliveries"); len(seen) != len(answered) || n != len(answered) {
		t.Errorf("%d answers, %d rows, %d runs", len(answered), n, len(seen))
	}
}

// A wall time that the clocks skip fires once with two replicas, by the name that
// was asked for.
func TestCaseB01_TwoReplicasFireAGapOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, `apiVersion: holdfast/v1
kind: Schedule
metadata: {name: spring}
spec: {cron: "30 2 * 3 0#2", timeZone: America/New_York, agent: anything, input: {time: "${schedule.time}", at: "${schedule.at}"}}
`)
	r := w.pair(t)
	w.hands(t, 1)
	// The last second Sunday of March: its 02:30 was at 07:30 UTC.
	now := time.Now().UTC()
	day := func(year int) time.Time {
		d := time.Date(year, 3, 8, 7, 30, 0, 0, time.UTC)
		return d.AddDate(0, 0, int(7-d.Weekday())%7)
	}
	at := day(now.Year())
	if at.After(now) {
		at = day(now.Year() - 1)
	}
	starts := w.collect(t, true)
	// It is months ago: a backfill names it as on the day, at either replica.
	for range 2 {
		a := r.api(operator, "POST", "/v1/schedules/spring/backfill", fmt.Sprintf(`{"from":%q,"to":%q}`, at.Add(-time.Hour).Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)))
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	got := starts.exactly(t, 1)[0]
	if want := fmt.Sprintf(`{"at":%q,"time":"02:30"}`, at.Format(time.RFC3339)); string(got.Input) != want || got.Trigger.ID != at.Format("2006-01-02")+"T02:30/0" {
		t.Errorf("input %s of the fire %s, want %s", got.Input, got.Trigger.ID, want)
	}
}

// A run that waits for a person has not ended: the next tick is skipped, and so is
// "run now".
func TestCaseB06_WaitingForAPersonCounts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, scheduleDoc("busy", past(), ""))
	r := w.pair(t)
	w.hands(t, 1)
	first := r.api(operator, "POST", "/v1/schedules/busy/trigger", "")
	accepted(t, first)
	w.exec(t, `INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at)
		VALUES ($1, 'default', 'agent', 'anything', 'sha256:x', 'waiting', 2, '{}', '{}', clock_timestamp() - interval '6 h')`, first.RunID)
	w.moveHands(t, past())
	until(t, "the tick", func() bool { return len(r.history("busy")) == 2 })
	if f := r.history("busy")[0]; f.State != "skipped" || f.Reason != "overlap" || !strings.Contains(f.Detail, first.RunID) {
		t.Errorf("the tick %+v", f)
	}
	if a := r.api(operator, "POST", "/v1/schedules/busy/trigger", ""); a.status != http.StatusConflict || !strings.Contains(a.Detail, first.RunID) {
		t.Errorf("run now: %d %s", a.status, a.body)
	}
	w.exec(t, `UPDATE runner.runs SET status = 'completed', ended_at = clock_timestamp() WHERE run_id = $1`, first.RunID)
	accepted(t, r.api(operator, "POST", "/v1/schedules/busy/trigger", ""))
}

// 29 February is good and shows the next leap year.
func TestCaseB08_LeapDay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, "apiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: leap}\nspec: {cron: \"0 0 29 2 *\", agent: anything}\n")
	r := w.pair(t)
	next := r.schedule("leap").Next
	year := time.Now().UTC().Year()
	for year%4 != 0 || year%100 == 0 && year%400 != 0 || time.Date(year, 2, 29, 0, 0, 0, 0, time.UTC).Before(time.Now()) {
		year++
	}
	if len(next) == 0 || next[0].Nominal != fmt.Sprintf("%d-02-29T00:00", year) {
		t.Errorf("next %+v, want 29 February %d", next, year)
	}
}
