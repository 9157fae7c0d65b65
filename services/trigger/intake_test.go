package trigger_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// hook is a Webhook document: its name and the lines of its spec.
func hook(name, text string) string {
	return "apiVersion: holdfast/v1\nkind: Webhook\nmetadata: {name: " + name + "}\nspec: {" + text + "}\n"
}

func hooks(documents ...string) string { return strings.Join(documents, "---\n") }

func macOf(newHash func() hash.Hash, key string, parts ...string) []byte {
	h := hmac.New(newHash, []byte(key))
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

const jsonType, formType = "application/json", "application/x-www-form-urlencoded"

// sender is one provider's way to send a body, so that the door takes it.
type sender struct {
	spec   string // of the webhook
	query  string
	typ    string // default JSON
	body   string // default senderBody
	header func(id, body string, at time.Time) []string
	noID   bool   // the sender gives no id
	open   bool   // the body is not signed
	input  string // default the body
}

const senderBody = `{"id":9007199254740993,"note":"\u003cb\u003e"}`

const senderSecret = "a secret of every sender"

func senders() map[string]sender {
	ms := func(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	secret := senderSecret
	return map[string]sender{
		"github": {header: func(id, body string, _ time.Time) []string {
			return []string{"X-GitHub-Event", "push", "X-GitHub-Delivery", id, "X-Hub-Signature-256", "sha256=" + hex.EncodeToString(macOf(sha256.New, secret, body))}
		}},
		"stripe": {body: `{"id":"evt_1","n":9007199254740993}`, header: func(_, body string, at time.Time) []string {
			return []string{"Stripe-Signature", "t=" + seconds(at) + ",v1=" + hex.EncodeToString(macOf(sha256.New, secret, seconds(at), ".", body))}
		}},
		"slack": {body: `{"type":"event_callback","event_id":"Ev1"}`, header: func(_, body string, at time.Time) []string {
			return []string{"X-Slack-Request-Timestamp", seconds(at), "X-Slack-Signature", "v0=" + hex.EncodeToString(macOf(sha256.New, secret, "v0:", seconds(at), ":", body))}
		}},
		"shopify": {header: func(id, body string, _ time.Time) []string {
			return []string{"X-Shopify-Topic", "orders/create", "X-Shopify-Event-Id", id, "X-Shopify-Hmac-Sha256", base64Of(macOf(sha256.New, secret, body))}
		}},
		"gitlab": {open: true, header: func(id, _ string, _ time.Time) []string {
			return []string{"X-Gitlab-Token", secret, "Idempotency-Key", id}
		}},
		"linear": {body: fmt.Sprintf(`{"action":"create","webhookTimestamp":%d}`, time.Now().UnixMilli()), header: func(id, body string, _ time.Time) []string {
			return []string{"Linear-Delivery", id, "Linear-Signature", hex.EncodeToString(macOf(sha256.New, secret, body))}
		}},
		"zendesk": {header: func(id, body string, at time.Time) []string {
			t := at.UTC().Format(time.RFC3339)
			return []string{"X-Zendesk-Webhook-Invocation-Id", id, "X-Zendesk-Webhook-Signature-Timestamp", t, "X-Zendesk-Webhook-Signature", base64Of(macOf(sha256.New, secret, t, body))}
		}},
		"hubspot": {spec: `publicURL: "https://hooks.example.com/p", batch: whole`, query: "a=b", body: `[{"eventId":1,"attemptNumber":0}]`,
			header: func(_, body string, at time.Time) []string {
				return []string{"X-HubSpot-Request-Timestamp", ms(at), "X-HubSpot-Signature-v3", base64Of(macOf(sha256.New, secret, "POST", "https://hooks.example.com/p?a=b", body, ms(at)))}
			}},
		"twilio": {spec: `publicURL: "https://hooks.example.com/p"`, query: "z=1&a=2", typ: formType, body: "To=%2B1800&Body=hi+there", input: `{"Body":"hi there","To":"+1800"}`,
			header: func(id, body string, _ time.Time) []string {
				fields, _ := url.ParseQuery(body)
				signed := "https://hooks.example.com/p?z=1&a=2Body" + fields.Get("Body") + "To" + fields.Get("To")
				return []string{"I-Twilio-Idempotency-Token", id, "X-Twilio-Signature", base64Of(macOf(sha1.New, secret, signed))}
			}},
		"alertmanager": {open: true, noID: true, header: func(_, _ string, _ time.Time) []string {
			return []string{"Authorization", "Bearer " + secret}
		}},
		"bearer": {open: true, noID: true, spec: `signature: {header: X-Api-Key}`, header: func(_, _ string, _ time.Time) []string {
			return []string{"X-Api-Key", secret}
		}},
		"basic": {open: true, noID: true, header: func(_, _ string, _ time.Time) []string {
			return []string{"Authorization", "Basic " + base64Of([]byte("user:"+secret))}
		}},
		"generic": {spec: `publicURL: "https://hooks.example.com/p", signature: {header: X-Sig, prefix: "v1=", encoding: base64, algorithm: sha1,
			signed: "{method}|{url}|{id}|{timestamp}|{body}", timestampHeader: X-Time, timestampUnit: ms, idHeader: X-Id}`,
			header: func(id, body string, at time.Time) []string {
				signed := strings.Join([]string{"POST", "https://hooks.example.com/p", id, ms(at), body}, "|")
				return []string{"X-Id", id, "X-Time", ms(at), "X-Sig", "v1=" + base64Of(macOf(sha1.New, secret, signed))}
			}},
	}
}

// Every provider's deliveries are taken at the real door, repeats are known, and
// what another secret signed leaves no row.
func TestCaseA08_EveryProvider(t *testing.T) {
	t.Parallel()
	w := setup(t)
	all := senders()
	var documents []string
	for name, s := range all {
		extra := ""
		if s.spec != "" {
			extra = ", " + s.spec
		}
		env := "SENDER_SECRET"
		if name == "basic" {
			env = "BASIC_SECRET"
		}
		documents = append(documents, hook(name, "provider: "+name+", secrets: [{env: OTHER_BASIC}, {env: "+env+"}], agent: anything"+extra))
	}
	w.apply(t, hooks(documents...))
	r := w.pair(t)
	for name, s := range all {
		body, typ, path := s.body, s.typ, "/hooks/"+name
		if body == "" {
			body = senderBody
		}
		if typ == "" {
			typ = jsonType
		}
		if s.query != "" {
			path += "?" + s.query
		}
		input := s.input
		if input == "" {
			input = body
		}
		head := func(id, body string, at time.Time) []string {
			return append(s.header(id, body, at), "Content-Type", typ)
		}

		first := r.post(path, body, head("d-1", body, time.Now())...)
		if name == "twilio" {
			if first.status != 202 || first.header.Get("Content-Type") != "text/xml; charset=utf-8" || !strings.Contains(string(first.body), "<Response/>") {
				t.Errorf("twilio: %d %s", first.status, first.body)
			}
			first.RunID = strings.TrimPrefix(first.header.Get("Location"), "/v1/runs/")
		} else {
			accepted(t, first)
		}
		if got := w.input(t, first.RunID); got != input {
			t.Errorf("%s: input %s, want %s", name, got, input)
		}
		again := r.post(path, body, head("d-1", body, time.Now().Add(-time.Minute))...)
		if repeated := again.header.Get("Idempotency-Replayed") == "true"; again.status != 202 || repeated == s.noID {
			t.Errorf("%s: a retry: %d, known %v", name, again.status, repeated)
		}
		if same := strings.HasSuffix(again.header.Get("Location"), "/"+first.RunID); same == s.noID {
			t.Errorf("%s: a retry is run %s, the first was %s", name, again.header.Get("Location"), first.RunID)
		}

		rows := w.count(t, "trigger.deliveries")
		flipped := []byte(body)
		flipped[len(flipped)-3] ^= 1
		if a := r.send("POST", path, flipped, head("d-2", body, time.Now())...); !s.open && a.status != http.StatusUnauthorized {
			t.Errorf("%s: a byte flipped: %d %s", name, a.status, a.body)
		}
		if a := r.post(path, body, "Content-Type", typ); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: nothing that proves the sender: %d %s", name, a.status, a.body)
		}
		if n := w.count(t, "trigger.deliveries"); !s.open && n != rows {
			t.Errorf("%s: what was refused left %d deliveries", name, n-rows)
		}
	}
}

// While a secret is rotated, what the old and what the new one signed is good.
func TestCaseA08_Rotation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hook("both", "provider: shopify, secrets: [{env: SENDER_SECRET}, {env: GITHUB_SECRET}], agent: anything"))
	r := w.pair(t)
	for i, secret := range []string{senderSecret, secrets["GITHUB_SECRET"]} {
		accepted(t, r.post("/hooks/both", "{}\r\n", "X-Shopify-Event-Id", fmt.Sprint(i), "X-Shopify-Hmac-Sha256", base64Of(macOf(sha256.New, secret, "{}\r\n"))))
	}
	w.apply(t, hook("both", "provider: shopify, secrets: [{env: GITHUB_SECRET}], agent: anything"))
	if a := r.post("/hooks/both", "{}", "X-Shopify-Event-Id", "3", "X-Shopify-Hmac-Sha256", base64Of(macOf(sha256.New, senderSecret, "{}"))); a.status != http.StatusUnauthorized {
		t.Errorf("the old secret after its end: %d %s", a.status, a.body)
	}
}

// What proves the sender never becomes part of an input.
func TestHook_SecretsAreNoInput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hooks(
		hook("gitlab", `provider: gitlab, secrets: [{env: SENDER_SECRET}], agent: anything, input: "${headers}"`),
		hook("key", `provider: bearer, signature: {header: X-Api-Key, prefix: "Key "}, secrets: [{env: SENDER_SECRET}], agent: anything, input: "${headers}"`)))
	r := w.start(t)
	for path, header := range map[string][]string{
		"/hooks/gitlab": {"X-Gitlab-Token", senderSecret, "X-Copy", "holds " + senderSecret, "X-Kind", "push"},
		"/hooks/key":    {"X-Api-Key", "Key " + senderSecret, "X-Kind", "push"},
	} {
		a := r.post(path, `{}`, header...)
		accepted(t, a)
		if input := w.input(t, a.RunID); strings.Contains(input, senderSecret) || !strings.Contains(input, `"x-kind":"push"`) {
			t.Errorf("%s: input %s", path, input)
		}
	}
	a := r.post("/hooks/gitlab", `{}`, "X-Gitlab-Token", "wrong")
	if strings.Contains(string(a.body), senderSecret) || strings.Contains(string(a.body), "wrong\"") {
		t.Errorf("the answer says %s", a.body)
	}
}

func TestHook_SlackHandshakeIsVerifiedFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hook("slack", `provider: slack, secrets: [{env: SENDER_SECRET}], agent: anything, filter: "false", rateLimit: {perMinute: 1}`))
	r := w.start(t)
	slack := senders()["slack"]
	const challenge = `{"type":"url_verification","challenge":"3eZbrw1aB"}`
	for range 3 { // no filter and no limit keeps a handshake from its answer
		a := r.post("/hooks/slack", challenge, append(slack.header("", challenge, time.Now()), "Content-Type", jsonType)...)
		if a.status != http.StatusOK || strings.TrimSpace(string(a.body)) != `{"challenge":"3eZbrw1aB"}` {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if a := r.post("/hooks/slack", challenge, "Content-Type", jsonType); a.status != http.StatusUnauthorized || strings.Contains(string(a.body), "3eZbrw1aB") {
		t.Errorf("not signed: %d %s", a.status, a.body)
	}
	form := "payload=" + url.QueryEscape(`{"type":"block_actions","trigger_id":"1.2"}`)
	if a := r.post("/hooks/slack", form, append(slack.header("", form, time.Now()), "Content-Type", formType)...); string(a.body) != "{\"filtered\":true}\n" {
		t.Errorf("a form: %d %s", a.status, a.body)
	}
}

// Bodies of every kind, at doors of every kind: what is taken is taken whole,
// the rest is a 4xx.
func TestCaseA07_Bodies(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hooks(
		hook("bearer", "provider: bearer, secrets: [{env: SENDER_SECRET}], agent: anything"),
		hook("empty", "provider: bearer, secrets: [{env: SENDER_SECRET}], agent: anything, emptyBody: object"),
		hook("zendesk", "provider: zendesk, secrets: [{env: SENDER_SECRET}], agent: anything"),
		hook("strict", "provider: zendesk, secrets: [{env: SENDER_SECRET}], agent: anything, emptyBody: refuse"),
		hook("slack", "provider: slack, secrets: [{env: SENDER_SECRET}], agent: anything"),
		hook("github", "provider: github, secrets: [{env: SENDER_SECRET}], agent: anything")))
	r := w.pair(t)
	bearer := func(string) []string { return []string{"Authorization", "Bearer " + senderSecret} }
	signedBy := func(name string) func(string) []string {
		return func(body string) []string { return senders()[name].header("", body, time.Now()) }
	}
	payload := "payload=" + url.QueryEscape(`{"a":[1]}`)
	for name, tc := range map[string]struct {
		door, typ, body string
		header          func(string) []string
		status          int
		input           string
	}{
		"no content type":           {"bearer", "", `{"a":1}`, bearer, 202, `{"a":1}`},
		"a list":                    {"bearer", jsonType, `[1, 2]`, bearer, 202, `[1, 2]`},
		"null":                      {"bearer", jsonType, `null`, bearer, 202, `null`},
		"text":                      {"bearer", jsonType, `"text"`, bearer, 202, `"text"`},
		"a charset":                 {"bearer", "application/json; charset=utf-8", `{}`, bearer, 202, `{}`},
		"a vendor's type":           {"bearer", "application/vnd.api+json", `{}`, bearer, 202, `{}`},
		"empty":                     {"bearer", jsonType, ``, bearer, 400, ""},
		"blank":                     {"bearer", jsonType, " \r\n", bearer, 400, ""},
		"empty where it is an {}":   {"empty", jsonType, ``, bearer, 202, `{}`},
		"empty without a type":      {"empty", "", ``, bearer, 202, `{}`},
		"empty XML":                 {"empty", "application/xml", ``, bearer, 415, ""},
		"XML":                       {"bearer", "text/xml", `<a/>`, bearer, 415, ""},
		"a form where none is read": {"bearer", formType, `a=b`, bearer, 415, ""},
		"empty from zendesk":        {"zendesk", "", ``, signedBy("zendesk"), 202, `{}`},
		"empty, refused":            {"strict", "", ``, signedBy("zendesk"), 400, ""},
		"a form from slack":         {"slack", formType, payload, signedBy("slack"), 202, `{"a":[1]}`},
		"a bare form from slack":    {"slack", formType, `a=b`, signedBy("slack"), 400, ""},
		"a form from github":        {"github", formType, payload, signedBy("github"), 202, `{"a":[1]}`},
		"a bare form from github":   {"github", formType, `a=b`, signedBy("github"), 400, ""},
		"a form with bad escapes":   {"github", formType, `payload=%zz`, signedBy("github"), 400, ""},
		"XML from github":           {"github", "application/xml", `<a/>`, signedBy("github"), 415, ""},
	} {
		header := tc.header(tc.body)
		if tc.typ != "" {
			header = append(header, "Content-Type", tc.typ)
		}
		a := r.post("/hooks/"+tc.door, tc.body, header...)
		if a.status != tc.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, tc.status)
		} else if a.status == 202 {
			if got := w.input(t, a.RunID); got != tc.input {
				t.Errorf("%s: input %s, want %s", name, got, tc.input)
			}
		}
	}
}

// What the filter keeps out starts nothing and is answered so. What it cannot
// decide starts its run: an event is not lost because of an expression.
func TestHook_Filter(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hook("raw", `provider: none, agent: anything, filter: 'headers["x-kind"] == "issue" && query.tenant != "b" && body.n > 9007199254740992'`))
	r := w.start(t)
	for name, tc := range map[string]struct {
		path, body string
		header     []string
		starts     bool
	}{
		"all of it":              {"/hooks/raw?tenant=a", `{"n":9007199254740993}`, []string{"X-Kind", "issue"}, true},
		"one digit less":         {"/hooks/raw?tenant=a", `{"n":9007199254740992}`, []string{"X-Kind", "issue"}, false},
		"another header":         {"/hooks/raw?tenant=a", `{"n":9007199254740993}`, []string{"X-Kind", "push"}, false},
		"another query":          {"/hooks/raw?tenant=b", `{"n":9007199254740993}`, []string{"X-Kind", "issue"}, false},
		"a member that misses":   {"/hooks/raw?tenant=a", `{}`, []string{"X-Kind", "issue"}, true},
		"a header that misses":   {"/hooks/raw?tenant=a", `{"n":9007199254740993}`, nil, true},
		"a body of no members":   {"/hooks/raw?tenant=a", `[]`, []string{"X-Kind", "issue"}, true},
		"decided before it errs": {"/hooks/raw?tenant=a", `[]`, []string{"X-Kind", "push"}, false},
	} {
		a := r.post(tc.path, tc.body, tc.header...)
		if a.status != 202 || (a.RunID != "") != tc.starts {
			t.Errorf("%s: %d %s, want a run: %v", name, a.status, a.body, tc.starts)
		}
		if !tc.starts && string(a.body) != "{\"filtered\":true}\n" {
			t.Errorf("%s is answered %s", name, a.body)
		}
	}
	if n := w.count(t, "trigger.deliveries"); n != 4 {
		t.Errorf("%d deliveries, want 4", n)
	}
	if n := w.count(t, "trigger.attempts WHERE outcome = 'filtered' AND reason = 'filter'"); n != 4 {
		t.Errorf("%d filtered requests in the log, want 4", n)
	}
	if n := w.count(t, "trigger.attempts WHERE outcome = 'accepted' AND detail LIKE 'the filter could not be decided%'"); n != 3 {
		t.Errorf("%d requests in the log whose filter could not be decided, want 3", n)
	}
}

const hubspotURL = "https://hooks.example.com/p"

func (r *replica) hubspot(name, body string) answer {
	at := strconv.FormatInt(time.Now().UnixMilli(), 10)
	return r.post("/hooks/"+name, body, "Content-Type", jsonType, "X-HubSpot-Request-Timestamp", at,
		"X-HubSpot-Signature-v3", base64Of(macOf(sha256.New, senderSecret, "POST", hubspotURL, body, at)))
}

type batchAnswer struct {
	Runs []struct {
		RunID     string `json:"run_id"`
		URL       string `json:"status_url"`
		Duplicate bool   `json:"duplicate"`
		Filtered  bool   `json:"filtered"`
	} `json:"runs"`
}

func batch(t *testing.T, a answer) batchAnswer {
	t.Helper()
	var b batchAnswer
	if err := json.Unmarshal(a.body, &b); err != nil || a.status != 202 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return b
}

// A list of events is one run for each event, however often and in whichever
// list each of them comes; or one run for the list.
func TestHook_Batch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const common = `provider: hubspot, secrets: [{env: SENDER_SECRET}], publicURL: "` + hubspotURL + `"`
	w.apply(t, hooks(
		hook("items", common+`, agent: anything, filter: '!has(body.skip)', labels: {id: "${body.eventId}"}`),
		hook("whole", common+`, agent: anything, batch: whole`),
		hook("shops", common+`, agent: check, input: {shop: "${body.shop}"}`)))
	r := w.start(t)
	const (
		one   = `{"eventId":4100000001,"attemptNumber":0,"objectId":9007199254740993}`
		retry = `{"eventId":4100000001,"attemptNumber":1,"objectId":9007199254740993}`
		two   = `{"eventId":4100000001,"attemptNumber":0,"objectId":9007199254740994}`
		skip  = `{"eventId":4100000003,"skip":true}`
	)
	first := batch(t, r.hubspot("items", "["+one+","+two+","+skip+","+retry+"]"))
	if len(first.Runs) != 4 || first.Runs[0].RunID == first.Runs[1].RunID || !first.Runs[2].Filtered || !first.Runs[3].Duplicate || first.Runs[3].RunID != first.Runs[0].RunID {
		t.Errorf("the first list is answered %+v", first)
	}
	if got := w.input(t, first.Runs[0].RunID); got != one {
		t.Errorf("input %s, want %s", got, one)
	}
	again := batch(t, r.hubspot("items", "["+two+"]"))
	if len(again.Runs) != 1 || !again.Runs[0].Duplicate || again.Runs[0].RunID != first.Runs[1].RunID {
		t.Errorf("an event in another list is answered %+v", again)
	}
	if none := batch(t, r.hubspot("items", "[]")); len(none.Runs) != 0 {
		t.Errorf("no event is answered %+v", none)
	}
	if n := w.count(t, "trigger.deliveries"); n != 2 {
		t.Errorf("%d deliveries, want 2", n)
	}

	whole := r.hubspot("whole", "["+one+","+two+"]")
	accepted(t, whole)
	if got := w.input(t, whole.RunID); got != "["+one+","+two+"]" {
		t.Errorf("input %s", got)
	}
	if a := r.hubspot("whole", "["+retry+","+two+"]"); a.RunID != whole.RunID || a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a retry of the whole: %d %s", a.status, a.body)
	}

	// One event that no schema takes keeps no other out, and is not forgotten.
	const bad, good, late = `{"eventId":1}`, `{"eventId":2,"shop":"a"}`, `{"eventId":3,"shop":"b"}`
	a := r.hubspot("shops", "["+good+","+bad+","+late+"]")
	if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.Detail, "item 1") || !strings.Contains(a.Detail, "2 of 3") {
		t.Errorf("a list with a bad event: %d %s", a.status, a.body)
	}
	if n := w.count(t, "trigger.deliveries WHERE source_name = 'shops'"); n != 2 {
		t.Errorf("%d good events of the list were taken, want 2", n)
	}
	w.apply(t, hook("shops", common+`, agent: anything`))
	if b := batch(t, r.hubspot("shops", "["+good+","+bad+","+late+"]")); !b.Runs[0].Duplicate || b.Runs[1].Duplicate || !b.Runs[2].Duplicate {
		t.Errorf("the retry is answered %+v", b)
	}
	var log []string
	rows, err := w.db.Pool.Query(t.Context(), `SELECT outcome || ' ' || reason FROM trigger.attempts WHERE webhook IN ('items', 'shops') ORDER BY attempt_id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		log = append(log, line)
	}
	if diff := cmp.Diff([]string{"accepted ", "duplicate ", "filtered filter", "rejected mapping", "accepted "}, log); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestHook_MaxBody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hook("raw", "provider: none, agent: anything, maxBody: 1KiB"))
	r := w.start(t)
	fits := `"` + strings.Repeat("x", 1022) + `"`
	accepted(t, r.post("/hooks/raw", fits))
	if a := r.post("/hooks/raw", fits+" "); a.status != http.StatusRequestEntityTooLarge || a.Code != trigger.CodeTooLarge ||
		!strings.Contains(a.Detail, "1025") || !strings.Contains(a.Detail, "1024") {
		t.Errorf("one byte over: %d %s", a.status, a.body)
	}
	if n := w.count(t, "trigger.deliveries"); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
}
