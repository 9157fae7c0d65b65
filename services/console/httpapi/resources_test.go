package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

const modelYAML = `apiVersion: holdfast/v1
kind: Model
metadata: {name: claude}
spec: {provider: anthropic, model: claude-x, apiKey: {env: ANTHROPIC_API_KEY}}
`

const agentYAML = `apiVersion: holdfast/v1
kind: Agent
metadata: {name: checker}
spec:
  model: claude
  instructions: Check it.
`

func documents(t *testing.T, texts ...string) string {
	t.Helper()
	type doc struct {
		File string `json:"file"`
		Text string `json:"text"`
	}
	var body struct {
		Documents []doc `json:"documents"`
	}
	for i, text := range texts {
		body.Documents = append(body.Documents, doc{fmt.Sprintf("f%d.yaml", i+1), text})
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestApply_AllOrNothingAndVersions(t *testing.T) {
	t.Parallel()
	r := setup(t)
	admin := doortest.Token(authn.Admin)

	// An agent without its model: nothing is stored, and the error says where.
	status, _, raw := r.do("POST", "/v1/resources", admin, documents(t, strings.Replace(agentYAML, "model: claude", "model: cloude", 1), modelYAML))
	var p door.Problem
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		t.Fatal(err)
	}
	if status != 422 || p.Code != httpapi.CodeInvalidDefinition || len(p.Errors) != 1 ||
		p.Errors[0].File != "f1.yaml" || p.Errors[0].Field != "spec.model" || !strings.Contains(p.Errors[0].Message, `did you mean "claude"?`) {
		t.Errorf("missing model: %d %s", status, raw)
	}
	// A wrong field: file, line, column and the nearest valid name.
	status, _, raw = r.do("POST", "/v1/resources", admin, documents(t, modelYAML, strings.Replace(agentYAML, "instructions", "instruktions", 1)))
	p = door.Problem{}
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		t.Fatal(err)
	}
	if status != 422 || len(p.Errors) == 0 || p.Errors[0].File != "f2.yaml" || p.Errors[0].Line != 6 || p.Errors[0].Column != 3 || !strings.Contains(p.Errors[0].Message, "instructions") {
		t.Errorf("wrong field: %d %s", status, raw)
	}
	if list := get[door.Page[httpapi.Resource]](r, "GET", "/v1/resources", authn.Viewer, ""); len(list.Items) != 0 {
		t.Fatalf("something was stored: %+v", list)
	}

	apply := func(texts ...string) map[string]httpapi.Applied {
		out := map[string]httpapi.Applied{}
		for _, a := range get[[]httpapi.Applied](r, "POST", "/v1/resources", authn.Admin, documents(t, texts...)) {
			out[a.Kind+"/"+a.Name] = a
		}
		return out
	}
	summary := func(m map[string]httpapi.Applied) map[string]string {
		out := map[string]string{}
		for k, a := range m {
			out[k] = fmt.Sprintf("%s v%d %v", a.Namespace, a.Version, a.Changed)
		}
		return out
	}
	first := apply(modelYAML + "---\n" + agentYAML)
	if diff := cmp.Diff(map[string]string{"model/claude": "default v1 true", "agent/checker": "default v1 true"}, summary(first)); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"model/claude": "default v1 false", "agent/checker": "default v1 false"}, summary(apply(modelYAML, agentYAML))); diff != "" {
		t.Errorf("again (-want +got):\n%s", diff)
	}
	// The model is in the catalog now, so the agent may come alone.
	second := apply(strings.Replace(agentYAML, "Check it.", "Check it well.", 1))
	if diff := cmp.Diff(map[string]string{"agent/checker": "default v2 true"}, summary(second)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if back := apply(agentYAML)["agent/checker"]; back.Version != 3 || back.Digest != first["agent/checker"].Digest || back.Digest == second["agent/checker"].Digest {
		t.Errorf("back: %+v", back)
	}

	got := get[httpapi.Resource](r, "GET", "/v1/resources/agent/checker", authn.Viewer, "")
	if got.Version != 3 || !strings.Contains(string(got.Body), `"instructions":"Check it."`) {
		t.Errorf("get: %+v", got)
	}
	list := get[door.Page[httpapi.Resource]](r, "GET", "/v1/resources?limit=1", authn.Viewer, "")
	rest := get[door.Page[httpapi.Resource]](r, "GET", "/v1/resources?cursor="+list.NextCursor, authn.Viewer, "")
	if len(list.Items) != 1 || len(rest.Items) != 1 || list.Items[0].Kind != "agent" || rest.Items[0].Kind != "model" || rest.NextCursor != "" {
		t.Errorf("pages: %+v %+v", list, rest)
	}
	for path, want := range map[string]int{"/v1/resources/agent/nobody": 404, "/v1/resources/colour/red": 422, "/v1/resources/flow/checker": 404} {
		if status, _, raw := r.do("GET", path, doortest.Token(authn.Viewer), ""); status != want {
			t.Errorf("%s: %d %s", path, status, raw)
		}
	}
}

func TestApply_TwoNamespacesTwoAgents(t *testing.T) {
	t.Parallel()
	r := setup(t)
	other := doortest.TokenIn("other", authn.Admin)
	if status, _, raw := r.do("POST", "/v1/resources", doortest.Token(authn.Admin), documents(t, modelYAML, agentYAML)); status != 200 {
		t.Fatalf("default: %d %s", status, raw)
	}
	// What "default" has does not count for "other".
	if status, _, raw := r.do("POST", "/v1/resources", other, documents(t, agentYAML)); status != 422 {
		t.Errorf("other without a model: %d %s", status, raw)
	}
	if status, _, raw := r.do("POST", "/v1/resources", other, documents(t, modelYAML, strings.Replace(agentYAML, "Check it.", "Other.", 1))); status != 200 {
		t.Errorf("other: %d %s", status, raw)
	}
	if _, _, raw := r.do("GET", "/v1/resources/agent/checker", other, ""); !strings.Contains(raw, "Other.") {
		t.Errorf("other's agent: %s", raw)
	}
	if _, _, raw := r.do("GET", "/v1/resources/agent/checker", doortest.Token(authn.Viewer), ""); !strings.Contains(raw, "Check it.") {
		t.Errorf("default's agent: %s", raw)
	}
	// A document cannot leave its token's namespace.
	status, _, raw := r.do("POST", "/v1/resources", other, documents(t, strings.Replace(modelYAML, "{name: claude}", "{name: claude, namespace: default}", 1)))
	if status != 422 || !strings.Contains(raw, "metadata.namespace") {
		t.Errorf("across: %d %s", status, raw)
	}
}

func TestApply_BadBodies(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for name, tc := range map[string]struct {
		body string
		want int
	}{
		"nothing":        {`{"documents":[]}`, 422},
		"an empty file":  {documents(t, "# nothing\n"), 422},
		"not YAML":       {documents(t, "a: [1"), 422},
		"not an object":  {`[]`, 422},
		"over the limit": {`{"documents":[{"file":"x","text":"` + strings.Repeat("#", 9<<20) + `"}]}`, 413},
	} {
		status, _, raw := r.do("POST", "/v1/resources", doortest.Token(authn.Admin), tc.body)
		if status != tc.want {
			t.Errorf("%s: %d %s", name, status, raw)
		}
	}
}

func TestTokens_ShownOnceUsedAndRevoked(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := get[httpapi.NewToken](r, "POST", "/v1/tokens", authn.Admin, `{"name":"maria","role":"approver","groups":["finance","leads"],"expires_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
	if !strings.HasPrefix(made.Secret, authn.TokenPrefix) || made.Namespace != "default" || made.CreatedBy != "admin" || made.ExpiresAt == nil {
		t.Errorf("made: %+v", made.Token)
	}
	var hash []byte
	if err := r.db.QueryRow(t.Context(), `SELECT hash FROM catalog.v_tokens WHERE id = $1`, made.ID).Scan(&hash); err != nil {
		t.Fatal(err)
	}
	if want := authn.HashToken(made.Secret); string(hash) != string(want[:]) {
		t.Error("the stored hash is not the token's")
	}

	// Any service verifies it by the view.
	v := authn.NewPostgres(r.db)
	p, err := v.Verify(t.Context(), made.Secret)
	if diff := cmp.Diff(authn.Principal{Name: "maria", Namespace: "default", Role: authn.Approver, Groups: []string{"finance", "leads"}, TokenID: made.ID}, p); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}

	_, _, raw := r.do("GET", "/v1/tokens", doortest.Token(authn.Admin), "")
	if strings.Contains(raw, made.Secret) || !strings.Contains(raw, made.ID) {
		t.Errorf("list: %s", raw)
	}
	if status, _, _ := r.do("DELETE", "/v1/tokens/"+made.ID, doortest.TokenIn("other", authn.Admin), ""); status != 404 {
		t.Errorf("another namespace revokes: %d", status)
	}
	for range 2 {
		if got := get[httpapi.Token](r, "DELETE", "/v1/tokens/"+made.ID, authn.Admin, ""); got.RevokedAt == nil || got.RevokedBy != "admin" {
			t.Errorf("revoked: %+v", got)
		}
	}
	eventually(t, "the token is refused where it was cached", func() bool {
		_, err := v.Verify(t.Context(), made.Secret)
		return err != nil
	})
	for body, want := range map[string]int{
		`{"name":"x","role":"root"}`: 422, `{"name":"x","role":"viewer","groups":["two words"]}`: 422, `{"name":"","role":"viewer"}`: 422, `{"role":"viewer"}`: 422,
		`{"name":"x","role":"viewer","expires_at":"2020-01-01T00:00:00Z"}`: 422,
	} {
		if status, _, raw := r.do("POST", "/v1/tokens", doortest.Token(authn.Admin), body); status != want {
			t.Errorf("%s: %d %s", body, status, raw)
		}
	}
}

// What is valid and may not be what was meant is stored, and said.
func TestApply_Warnings(t *testing.T) {
	t.Parallel()
	r := setup(t)
	const schedule = "---\napiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: either}\nspec: {cron: \"0 0 13 * 5\", agent: checker}\n"
	for range 2 { // also of a version that is there already
		warned := map[string][]door.ProblemError{}
		for _, a := range get[[]httpapi.Applied](r, "POST", "/v1/resources", authn.Admin, documents(t, modelYAML, agentYAML+schedule)) {
			if a.Warnings != nil {
				warned[a.Kind+"/"+a.Name] = a.Warnings
			}
		}
		w := warned["schedule/either"]
		if len(warned) != 1 || len(w) != 1 || w[0].Field != "spec.cron" || w[0].File != "f2.yaml" || w[0].Line == 0 || !strings.Contains(w[0].Message, "either of them fires") {
			t.Errorf("warnings %+v", warned)
		}
	}
}
