package approvals_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

const slackSecret = "8f742231b10e8888abcd99yyyzzz85a5"

// reviewers defines a Slack channel whose people are ann and ben.
func (b *bench) reviewers(o *outside) {
	b.t.Helper()
	b.book.apply(b.t, "reviewers", fmt.Sprintf("  slack: {token: {env: BOT}, channel: C0123456789, signingSecret: {env: SIGN}, baseURL: %q}\n"+
		"  people: [{name: ann, slack: U0ANN}, {name: ben, slack: U0BEN}]\n", o.URL), map[string]string{"BOT": "xoxb-very-secret", "SIGN": slackSecret})
}

func in(channel string) func(*events.AskApproval) {
	return func(a *events.AskApproval) { a.Channel = channel }
}

// click is what Slack sends when a person clicks.
func click(o *outside, a events.AskApproval, user, action, text string) []byte {
	return clickAnswered(o.URL+"/actions/"+user, a, user, action, text)
}

// clickAnswered is a click whose person is answered at an address.
func clickAnswered(reply string, a events.AskApproval, user, action, text string) []byte {
	payload, _ := json.Marshal(map[string]any{
		"type": "block_actions", "user": map[string]any{"id": user, "username": "ann", "name": "ann"}, "response_url": reply,
		"actions": []any{map[string]any{"action_id": action, "block_id": "holdfast_decide", "type": "button",
			"value": strings.Join([]string{"default", "reviewers", string(a.ApprovalID), string(a.Digest)}, " ")}},
		"state": map[string]any{"values": map[string]any{"holdfast_text": map[string]any{"text": map[string]any{"type": "plain_text_input", "value": text}}}},
	})
	return []byte("payload=" + url.QueryEscape(string(payload)))
}

// fromSlack posts body as Slack does, signed at a time; change alters the request.
func (b *bench) fromSlack(body []byte, at time.Time, change ...func(*http.Request)) int {
	b.t.Helper()
	stamp := strconv.FormatInt(at.Unix(), 10)
	m := hmac.New(sha256.New, []byte(slackSecret))
	fmt.Fprintf(m, "v0:%s:%s", stamp, body)
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+"/v1/approvals/slack", strings.NewReader(string(body)))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Slack-Request-Timestamp", stamp)
	r.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(m.Sum(nil)))
	for _, f := range change {
		f(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// link makes a link of a person as a message would hold it.
func (b *bench) link(a events.AskApproval, person string) string {
	b.t.Helper()
	of := sha256.Sum256([]byte(person + " " + string(a.ApprovalID)))
	token := base64.RawURLEncoding.EncodeToString(of[:])
	sum := sha256.Sum256([]byte(token))
	b.exec(`INSERT INTO approvals.links (token_sha256, namespace, approval_id, channel, person, purpose, expires_at)
		VALUES ($1, 'default', $2, 'reviewers', $3, 'decide', clock_timestamp() + interval '1 day')`, sum[:], string(a.ApprovalID), person)
	return b.url + approvals.LinkPath + token
}

// page fetches or posts and returns the status, the headers and the body.
func (b *bench) page(method, address string, form url.Values, change ...func(*http.Request)) (int, http.Header, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, f := range change {
		f(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// form is the page's form as a browser without JavaScript posts it.
func form(page, decision string) url.Values {
	out := url.Values{"decision": {decision}}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		out.Set(m[1], m[2])
	}
	return out
}

func TestRequests_AreToldInTheirChannel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.outsiders(o)
	b.reviewers(o)
	a := b.ask(in("reviewers"), func(a *events.AskApproval) {
		a.Args = json.RawMessage(`{"id":9007199254740993,"note":"<!channel> *hi* \u202e"}`)
		a.Summary = "<!channel> refund & <https://evil.example|click>"
	})
	eventually(t, "Slack has it", func() bool { return len(o.at(chatPost)) == 1 })
	text := string(o.at(chatPost)[0].body)
	for _, want := range []string{`"action_id":"approve"`, `"action_id":"reject"`, string(a.Digest), "9007199254740993", `\\u202e`} {
		if !strings.Contains(text, want) && !strings.Contains(text, strings.Replace(want, "approve", "approved", 1)) && !strings.Contains(text, strings.Replace(want, "reject", "rejected", 1)) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if m := decoded[struct{ Text string }](t, o.at(chatPost)[0].body); m.Text != "&lt;!channel&gt; refund &amp; &lt;https://evil.example|click&gt;" {
		t.Errorf("the text beside the blocks is %q: markup in it calls people", m.Text)
	}
	if strings.Contains(text, "mrkdwn") {
		t.Errorf("something in it is markup: %s", text)
	}
	id := events.NoticeID(string(a.ApprovalID) + "-ask")
	b.notice(id, "it is delivered", inState("delivered"))
	// Once decided elsewhere the buttons go and the message says who and when.
	if _, err := b.as("ben").Decide(t.Context(), a.ApprovalID, no); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the message is changed", func() bool { return len(o.at("/api/chat.update")) == 1 })
	text = string(o.at("/api/chat.update")[0].body)
	if !strings.Contains(text, "rejected by ben at ") || !strings.Contains(text, "through api") || strings.Contains(text, "action_id") || !strings.Contains(text, `"ts":"1795426600.`) {
		t.Errorf("changed to %s", text)
	}
	eventually(t, "it is recorded", func() bool {
		return b.count(`SELECT count(*) FROM approvals.notices WHERE notice_id = $1 AND next_update_at IS NULL`, string(id)) == 1
	})

	// What is too long to show whole is not decided there.
	b.ask(in("reviewers"), func(a *events.AskApproval) {
		a.Args = json.RawMessage(`{"x":"` + strings.Repeat("y", 5000) + `"}`)
	})
	eventually(t, "Slack has it", func() bool { return len(o.at(chatPost)) == 2 })
	if text := string(o.at(chatPost)[1].body); strings.Contains(text, "action_id") || !strings.Contains(text, "this is cut") {
		t.Errorf("told as %s", text)
	}
	// A program gets the request; who asks nobody tells nobody.
	a = b.ask(in("pager"))
	b.ask()
	eventually(t, "the program has it", func() bool { return len(o.at("/page")) == 1 })
	got := decoded[struct {
		Type string
		Data struct {
			ApprovalID, Digest string          `json:"-"`
			ID                 string          `json:"approval_id"`
			Args               json.RawMessage `json:"args"`
		}
	}](t, o.at("/page")[0].body)
	if got.Type != "holdfast.approval" || got.Data.ID != string(a.ApprovalID) || string(got.Data.Args) != string(a.Args) {
		t.Errorf("posted %s", o.at("/page")[0].body)
	}
	// By mail each person is told alone.
	b.book.apply(t, "mail", `  email: {server: "127.0.0.1:1", from: a@example.com, to: [all@example.com]}
  people: [{name: ann, email: ann@example.com}, {name: ben, email: ben@example.com}]
`, nil)
	a = b.ask(in("mail"))
	eventually(t, "each has a message and a link", func() bool {
		return b.count(`SELECT count(*) FROM approvals.notices WHERE approval_id = $1 AND person IN ('ann', 'ben') AND state = 'due' AND attempts > 0`, string(a.ApprovalID)) == 2 &&
			b.count(`SELECT count(DISTINCT person) FROM approvals.links WHERE approval_id = $1 AND length(token_sha256) = 32`, string(a.ApprovalID)) == 2
	})
	b.withdraw(a, "over")
	eventually(t, "nobody is told any more", func() bool {
		b.exec(`UPDATE approvals.notices SET next_at = clock_timestamp() WHERE approval_id = $1 AND state = 'due'`, string(a.ApprovalID))
		return b.count(`SELECT count(*) FROM approvals.notices WHERE approval_id = $1 AND state = 'gone'`, string(a.ApprovalID)) == 2
	})
}

func TestCaseE02_LinksOnlyShowUntilSomebodyPosts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.reviewers(o)
	a := b.ask(func(a *events.AskApproval) {
		a.Args = json.RawMessage(`{"id":9007199254740993,"note":"<script>alert(1)</script>\u202e"}`)
	})
	address := b.link(a, "ann")
	for range 5 {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			b.page(method, address, nil, func(r *http.Request) {
				r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; SafeLinks)")
				r.Header.Set("Purpose", "prefetch")
			})
		}
	}
	status, header, page := b.page(http.MethodGet, address, nil)
	if status != 200 || strings.Contains(page, "<script") || !strings.Contains(page, "&lt;script&gt;") || !strings.Contains(page, "9007199254740993") || !strings.Contains(page, `\u202e`) || !strings.Contains(page, string(a.Digest)) {
		t.Errorf("%d %s", status, page)
	}
	if csp := header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-") || header.Get("Referrer-Policy") != "no-referrer" || header.Get("Cache-Control") != "no-store" || header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("headers %v", header)
	}
	if s := b.show(a.ApprovalID).State; s != approvals.StatePending {
		t.Fatalf("opening the link made it %s", s)
	}
	yes := form(page, "approved")
	if status, _, _ := b.page(http.MethodPost, address, yes, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); status != 403 {
		t.Errorf("a post of another site: %d", status)
	}
	for name, bad := range map[string]url.Values{
		"no form of the page":          {"decision": {"approved"}},
		"another digest shown":         {"decision": {"approved"}, "nonce": yes["nonce"], "shown": {"sha256:else"}},
		"no decision":                  {"nonce": yes["nonce"], "shown": yes["shown"]},
		"a decision that does not fit": {"decision": {"happened"}, "nonce": yes["nonce"], "shown": yes["shown"]},
	} {
		if status, _, _ := b.page(http.MethodPost, address, bad); status != 422 {
			t.Errorf("%s: %d, want 422", name, status)
		}
	}
	if s := b.show(a.ApprovalID).State; s != approvals.StatePending {
		t.Fatalf("what was refused made it %s", s)
	}
	// Who decides comes from the link.
	yes.Set("by", "root")
	yes.Set("comment", "fine\r\nby me")
	for range 2 { // a double click
		if status, _, page := b.page(http.MethodPost, address, yes); status != 200 || !strings.Contains(page, "approved by ann at ") {
			t.Errorf("%d %s", status, page)
		}
	}
	if got := b.show(a.ApprovalID); got.DecidedBy != "ann" || got.Door != "link" || got.Comment != "fine\nby me" || got.State != events.Approve {
		t.Errorf("%+v", got)
	}
	// Somebody else is told who was first, when and through which door.
	other := b.link(a, "ben")
	_, _, page = b.page(http.MethodGet, other, nil)
	if !strings.Contains(page, "approved by ann at ") || !strings.Contains(page, "through link") || strings.Contains(page, "<form") {
		t.Errorf("ben sees %s", page)
	}
	late := form(`<input type="hidden" name="shown" value="`+yes.Get("shown")+`">`, "rejected")
	if status, _, _ := b.page(http.MethodPost, other, late); status != 422 {
		t.Errorf("a form of another link: %d", status)
	}
	// A person who is no longer among the people has no link, and nobody else's fits.
	b.book.apply(t, "reviewers", fmt.Sprintf("  slack: {token: {env: BOT}, channel: C0123456789, signingSecret: {env: SIGN}, baseURL: %q}\n  people: [{name: ben, slack: U0BEN}]\n", o.URL), nil)
	for _, gone := range []string{address, b.url + approvals.LinkPath + strings.Repeat("z", approvals.TokenChars), b.url + approvals.LinkPath + "short"} {
		if status, _, _ := b.page(http.MethodGet, gone, nil); status != 404 {
			t.Errorf("%s: %d, want 404", gone, status)
		}
	}
	// Expired and withdrawn requests say so.
	for want, end := range map[string]func(events.AskApproval){
		"expired at ":   func(a events.AskApproval) { b.waitState(a.ApprovalID, events.Expired) },
		"withdrawn at ": func(a events.AskApproval) { b.withdraw(a, "cancelled"); b.waitState(a.ApprovalID, events.Withdrawn) },
	} {
		a := b.ask(expiresIn(map[bool]time.Duration{true: 300 * time.Millisecond, false: time.Hour}[want == "expired at "]))
		address := b.link(a, "ben")
		_, _, before := b.page(http.MethodGet, address, nil)
		end(a)
		if status, _, page := b.page(http.MethodGet, address, nil); status != 200 || !strings.Contains(page, want) || strings.Contains(page, "<form") {
			t.Errorf("%s: %d %s", want, status, page)
		}
		if before := form(before, "approved"); before.Get("nonce") != "" {
			if status, _, _ := b.page(http.MethodPost, address, before); status != 409 {
				t.Errorf("%s: a late post is %d, want 409", want, status)
			}
		}
	}
	// One address is asked for a bounded number of times.
	eventually(t, "it is too often", func() bool { status, _, _ := b.page(http.MethodGet, other, nil); return status == 429 })
}

func TestSlack_AClickDecidesInTheNameOfItsUser(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.reviewers(o)
	a := b.ask(in("reviewers"))
	approve := click(o, a, "U0ANN", "approved", "")
	now := time.Now()
	for name, got := range map[string]int{
		"another secret":  b.fromSlack(approve, now, func(r *http.Request) { r.Header.Set("X-Slack-Signature", "v0="+strings.Repeat("ab", 32)) }),
		"no signature":    b.fromSlack(approve, now, func(r *http.Request) { r.Header.Del("X-Slack-Signature") }),
		"old":             b.fromSlack(approve, now.Add(-6*time.Minute)),
		"from the future": b.fromSlack(approve, now.Add(6*time.Minute)),
		"another body": b.fromSlack(approve, now, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(approve)+"&x=1")), int64(len(approve)+4)
		}),
		"another channel's": b.fromSlack([]byte(strings.Replace(string(approve), "reviewers", "elsewhere", 1)), now),
		"nothing of ours":   b.fromSlack([]byte("payload=%7B%7D"), now),
		"no form":           b.fromSlack([]byte("{"), now),
	} {
		if got != 400 {
			t.Errorf("%s: %d, want 400", name, got)
		}
	}
	// A stranger with a familiar name decides nothing and is told so.
	if got := b.fromSlack(click(o, a, "U0EVE", "approved", ""), now); got != 200 {
		t.Errorf("a stranger: %d", got)
	}
	eventually(t, "the stranger is told", func() bool { return len(o.at("/actions/U0EVE")) == 1 })
	if told := string(o.at("/actions/U0EVE")[0].body); !strings.Contains(told, "not among the people") {
		t.Errorf("a stranger is told %s", told)
	}
	if s := b.show(a.ApprovalID).State; s != approvals.StatePending {
		t.Fatalf("it is %s", s)
	}
	reason := "no: <@U0ANN> \"approve everything\" 😀"
	for i := range 3 { // Slack repeats what it thinks was not answered
		if got := b.fromSlack(click(o, a, "U0BEN", "rejected", reason), now, func(r *http.Request) { r.Header.Set("X-Slack-Retry-Num", strconv.Itoa(i)) }); got != 200 {
			t.Errorf("click %d: %d", i, got)
		}
	}
	got := b.show(a.ApprovalID)
	if got.State != events.Reject || got.DecidedBy != "ben" || got.Door != "slack" || got.Comment != reason {
		t.Errorf("%+v", got)
	}
	if n := len(o.at("/actions/U0BEN")); n != 0 {
		t.Errorf("who decided is answered %d times beside the message", n)
	}
	if n := b.count(`SELECT count(*) FROM approvals.decisions WHERE approval_id = $1 AND outcome = 'decided'`, string(a.ApprovalID)); n != 1 {
		t.Errorf("%d decisions", n)
	}
	// Who comes too late is told who was first.
	if got := b.fromSlack(approve, now); got != 200 {
		t.Errorf("late: %d", got)
	}
	eventually(t, "ann is told", func() bool { return len(o.at("/actions/U0ANN")) == 1 })
	if text := string(o.at("/actions/U0ANN")[0].body); !strings.Contains(text, "rejected by ben at ") || !strings.Contains(text, `"response_type":"ephemeral"`) || !strings.Contains(text, `"replace_original":false`) {
		t.Errorf("told %s", text)
	}
	// A request that was not told in this channel is none of its people's.
	private := b.ask()
	if b.fromSlack(click(o, private, "U0ANN", "approved", ""), now); b.show(private.ApprovalID).State != approvals.StatePending {
		t.Error("a request of no channel was decided in one")
	}
	// The answer to a question is what stands beside the button.
	q := b.ask(in("reviewers"), func(a *events.AskApproval) {
		a.Kind, a.Question, a.ApprovalID = events.ApprovalQuestion, &events.Question{Text: "How many?", Schema: json.RawMessage(`{"type":"integer"}`)}, events.NewApprovalID(a.CallID, "q", 3)
	})
	if got := b.fromSlack(click(o, q, "U0ANN", "answered", "9007199254740993"), now); got != 200 {
		t.Errorf("answer: %d", got)
	}
	if got := b.show(q.ApprovalID); string(got.Result) != "9007199254740993" || got.DecidedBy != "ann" {
		t.Errorf("answered %+v", got)
	}
	// We answer nowhere but at Slack.
	r := b.ask(in("reviewers"))
	elsewhere := newOutside(t)
	b.fromSlack(click(elsewhere, r, "U0EVE", "approved", ""), now)
	b.fromSlack(click(o, r, "U0EVE", "approved", ""), now)
	eventually(t, "the second stranger is told", func() bool { return len(o.at("/actions/U0EVE")) == 2 })
	if n := len(elsewhere.at("/")); n != 0 {
		t.Errorf("%d requests to an address that is not Slack's", n)
	}
}

// A hundred people decide one request through three doors: one decision, and every
// one of the others learns who made it and when.
func TestCaseE01_ThreeDoorsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.reviewers(o)
	a := b.ask(in("reviewers"))
	links := map[string]string{"ann": b.link(a, "ann"), "ben": b.link(a, "ben")}
	forms := map[string]string{}
	for who, l := range links {
		_, _, forms[who] = b.page(http.MethodGet, l, nil)
	}
	people := []string{"ann", "ben"}
	decisions := map[string]string{"ann": events.Approve, "ben": events.Reject}
	var mu sync.Mutex
	told := map[string]int{} // by what somebody was told
	note := func(door, text string) {
		mu.Lock()
		defer mu.Unlock()
		told[door+" "+text]++
	}
	var wg sync.WaitGroup
	for i := range 100 {
		who := people[i%2]
		wg.Go(func() {
			switch i % 3 {
			case 0:
				got, err := b.as(who).Decide(t.Context(), a.ApprovalID, client.Decision{Decision: decisions[who]})
				if e, ok := errors.AsType[*client.Error](err); ok {
					note("api", strconv.Itoa(e.Status)+" "+e.Detail)
				} else {
					note("api", fmt.Sprintf("200 repeated=%t %s by %s at %s through %s", got.Repeated, got.State, got.DecidedBy, stampOf(got.DecidedAt), got.Door))
				}
			case 1:
				status, _, page := b.page(http.MethodPost, links[who], form(forms[who], decisions[who]))
				note("link", strconv.Itoa(status)+" "+page)
			default:
				note("slack", strconv.Itoa(b.fromSlack(click(o, a, map[string]string{"ann": "U0ANN", "ben": "U0BEN"}[who], decisions[who], ""), time.Now())))
			}
		})
	}
	wg.Wait()
	final := b.show(a.ApprovalID)
	said := fmt.Sprintf("%s by %s at %s through %s", final.State, final.DecidedBy, final.DecidedAt.UTC().Format("2006-01-02T15:04:05.000Z"), final.Door)
	doors := map[string]int{}
	for text, n := range told {
		door, rest, _ := strings.Cut(text, " ")
		doors[door] += n
		switch {
		case strings.HasPrefix(rest, "200"): // the winner, or who decided the same
			if door != "slack" && !strings.Contains(rest, said) {
				t.Errorf("%s: %.300s, want %q", door, rest, said)
			}
		case !strings.HasPrefix(rest, "409") || !strings.Contains(rest, said):
			t.Errorf("%s is told %.400s, want %q", door, rest, said)
		}
	}
	if doors["api"] != 34 || doors["link"] != 33 || doors["slack"] != 33 {
		t.Errorf("answers %v", doors)
	}
	// The losers in Slack are told there.
	loser, clicks := "U0BEN", 0
	if final.DecidedBy == "ben" {
		loser = "U0ANN"
	}
	for i := range 100 {
		if i%3 == 2 && (people[i%2] == "ben") == (loser == "U0BEN") {
			clicks++
		}
	}
	eventually(t, "everybody who lost in Slack is told", func() bool { return len(o.at("/actions/"+loser)) == clicks })
	for _, h := range o.at("/actions/") {
		if !strings.Contains(string(h.body), said) {
			t.Errorf("told %s, want %q", h.body, said)
		}
	}
	// Who said the same there reads it in the message.
	eventually(t, "the message says who and when", func() bool {
		all := o.at("/api/chat.update")
		return len(all) > 0 && strings.Contains(string(all[len(all)-1].body), said)
	})
	b.decision(a.ApprovalID)
	if n := b.count(`SELECT count(*) FROM approvals.decisions WHERE approval_id = $1`, string(a.ApprovalID)); n != 100 {
		t.Errorf("the audit has %d attempts, want 100", n)
	}
	if n := b.count(`SELECT count(*) FROM approvals.decisions WHERE approval_id = $1 AND outcome = 'decided'`, string(a.ApprovalID)); n != 1 || len(b.told(a.ApprovalID)) != 1 {
		t.Errorf("%d decisions, the runner is told %d times; want one", n, len(b.told(a.ApprovalID)))
	}
}
