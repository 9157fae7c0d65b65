package postgres

import (
	"testing"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	err := pg.PrepareAll(t.Context(), db.Open(t, "holdfast_approvals"), map[string]string{
		"ask": askSQL, "known": knownSQL, "withdraw": withdrawSQL, "reject": rejectSQL, "lock": lockSQL, "clock": clockSQL,
		"decide": decideSQL, "count": countSQL, "defer": deferSQL, "undefer": undeferSQL, "tell later": tellLaterSQL, "attempt": attemptSQL, "expire": expireSQL, "get": getSQL, "list": listSQL,
		"listState": listStateSQL, "owed": owedSQL, "announced": announcedSQL, "landed": landedSQL,
		"notice": noticeSQL, "takeNotices": takeNoticesSQL, "finishNotice": finishNoticeSQL, "listNotices": listNoticesSQL,
		"addLink": addLinkSQL, "link": linkSQL, "split": splitSQL, "takeUpdates": takeUpdatesSQL, "finishUpdate": finishUpdateSQL, "waiting": waitingSQL,
		"groups": groupsSQL, "members": membersSQL, "audit": auditSQL, "follow": followSQL, "auditRows": auditRowsSQL, "auditHead": auditHeadSQL, "makeGrant": makeGrantSQL, "getGrant": getGrantSQL,
		"listGrants": listGrantsSQL, "revokeGrant": revokeGrantSQL, "grantsFor": grantsForSQL, "useGrant": useGrantSQL, "grantUse": grantUseSQL, "hush": hushSQL, "remind": remindSQL, "escalate": escalateSQL, "alike": alikeSQL, "digest": digestSQL,
	})
	if err != nil {
		t.Error(err)
	}
}

// Every role may read the views, and only the service may write its tables;
// the audit cannot be changed even by the service.
func TestGrants(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for role, queries := range map[string]map[string]bool{
		"holdfast_runner": {
			"SELECT FROM approvals.v_requests":              true,
			"SELECT FROM approvals.v_notices":               true,
			"SELECT FROM approvals.notices":                 false,
			"SELECT FROM approvals.requests":                false,
			"DELETE FROM approvals.requests":                false,
			"UPDATE approvals.requests SET state = ''":      false,
			"INSERT INTO approvals.rejected DEFAULT VALUES": false,
		},
		"holdfast_console": {"SELECT approvals.audit_append('default', 'decided', '', '', 'ann', '', '{}')": false, "SELECT FROM approvals.audit": false, "SELECT FROM approvals.v_requests": true, "SELECT FROM approvals.v_decisions": true},
		"holdfast_trigger": {"SELECT FROM approvals.v_requests": true},
		"holdfast_tools":   {"SELECT FROM approvals.v_requests": true},
		"holdfast_approvals": {
			"SELECT FROM approvals.v_requests":                  true,
			"DELETE FROM approvals.requests":                    false,
			"UPDATE approvals.decisions SET principal = 'else'": false,
			"DELETE FROM approvals.decisions":                   false,
			"DELETE FROM approvals.notices":                     false,
			"DELETE FROM approvals.links":                       false,
			"SELECT FROM approvals.audit":                       true,
			"DELETE FROM approvals.grants":                      false,
			"DELETE FROM approvals.grant_uses":                  false,
			"UPDATE approvals.grant_uses SET grant_id = 'else'": false,
			"DELETE FROM approvals.audit":                       false,
			"UPDATE approvals.audit SET actor = 'else'":         false,
			"TRUNCATE approvals.audit":                          false,
			"UPDATE approvals.audit_heads SET seq = 0":          false,
			"DELETE FROM approvals.audit_heads":                 false,
			"INSERT INTO approvals.audit VALUES ('default', 1, now(), 'x', '', '', '', '', '', '', '')": false,
			"ALTER TABLE approvals.decisions DISABLE TRIGGER audit_decided":                             false,
			"UPDATE approvals.links SET person = 'else'":                                                false,
		},
	} {
		pool := db.Open(t, role)
		for query, may := range queries {
			if _, err := pool.Exec(t.Context(), query); (err == nil) != may {
				t.Errorf("%s: %s: %v, allowed should be %t", role, query, err, may)
			}
		}
	}
}
