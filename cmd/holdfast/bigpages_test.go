package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/bigtest"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/client"
)

const (
	// slowPage is what a page may take on a large database.
	slowPage = 200 * time.Millisecond
	// mostBuffers is how many pages of 8 KiB a statement of it may touch there; in memory
	// a thousand take about a millisecond. Also what services do beside is held to it.
	mostBuffers = 8000
	// fewBuffers is that for the small database, whose larger tables have more rows.
	fewBuffers = 1000
	// menuBuffers is that for the numbers of the menu, of any database: 2,000 rows are
	// looked at for each, and a session that counts for the first time plans them.
	menuBuffers = 4000
)

// What stands in the place of a path's parameter, by the path: each query gives one or
// more. A page with a parameter that is not here fails the test.
var idsOfPages = map[string]string{
	"/ui/runs/{id}": `(SELECT run_id FROM runner.runs ORDER BY seq DESC, run_id LIMIT 1) UNION ALL
		(SELECT run_id FROM runner.runs WHERE kind = 'flow' AND status IN ('running', 'waiting') ORDER BY run_id LIMIT 1) UNION ALL
		(SELECT run_id FROM runner.runs WHERE status = 'waiting' AND kind = 'agent' ORDER BY run_id DESC LIMIT 1) UNION ALL
		(SELECT run_id FROM runner.runs WHERE status = 'failed' ORDER BY run_id DESC LIMIT 1)`,
	"/ui/definitions/{kind}/{name}": `SELECT DISTINCT ON (kind) kind || '/' || name FROM catalog.current ORDER BY kind, name`,
	"/ui/start/{kind}/{name}":       `SELECT DISTINCT ON (kind) kind || '/' || name FROM catalog.current WHERE kind IN ('agent', 'flow') ORDER BY kind, name`,
	"/ui/runs/{id}/rows/{seq}":      `SELECT run_id || '/rows/2' FROM runner.runs ORDER BY seq DESC, run_id LIMIT 1`,
	"/ui/approvals/{id}":            `(SELECT approval_id FROM approvals.requests WHERE state = 'pending' ORDER BY 1 LIMIT 1) UNION ALL (SELECT approval_id FROM approvals.requests WHERE state = 'approved' ORDER BY 1 LIMIT 1)`,
	"/ui/effects/{id}":              `(SELECT effect_id FROM tools.effects WHERE state = 'unknown' ORDER BY 1 LIMIT 1) UNION ALL (SELECT effect_id FROM tools.effects WHERE state = 'succeeded' ORDER BY 1 LIMIT 1)`,
	"/ui/stops/{id}":                `SELECT stop_id FROM tools.stops ORDER BY stop_id LIMIT 1`,
	"/ui/webhooks/{name}":           `SELECT webhook FROM trigger.attempts ORDER BY attempt_id LIMIT 1`,
	"/ui/triggers/schedules/{name}": `SELECT 'schedule-1'`,
	"/ui/triggers/deliveries/{id}":  `SELECT attempt_id::text FROM trigger.attempts ORDER BY attempt_id LIMIT 1`,
}

// Lists are also read as people narrow them.
var narrowed = map[string][]string{
	"/": {"?status=expired", "?status=waiting&status=paused", "?cost=100000", "?text=nothing-has-this", "?text=competitor&status=failed", "?label=customer:42", "?trigger=webhook&source=stripe",
		"?from=40d&to=30d", "?agent=refund-triage&status=failed", "?text=00000000", "?cost=1&label=shop:shop-7&from=50d"},
	"/ui/budgets":             {"?by=flow", "?by=model", "?by=trigger", "?by=day", "?by=label&label=customer"},
	"/ui/effects":             {"?state=in_doubt", "?state=failed&tool=set_price", "?key=price/7/2", "?text=nothing-has-this", "?twice=1", "?to=2020-01-01"},
	"/ui/triggers/deliveries": {"?webhook=stripe", "?outcome=rejected", "?webhook=stripe&outcome=duplicate&from=2020-01-01"},
	"/ui/audit":               {"?actor=nobody"},
}

// TestPages_OnALargeDatabase reads every page of every door. None may read one of the
// large tables from end to end, and no statement may touch many buffers; with HOLDFAST_BIG_RUNS, a database of that many runs is
// made and each page is read thirty times within its time: see "make big".
func TestPages_OnALargeDatabase(t *testing.T) {
	t.Parallel()
	size, rounds := bigtest.Size{Runs: 600, Rows: 12_000, Long: 3000}, 1
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_BIG_RUNS")); err == nil && n > 0 {
		size, rounds = bigtest.Size{Runs: n, Rows: 50 * n, Long: n}, 30
		if rows, err := strconv.Atoi(os.Getenv("HOLDFAST_BIG_ROWS")); err == nil {
			size.Rows = rows
		}
	}
	url := os.Getenv("HOLDFAST_BIG_DATABASE_URL") // one that was filled before, or is to stay
	if url == "" {
		url = pgtest.New(t).URL.Reveal()
	}
	nats := bustest.NewServer(t)
	env := []string{"HOLDFAST_DATABASE_URL=" + url, "HOLDFAST_NATS_URL=" + nats.URL().Reveal(), "HOLDFAST_ADMIN_TOKEN=" + adminToken}
	if text, code := output(t, env, "migrate"); code != 0 {
		t.Fatalf("migrate: exit %d\n%s", code, text)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	var filled bool
	if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM runner.runs)`).Scan(&filled); err != nil {
		t.Fatal(err)
	}
	if !filled {
		began := time.Now()
		bigtest.Fill(t, conn, size)
		if rounds > 1 {
			exec("VACUUM ANALYZE")
			t.Logf("filled in %s", time.Since(began).Round(time.Second))
		}
	}
	if rounds == 1 {
		// The tables are small here: whoever reads one from end to end has no other way.
		exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET enable_seqscan = off', current_database()); END $$`)
	}
	front := free(t)
	serve := func(env ...string) *server {
		t.Helper()
		return start(t, env, "msg=ready", "serve", "console", "trigger", "tools", "approvals", "--listen", front, "--health-listen", free(t))
	}
	ended := func(s *server) {
		t.Helper()
		s.stop(syscall.SIGTERM) // its sessions report what they have read when they end
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			var sessions int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&sessions); err != nil {
				t.Fatal(err)
			}
			if sessions == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d sessions stay", sessions)
			}
		}
	}
	exec(bigtest.Listen)
	over, readings := bigtest.Hear(t, url)
	heard := serve(append([]string{"HOLDFAST_DATABASE_URL=" + over}, env[1:]...)...)
	{
		docs, err := readDefinitions([]string{example(t)})
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, client.Document{File: "fired.yaml", Text: "apiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: schedule-1}\nspec: {cron: \"0 2 1 1 *\", flow: competitor-night, input: {night: x, competitors: []}}\n"})
		if _, err := remote(t, "http://"+front, adminToken).Apply(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	paths := pagePaths(t, conn)
	exec("SELECT pg_stat_force_next_flush()") // what this session has read itself
	exec("SELECT pg_stat_reset()")
	if len(paths) < 12 {
		t.Fatalf("%d pages", len(paths))
	}
	bound, reads, heardAll := mostBuffers, 2, 0
	if rounds == 1 {
		bound, reads = fewBuffers, 1
	}
	for _, path := range paths {
		for range reads {
			status, raw := getPage(t, "http://"+front+path)
			if status != http.StatusOK {
				t.Errorf("GET %s: %d %.300s", path, status, raw)
			}
			if strings.Contains(raw, `<nav class="nav"`) && !strings.Contains(raw, ` running</span></span></a>`) {
				t.Errorf("GET %s: the menu has no numbers before its script brings them", path)
			}
		}
		most, all := bigtest.Statement{}, 0
		for _, s := range readings.Take() {
			all += s.Buffers
			if strings.Contains(s.SQL, "catalog.menu(") {
				if s.Buffers > menuBuffers {
					t.Errorf("GET %s: the numbers of the menu touch %d buffers, more than %d", path, s.Buffers, menuBuffers)
				}
			} else if s.Buffers > most.Buffers {
				most = s
			}
		}
		if rounds > 1 {
			t.Logf("GET %s, %d times: %d buffers, at most %d in one statement: %.120s", path, reads, all, most.Buffers, strings.Join(strings.Fields(most.SQL), " "))
		}
		if heardAll += all; most.Buffers > bound {
			t.Errorf("GET %s: a statement touches %d buffers, more than %d: %s\n%s", path, most.Buffers, bound, most.SQL, most.Plan)
		}
	}
	if heardAll < len(paths) {
		t.Errorf("all pages have touched %d buffers: nothing is heard", heardAll)
	}
	ended(heard)
	if rounds > 1 {
		exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET session_preload_libraries', current_database()); END $$`)
		timed := serve(env...)
		for _, path := range paths {
			timePage(t, "http://"+front, path, rounds)
		}
		ended(timed)
	}
	rows, err := conn.Query(t.Context(), `SELECT format('%s.%s: %s times, %s rows', schemaname, relname, seq_scan, seq_tup_read) FROM pg_stat_user_tables
		WHERE seq_scan > 0 AND format('%s.%s', schemaname, relname) IN ('runner.runs', 'runner.journal', 'runner.pending', 'tools.calls', 'tools.effects', 'tools.receipts', 'tools.artifacts', 'approvals.requests', 'approvals.decisions', 'approvals.notices', 'trigger.deliveries', 'trigger.announcements', 'trigger.attempts', 'trigger.fires', 'console.commands') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	read, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range read {
		if rounds == 1 {
			t.Errorf("a page reads from end to end %s", table)
		} else {
			t.Logf("read from end to end: %s", table)
		}
	}
}

// timePage reads a page so many times, one after the other.
func timePage(t *testing.T, front, path string, rounds int) {
	t.Helper()
	took := make([]time.Duration, 0, rounds)
	for range rounds {
		began := time.Now()
		if status, raw := getPage(t, front+path); status != http.StatusOK {
			t.Errorf("GET %s: %d %.300s", path, status, raw)
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	p50, p95, most := took[len(took)/2], took[len(took)*95/100], took[len(took)-1]
	t.Logf("| `%s` | %.1f | %.1f | %.1f |", path, ms(p50), ms(p95), ms(most))
	if p95 > slowPage {
		t.Errorf("GET %s takes %s, more than %s", path, p95, slowPage)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// pagePaths are the paths of all pages of all doors, with ids of the database in them.
func pagePaths(t *testing.T, conn *pgx.Conn) (paths []string) {
	t.Helper()
	for _, name := range doorServices {
		for _, r := range emptyDoors(nil)[name].Routes() {
			path := strings.TrimSuffix(r.Pattern, "{$}")
			if r.Method != http.MethodGet || path != "/" && !strings.HasPrefix(path, "/ui/") || strings.HasSuffix(path, ".css") || strings.HasSuffix(path, ".js") || strings.HasSuffix(path, ".svg") || path == "/ui/live" || strings.HasPrefix(path, "/ui/sign-in/") || strings.HasSuffix(path, "/events") {
				continue
			}
			if !strings.Contains(path, "{") {
				paths = append(paths, path)
				for _, query := range narrowed[path] {
					paths = append(paths, path+query)
				}
				continue
			}
			paths = append(paths, filledIn(t, conn, path)...)
		}
	}
	slices.Sort(paths)
	return paths
}

// filledIn puts ids in the place of the parameters of a path.
func filledIn(t *testing.T, conn *pgx.Conn, path string) (paths []string) {
	t.Helper()
	for known, query := range idsOfPages {
		rest, ok := strings.CutPrefix(path, known)
		if !ok || strings.Contains(rest, "{") {
			continue
		}
		before, _, _ := strings.Cut(known, "{")
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) == 0 {
			t.Errorf("the database has nothing for the page %s", path)
		}
		for _, id := range ids {
			paths = append(paths, before+id+rest)
		}
		return paths
	}
	t.Errorf("the page %s needs an id: say in idsOfPages where it comes from", path)
	return nil
}

func getPage(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(fmt.Errorf("read %s: %w", url, err))
	}
	_ = res.Body.Close()
	return res.StatusCode, string(raw)
}
