package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

// Keys with their holders and queues, never of another namespace; a queued run says
// behind whom it waits and is found by its status.
func TestConcurrency_KeysAndWhoWaits(t *testing.T) {
	r := setup(t)
	r.exec(`INSERT INTO runner.slots (run_id, namespace, key, shown, name, max, rank, owner, held, replaced_by) VALUES
		('h1', 'default', 'k1', 'shop:4711', 'seller', 1, 0, 'h1', true, NULL), ('h1-child', 'default', 'k1', 'shop:4711', 'seller', 1, 0, 'h1', true, NULL),
		('01a22811-0f6d-7d1a-83a5-0000000000b1', 'default', 'k1', 'shop:4711', 'seller', 1, 1, '01a22811-0f6d-7d1a-83a5-0000000000b1', false, NULL), ('01a22811-0f6d-7d1a-83a5-0000000000c1', 'default', 'k1', 'shop:4711', 'seller', 2, 0, '01a22811-0f6d-7d1a-83a5-0000000000c1', false, NULL),
		('gone', 'default', 'k1', 'shop:4711', 'seller', 2, 0, 'gone', false, '01a22811-0f6d-7d1a-83a5-0000000000c1'),
		('h2', 'default', 'k2', 'agent other', 'other', 3, 0, 'h2', true, NULL), ('x', 'elsewhere', 'k1', 'shop:4711', 'seller', 1, 0, 'x', true, NULL)`)
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, waiting, input, labels, trigger, principal, accepted_at)
		SELECT id, 'default', 'agent', 'seller', 'd', CASE id WHEN 'h1' THEN 'running' ELSE 'queued' END, 2, '', '{}', '{}', '{}', 'p', clock_timestamp() FROM unnest(ARRAY['h1', '01a22811-0f6d-7d1a-83a5-0000000000b1', '01a22811-0f6d-7d1a-83a5-0000000000c1']) id`)
	r.exec(`INSERT INTO runner.pending (run_id, namespace, item, kind, detail) VALUES ('01a22811-0f6d-7d1a-83a5-0000000000b1', 'default', 'slots', 'slots', 'shop:4711')`)
	type list struct{ Items []httpapi.ConcurrencyKey }
	short := func(path string) (out []string) {
		for _, k := range get[list](r, "GET", path, authn.Viewer, "").Items {
			out = append(out, fmt.Sprint(k.Key, " ", k.Name, " ", k.Held, "/", k.Max, " ", k.Holders, " ", k.Waiting, " ", k.Next))
		}
		return out
	}
	seller, other := "shop:4711 seller 1/2 [h1] 2 [01a22811-0f6d-7d1a-83a5-0000000000c1 01a22811-0f6d-7d1a-83a5-0000000000b1]", "agent other other 1/3 [h2] 0 []"
	if diff := cmp.Diff([]string{seller, other}, short("/v1/concurrency")); diff != "" {
		t.Errorf("all keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{other}, short("/v1/concurrency?name=other")); diff != "" {
		t.Errorf("keys of one agent (-want +got):\n%s", diff)
	}
	first := get[door.Page[httpapi.ConcurrencyKey]](r, "GET", "/v1/concurrency?limit=1", authn.Viewer, "")
	if len(first.Items) != 1 || first.Items[0].Key != "shop:4711" || first.NextCursor == "" {
		t.Errorf("first page: %+v", first)
	}
	if diff := cmp.Diff([]string{other}, short("/v1/concurrency?limit=1&cursor="+first.NextCursor)); diff != "" {
		t.Errorf("second page (-want +got):\n%s", diff)
	}
	if again := get[door.Page[httpapi.ConcurrencyKey]](r, "GET", "/v1/concurrency?limit=2", authn.Viewer, ""); again.NextCursor != "" {
		t.Errorf("the last page says that there is another: %+v", again)
	}
	why := get[httpapi.Why](r, "GET", "/v1/runs/01a22811-0f6d-7d1a-83a5-0000000000b1/why", authn.Viewer, "").Sentence
	if !strings.HasPrefix(why, "queued behind 1 runs for concurrency key shop:4711 of seller since ") || !strings.Contains(why, "1 of 1 places are taken, by run h1") {
		t.Errorf("why: %s", why)
	}
	var queued []string
	for _, run := range get[door.Page[httpapi.Run]](r, "GET", "/v1/runs?status=queued", authn.Viewer, "").Items {
		queued = append(queued, string(run.RunID))
	}
	if diff := cmp.Diff([]string{"01a22811-0f6d-7d1a-83a5-0000000000c1", "01a22811-0f6d-7d1a-83a5-0000000000b1"}, queued); diff != "" {
		t.Errorf("queued runs (-want +got):\n%s", diff)
	}
}
