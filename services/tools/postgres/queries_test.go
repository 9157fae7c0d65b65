package postgres

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Every query parses against the migrated schema, as the service's own role.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	err := pg.PrepareAll(t.Context(), db.Open(t, "holdfast_tools"), map[string]string{
		"getCall": getCallSQL, "lockEffect": lockEffectSQL, "loadEffect": loadEffectSQL, "lookCalls": lookCallsSQL, "lookEffects": lookEffectsSQL, "lookAround": lookAroundSQL, "openMany": openManySQL, "settleMany": settleManySQL, "answerMany": answerManySQL,
		"runFacts": runFactsSQL, "holdsEffect": holdsEffectSQL, "holdsCall": holdsCallSQL, "answered": answeredSQL,
		"beginEffect": beginEffectSQL, "openCall": openCallSQL, "holdsAttempt": holdsAttemptSQL, "beginRead": beginReadSQL,
		"holdsRead": holdsReadSQL, "answer": answerSQL, "finishEffect": finishEffectSQL, "receipt": receiptSQL,
		"recorded": recordedSQL, "answerAll": answerAllSQL, "releaseCall": releaseCallSQL, "effectCalls": effectCallsSQL,
		"finishRead": finishReadSQL, "finishedRead": finishedReadSQL, "doubt": doubtSQL, "close": closeSQL, "due": dueSQL,
		"dueReads": dueReadsSQL, "takeControl": takeControlSQL, "applyControl": applyControlSQL, "appliedControl": appliedControlSQL,
		"effectOfCall": effectOfCallSQL, "settle": settleSQL, "reopenCalls": reopenCallsSQL, "owe": oweSQL, "revoke": revokeSQL,
		"closeRevoked": closeRevokedSQL, "inherit": inheritSQL, "reject": rejectSQL, "getEffect": getEffectSQL, "receiptsOf": receiptsOfSQL,
		"looked": lookedSQL, "denied": deniedSQL, "clock": clockSQL, "openOnce": openOnceSQL, "takeOnce": takeOnceSQL, "lapseOnce": lapseOnceSQL, "lapseDue": lapseDueSQL,
		"renewOnce": renewOnceSQL, "recordOnce": recordOnceSQL, "outcomeOnce": outcomeOnceSQL, "lateOnce": lateOnceSQL, "expireKeys": expireKeysSQL,
		"listEffects": listedSQL(tools.Filter{}) + listEffectsSQL, "listEffectsOf": listedSQL(tools.Filter{State: tools.EffectFailed, RunID: "r", Twice: true}) + listEffectsSQL, "owed": owedSQL, "announced": announcedSQL, "landed": landedSQL,
		"standing": standingSQL, "putStop": putStopSQL, "sameStop": sameStopSQL, "endStop": endStopSQL, "getStop": getStopSQL, "listStops": listStopsSQL, "release": releaseSQL,
		"keepArtifact": keepArtifactSQL, "listArtifacts": listArtifactsSQL, "getArtifact": getArtifactSQL, "runArtifact": runArtifactSQL,
		"lockLimits": lockLimitsSQL, "usage": usageSQL, "startLimit": startLimitSQL, "useLimit": useLimitSQL, "dropUses": dropUsesSQL, "dropWait": dropWaitSQL,
		"waitTurn": waitTurnSQL, "endUse": endUseSQL, "nextTurns": nextTurnsSQL, "dueTurns": dueTurnsSQL,
		"keepTicket": keepTicketSQL, "await": awaitSQL, "replied": repliedSQL, "awaited": awaitedSQL, "effectByID": effectByIDSQL, "reply": replySQL, "takeReply": takeReplySQL,
		"beyond": listedSQL(tools.Filter{}) + beyondSQL, "toolNames": toolNamesSQL, "totals": totalsSQL, "marks": marksSQL, "sharers": sharersSQL, "verdicts": verdictsSQL, "toll": tollSQL,
		"endOfRun": endOfRunSQL, "endedRun": endedRunSQL,
	})
	if err != nil {
		t.Error(err)
	}
}

// The ledger belongs to the tools service alone, and it touches nobody else's
// tables.
func TestRoles(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, role := range []string{"holdfast_runner", "holdfast_trigger", "holdfast_approvals", "holdfast_console"} {
		pool := db.Open(t, role)
		for _, q := range []string{"SELECT 1 FROM tools.effects", "INSERT INTO tools.controls (id, call_id, run_id, action) VALUES ('x', 'x', 'x', 'revoke')"} {
			if _, err := pool.Exec(t.Context(), q); err == nil {
				t.Errorf("%s may run %s", role, q)
			}
		}
		for _, view := range []string{"v_effects", "v_calls", "v_landed", "v_workers", "v_artifacts", "v_stops", "v_held", "v_delayed", "v_awaited"} {
			if _, err := pool.Exec(t.Context(), "SELECT count(*) FROM tools."+view); err != nil {
				t.Errorf("%s cannot read %s: %v", role, view, err)
			}
		}
	}
	pool := db.Open(t, "holdfast_tools")
	for _, q := range []string{"SELECT 1 FROM runner.runs", "DELETE FROM runner.journal", "SELECT 1 FROM approvals.requests", "UPDATE approvals.requests SET state = 'approved'"} {
		if _, err := pool.Exec(t.Context(), q); err == nil {
			t.Errorf("holdfast_tools may run %s", q)
		}
	}
}

// What is old enough to forget is found by its place in an index: a sweep reads nothing
// of what stays.
func TestSweeps_ReadOnlyWhatIsOld(t *testing.T) {
	t.Parallel()
	if plan := pgtest.New(t).Plan(t, expireKeysSQL, 1000, 10); !strings.Contains(plan, "Index Cond: (updated_at <") {
		t.Errorf("keys that are over:\n%s", plan)
	}
}
