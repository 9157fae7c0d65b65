package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// runKeepsItsDefinitions works in a namespace of its own, whose agent changes
// while a run is in its model call.
func runKeepsItsDefinitions(t *testing.T, d *deployment) {
	team := d.inNamespace(t, "changing")
	d.apply(t, team, "old edition")
	start := func(j job) events.RunID {
		s, err := team.Start(t.Context(), client.StartRequest{Agent: "clerk", Input: j.input()})
		if err != nil {
			t.Fatal(err)
		}
		return s.RunID
	}
	says := func(id events.RunID, edition string) client.Run {
		var r client.Run
		until(t, "the end of "+string(id), func() bool {
			var err error
			if r, err = team.Run(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			return events.Ended(r.Status)
		})
		if r.Status != events.StatusCompleted || !strings.Contains(string(r.Output), edition) {
			t.Errorf("run %s is %s and says %s, want the %s", id, r.Status, r.Output, edition)
		}
		return r
	}
	before := job{Job: "before-the-change", Do: []string{"read", "pay"}}
	held := d.out.hold(t, before.Job, 1)
	first := start(before)
	held.wait(t)
	changed := d.apply(t, team, "new edition")
	if !slices.ContainsFunc(changed, func(a client.Applied) bool { return a.Kind == "agent" && a.Changed && a.Version == 2 }) {
		t.Fatalf("applied %+v, want a second version of the agent", changed)
	}
	after := job{Job: "after-the-change", Do: []string{"read"}}
	second := says(start(after), "new edition") // while the first is still running
	held.release()
	if r := says(first, "old edition"); r.Digest == second.Digest {
		t.Error("both runs have one version of the agent")
	}
}

// namespacesAreApart gives two namespaces an agent of one name, and shows one
// of them every route of the other's run.
func namespacesAreApart(t *testing.T, d *deployment) {
	ours, theirs := d.inNamespace(t, "ours"), d.inNamespace(t, "theirs")
	d.apply(t, ours, "edition of ours")
	d.apply(t, theirs, "edition of theirs")
	ids := map[*client.Client]events.RunID{}
	for api, edition := range map[*client.Client]string{ours: "edition of ours", theirs: "edition of theirs"} {
		// The same key of the API and the same business keys, and nobody meets.
		j := job{Job: "shared-name", Do: []string{"read", "send"}}
		s, err := api.Start(t.Context(), client.StartRequest{Agent: "clerk", Input: j.input(), IdempotencyKey: "shared"})
		if err != nil {
			t.Fatal(err)
		}
		ids[api] = s.RunID
		until(t, edition, func() bool {
			r, err := api.Run(t.Context(), s.RunID)
			return err == nil && r.Status == events.StatusCompleted && strings.Contains(string(r.Output), edition)
		})
	}
	if n := len(d.out.of("send", "shared-name")); ids[ours] == ids[theirs] || n != 2 {
		t.Errorf("runs %v acted %d times, want two runs and two acts", ids, n)
	}
	page, err := ours.Runs(t.Context(), client.RunFilter{Agent: "clerk"}, client.PageRequest{})
	if err != nil || len(page.Items) != 1 || page.Items[0].RunID != ids[ours] {
		t.Errorf("ours sees the runs %+v, %v", page.Items, err)
	}
	d.mu.Lock()
	token := d.tokens["ours"]
	d.mu.Unlock()
	d.programsAreApart(t, ours, theirs, token)
	for _, route := range d.runRoutes(t) {
		if ofPrograms[route] {
			continue
		}
		for id, want := range map[events.RunID]bool{ids[ours]: true, ids[theirs]: false} {
			path := strings.ReplaceAll(route.path, "{id}", string(id))
			a := d.send(t, route.method, path, token, route.body(), nil)
			if found := a.status != http.StatusNotFound; found != want {
				t.Errorf("%s %s: %d %s, want found: %v", route.method, path, a.status, a.body, want)
			}
		}
	}
	// The rows that belong to the run are as foreign.
	for what, sql := range map[string]string{
		"/v1/effects/":    `SELECT effect_id FROM tools.v_effects WHERE namespace = 'theirs'`,
		"/v1/deliveries/": `SELECT delivery_id::text FROM trigger.v_deliveries WHERE namespace = 'theirs'`,
	} {
		var id string
		if err := d.db.QueryRow(t.Context(), sql).Scan(&id); err != nil {
			t.Fatal(err)
		}
		if a := d.send(t, http.MethodGet, what+id, token, nil, nil); a.status != http.StatusNotFound {
			t.Errorf("%s of theirs for ours: %d %s", what, a.status, a.body)
		}
	}
	if a := d.send(t, http.MethodGet, "/v1/runs", token, nil, map[string]string{"Holdfast-Namespace": "theirs"}); a.status != http.StatusForbidden {
		t.Errorf("a token of ours that asks for theirs: %d %s, want 403", a.status, a.body)
	}
}

// ofPrograms are the routes about a run that only a program's run has.
var ofPrograms = map[route]bool{
	{http.MethodGet, "/v1/runs/{id}/checkpoint"}: true,
	{http.MethodPut, "/v1/runs/{id}/checkpoint"}: true,
	{http.MethodPost, "/v1/runs/{id}/complete"}:  true,
}

// programsAreApart is the same for the runs of programs, with requests that are
// right but for the namespace.
func (d *deployment) programsAreApart(t *testing.T, ours, theirs *client.Client, token string) {
	t.Helper()
	for api, want := range map[*client.Client]int{ours: http.StatusOK, theirs: http.StatusNotFound} {
		p, err := api.StartProgram(t.Context(), client.ProgramRequest{Name: "loop", IdempotencyKey: "shared"})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Save(t.Context(), json.RawMessage(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
		path := "/v1/runs/" + string(p.ID)
		for _, r := range []struct {
			method, path, body string
			headers            map[string]string
		}{
			{http.MethodGet, path + "/checkpoint", "", nil},
			{http.MethodPut, path + "/checkpoint", `{"state":{"n":2}}`, map[string]string{"If-Match": `"1"`}},
			{http.MethodPost, path + "/complete", `{"status":"completed","output":{}}`, nil},
		} {
			if a := d.send(t, r.method, r.path, token, []byte(r.body), r.headers); a.status != want {
				t.Errorf("%s %s: %d %s, want %d", r.method, r.path, a.status, a.body, want)
			}
		}
	}
}
