package postgres

import (
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// countSQL keeps a yes of several, while the row is locked as for decideSQL.
const countSQL = `
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now)
UPDATE approvals.requests r SET votes = $2::text::json FROM t
WHERE approval_id = $1 AND state = 'pending' AND (keeps OR expires_at > t.now)
RETURNING ` + columns

// votesWith is the votes of r with the yes of a, as the row keeps them; nil where one
// decides.
func votesWith(r approvals.Request, a approvals.Attempt, now time.Time) (*string, error) {
	if r.Quorum() < 2 || a.Decision != events.Approve {
		return nil, nil
	}
	raw, err := events.Marshal(r.WithVote(a, now.UTC()))
	if err != nil {
		return nil, err
	}
	return new(string(raw)), nil
}
