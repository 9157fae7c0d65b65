package approvals_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
	"sync"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// halvesSQL counts requests of which a part is written: whose state, record, arguments,
// digest or debt to the run say different things.
const halvesSQL = `
SELECT count(*) FROM approvals.requests r,
	LATERAL (SELECT count(*) AS all, count(*) FILTER (WHERE d.args::text IS NOT DISTINCT FROM r.edited_args::text AND d.principal = r.decided_by AND d.door = r.door) AS same
		FROM approvals.decisions d WHERE d.approval_id = r.approval_id AND d.outcome = 'decided') d
WHERE CASE r.state
	WHEN 'approved' THEN d.all <> 1 OR d.same <> 1 OR (r.edited_args IS NULL) <> (r.asked_digest IS NULL) OR r.next_announce_at IS NULL AND r.landed_at IS NULL
	WHEN 'pending' THEN d.all <> 0 OR r.decided_by <> '' OR r.edited_args IS NOT NULL OR r.next_announce_at IS NOT NULL OR r.decided_at IS NOT NULL
	ELSE true END`

// inTheMiddle lets a batch with edits of its items, and edits at the API and behind a
// link, be under way when something goes down: some are decided, the others wait for
// their rows. It returns when all are answered: the status of each, in the order of
// asked, of which held are those that waited.
func (b *bench) inTheMiddle(down func(release func())) (asked []events.AskApproval, held map[int]bool, again func() []int, codes []int) {
	b.t.Helper()
	args := func(i int) string { return fmt.Sprintf(`{"amount":%d,"order":1234567890123456789}`, 50+i) }
	for range 9 {
		asked = append(asked, b.ask(refund, in("reviewers")))
	}
	held = map[int]bool{1: true, 4: true, 6: true, 8: true}
	batch := client.ManyDecisions{Decision: "approve", Comment: "of many"}
	for i, a := range asked[:6] {
		item := client.ItemDecision{ID: a.ApprovalID, Digest: a.Digest}
		if i < 3 {
			item.Args, item.Digest = json.RawMessage(args(i)), bindRefund(args(i))
		}
		batch.Items = append(batch.Items, item)
	}
	// Behind a link a change is shown before it is confirmed.
	confirms := map[int][2]string{}
	for _, i := range []int{7, 8} {
		address := b.link(asked[i], "ann")
		_, _, page := b.page(http.MethodGet, address, nil)
		f := form(page, "edit")
		f.Set("args", args(i))
		_, _, shown := b.page(http.MethodPost, address, f)
		_, from, _ := strings.Cut(shown, `<form method="post"`)
		confirm, _, _ := strings.Cut(from, "</form>")
		confirms[i] = [2]string{address, confirm}
	}
	all := func() []int {
		codes := make([]int, len(asked))
		var wg sync.WaitGroup
		wg.Go(func() {
			got, err := b.as("ann").DecideMany(b.t.Context(), batch)
			for i := range batch.Items {
				if codes[i] = client.StatusOf(err); err == nil {
					codes[i] = got.Results[i].Status
				}
			}
		})
		wg.Go(func() {
			_, err := b.as("ann").Decide(b.t.Context(), asked[6].ApprovalID, edit(args(6), bindRefund(args(6))))
			if codes[6] = client.StatusOf(err); err == nil {
				codes[6] = http.StatusOK
			}
		})
		for i, c := range confirms {
			wg.Go(func() {
				f := form(c[1], events.Approve)
				f.Set("args", html.UnescapeString(f.Get("args")))
				codes[i], _, _ = b.page(http.MethodPost, c[0], f)
			})
		}
		wg.Wait()
		return codes
	}
	tx, err := b.admin.Begin(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(b.t.Context())) }() // gives its connection back
	for i := range held {
		if _, err := tx.Exec(b.t.Context(), `SELECT FROM approvals.requests WHERE approval_id = $1 FOR UPDATE`, string(asked[i].ApprovalID)); err != nil {
			b.t.Fatal(err)
		}
	}
	done := make(chan []int, 1)
	go func() { done <- all() }()
	eventually(b.t, "some are decided and the others wait for their rows", func() bool {
		return b.count(`SELECT count(*) FROM approvals.requests WHERE state = 'approved' AND run_id = ANY ($1)`, runsOf(asked)) == len(asked)-len(held) &&
			b.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'holdfast_approvals' AND wait_event_type = 'Lock'`) >= len(held)
	})
	down(func() { _ = tx.Rollback(context.WithoutCancel(b.t.Context())) })
	return asked, held, all, <-done
}

func runsOf(asked []events.AskApproval) (ids []string) {
	for _, a := range asked {
		ids = append(ids, string(a.RunID))
	}
	return ids
}

// whole wants that every one of asked is decided and that its run hears exactly what
// was confirmed.
func (b *bench) whole(asked []events.AskApproval, codes []int) {
	b.t.Helper()
	for i, a := range asked {
		if codes[i] != http.StatusOK {
			b.t.Errorf("request %d: %d, want 200", i, codes[i])
		}
		want := fmt.Sprintf(`{"amount":%d,"order":1234567890123456789}`, 50+i)
		if i >= 3 && i < 6 {
			want = asked500
		}
		d := b.decision(a.ApprovalID)
		got := asked500
		if d.Args != nil {
			got = string(d.Args)
		}
		if d.Decision != events.Approve || d.By != "ann" || got != want || d.Digest != bindRefund(want) {
			b.t.Errorf("request %d: the run is told %s with %s, want %s", i, d.Decision, got, want)
		}
		for _, m := range b.told(a.ApprovalID) {
			if string(m.Data) != string(b.told(a.ApprovalID)[0].Data) {
				b.t.Errorf("request %d: the run is told different things", i)
			}
		}
	}
	if n := b.count(halvesSQL); n != 0 {
		b.t.Errorf("%d requests are half decided", n)
	}
}

// decidesWithoutPostgres: what was answered 200 is decided whole, what was not is as if nobody
// had tried, and the same again decides the rest.
func (b *bench) decidesWithoutPostgres(stop, start func()) {
	b.t.Helper()
	asked, held, again, codes := b.inTheMiddle(func(func()) { stop() })
	start()
	b.admin.Reset()
	b.waitState(asked[0].ApprovalID, events.Approve)
	if n := b.count(halvesSQL); n != 0 {
		b.t.Errorf("%d requests are half decided", n)
	}
	for i, a := range asked {
		state := b.show(a.ApprovalID).State
		if held[i] && (state != "pending" || codes[i] != http.StatusServiceUnavailable) || !held[i] && (state != events.Approve || codes[i] != http.StatusOK) {
			b.t.Errorf("request %d (held: %t) was answered %d and is %s", i, held[i], codes[i], state)
		}
	}
	b.whole(asked, again())
}

// decidesWithoutNATS: all are taken, and reach their runs when it is back.
func (b *bench) decidesWithoutNATS(stop, start func()) {
	b.t.Helper()
	asked, _, again, codes := b.inTheMiddle(func(release func()) { stop(); release() })
	for i, a := range asked {
		if s := b.show(a.ApprovalID).State; s != events.Approve || codes[i] != http.StatusOK {
			b.t.Errorf("request %d was answered %d and is %s", i, codes[i], s)
		}
	}
	start()
	b.whole(asked, codes)
	for i, code := range again() {
		if code != http.StatusOK {
			b.t.Errorf("request %d, sent again: %d", i, code)
		}
	}
	b.whole(asked, codes)
}
