package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// told is what a route of programs' runs answers.
type told struct {
	code   int
	body   string
	header http.Header
	RunID  events.RunID    `json:"run_id"`
	Status string          `json:"status"`
	Ver    int64           `json:"version"`
	State  json.RawMessage `json:"state"`
	Code   string          `json:"code"`
}

func (r *rig) tell(role authn.Role, method, path, body string, header ...string) told {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+doortest.Token(role))
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	out := told{}
	_ = json.Unmarshal(b, &out)
	out.code, out.body, out.header = resp.StatusCode, string(b), resp.Header
	return out
}

func (r *rig) expect(what string, got told, code int, problem string) told {
	r.t.Helper()
	if got.code != code || got.Code != problem {
		r.t.Errorf("%s: %d %s, want %d %s", what, got.code, got.body, code, problem)
	}
	return got
}

func (r *rig) program(name string) events.RunID {
	r.t.Helper()
	got := r.expect("start", r.tell(authn.Operator, http.MethodPost, "/v1/runs", `{"name":"`+name+`","input":{"n":12345678901234567890}}`), 201, "")
	if !got.RunID.Valid() || got.header.Get("Location") != "/v1/runs/"+string(got.RunID) {
		r.t.Fatalf("started %s", got.body)
	}
	return got.RunID
}

func (r *rig) save(id events.RunID, over int, state string, header ...string) told {
	r.t.Helper()
	header = append(header, "If-Match", fmt.Sprintf(`"%d"`, over))
	return r.tell(authn.Operator, http.MethodPut, "/v1/runs/"+string(id)+"/checkpoint", `{"state":`+state+`}`, header...)
}

func TestProgram_Checkpoints(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.program("loop")
	path := "/v1/runs/" + string(id) + "/checkpoint"

	empty := r.expect("before the first", r.tell(authn.Viewer, http.MethodGet, path, ""), 200, "")
	if empty.Ver != 0 || empty.header.Get("ETag") != `"0"` || empty.State != nil || empty.Status != "running" {
		t.Errorf("before the first: %s", empty.body)
	}
	r.expect("without a version", r.tell(authn.Operator, http.MethodPut, path, `{"state":1}`), 428, "version_required")
	r.expect("over nonsense", r.tell(authn.Operator, http.MethodPut, path, `{"state":1}`, "If-Match", `"x"`), 412, "stale_checkpoint")
	r.expect("over the future", r.save(id, 1, `1`), 412, "stale_checkpoint")
	const state = `{"step":1,"total":98765432109876543210.50}`
	first := r.expect("the first", r.save(id, 0, state), 200, "")
	if first.Ver != 1 || first.header.Get("ETag") != `"1"` {
		t.Errorf("saved %s, ETag %s", first.body, first.header.Get("ETag"))
	}
	stale := r.expect("over the same again", r.save(id, 0, state), 412, "stale_checkpoint")
	if stale.header.Get("ETag") != `"1"` {
		t.Errorf("a stale save is told the version %s", stale.header.Get("ETag"))
	}
	if got := r.tell(authn.Viewer, http.MethodGet, path, ""); string(got.State) != state || got.Ver != 1 {
		t.Errorf("loaded %s, want every digit of %s", got.body, state)
	}
	r.expect("with a key", r.save(id, 1, `2`, "Idempotency-Key", "s2"), 200, "")
	if again := r.expect("the same save again", r.save(id, 1, `2`, "Idempotency-Key", "s2"), 200, ""); again.Ver != 2 {
		t.Errorf("a repeat is version %d", again.Ver)
	}
	r.expect("somebody else's save", r.save(id, 1, `2`, "Idempotency-Key", "other"), 412, "stale_checkpoint")
	r.expect("a large state", r.save(id, 2, `"`+strings.Repeat("x", 1<<20)+`"`), 413, "body_too_large")
	r.expect("the largest one", r.save(id, 2, `"`+strings.Repeat("x", 1<<20-2)+`"`), 200, "")
	r.expect("no state", r.tell(authn.Operator, http.MethodPut, path, `{}`, "If-Match", `"3"`), 422, "invalid_input")
	r.expect("a viewer saves", r.tell(authn.Viewer, http.MethodPut, path, `{"state":1}`, "If-Match", `"3"`), 403, "forbidden")
	for v := 3; v < console.KeptCheckpoints+3; v++ {
		r.expect("many", r.save(id, v, fmt.Sprint(v+1)), 200, "")
	}
	for version, code := range map[int]int{1: 404, 3: 404, 4: 200, console.KeptCheckpoints + 3: 200, 1000: 404} {
		if got := r.tell(authn.Viewer, http.MethodGet, path+fmt.Sprintf("?version=%d", version), ""); got.code != code {
			t.Errorf("version %d: %d %s, want %d", version, got.code, got.body, code)
		}
	}
	other := r.tell(authn.Viewer, http.MethodGet, "/v1/runs/"+string(events.NewRunID())+"/checkpoint", "")
	r.expect("a run that is none", other, 404, "not_found")
}

// Two processes that hold one run: at each version one of them saves.
func TestProgram_TwentySaversOneWins(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.program("loop")
	for round := range 3 {
		var wg sync.WaitGroup
		codes := make([]int, 20)
		for i := range codes {
			wg.Go(func() { codes[i] = r.save(id, round, fmt.Sprintf(`"saver %d"`, i)).code })
		}
		wg.Wait()
		n := map[int]int{}
		for _, c := range codes {
			n[c]++
		}
		if n[200] != 1 || n[412] != 19 {
			t.Errorf("round %d: %v, want one 200 and nineteen 412", round, n)
		}
	}
}

func TestProgram_StartIsOnePerKey(t *testing.T) {
	t.Parallel()
	r := setup(t)
	body := `{"name":"loop","input":{"a":1.0},"labels":{"team":"ops"}}`
	first := r.expect("start", r.tell(authn.Operator, http.MethodPost, "/v1/runs", body, "Idempotency-Key", "k"), 201, "")
	again := r.expect("again", r.tell(authn.Operator, http.MethodPost, "/v1/runs", `{"labels":{"team":"ops"},"input":{"a":1},"name":"loop"}`, "Idempotency-Key", "k"), 200, "")
	if again.RunID != first.RunID || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("again: %s", again.body)
	}
	r.expect("another request", r.tell(authn.Operator, http.MethodPost, "/v1/runs", `{"name":"loop"}`, "Idempotency-Key", "k"), 409, "idempotency_key_reused")
	for what, bad := range map[string]string{"nothing": `{}`, "no name": `{"name":"a b"}`, "more": `{"name":"a","x":1}`, "twice": `{"name":"a","input":{"a":1,"a":1}}`} {
		r.expect(what, r.tell(authn.Operator, http.MethodPost, "/v1/runs", bad), 422, "invalid_input")
	}
}

func TestProgram_IsSeenAsARun(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.program("loop")
	r.save(id, 0, `{"a":1}`)
	r.save(id, 1, `{"a":2}`)
	run := "/v1/runs/" + string(id)
	if got := r.tell(authn.Viewer, http.MethodGet, run, ""); got.code != 200 || got.Status != "running" ||
		!strings.Contains(got.body, `"kind":"program"`) || !strings.Contains(got.body, `{"n":12345678901234567890}`) {
		t.Errorf("the run: %d %s", got.code, got.body)
	}
	for query, sees := range map[string]bool{"": true, "?program=loop": true, "?program=other": false, "?agent=loop": false, "?status=running": true, "?status=completed": false, "?parent=" + string(id): false} {
		if got := r.tell(authn.Viewer, http.MethodGet, "/v1/runs"+query, ""); got.code != 200 || strings.Contains(got.body, string(id)) != sees {
			t.Errorf("list %q: %d %s, want it there: %v", query, got.code, got.body, sees)
		}
	}
	if got := r.tell(authn.Viewer, http.MethodGet, run+"/why", ""); !strings.Contains(got.body, "its own program drives it") {
		t.Errorf("why: %s", got.body)
	}
	r.expect("pausing it", r.tell(authn.Operator, http.MethodPost, run+"/pause", `{}`), 409, "program_run")

	r.expect("an end that is none", r.tell(authn.Operator, http.MethodPost, run+"/complete", `{"status":"running"}`), 422, "invalid_input")
	r.expect("the end", r.tell(authn.Operator, http.MethodPost, run+"/complete", `{"status":"completed","output":{"sum":0.10}}`), 200, "")
	r.expect("the same end", r.tell(authn.Operator, http.MethodPost, run+"/complete", `{"output":{"sum":0.1},"status":"completed"}`), 200, "")
	r.expect("another end", r.tell(authn.Operator, http.MethodPost, run+"/complete", `{"status":"cancelled"}`), 409, "run_ended")
	r.expect("a save after it", r.save(id, 2, `3`), 409, "run_ended")
	r.expect("cancelling it", r.tell(authn.Operator, http.MethodPost, run+"/cancel", `{}`), 409, "run_ended")
	if got := r.tell(authn.Viewer, http.MethodGet, run, ""); got.Status != "completed" || !strings.Contains(got.body, `{"sum":0.10}`) {
		t.Errorf("the ended run: %s", got.body)
	}

	// Its events are a stream without a gap that ends.
	stream := r.tell(authn.Viewer, http.MethodGet, run+"/events", "")
	var order []string
	for line := range strings.Lines(stream.body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var e events.RunEvent
			if err := json.Unmarshal([]byte(data), &e); err == nil && e.Kind != "" {
				order = append(order, fmt.Sprintf("%d %s", e.Seq, e.Kind))
			}
		}
	}
	if got := strings.Join(order, ", "); got != "1 program_started, 2 checkpoint_saved, 3 checkpoint_saved, 4 program_ended" || !strings.Contains(stream.body, "event: end") {
		t.Errorf("events: %s\n%s", got, stream.body)
	}
}
