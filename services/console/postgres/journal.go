package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// journalRows is how many rows are read at first, when nothing is known of their size.
const journalRows = 64

// Journal implements console.JournalReader.
func (s *Store) Journal(ctx context.Context, namespace string, run events.RunID, after int64, limit int) (out []events.RunEvent, more bool, err error) {
	size := 0
	for ask := journalRows; ; {
		n := min(ask, limit+1-len(out))
		part, err := s.Events(ctx, namespace, run, after, n)
		if err != nil {
			return nil, false, err
		}
		for _, e := range part {
			if len(out) == limit || len(out) > 0 && size+len(e.Data) > console.JournalBytes {
				return out, true, nil
			}
			out, after = append(out, e), e.Seq
			size += len(e.Data)
		}
		if len(part) < n {
			return out, false, nil
		}
		// As many more as fit if they are like those before.
		ask = min(1+(console.JournalBytes-size)/(1+size/len(out)), 500)
	}
}

const shownEvents = `
SELECT run_id, namespace, seq, kind, status, at, cause, worker, left(data::text, $5),
       CASE WHEN octet_length(data::text) > $5 THEN octet_length(data::text) ELSE 0 END
  FROM runner.v_events
 WHERE run_id = $1 AND namespace = $2 AND seq > $3
 ORDER BY seq LIMIT $4`

// Shown implements console.JournalReader.
func (s *Store) Shown(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]events.RunEvent, error) {
	rows, err := s.pool.Query(ctx, shownEvents, string(run), namespace, after, limit, console.ShownBytes)
	if err != nil {
		return nil, fmt.Errorf("read events of run %s: %w", run, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e events.RunEvent, err error) {
		var data string
		err = row.Scan(&e.RunID, &e.Namespace, &e.Seq, &e.Kind, &e.Status, &e.At, &e.Cause, &e.Worker, &data, &e.Elided)
		e.At, e.Data = e.At.UTC(), []byte(data)
		return e, err
	})
	if err == nil && len(out) == 0 {
		out, err = s.programEvents(ctx, namespace, run, after, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read events of run %s: %w", run, err)
	}
	return out, nil
}
