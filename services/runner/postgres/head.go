package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// head is the row of a run as a handler reads it.
type head struct {
	found, deleted bool
	namespace      string
	seq            int64
	claim          runner.Claim
	attempts       int
	cancelled      *time.Time
	now            time.Time
	reader         int
	err            error // of the read: it is not tried again here
}

// newHeads merges the reads of different handlers.
func newHeads(s *Store) *pg.Group[events.RunID, head] {
	return &pg.Group[events.RunID, head]{
		Name:    "runner.heads",
		Key:     func(id events.RunID) string { return string(id) },
		Repeats: true,
		Many:    s.loadHeads,
	}
}

// Each row is looked up in a subquery of its own, so that it is found by its key, however
// many are asked for.
const loadRuns = `
SELECT i.n, r.run_id IS NOT NULL, coalesce(r.namespace, ''), coalesce(r.seq, 0), coalesce(r.claim_worker, ''), coalesce(r.claim_epoch, 0), coalesce(r.claim_cause, ''),
       coalesce(r.attempts, 0), r.cancelled_at, clock_timestamp(), coalesce(r.min_reader, 1),
       d.run_id IS NOT NULL
FROM unnest($1::text[]) WITH ORDINALITY AS i(run_id, n) LEFT JOIN LATERAL (SELECT * FROM runner.runs r WHERE r.run_id = i.run_id LIMIT 1) r ON true
LEFT JOIN LATERAL (SELECT x.run_id FROM runner.deleted x WHERE x.run_id = i.run_id AND r.run_id IS NULL LIMIT 1) d ON true`

func (s *Store) loadHeads(ctx context.Context, ids []events.RunID) ([]head, error) {
	out := make([]head, len(ids))
	b := &pgx.Batch{}
	b.Queue(loadRuns, ids).Query(func(rows pgx.Rows) error {
		var n int
		var h head
		_, err := pgx.ForEachRow(rows, []any{&n, &h.found, &h.namespace, &h.seq, &h.claim.Worker, &h.claim.Epoch, &h.claim.Cause,
			&h.attempts, &h.cancelled, &h.now, &h.reader, &h.deleted}, func() error {
			out[n-1] = h
			h.cancelled = nil
			return nil
		})
		return err
	})
	if err := s.keyed.Send(ctx, b); err != nil {
		for i := range out {
			out[i] = head{err: err}
		}
	}
	return out, nil
}
