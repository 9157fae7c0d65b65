package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/browsertest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// personReadsALongRun reads a run of many steps in a real browser: the page holds a part of
// it, says which, and leads to the others. HOLDFAST_BROWSER=full makes it 1,000 steps.
func personReadsALongRun(t *testing.T, d *deployment) {
	steps := 70
	if os.Getenv("HOLDFAST_BROWSER") == "full" {
		steps = 1000
	}
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "marathon.yaml", Text: fmt.Sprintf(`
apiVersion: holdfast/v1
kind: Agent
metadata: {name: marathon}
spec: {model: scripted, instructions: "%s 1", tools: [read], budget: {modelCalls: 5000, toolCalls: 5000}}
`, d.out.shopURL)}}); err != nil {
		t.Fatal(err)
	}
	started, err := d.operator.Start(t.Context(), client.StartRequest{Agent: "marathon", Input: job{Job: "long", Do: slices.Repeat([]string{"read"}, steps)}.input()})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Minute)
	for {
		run, err := d.operator.Run(t.Context(), started.RunID)
		if err == nil && run.Status == events.StatusCompleted {
			break
		}
		if time.Now().After(deadline) || run.Status == events.StatusAttention || run.Status == events.StatusFailed {
			t.Fatalf("%s %s %d, %v", run.Status, run.Waiting, run.Seq, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	rows := 2*steps + 3 // its start, an answer and a result for each step, the last answer, its end

	b := signedIn(t, d, "long-reader", "viewer")
	b.Open(d.edge + "/ui/runs/" + string(started.RunID))
	b.Sees("#journal", fmt.Sprintf("of %d", rows))
	b.Sees("#journal", "run_completed")
	b.Picture("run-long")
	const most = 400 << 10
	if size := browsertest.Eval[int](b, "document.documentElement.outerHTML.length"); size > most {
		t.Errorf("the page of a run of %d steps has %d characters, want at most %d", steps, size, most)
	}
	count := func() int { return b.Count("#journal tbody tr") }
	if n := count(); n == 0 || n > 100 {
		t.Errorf("%d of %d rows are in the page", n, rows)
	}
	seen, pages := 0, 0
	for {
		seen, pages = seen+count(), pages+1
		href := browsertest.Eval[string](b, `([...document.querySelectorAll('#journal .sec-head a')].find(a => a.textContent.includes('arlier')) || {getAttribute: () => ''}).getAttribute('href')`)
		if href == "" || pages > 3 {
			break
		}
		if !strings.HasPrefix(href, "/") && !strings.HasPrefix(href, "?") {
			t.Fatalf("earlier rows are at %q", href)
		}
		b.Open(d.edge + "/ui/runs/" + string(started.RunID) + href[strings.IndexByte(href, '?'):])
		b.Sees("#journal", "of "+strconv.Itoa(rows))
	}
	if pages < 2 || seen < 100 { // parts overlap, so that nobody loses the thread
		t.Errorf("%d parts show %d of %d rows", pages, seen, rows)
	}
	look(t, b, "run-long-earlier")
}
