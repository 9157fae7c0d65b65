package httpapi_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

const flowYAML = `apiVersion: holdfast/v1
kind: Flow
metadata: {name: night}
spec:
  steps:
  - {name: all, agent: checker, forEach: "${input.shops}", limit: 3}
  - {name: sum, agent: checker, needs: [all], when: "steps.all.outputs.size() > 0", onFailure: continue}
`

// definitions applies two versions of an agent, and a flow that starts it.
func (r *rig) definitions() {
	r.t.Helper()
	first := strings.Replace(agentYAML, "instructions: Check it.", "description: \"Checks <b>shops</b>\"\n  instructions: |\n    One\n    Two\n    Three", 1)
	get[[]httpapi.Applied](r, "POST", "/v1/resources", authn.Admin, documents(r.t, modelYAML, first, flowYAML))
	second := strings.NewReplacer("Two", "<script>alert(2)</script>", "description", "maxTokens: 9007199254740\n  description").Replace(first)
	second = strings.Replace(second, "maxTokens: 9007199254740", "maxTokens: 900719", 1)
	get[[]httpapi.Applied](r, "POST", "/v1/resources", authn.Admin, documents(r.t, second))
}

func TestDefinitionPages(t *testing.T) {
	t.Parallel()
	r := setup(t)
	page := func(path string, role authn.Role, want ...string) string {
		t.Helper()
		status, _, raw := r.do("GET", path, doortest.Token(role), "")
		if status != 200 {
			t.Fatalf("%s: %d %s", path, status, raw)
		}
		for _, w := range want {
			if !strings.Contains(raw, w) {
				t.Errorf("%s does not say %q", path, w)
			}
		}
		if strings.Contains(raw, "<script>alert") || strings.Contains(raw, "<b>shops") {
			t.Errorf("%s obeys what it shows", path)
		}
		return raw
	}
	page("/ui/agents", authn.Viewer, "Nothing of this kind is defined")
	r.definitions()
	for i := range 3 {
		id := events.NewRunID()
		r.take("default", id, "checker", `{}`)
		if i > 0 {
			r.step(id, []string{"", "failed", "completed"}[i], false)
			r.exec(`UPDATE runner.runs SET cost_micro_usd = 54301, digest = (SELECT digest FROM catalog.changes WHERE name = 'checker' AND version = $2) WHERE run_id = $1`, id, i)
		}
	}
	list := page("/ui/agents", authn.Viewer, `data-l="Version">2<`, `data-l="Open"><a href="/?agent=checker">1<`, `data-l="Ended">2<`, `data-l="Failed"><a href="/?status=failed&amp;agent=checker">1<`, "$0.108602", "Checks &lt;b&gt;shops", `href="/ui/definitions/model/claude"`)
	if strings.Contains(list, "/ui/start/") {
		t.Error("a viewer is offered a start")
	}
	page("/ui/agents", authn.Operator, `href="/ui/start/agent/checker"`)
	page("/ui/agents?kind=model", authn.Viewer, "anthropic claude-x")
	page("/ui/definitions/agent/checker", authn.Viewer, "Version 2 since", "by admin", "flow night", "spec.steps[0].agent", `href="/ui/definitions/model/claude"`, `data-l="Runs">1<`)
	page("/ui/definitions/agent/checker?version=1", authn.Viewer, "not the current version", "Two")
	page("/ui/definitions/model/claude", authn.Viewer, "agent checker", "spec.model")
	flow := page("/ui/definitions/flow/night", authn.Viewer, "<svg class=\"flow-svg\"", "for each of <code>${input.shops}, 3 at once</code>", "when <code>steps.all.outputs.size() &gt; 0</code>", "goes on without an item", "after all")
	if strings.Count(flow, `class="fn"`) != 2 || strings.Count(flow, `class="fe"`) != 1 {
		t.Error("the flow's graph has not two steps and an edge")
	}
	page("/ui/definitions/agent/checker/diff", authn.Viewer, "From version 1", "to version 2", "spec.instructions", "<span class=\"vh\">removed: </span>Two", "<span class=\"vh\">added: </span>&lt;script&gt;", "<span>One</span>", "900719")
	page("/ui/definitions/agent/checker/diff?from=2&to=1", authn.Viewer, "added: </span>Two")
	page("/ui/definitions/agent/checker/diff?from=2&to=2", authn.Viewer, "Nothing differs")
	page("/ui/definitions/flow/night/diff?from=1&to=1", authn.Viewer, `<a href="/ui/agents?kind=flow">Flows</a> / <a href="/ui/definitions/flow/night">night</a>`)

	for path, want := range map[string]int{
		"/ui/agents?kind=nope": 422, "/ui/definitions/agent/nobody": 404, "/ui/definitions/nope/checker": 404, "/ui/definitions/agent/checker?version=9": 404,
		"/ui/definitions/agent/checker?version=-1": 404, "/ui/definitions/agent/checker/diff?from=" + url.QueryEscape("sha256:x"): 404, "/ui/definitions/agent/" + url.PathEscape("<b>") + "/diff": 404,
	} {
		if status, _, raw := r.do("GET", path, doortest.Token(authn.Viewer), ""); status != want {
			t.Errorf("%s: %d %s", path, status, raw)
		}
	}
	other := doortest.TokenIn("other", authn.Viewer)
	if _, _, raw := r.do("GET", "/ui/agents", other, ""); !strings.Contains(raw, "Nothing of this kind") {
		t.Error("another namespace sees the agents")
	}
	if status, _, _ := r.do("GET", "/ui/definitions/agent/checker", other, ""); status != 404 {
		t.Errorf("another namespace sees an agent: %d", status)
	}

	versions := get[struct{ Items []httpapi.Version }](r, "GET", "/v1/resources/agent/checker/versions", authn.Viewer, "").Items
	if len(versions) != 2 || versions[0].Version != 2 || !versions[0].Current || versions[1].Current || versions[0].ChangedBy != "admin" || versions[1].Runs != 1 || versions[1].Open != 0 {
		t.Errorf("versions: %+v", versions)
	}
	var diff struct {
		From, To httpapi.Version
		Changes  []httpapi.Change
		More     bool
		Diff     string
	}
	diff = get[struct {
		From, To httpapi.Version
		Changes  []httpapi.Change
		More     bool
		Diff     string
	}](r, "GET", "/v1/resources/agent/checker/diff?from=1&to=2", authn.Viewer, "")
	if len(diff.Changes) != 2 || diff.Changes[0].Path != "spec.instructions" || diff.Changes[1].Path != "spec.maxTokens" || string(diff.Changes[1].After) != "900719" || !strings.Contains(diff.Diff, "- Two") {
		t.Errorf("diff: %+v", diff)
	}
	// A version that was applied before changes were kept has no number.
	r.exec(`DELETE FROM catalog.changes WHERE version = 1`)
	page("/ui/definitions/agent/checker", authn.Viewer, ">earlier<")
	page("/ui/definitions/agent/checker/diff?from="+url.QueryEscape(string(versions[1].Digest)), authn.Viewer, "From an earlier version", "added: </span>&lt;script&gt;")
}
