package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

func TestMatrix_RoleTimesRoute(t *testing.T) {
	t.Parallel()
	r := setup(t)
	doortest.Matrix(t, r.door)
}

func TestRun_QueuedBeforeARunnerHasItAndTheRunnersWordAfter(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.accept("default", "shop", `{"customer":"42"}`)
	got := get[httpapi.Run](r, "GET", "/v1/runs/"+string(id), authn.Viewer, "")
	if got.Status != "queued" || got.Seq != 0 || got.Name != "shop" || string(got.Input) != `{"id":9007199254740993}` || got.Labels["customer"] != "42" {
		t.Errorf("accepted: %+v", got)
	}
	why := get[httpapi.Why](r, "GET", "/v1/runs/"+string(id)+"/why", authn.Viewer, "")
	if !strings.HasPrefix(why.Sentence, "queued: no runner has taken it for ") || !strings.HasSuffix(why.Sentence, "no runner is alive") {
		t.Errorf("why: %s", why.Sentence)
	}
	journal := get[door.Page[events.RunEvent]](r, "GET", "/v1/runs/"+string(id)+"/journal", authn.Viewer, "")
	if len(journal.Items) != 0 {
		t.Errorf("journal: %+v", journal)
	}

	r.take("default", id, "shop", `{"customer":"42"}`)
	got = get[httpapi.Run](r, "GET", "/v1/runs/"+string(id), authn.Viewer, "")
	if got.Status != "running" || got.Seq != 1 {
		t.Errorf("taken: %+v", got)
	}
	list := get[door.Page[httpapi.Run]](r, "GET", "/v1/runs", authn.Viewer, "")
	if len(list.Items) != 1 || list.Items[0].RunID != id || list.Items[0].Input != nil {
		t.Errorf("list: %+v", list)
	}
}

func TestRuns_FiltersAndPages(t *testing.T) {
	t.Parallel()
	r := setup(t)
	var want []events.RunID
	for i := range 7 {
		id := r.accept("default", []string{"a", "b"}[i%2], fmt.Sprintf(`{"n":"%d","all":"yes"}`, i))
		if i < 4 {
			r.take("default", id, []string{"a", "b"}[i%2], fmt.Sprintf(`{"n":"%d","all":"yes"}`, i))
		}
		want = append([]events.RunID{id}, want...)
		time.Sleep(2 * time.Millisecond) // ids of one millisecond have no order
	}
	r.exec(`UPDATE runner.runs SET status = 'failed', error = '{"code":"x","message":"y"}', parent_run_id = $2 WHERE run_id = $1`, want[6], want[0])

	var got []events.RunID
	cursor := ""
	for range 10 {
		page := get[door.Page[httpapi.Run]](r, "GET", "/v1/runs?limit=3&cursor="+cursor, authn.Viewer, "")
		for _, run := range page.Items {
			got = append(got, run.RunID)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	for query, n := range map[string]int{
		"agent=a": 4, "agent=b": 3, "agent=c": 0, "flow=a": 0, "status=queued": 3, "status=failed": 1, "status=running": 3,
		"label=n:5": 1, "label=n:2": 1, "label=all:yes": 7, "label=all:yes&label=n:3": 1, "label=all:no": 0, "parent=" + string(want[0]): 1,
		"agent=a&label=n:2&status=running": 1,
	} {
		if page := get[door.Page[httpapi.Run]](r, "GET", "/v1/runs?"+query, authn.Viewer, ""); len(page.Items) != n {
			t.Errorf("%s: %d runs, want %d", query, len(page.Items), n)
		}
	}
	for query, code := range map[string]string{
		"cursor=!": door.CodeInvalidCursor, "label=x": door.CodeInvalidInput, "status=nice": door.CodeInvalidInput,
		"limit=501": door.CodeInvalidInput, "agent=a&flow=b": door.CodeInvalidInput, "colour=red": door.CodeInvalidInput,
	} {
		if status, _, raw := r.do("GET", "/v1/runs?"+query, doortest.Token(authn.Viewer), ""); status/100 != 4 || !strings.Contains(raw, `"`+code+`"`) {
			t.Errorf("%s: %d %s", query, status, raw)
		}
	}
}

func TestNamespace_NothingOfAnotherIsFound(t *testing.T) {
	t.Parallel()
	r := setup(t)
	accepted := r.accept("default", "shop", `{}`)
	taken := events.NewRunID()
	r.take("default", taken, "shop", `{}`)
	stranger := doortest.TokenIn("other", authn.Admin)
	for _, id := range []events.RunID{accepted, taken} {
		for _, path := range []string{"", "/journal", "/why", "/events"} {
			if status, _, raw := r.do("GET", "/v1/runs/"+string(id)+path, stranger, ""); status != 404 || strings.Contains(raw, "shop") {
				t.Errorf("GET %s: %d %s", path, status, raw)
			}
		}
		for path, body := range map[string]string{"/cancel": "", "/pause": "{}", "/resume": "{}", "/budget": `{"budget":"tokens","to":5}`, "/signal": `{"name":"x"}`} {
			if status, _, raw := r.do("POST", "/v1/runs/"+string(id)+path, stranger, body); status != 404 {
				t.Errorf("POST %s: %d %s", path, status, raw)
			}
		}
		if status, _, _ := r.do("GET", "/ui/runs/"+string(id), stranger, ""); status != 404 {
			t.Errorf("page: %d", status)
		}
	}
	if _, _, raw := r.do("GET", "/v1/runs", stranger, ""); !strings.Contains(raw, `"items":[]`) {
		t.Errorf("list: %s", raw)
	}
	if status, _, _ := r.do("GET", "/v1/runs/"+string(events.NewRunID()), doortest.Token(authn.Viewer), ""); status != 404 {
		t.Errorf("unknown run: %d", status)
	}
	var n int
	if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM console.commands`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d commands were kept, %v", n, err)
	}
}

func TestWhy_NamesTheApprovalAndTheTool(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)
	r.step(id, "waiting", false)
	r.exec(`INSERT INTO runner.pending (run_id, namespace, item, kind, detail) VALUES ($1, 'default', 'approval/' || $1 || '-2-0-a2', 'approval', 'propose_price'),
		($1, 'default', 'call/' || $1 || '-2-1', 'tool', 'fetch_page')`, id)
	r.exec(`INSERT INTO tools.workers (name, beat, fresh_since) VALUES ('tools-1', clock_timestamp(), clock_timestamp())`)
	why := get[httpapi.Why](r, "GET", "/v1/runs/"+string(id)+"/why", authn.Viewer, "")
	if len(why.Waits) != 2 || why.Waits[0].ID != string(id)+"-2-0-a2" || why.Waits[1].Name != "fetch_page" || why.Since == nil {
		t.Errorf("waits: %+v", why)
	}
	if want := "waiting for a person to approve propose_price since "; !strings.HasPrefix(why.Sentence, want) || !strings.Contains(why.Sentence, "; and waiting for tool fetch_page since ") {
		t.Errorf("sentence: %s", why.Sentence)
	}
	if _, err := r.db.Exec(t.Context(), `INSERT INTO tools.stops (stop_id, namespace, scope, name, note, principal, ended_at, ended_by)
		VALUES ('s1', 'default', 'tool', 'pay', 'wrong prices', 'maria', NULL, NULL), ('s2', 'other', 'all', '', 'n', 'x', NULL, NULL),
		       ('s3', 'default', 'all', '', 'n', 'x', clock_timestamp(), 'x')`); err != nil {
		t.Fatal(err)
	}
	system := get[httpapi.System](r, "GET", "/v1/system", authn.Viewer, "")
	if len(system.Stops) != 1 || system.Stops[0].ID != "s1" || system.Stops[0].By != "maria" || system.Stops[0].Note != "wrong prices" {
		t.Errorf("stops: %+v", system.Stops)
	}
	if len(system.Workers) != 1 || system.Workers[0].Service != "tools" || len(system.Streams) != 6 || system.StreamsError != "" {
		t.Errorf("system: %+v", system)
	}
}

// A call that no worker has seen has the pool of the tool that its run pinned.
// Where nobody works for it, the run says so; else it says how many are before.
func TestWhy_NamesThePoolWithoutAWorker(t *testing.T) {
	t.Parallel()
	r := setup(t)
	pinned, now := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	r.exec(`INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by) VALUES
		('default', 'tool', 'render', $1, '{"spec":{"pool":"gpu"}}', 'x'), ('default', 'tool', 'render', $2, '{"spec":{"pool":"gpu2"}}', 'x')`, pinned, now)
	r.exec(`INSERT INTO catalog.current (namespace, kind, name, digest, version, updated_by) VALUES ('default', 'tool', 'render', $1, 1, 'x')`, pinned)
	r.exec(`INSERT INTO tools.workers (name, beat, fresh_since, detail) VALUES ('tools-1', clock_timestamp(), clock_timestamp(), 'default,callbacks')`)
	var last string
	for range 3 {
		id := events.NewRunID()
		r.take("default", id, "shop", `{}`)
		r.exec(`UPDATE runner.journal SET data = json_build_object('tools', json_build_array(json_build_object('name', 'render', 'digest', $2::text))) WHERE run_id = $1 AND seq = 1`, id, pinned)
		r.exec(`INSERT INTO runner.pending (run_id, namespace, item, kind, detail) VALUES ($1, 'default', 'call/' || $1 || '-2-0', 'tool', 'render')`, id)
		last = string(id)
	}
	r.exec(`UPDATE runner.runs SET status = 'waiting'`)
	says := func(want string) {
		t.Helper()
		why := get[httpapi.Why](r, "GET", "/v1/runs/"+last+"/why", authn.Viewer, "")
		if !strings.HasSuffix(why.Sentence, want) {
			t.Errorf("it says %q, want %q at its end", why.Sentence, want)
		}
	}
	says(", no worker for pool gpu")
	r.exec(`INSERT INTO tools.workers (name, beat, fresh_since, detail) VALUES ('tools-2', clock_timestamp(), clock_timestamp(), 'gpu')`)
	says(", queued behind 2 in pool gpu")
	if system := get[httpapi.System](r, "GET", "/v1/system", authn.Viewer, ""); len(system.Workers) != 2 || len(system.Workers[0].Pools) != 2 || len(system.Workers[1].Pools) != 1 {
		t.Errorf("workers %+v", system.Workers)
	}
}

func TestCommand_OnceThroughTheBusUntilItLanded(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)

	got := make(chan events.Received, 100)
	c, err := r.bus.Consume(t.Context(), consumption(func(_ context.Context, m events.Received) error {
		got <- m
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop consumer: %v", err)
		}
	})

	type answer struct {
		CommandID string `json:"command_id"`
		RunID     string `json:"run_id"`
	}
	path := "/v1/runs/" + string(id)
	first := get[answer](r, "POST", path+"/pause", authn.Operator, `{"reason":"look"}`, "Idempotency-Key", "k1")
	status, header, raw := r.do("POST", path+"/pause", doortest.Token(authn.Operator), `{"reason":"look"}`, "Idempotency-Key", "k1")
	if status != 202 || !strings.Contains(raw, first.CommandID) || header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("repeat: %d %s", status, raw)
	}
	if status, _, raw := r.do("POST", path+"/cancel", doortest.Token(authn.Operator), ``, "Idempotency-Key", "k1"); status != 409 || !strings.Contains(raw, httpapi.CodeKeyReused) {
		t.Errorf("another command under the key: %d %s", status, raw)
	}
	var m events.Received
	select {
	case m = <-got:
	case <-time.After(20 * time.Second):
		t.Fatal("the command did not arrive")
	}
	var body events.Command
	if err := events.Decode(m.Message, &body); err != nil {
		t.Fatal(err)
	}
	want := events.Command{ID: first.CommandID, RunID: id, Principal: "operator", Reason: "look", Place: 1}
	if diff := cmp.Diff(want, body); diff != "" || m.ID != "command:"+first.CommandID || m.Subject != events.RunSubject(id, events.RunPause) || m.Namespace != "default" {
		t.Errorf("message %s %s (-want +got):\n%s", m.ID, m.Subject, diff)
	}

	signal := get[answer](r, "POST", path+"/signal", authn.Operator, `{"name":"price","data":{"id":9007199254740993}}`)
	m = <-got
	if m.ID != "signal:"+signal.CommandID || m.Type != events.TypeSignalRun || !strings.Contains(string(m.Data), "9007199254740993") {
		t.Errorf("signal: %s %s", m.ID, m.Data)
	}
	get[answer](r, "POST", path+"/budget", authn.Admin, `{"budget":"pool:night","to":500000}`)
	if m = <-got; !strings.Contains(string(m.Data), `"budget":"pool:night","to":500000,"place":2`) {
		t.Errorf("budget: %s", m.Data)
	}

	// The runner records the first two; only then are they finished.
	r.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data) VALUES
		($1, 2, 'paused', 'paused', $2, true, 'w', clock_timestamp(), '{}'), ($1, 3, 'signal_received', 'paused', $3, true, 'w', clock_timestamp(), '{}')`,
		id, "command:"+first.CommandID, "signal:"+signal.CommandID)
	eventually(t, "two commands have landed and one has not", func() bool {
		var landed, open int
		if err := r.db.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE landed_at IS NOT NULL), count(*) FILTER (WHERE landed_at IS NULL AND announced_at IS NOT NULL) FROM console.commands`).Scan(&landed, &open); err != nil {
			t.Fatal(err)
		}
		return landed == 2 && open == 1
	})
	// What the runner never recorded is announced again under a fresh message id.
	r.exec(`UPDATE console.commands SET next_announce_at = clock_timestamp() WHERE landed_at IS NULL`)
	select {
	case m = <-got:
		if m.MsgID != m.ID+":n1" {
			t.Errorf("repeat has the message id %s", m.MsgID)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the command was not announced again")
	}
}

func TestCommand_ConcurrentRepeatsAreOne(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.accept("default", "shop", `{}`) // no runner has it yet
	answers := make(chan string, 20)
	for range 20 {
		go func() {
			status, _, raw := r.do("POST", "/v1/runs/"+string(id)+"/cancel", doortest.Token(authn.Operator), "", "Idempotency-Key", "same")
			answers <- fmt.Sprint(status, raw)
		}()
	}
	first := <-answers
	if !strings.HasPrefix(first, "202") {
		t.Errorf("answer %s", first)
	}
	for range 19 {
		if got := <-answers; got != first {
			t.Errorf("answers differ: %s and %s", first, got)
		}
	}
	r2 := events.NewRunID()
	r.take("default", r2, "shop", `{}`)
	r.step(r2, "completed", false)
	if status, _, raw := r.do("POST", "/v1/runs/"+string(r2)+"/cancel", doortest.Token(authn.Operator), ""); status != 409 || !strings.Contains(raw, httpapi.CodeRunEnded) {
		t.Errorf("an ended run takes a command: %d %s", status, raw)
	}
}

func TestDatabaseAway_Is503AndNATSAwayIsNot(t *testing.T) {
	t.Parallel()
	db := pgtest.NewServer(t)
	schemas, err := pgtest.Schemas()
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Migrate(t.Context(), db.URL(), schemas); err != nil {
		t.Fatal(err)
	}
	super, err := pg.Open(t.Context(), pg.Config{URL: db.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(super.Close)
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL(), Role: "holdfast_console"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	nats := bustest.NewServer(t)
	r := start(t, super, pool, nats.Connect(t))
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)
	path := "/v1/runs/" + string(id)

	nats.Stop()
	if status, _, raw := r.do("POST", path+"/pause", doortest.Token(authn.Operator), ""); status != 202 {
		t.Errorf("without the bus: %d %s", status, raw)
	}
	if status, _, raw := r.do("GET", "/v1/system", doortest.Token(authn.Viewer), ""); status != 200 || !strings.Contains(raw, "streams_error") {
		t.Errorf("system without the bus: %d %s", status, raw)
	}

	db.Stop()
	for _, req := range [][2]string{{"GET", path}, {"GET", "/v1/runs"}, {"POST", path + "/cancel"}, {"GET", path + "/events"}, {"GET", "/"}} {
		status, header, raw := r.do(req[0], req[1], doortest.Token(authn.Operator), "")
		if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || strings.Contains(raw, "postgres") {
			t.Errorf("%s %s without the database: %d, Retry-After %q: %s", req[0], req[1], status, header.Get("Retry-After"), raw)
		}
	}
	db.Start()
	eventually(t, "the database is used again", func() bool {
		status, _, _ := r.do("GET", path, doortest.Token(authn.Viewer), "")
		return status == 200
	})
	nats.Start()
	eventually(t, "the command is announced when the bus is back", func() bool {
		var announced bool
		return super.QueryRow(t.Context(), `SELECT bool_and(announced_at IS NOT NULL) FROM console.commands`).Scan(&announced) == nil && announced
	})
}
