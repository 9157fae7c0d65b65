package httpapi_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

var rowOfRun = regexp.MustCompile(`<tr role="row" id="run-([0-9a-f-]{36})"`)

// listedRuns are the runs of the page and of the API for the same query.
func (r *rig) listedRuns(query string) (page, api []string, next string) {
	r.t.Helper()
	status, _, raw := r.do("GET", "/?"+query, doortest.Token(authn.Viewer), "")
	if status != 200 {
		r.t.Fatalf("/?%s: %d", query, status)
	}
	for _, m := range rowOfRun.FindAllStringSubmatch(raw, -1) {
		page = append(page, m[1])
	}
	status, _, raw = r.do("GET", "/v1/runs?"+query, doortest.Token(authn.Viewer), "")
	var out struct {
		Items []struct {
			RunID string `json:"run_id"`
		}
		NextCursor string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(raw), &out); err != nil || status != 200 {
		r.t.Fatalf("/v1/runs?%s: %d %s", query, status, raw)
	}
	for _, item := range out.Items {
		api = append(api, item.RunID)
	}
	return page, api, out.NextCursor
}

func TestRuns_EveryFilterOnThePageAndInTheAPI(t *testing.T) {
	t.Parallel()
	r := setup(t)
	ids := map[string]events.RunID{}
	names := map[string]string{}
	for _, run := range []struct{ name, agent, labels, change string }{
		{"old", "pricing", `{"shop":"Quarry House"}`, `accepted_at = '2026-03-01T10:00:00Z', status = 'completed', ended_at = '2026-03-01T10:01:30Z', cost_micro_usd = 54300, trigger = '{"kind":"webhook","name":"stripe"}'`},
		{"dear", "pricing", `{"shop":"b"}`, `status = 'failed', ended_at = clock_timestamp(), cost_micro_usd = 9007199253740993, trigger = '{"kind":"schedule","name":"nightly"}', error = '{"code":"auth","message":"the key is wrong"}'`},
		{"stuck", "triage", `{"shop":"b"}`, `status = 'needs_attention', waiting = 'Lost Model', trigger = '{"kind":"webhook","name":"crm"}'`},
		{"child", "triage", `{}`, `trigger = '{"kind":"child","name":"night"}', parent_run_id = '0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a'`},
	} {
		id := events.NewRunID()
		if run.name == "old" { // of its time, as every id is
			id = "019ca8d7-2d00-7000-8000-5b6a1f2e3d4c"
		}
		ids[run.name], names[string(id)] = id, run.name
		r.take("default", id, run.agent, run.labels)
		r.exec(`UPDATE runner.runs SET `+run.change+` WHERE run_id = $1`, id)
	}
	queued := r.accept("default", "triage", `{"shop":"b"}`)
	names[string(queued)] = "queued"
	r.take("elsewhere", events.NewRunID(), "pricing", `{"shop":"b"}`)

	for query, want := range map[string]string{
		"":                                            "child dear old queued stuck",
		"agent=pricing":                               "dear old",
		"status=failed":                               "dear",
		"status=failed&status=needs_attention":        "dear stuck",
		"status=queued":                               "queued",
		"status=queued&status=needs_attention":        "queued stuck",
		"trigger=webhook":                             "old stuck",
		"trigger=webhook&source=stripe":               "old",
		"trigger=api":                                 "queued",
		"trigger=child&source=night":                  "child",
		"label=shop:b":                                "dear queued stuck",
		"label=shop:b&status=failed":                  "dear",
		"from=2026-03-01&to=2026-03-02":               "old",
		"from=1h":                                     "child dear queued stuck",
		"to=2026-03-01T10:00:00Z":                     "",
		"cost=0.0543":                                 "dear old",
		"cost=0.054301":                               "dear",
		"cost=999999.740993":                          "dear",
		"text=quarry+HOUSE":                           "old",
		"text=lost":                                   "stuck",
		"text=stuck":                                  "",
		"text=" + string(ids["old"]):                  "old",
		"text=" + string(ids["old"])[28:]:             "old",
		"text=" + string(ids["dear"])[:34]:            "dear",
		"text=" + string(queued)[28:]:                 "queued",
		"text=%25":                                    "",
		"parent=0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a": "child",
	} {
		page, api, next := r.listedRuns(query)
		if !slices.Equal(page, api) {
			t.Errorf("%s: the page has %v, the API %v", query, page, api)
		}
		got := make([]string, 0, len(api))
		for _, id := range api {
			got = append(got, names[id])
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want || next != "" {
			t.Errorf("%q lists %q, want %q; next %q", query, got, want, next)
		}
	}

	// The sentence is that of /why, and figures are digit-exact.
	_, _, raw := r.do("GET", "/", doortest.Token(authn.Viewer), "")
	for id, name := range names {
		_, _, said := r.do("GET", "/v1/runs/"+id+"/why", doortest.Token(authn.Viewer), "")
		var why struct{ Sentence string }
		if err := json.Unmarshal([]byte(said), &why); err != nil || why.Sentence == "" {
			t.Fatalf("%s: %s", name, said)
		}
		// How long it waits is a moment's.
		words := strings.Split(regexp.QuoteMeta(html.EscapeString(why.Sentence)), " ")
		for i, w := range words {
			if i > 0 && strings.TrimRight(w, ";,.") == "s" {
				words[i-1] = `\d+`
			}
		}
		if !regexp.MustCompile(strings.Join(words, " ")).MatchString(raw) {
			t.Errorf("the list does not say of %s: %s", name, why.Sentence)
		}
	}
	for _, want := range []string{"$9007199253.740993", "$0.0543", "1\u00a0min", "webhook stripe", "started by night"} {
		if !strings.Contains(raw, want) {
			t.Errorf("the list does not say %s", want)
		}
	}
	if strings.Contains(raw, `type="checkbox" name="id"`) || strings.Contains(raw, `method="post"`) {
		t.Error("a viewer is offered to choose")
	}
}

func TestRuns_PagesKeepTheFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for range 53 {
		r.take("default", events.NewRunID(), "pricing", `{"shop":"b"}`)
	}
	r.take("default", events.NewRunID(), "other", `{}`)
	query := "/?agent=pricing&label=shop:b&status=running&status=waiting&text=PRI&cost=0&from=7d"
	seen := map[string]bool{}
	for query != "" {
		_, _, raw := r.do("GET", query, doortest.Token(authn.Operator), "")
		for _, m := range rowOfRun.FindAllStringSubmatch(raw, -1) {
			if seen[m[1]] {
				t.Errorf("run %s is listed twice", m[1])
			}
			seen[m[1]] = true
		}
		query = ""
		if m := regexp.MustCompile(`<a class="push" href="(/\?[^"]+)">Older runs`).FindStringSubmatch(raw); m != nil {
			query = html.UnescapeString(m[1])
			q, err := url.ParseQuery(query[2:])
			if err != nil || q.Get("agent") != "pricing" || len(q["status"]) != 2 || q.Get("text") != "PRI" || q.Get("cost") != "0" || q.Get("from") != "7d" || q.Get("label") != "shop:b" {
				t.Errorf("the next page is %s", query)
			}
		}
	}
	if len(seen) != 53 {
		t.Errorf("%d runs on all pages, want 53", len(seen))
	}
}

func TestRuns_AFilterThatIsNotClear(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for query, want := range map[string]string{
		"status=runing":                 "is no status",
		"agent=a&flow=b":                "give one of them",
		"source=stripe":                 "say beside the name",
		"label=shop":                    "a label is key:value",
		"from=yesterday":                "use a moment like",
		"from=999999d":                  "use a moment like",
		"from=2026-03-05&to=2026-03-04": "not after the beginning",
		"cost=ten":                      "use an amount in dollars",
		"cost=0.0000001":                "use an amount in dollars",
		"cost=-1":                       "use an amount in dollars",
		"text=a+b+c+d+e+f+g+h+i":        "at most 8 words",
		"text=a%00b":                    "use text without NUL",
		"text=a%ffb":                    "use text without NUL",
		"parent=7":                      "not the id of a run",
		"cursor=!!":                     "cursor",
	} {
		for _, path := range []string{"/?", "/v1/runs?"} {
			status, _, raw := r.do("GET", path+query, doortest.Token(authn.Viewer), "")
			if status != 422 && status != 400 || !strings.Contains(raw, want) {
				t.Errorf("%s%s: %d, want %q in the answer", path, query, status, want)
			}
		}
	}
	_, header, raw := r.do("GET", "/?cost=%22%3E%3Cscript%3E&status=failed&agent=pricing", doortest.Token(authn.Viewer), "")
	for _, want := range []string{`value="&#34;&gt;&lt;script&gt;"`, `value="pricing"`, `id="status-failed" checked`, `aria-describedby="cost-e"`} {
		if !strings.Contains(raw, want) {
			t.Errorf("what was typed is not kept: no %s", want)
		}
	}
	if !strings.HasPrefix(header.Get("Content-Type"), "text/html") || strings.Contains(raw, "<script>") {
		t.Errorf("%v", header)
	}
}

// A list that ends at a moment holds every run that was accepted before it: also a child,
// whose id has the time of its parent's, and one whose id was made by a clock that is ahead.
func TestRuns_ToAMomentMissesNone(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at)
		SELECT '019ca8b7-' || lpad(to_hex(i), 4, '0') || '-7000-8000-00000000000' || i, 'default', 'agent', 'n', 'd', 'running', 1, '{}', '{"kind":"api"}', '2026-03-01T11:00:00Z'::timestamptz + (i - 2) * interval '1 h' FROM generate_series(0, 4) i`)
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at)
		VALUES ('019cab2a-3000-7000-8000-00000000000a', 'default', 'agent', 'ahead', 'd', 'running', 1, '{}', '{"kind":"api"}', to_timestamp(x'019cab2a3000'::bigint / 1000.0) - interval '50 min')`)
	for query, want := range map[string]int{"to=2026-03-01T09:30:00Z": 1, "to=2026-03-01T11:00:00Z": 2, "to=2026-03-01T13:30:00Z": 5, "from=2026-03-01T10:30:00Z&to=2026-03-01T12:30:00Z": 2, "agent=ahead&to=" + time.UnixMilli(0x019cab2a3000).Add(-49*time.Minute).UTC().Format(time.RFC3339): 1} {
		page, api, _ := r.listedRuns(query)
		if len(page) != want || !slices.Equal(page, api) {
			t.Errorf("%s lists %v, the API %v, want %d", query, page, api, want)
		}
	}
}

// A page looks through so many runs and says how to look on.
func TestRuns_LooksOnWhereThereIsNoIndex(t *testing.T) {
	t.Parallel()
	r := setup(t)
	first := events.NewRunID()
	r.take("default", first, "needle", `{}`)
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at)
		SELECT '0fffffff-' || lpad(to_hex(i), 4, '0') || '-7000-8000-000000000000', 'default', 'agent', 'hay', 'd', 'running', 1, '{}', '{"kind":"api"}', clock_timestamp() FROM generate_series(1, 10000) i`)
	query, pages := "/v1/runs?text=needle", 0
	for {
		_, api, next := r.listedRuns(strings.TrimPrefix(query, "/v1/runs?"))
		if pages++; pages == 1 && (len(api) != 0 || next == "") {
			t.Errorf("the first page has %v and next %q", api, next)
		}
		if next == "" {
			if len(api) != 1 || api[0] != string(first) || pages != 2 {
				t.Errorf("page %d has %v", pages, api)
			}
			break
		}
		query = fmt.Sprintf("/v1/runs?text=needle&cursor=%s", next)
	}
	if _, _, raw := r.do("GET", "/?text=needle", doortest.Token(authn.Viewer), ""); !strings.Contains(raw, "None of the next 10,000 runs matches.") || !strings.Contains(raw, "Look further back") {
		t.Error("the page does not say that it looked through some of the runs only")
	}
}
