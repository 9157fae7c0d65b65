package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var _ approvals.Grouper = (*Store)(nil)

// flowSQL is the name of the flow at the top of the tree of run $3, empty when it is
// in none. Runs keep their names, so it is read once.
const flowSQL = `coalesce((WITH RECURSIVE above AS (
	SELECT parent_run_id, kind, name, 0 AS depth FROM runner.v_runs WHERE run_id = $3
	UNION ALL
	SELECT r.parent_run_id, r.kind, r.name, depth + 1 FROM above JOIN runner.v_runs r ON r.run_id = above.parent_run_id WHERE depth < 100)
	SELECT name FROM above WHERE kind = 'flow' ORDER BY depth DESC LIMIT 1), '')`

// waits is what the inbox shows: the rows of one index, which holds nothing that
// has ended, but those that were put off.
const waits = `namespace = $1 AND state = 'pending' AND asked_at IS NOT NULL AND ` + awake

// groupedBy is the value of a request for what $2 groups by. Requests from before
// the similarity was kept are alike when their tool is the same.
const groupedBy = `CASE $2::text WHEN 'flow' THEN flow WHEN 'agent' THEN agent WHEN 'tool' THEN tool
	ELSE CASE similarity WHEN '' THEN 'tool ' || tool ELSE similarity END END`

// groupsSQL reads each request that waits once, whatever has ended, and the whole
// of one for each group that is shown.
const groupsSQL = `
WITH waiting AS (
	SELECT ` + groupedBy + ` AS g_value, approval_id, created_at, expires_at
	FROM approvals.requests WHERE ` + waits + ` AND ($3::text = '' OR kind = $3)),
grouped AS (
	SELECT g_value, count(*) AS g_count, min(created_at) AS g_oldest, max(created_at) AS g_newest, min(expires_at) AS g_next,
		(array_agg(approval_id ORDER BY created_at DESC, approval_id DESC))[1:$4::int] AS g_ids,
		(array_agg(created_at ORDER BY created_at DESC, approval_id DESC))[1:$4::int] AS g_times
	FROM waiting GROUP BY g_value),
page AS (
	SELECT * FROM grouped WHERE (g_next, g_value) > ($5::timestamptz, $6::text) ORDER BY g_next, g_value LIMIT $7)
SELECT g_value, g_count, g_oldest, g_newest, g_next, g_ids, g_times[cardinality(g_times)], ` + columns + `
FROM page JOIN approvals.requests ON approval_id = g_ids[1]
ORDER BY g_next, g_value`

type groupRow struct {
	Value                      string
	Count                      int
	Oldest, Newest, NextExpiry time.Time
	IDs                        []string
	LastAt                     time.Time
	row
}

// Groups implements approvals.Grouper.
func (s *Store) Groups(ctx context.Context, f approvals.GroupFilter, ids int) ([]approvals.Group, error) {
	after := approvals.GroupPosition{}
	if f.After != nil {
		after = *f.After
	}
	rows, err := s.pool.Query(ctx, groupsSQL, f.Namespace, f.By, f.Kind, ids, after.NextExpiry, after.Value, f.Limit)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[groupRow])
	if err != nil {
		return nil, err
	}
	out := make([]approvals.Group, 0, len(found))
	for _, r := range found {
		sample, err := r.request()
		if err != nil {
			return nil, err
		}
		g := approvals.Group{
			Key: approvals.GroupKey{By: f.By, Value: r.Value}, Count: r.Count, Sample: sample,
			Oldest: r.Oldest.UTC(), Newest: r.Newest.UTC(), NextExpiry: r.NextExpiry.UTC(),
		}
		for _, id := range r.IDs {
			g.IDs = append(g.IDs, events.ApprovalID(id))
		}
		g.Last = approvals.Position{CreatedAt: r.LastAt.UTC(), ID: g.IDs[len(g.IDs)-1]}
		out = append(out, g)
	}
	return out, nil
}

const alikeSQL = `
SELECT similarity, count(*) FROM approvals.requests
WHERE namespace = $1 AND similarity = ANY ($2) AND similarity <> '' AND state IN ('approved', 'rejected') AND door <> 'grant'
	AND decided_at > (SELECT clock_timestamp()) - $3::int * interval '1 day'
GROUP BY similarity HAVING count(*) FILTER (WHERE state = 'rejected') = 0`

// Alike implements approvals.Grouper.
func (s *Store) Alike(ctx context.Context, namespace string, similarities []string, days int) (map[string]int, error) {
	out := map[string]int{}
	if len(similarities) == 0 {
		return out, nil
	}
	rows, err := s.pool.Query(ctx, alikeSQL, namespace, similarities, days)
	if err != nil {
		return nil, err
	}
	var value string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&value, &n}, func() error { out[value] = n; return nil })
	return out, err
}

const membersSQL = `SELECT ` + columns + ` FROM approvals.requests
WHERE ` + waits + ` AND ` + groupedBy + ` = $3 AND created_at <= $4
	AND (created_at, approval_id) < ($5, $6)
ORDER BY created_at DESC, approval_id DESC LIMIT $7`

// Members implements approvals.Grouper.
func (s *Store) Members(ctx context.Context, namespace string, k approvals.GroupKey, upTo time.Time, before *approvals.Position, limit int) ([]approvals.Request, error) {
	end := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	if upTo.IsZero() {
		upTo = end
	}
	if before == nil {
		before = &approvals.Position{CreatedAt: end}
	}
	return many(s.pool.Query(ctx, membersSQL, namespace, k.By, k.Value, upTo, before.CreatedAt, before.ID, limit))
}
