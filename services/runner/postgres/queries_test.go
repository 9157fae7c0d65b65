package postgres

import (
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// Every statement prepares against the migrated schema with the service's own
// role, so a missing column or right is found here.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Open(t, "holdfast_runner")
	if err := pg.PrepareAll(t.Context(), pool, map[string]string{
		"loadHead": loadHead, "loadAll": loadAll, "loadPast": loadPast, "loadRuns": loadRuns, "loadRows": loadRows, "rowsOf": rowsOf, "createRun": createRun, "commitRuns": commitRuns, "findCommits": findCommits, "createStarting": createStarting, "belowRoot": belowRoot,
		"claimFree": claimFree, "takeOver": takeOver, "releaseClaim": releaseClaim,
		"ensurePool": ensurePool, "reserve": reserve, "poolNow": poolNow, "insertAlert": insertAlert, "insertRefusal": insertRefusal, "settleOne": settleOne, "claimedByAnother": claimedByAnother,
		"raisePool": raisePool, "keepPause": keepPause, "dropPause": dropPause, "pausedPools": pausedPools, "wakePaused": wakePaused, "dueAlerts": dueAlerts, "markAlerts": markAlerts,
		"takeLane": takeLane, "lockKeys": lockKeys, "seeKeys": seeKeys, "insertSlots": insertSlots, "replaceOthers": replaceOthers, "nextSlots": nextSlots,
		"keysOf": keysOf, "grantSlots": grantSlots, "dropKeys": dropKeys, "untoldSlots": untoldSlots, "freeSlots": freeSlots, "knowsSlots": knowsSlots, "takeTurn": takeTurn, "settleTurn": settleTurn, "awaitPool": awaitPool, "leavePool": leavePool, "wakeWaits": wakeWaits,
		"takeTimers": takeTimers, "nextTimer": nextTimer, "takeNudges": takeNudges, "putBackTimers": putBackTimers, "putBackNudges": putBackNudges, "reject": reject, "insertOwnAlert": insertOwnAlert, "parkDamaged": parkDamaged,
		"insertNotice": insertNotice, "refOf": refOf, "dueNotices": dueNotices, "announcedNotices": announcedNotices, "landedNotices": landedNotices, "deleteTrees": deleteTrees, "forgetSpend": forgetSpend,
	}); err != nil {
		t.Fatal(err)
	}
}

// The journal is append-only, also for its own service; nobody else writes it,
// and the trigger reads no more of it than the events of runs that the API started.
func TestRoles(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for role, statements := range map[string][]string{
		"holdfast_runner":    {`UPDATE runner.journal SET data = '{}'`, `DELETE FROM runner.journal`, `SELECT 1 FROM tools.effects`},
		"holdfast_trigger":   {`SELECT data FROM runner.journal`, `SELECT data FROM runner.v_events`, `SELECT 1 FROM runner.v_runs`, `INSERT INTO runner.runs DEFAULT VALUES`},
		"holdfast_tools":     {`SELECT 1 FROM runner.journal`, `UPDATE runner.runs SET status = 'completed'`},
		"holdfast_approvals": {`SELECT 1 FROM runner.journal`, `UPDATE runner.runs SET status = 'completed'`},
		"holdfast_console":   {`SELECT 1 FROM runner.journal`, `UPDATE runner.runs SET status = 'completed'`},
	} {
		pool := db.Open(t, role)
		for _, sql := range statements {
			if _, err := pool.Exec(t.Context(), sql); err == nil {
				t.Errorf("%s may: %s", role, sql)
			}
		}
	}
}

// What is old enough to forget, and what is due, is found by its place in an index: a
// sweep reads nothing of what stays.
func TestSweeps_ReadOnlyWhatIsDue(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, tc := range map[string]struct {
		plan, column string
	}{
		"runs that ended":         {db.Plan(t, endedBefore, 1000, time.Time{}, "", 10), "ended_at"},
		"deletions to forget":     {db.Plan(t, forgetDeleted, 1000, 10), "purged_at"},
		"what was spent":          {db.Plan(t, forgetSpend, 1000, 10), "hour"},
		"timers that are due":     {db.Plan(t, takeTimers, 10), "next_try"},
		"what is asked about now": {db.Plan(t, takeNudges, 10), "next_nudge"},
	} {
		if !regexp.MustCompile(`Index Cond: .*\b` + tc.column + ` <`).MatchString(tc.plan) {
			t.Errorf("%s:\n%s", name, tc.plan)
		}
	}
}
