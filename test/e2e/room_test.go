package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// roomDefinitions are an agent whose calls ann and ben decide in a Slack channel, behind
// links and at the API.
const roomDefinitions = `apiVersion: holdfast/v1
kind: Channel
metadata: {name: room}
spec:
  slack: {token: {env: E2E_KEY}, channel: C0123456789, signingSecret: {env: E2E_KEY}, baseURL: "SLACK"}
  people: [{name: ann, slack: U0ANN}, {name: ben, slack: U0BEN}]
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: first}
spec: {description: Acts., effect: write, approval: always, approvalExpiresAfter: 120h, input: {type: object}, http: {method: POST, url: "SHOP/acts/first", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: second}
spec: {description: Acts., effect: write, approval: always, approvalValidFor: 5m, input: {type: object}, http: {method: POST, url: "SHOP/acts/second", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: brief}
spec: {description: Acts., effect: write, approval: always, approvalExpiresAfter: 1s, input: {type: object}, http: {method: POST, url: "SHOP/acts/brief", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: free}
spec: {description: Acts., effect: write, key: "free/${args.job}", input: {type: object}, http: {method: POST, url: "SHOP/acts/free", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: teller}
spec: {model: scripted, instructions: "SHOP teller", tools: [first, second, brief, free], approvals: {channel: room}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: hasty}
spec: {model: scripted, instructions: "SHOP hasty", tools: [first], deadline: 1s, approvals: {channel: room}}
`

// room is where people decide beside the API.
type room struct {
	*deployment
	slack *httptest.Server
	mu    sync.Mutex
	told  map[string]string // path → what was said there last
	names map[string]*client.Client
}

func (d *deployment) room(t *testing.T) *room {
	t.Helper()
	r := &room{deployment: d, told: map[string]string{}, names: map[string]*client.Client{"ann": d.approver, "ben": d.client(t, d.newToken(t, "ben", "approver"))}}
	n := 0
	r.slack = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		n++
		r.told[q.URL.Path] = string(body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"ok":true,"channel":"C0123456789","ts":"1795426600.%06d"}`, n)
	}))
	t.Cleanup(r.slack.Close)
	text := strings.NewReplacer("SLACK", r.slack.URL, "SHOP", d.out.shopURL).Replace(roomDefinitions)
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "room.yaml", Text: text}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// begin starts a run of an agent of the room.
func (r *room) begin(t *testing.T, agent string, j job) events.RunID {
	t.Helper()
	s, err := r.operator.Start(t.Context(), client.StartRequest{Agent: agent, Input: j.input(), IdempotencyKey: j.Job})
	if err != nil {
		t.Fatalf("start %s: %v", j.Job, err)
	}
	return s.RunID
}

// asked waits until a run has n open requests and returns them by their tool.
func (r *room) asked(t *testing.T, id events.RunID, n int) map[string]client.Approval {
	t.Helper()
	out := map[string]client.Approval{}
	until(t, fmt.Sprintf("%d questions of run %s", n, id), func() bool {
		p, err := r.approver.Approvals(t.Context(), client.ApprovalFilter{Run: id, State: "pending"}, client.PageRequest{})
		if err != nil {
			return false // a service may be away
		}
		clear(out)
		for _, a := range p.Items {
			out[a.Tool] = a
		}
		return len(out) == n
	})
	return out
}

// hand is one person's way to decide one request at one door, fetched before.
type hand struct {
	*room
	a         client.Approval
	door, who string
	address   string
	page      string
}

func (r *room) hand(t *testing.T, a client.Approval, door, who string) *hand {
	t.Helper()
	h := &hand{room: r, a: a, door: door, who: who}
	if door == "link" { // as a mail would hold it
		token := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf("%-32.32s", who+string(a.ApprovalID)[14:])))
		sum := sha256.Sum256([]byte(token))
		if _, err := r.db.Exec(t.Context(), `INSERT INTO approvals.links (token_sha256, namespace, approval_id, channel, person, purpose, expires_at)
			VALUES ($1, 'default', $2, 'room', $3, 'decide', clock_timestamp() + interval '30 days') ON CONFLICT DO NOTHING`, sum[:], string(a.ApprovalID), who); err != nil {
			t.Fatal(err)
		}
		h.address = "/decide/" + token
		h.page = string(r.send(t, http.MethodGet, h.address, "", nil, nil).body)
	}
	return h
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// decide returns the status and what is told at once. A status of 0 is a door that did
// not answer.
func (h *hand) decide(t *testing.T, decision, comment string) (int, string) {
	t.Helper()
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	switch h.door {
	case "api":
		got, err := h.names[h.who].Decide(t.Context(), h.a.ApprovalID, client.Decision{Decision: decision, Comment: comment, Digest: h.a.Digest})
		if e, ok := errors.AsType[*client.Error](err); ok {
			return e.Status, e.Detail
		}
		if err != nil {
			return 0, err.Error()
		}
		return http.StatusOK, got.State
	case "link":
		v := url.Values{"decision": {decision}, "comment": {comment}}
		for _, m := range hiddenField.FindAllStringSubmatch(h.page, -1) {
			v.Set(m[1], m[2])
		}
		a, err := h.trySend(t, http.MethodPost, h.address, "", []byte(v.Encode()), form)
		if err != nil {
			return 0, err.Error()
		}
		return a.status, html.UnescapeString(string(a.body))
	}
	user := map[string]string{"ann": "U0ANN", "ben": "U0BEN"}[h.who]
	payload, err := json.Marshal(map[string]any{
		"type": "block_actions", "user": map[string]any{"id": user}, "response_url": h.slack.URL + h.reply(),
		"actions": []any{map[string]any{"action_id": decision, "block_id": "holdfast_decide", "type": "button", "value": "default room " + string(h.a.ApprovalID) + " " + string(h.a.Digest)}},
		"state":   map[string]any{"values": map[string]any{"holdfast_text": map[string]any{"text": map[string]any{"type": "plain_text_input", "value": comment}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	body := "payload=" + url.QueryEscape(string(payload))
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	m := hmac.New(sha256.New, []byte("e2e-canary-41d7b09a"))
	fmt.Fprintf(m, "v0:%s:%s", stamp, body)
	form["X-Slack-Request-Timestamp"], form["X-Slack-Signature"] = stamp, "v0="+hex.EncodeToString(m.Sum(nil))
	a, err := h.trySend(t, http.MethodPost, "/v1/approvals/slack", "", []byte(body), form)
	if err != nil {
		return 0, err.Error()
	}
	return a.status, string(a.body)
}

// reply is where Slack answers the person about the request.
func (h *hand) reply() string { return "/actions/" + h.who + "/" + string(h.a.ApprovalID) }

// must decides and wants that it is taken.
func (h *hand) must(t *testing.T, decision, comment string) {
	t.Helper()
	if code, text := h.decide(t, decision, comment); code != http.StatusOK {
		t.Errorf("%s by %s at %s: %d %.300s", decision, h.who, h.door, code, text)
	}
}

// tooLate wants a refusal that says why, in the words of the door.
func (h *hand) tooLate(t *testing.T, decision string, words ...string) {
	t.Helper()
	code, text := h.decide(t, decision, "")
	if h.door == "slack" {
		if code != http.StatusOK {
			t.Errorf("slack: %d %.300s", code, text)
		}
		until(t, h.who+" to be told in Slack", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			text = h.told[h.reply()]
			return text != ""
		})
	} else if code != http.StatusConflict {
		t.Errorf("%s: %d %.300s, want 409", h.door, code, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s tells %.300q, want %q in it", h.door, text, w)
		}
	}
}
