package postgres

import (
	"testing"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

func TestLiveQueriesPrepare(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Open(t, "holdfast_console")
	if err := pg.PrepareAll(t.Context(), pool, map[string]string{"marks": marks, "stopsStanding": stopsStanding, "costSince": costSince, "namesOfRuns": namesOfRuns}); err != nil {
		t.Error(err)
	}
}
