package trigger_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
)

func TestDoor_RolesOfEveryRoute(t *testing.T) {
	t.Parallel()
	r := setup(t).start(t)
	doortest.Matrix(t, r.door)
	want := map[string]authn.Role{
		"GET /openapi.json":  door.Public,
		"POST /hooks/{name}": door.Public, "POST /hooks/{namespace}/{name}": door.Public,
		"POST /v1/agents/{name}/runs": authn.Operator, "POST /v1/flows/{name}/runs": authn.Operator,
		"GET /v1/schedules": authn.Viewer, "GET /v1/schedules/{name}": authn.Viewer, "POST /v1/schedules/{name}/trigger": authn.Operator,
		"GET /v1/schedules/{name}/history": authn.Viewer, "GET /v1/schedules/{name}/next": authn.Viewer,
		"POST /v1/schedules/{name}/pause": authn.Operator, "POST /v1/schedules/{name}/resume": authn.Operator,
		"POST /v1/schedules/{name}/backfill": authn.Operator,
		"GET /v1/deliveries":                 authn.Viewer, "GET /v1/deliveries/{id}": authn.Viewer,
		"POST /v1/deliveries/{id}/replay": authn.Operator, "POST /v1/deliveries/replay": authn.Operator,
		"POST /v1/webhooks/{name}/test": authn.Operator,
		"GET /ui/start/{kind}/{name}":   authn.Operator, "POST /ui/start/{kind}/{name}": authn.Operator,
		"GET /ui/triggers": authn.Viewer, "GET /ui/triggers/deliveries": authn.Viewer, "POST /ui/triggers/deliveries": authn.Operator,
		"GET /ui/triggers/deliveries/{id}": authn.Viewer, "POST /ui/triggers/deliveries/{id}": authn.Operator,
		"GET /ui/triggers/schedules/{name}": authn.Viewer, "POST /ui/triggers/schedules/{name}": authn.Operator,
		"GET /v1/signals": authn.Viewer, "POST /v1/signals/{name}": authn.Operator,
	}
	got := map[string]authn.Role{}
	for _, route := range r.door.Routes() {
		got[route.Method+" "+route.Pattern] = route.Role
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func TestDoor_Deliveries(t *testing.T) {
	t.Parallel()
	r := setup(t).start(t)
	const n = 5
	var want []string
	for i := range n {
		a := r.api(operator, "POST", "/v1/agents/anything/runs", fmt.Sprintf(`{"input":{"n":9007199254740993,"i":%d}}`, i), "Idempotency-Key", fmt.Sprint(i))
		accepted(t, a)
		want = append([]string{a.RunID}, want...)
	}
	type item struct {
		ID        string          `json:"delivery_id"`
		RunID     string          `json:"run_id"`
		Source    string          `json:"source"`
		Name      string          `json:"source_name"`
		Key       string          `json:"dedupe_key"`
		Input     json.RawMessage `json:"input"`
		StatusURL string          `json:"status_url"`
	}
	var got []string
	var last item
	for path := "/v1/deliveries?limit=2"; path != ""; {
		a := r.api(authn.Viewer, "GET", path, "")
		var page struct {
			Items []item
			Next  string `json:"next_cursor"`
		}
		if err := json.Unmarshal(a.body, &page); err != nil || a.status != 200 || len(page.Items) > 2 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for _, x := range page.Items {
			got = append(got, x.RunID)
			last = x
			if x.Input != nil {
				t.Errorf("a list carries the input %s", x.Input)
			}
		}
		path = ""
		if page.Next != "" {
			path = "/v1/deliveries?limit=2&cursor=" + page.Next
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs, newest first (-want +got):\n%s", diff)
	}
	var one item
	a := r.api(authn.Viewer, "GET", "/v1/deliveries/"+last.ID, "")
	if err := json.Unmarshal(a.body, &one); err != nil || a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	wantOne := item{ID: last.ID, RunID: want[n-1], Source: "api", Name: "operator", Key: "0",
		Input: json.RawMessage(`{"n":9007199254740993,"i":0}`), StatusURL: "/v1/runs/" + want[n-1]}
	if diff := cmp.Diff(wantOne, one); diff != "" {
		t.Errorf("one delivery (-want +got):\n%s", diff)
	}
	for _, id := range []string{"0198c2a4-0000-7000-8000-000000000000", "x", "%00"} {
		if a := r.api(authn.Viewer, "GET", "/v1/deliveries/"+id, ""); a.status != http.StatusNotFound {
			t.Errorf("delivery %q: %d %s", id, a.status, a.body)
		}
	}
	if a := r.api(authn.Viewer, "GET", "/v1/deliveries?cursor=eyJpIjoieCJ9", ""); a.status != http.StatusBadRequest {
		t.Errorf("a cursor that is not ours: %d %s", a.status, a.body)
	}
	if a := r.send("GET", "/v1/deliveries/"+last.ID, nil, "Authorization", "Bearer "+tokenOfOther); a.status != http.StatusNotFound {
		t.Errorf("another namespace's delivery: %d %s", a.status, a.body)
	}
}

func TestDoor_DescribesTheStart(t *testing.T) {
	t.Parallel()
	r := setup(t).start(t)
	a := r.send("GET", "/openapi.json", nil)
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Required bool
				Content  map[string]struct {
					Schema struct{ Properties map[string]any }
				}
			}
			Responses map[string]any
		}
	}
	if err := json.Unmarshal(a.body, &doc); err != nil {
		t.Fatal(err)
	}
	start := doc.Paths["/v1/agents/{name}/runs"]["post"]
	if len(start.RequestBody.Content) != 1 || start.RequestBody.Required {
		t.Errorf("request body %+v", start.RequestBody)
	}
	properties := start.RequestBody.Content["application/json"].Schema.Properties
	if _, input := properties["input"]; !input || properties["labels"] == nil || start.Responses["202"] == nil {
		t.Errorf("the start is described as %+v", start)
	}
}
