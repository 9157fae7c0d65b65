package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// The newest entries are read in the order of an index, whatever stands behind them.
func TestListEntries_SortsNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, sql := range map[string]string{"requests": listAttempts, "starts": listUnlogged} {
		if plan := db.Plan(t, sql, "default", "", "", time.Time{}, "", 10, nil); strings.Contains(plan, "Sort") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
