package demo

import (
	"testing"

	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// TestTruth runs every query as the console's role on the migrated schema, so
// that a change of a view is found here and not in a report.
func TestTruth(t *testing.T) {
	t.Parallel()
	tr, err := openTruth(t.Context(), pgtest.New(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.pool.Close)
	ctx := t.Context()
	const run = "01a2281d-38de-7d4d-965d-1fc25cf16042"
	check := func(what string, err error, empty bool) {
		t.Helper()
		if err != nil || !empty {
			t.Errorf("%s of an empty database: empty %v, %v", what, empty, err)
		}
	}
	claims, err := tr.claims(ctx, "w")
	check("claims", err, len(claims) == 0)
	family, err := tr.family(ctx, run)
	check("family", err, len(family) == 0)
	_, _, _, found, err := tr.nextRow(ctx, run, 1)
	check("next row", err, !found)
	writer, err := tr.writerOf(ctx, "shop-01")
	check("writer", err, writer == "")
	open, err := tr.openEffects(ctx)
	check("open effects", err, open == 0)
	ceiling, used, alerts, err := tr.budget(ctx, poolName)
	check("budget", err, ceiling == 0 && used == 0 && alerts == 0)
	paused, err := tr.pausedFor(ctx, poolName)
	check("paused runs", err, len(paused) == 0)
	raises, err := tr.raises(ctx, poolName)
	check("raises", err, raises == 0)
	doubts, err := tr.doubts(ctx)
	check("doubts", err, len(doubts) == 0)
	requests, decided, heard, err := tr.approvals(ctx)
	check("approvals", err, requests == 0 && decided == 0 && heard == 0)
	journal, err := tr.journal(ctx)
	check("journal", err, journal == journalFact{})
	answers, refused, asked, err := tr.answers(ctx, run, "fetch_page")
	check("answers", err, answers == 0 && refused == 0 && asked == 0)
	if _, err := tr.claimOf(ctx, run); err == nil {
		t.Error("the claim of a run that is not there was read")
	}
	if _, err := tr.pid(ctx, "w"); err == nil {
		t.Error("the pid of a worker that is not there was read")
	}
}
