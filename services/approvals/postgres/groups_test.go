package postgres

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// planNode is a node of EXPLAIN (ANALYZE, FORMAT JSON).
type planNode struct {
	Type    string     `json:"Node Type"`
	Index   string     `json:"Index Name"`
	Table   string     `json:"Relation Name"`
	Rows    float64    `json:"Actual Rows"`
	Loops   float64    `json:"Actual Loops"`
	Removed float64    `json:"Rows Removed by Filter"`
	Plans   []planNode `json:"Plans"`
}

// read counts the rows that were read of tables, and reports whether all came by
// an index.
func (n planNode) read() (rows float64, indexed bool) {
	indexed = n.Type != "Seq Scan"
	if n.Table != "" {
		rows = (n.Rows + n.Removed) * n.Loops
	}
	for _, p := range n.Plans {
		r, ok := p.read()
		rows, indexed = rows+r, indexed && ok
	}
	return rows, indexed
}

// The grouped inbox of 500 reads what waits and one sample of each group, whatever
// has ended before.
func TestGroups_ReadOnlyWhatWaits(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, sql := range []string{`ALTER TABLE approvals.requests DISABLE TRIGGER USER`, `INSERT INTO approvals.requests (approval_id, namespace, run_id, kind, call_id, agent, tool, tool_digest, args, digest,
			ask_cause, asked_at, created_at, expires_at, valid_for, state, decided_by, decided_at, flow, similarity)
		SELECT 'a' || i, 'default', 'r' || i, 'action', 'c', 'a' || i % 7, 't' || i % 40, 'd', '{"price":"24.90"}', 'd',
			'c', now(), now() + i * interval '1 ms', now() + interval '9 h', interval '1 h',
			CASE WHEN i % 40 = 0 THEN 'pending' ELSE 'approved' END, CASE WHEN i % 40 = 0 THEN '' ELSE 'ann' END, CASE WHEN i % 40 <> 0 THEN now() END,
			'f' || i % 3, 's' || i % 9
		FROM generate_series(1, 20000) i`, `ANALYZE approvals.requests`} {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	store := New(db.Open(t, "holdfast_approvals"))
	for by, want := range map[string]int{approvals.ByFlow: 3, approvals.ByAgent: 7, approvals.ByTool: 1, approvals.BySimilarity: 9} {
		var text string
		err := db.Pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+groupsSQL, "default", by, "", 20, time.Time{}, "", 51).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		var plan []struct{ Plan planNode }
		if err := json.Unmarshal([]byte(text), &plan); err != nil {
			t.Fatal(err)
		}
		if rows, indexed := plan[0].Plan.read(); rows > float64(2*500+3*want) || !indexed {
			t.Errorf("by %s: %.0f rows were read, by an index: %t; want at most the 500 that wait, by heap and index, and the samples\n%s", by, rows, indexed, text)
		}
		began := time.Now()
		got, err := store.Groups(t.Context(), approvals.GroupFilter{Namespace: "default", By: by, Limit: 51}, 20)
		t.Logf("500 that wait beside 19,500 that ended, by %s: %d groups in %s", by, len(got), time.Since(began).Round(100*time.Microsecond))
		if err != nil || len(got) != want {
			t.Errorf("by %s: %d groups, %v; want %d", by, len(got), err, want)
		}
		count := 0
		for _, g := range got {
			count += g.Count
		}
		if count != 500 {
			t.Errorf("by %s: %d wait, want 500", by, count)
		}
	}
}
