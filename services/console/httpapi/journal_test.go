package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// A run of 1,000 rows that say 60 MB is read in pages of a few megabytes, whatever limit
// is asked for; every row is there once and in order. The run's page shows beginnings.
func TestCaseC10_AJournalIsReadInPages(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)
	r.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		SELECT $1::text, n, 'tool_completed', 'running', 'c' || n, true, 'w', clock_timestamp(),
			json_build_object('n', n, 'said', repeat('é', CASE WHEN n = 500 THEN 3000000 WHEN n % 2 = 0 THEN 50000 ELSE 10 END)) FROM generate_series(2, 1000) n`, id)
	r.exec(`UPDATE runner.runs SET seq = 1000 WHERE run_id = $1`, id)
	pages, next, most := 0, int64(1), 0
	for cursor := ""; ; pages++ {
		status, _, raw := r.do("GET", fmt.Sprintf("/v1/runs/%s/journal?limit=500&cursor=%s", id, cursor), doortest.Token(authn.Viewer), "")
		var page door.Page[events.RunEvent]
		if err := json.Unmarshal([]byte(raw), &page); status != 200 || err != nil || len(page.Items) == 0 {
			t.Fatalf("page %d: %d, %d rows, %v", pages, status, len(page.Items), err)
		}
		for _, e := range page.Items {
			if e.Seq != next {
				t.Fatalf("row %d comes where %d should", e.Seq, next)
			}
			if next++; e.Seq == 500 && len(e.Data) < 6_000_000 {
				t.Errorf("row 500 says %d bytes", len(e.Data))
			}
		}
		if len(page.Items) > 1 {
			most = max(most, len(raw))
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if next != 1001 || pages < 12 || most > 5<<20 {
		t.Errorf("%d rows in %d pages of at most %d bytes, want 1000, each page at most 5 MiB", next-1, pages, most)
	}
	// A last page that is full to the byte has no next one.
	if page := get[door.Page[events.RunEvent]](r, "GET", fmt.Sprintf("/v1/runs/%s/journal?after=999&limit=1", id), authn.Viewer, ""); len(page.Items) != 1 || page.NextCursor != "" {
		t.Errorf("the last row: %d rows, next %q", len(page.Items), page.NextCursor)
	}
	_, _, html := r.do("GET", "/ui/runs/"+string(id)+"?at=510", doortest.Token(authn.Viewer), "")
	if len(html) > 1<<20 || !strings.Contains(html, "bytes in all") || !strings.Contains(html, `href="/ui/runs/`+string(id)+`/rows/500"`) || strings.Count(html, `<tr role="row" id="f`) != 60 || !strings.Contains(html, `<tr role="row" id="f510" class="looked">`) {
		t.Errorf("the run's page has %d bytes and %d rows", len(html), strings.Count(html, `<tr role="row" id="f`))
	}
	status, header, row := r.do("GET", "/ui/runs/"+string(id)+"/rows/500", doortest.Token(authn.Viewer), "")
	if status != 200 || len(row) < 6_000_000 || header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the whole row: %d, %d bytes, %v", status, len(row), header)
	}
	for path, want := range map[string]int{"/rows/1001": 404, "/rows/0": 404, "/rows/x": 404, "?at=x": 422, "?at=-1": 422, "?at=99999": 200, "?at=1": 200} {
		if status, _, raw := r.do("GET", "/ui/runs/"+string(id)+path, doortest.Token(authn.Viewer), ""); status != want {
			t.Errorf("%s: %d, want %d: %.200s", path, status, want, raw)
		}
	}
}
