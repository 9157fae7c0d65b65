package approvals_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

func TestSimilarity(t *testing.T) {
	t.Parallel()
	of := func(args string, labels ...string) string {
		m := map[string]string{}
		for _, l := range labels {
			m[l] = "value of " + args
		}
		return approvals.Similarity("action", "propose_price", json.RawMessage(args), m)
	}
	one := of(`{"shop":"A","old":24.90,"lines":[{"n":1},{"n":2}]}`, "shop")
	for args, alike := range map[string]bool{
		`{"lines":[{"n":9007199254740993}],"shop":"B","old":0}`:        true, // another order, other values
		`{"shop":"A","old":"24.90","lines":[{"n":1}]}`:                 false,
		`{"shop":"A","old":24.90,"lines":[{"n":1}],"more":1}`:          false,
		`{"shop":"A","old":24.90}`:                                     false,
		`{"shop":"A","old":24.90,"lines":[{"n":1},"x"]}`:               false,
		`{"shop":null,"old":24.90,"lines":[{"n":1}]}`:                  false,
		`{"shop":"A\":s,\"old\":n","old":1,"lines":[{"n":1},{"n":2}]}`: true, // a value never looks like a name
	} {
		if got := of(args, "shop") == one; got != alike {
			t.Errorf("%s is alike: %t, want %t", args, got, alike)
		}
	}
	if of(`{"shop":"A","old":24.90,"lines":[{"n":1},{"n":2}]}`, "shop", "night") == one {
		t.Error("another name of a label makes no difference")
	}
	if approvals.Similarity("action", "a", nil, nil) == approvals.Similarity("action", "b", nil, nil) {
		t.Error("another tool makes no difference")
	}
}

// shopped asks about a price of a shop.
func shopped(shop, price string) func(*events.AskApproval) {
	return func(a *events.AskApproval) {
		a.Args = json.RawMessage(fmt.Sprintf(`{"shop":%q,"price":%s}`, shop, price))
		a.Preview = shop + ": → " + price
	}
}

func toolOf(tool string) func(*events.AskApproval) {
	return func(a *events.AskApproval) { a.Tool = tool }
}

func TestGroups(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.ask(shopped("A", "24.90"), expiresIn(time.Hour))
	second := b.ask(shopped("B", "9007199254740993"))
	b.ask(toolOf("send_mail"))
	other := b.ask(shopped("C", `"text"`))
	ended := b.ask(shopped("D", "1"))
	if _, err := b.as("ann").Decide(t.Context(), ended.ApprovalID, no); err != nil {
		t.Fatal(err)
	}
	all := func(by string, limit int) (out []client.ApprovalGroup) {
		t.Helper()
		for p := (client.PageRequest{Limit: limit}); ; {
			page, err := b.as("vic").ApprovalGroups(t.Context(), by, "", p)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, page.Items...)
			if p.Cursor = page.NextCursor; p.Cursor == "" {
				return out
			}
		}
	}
	byTool := all("tool", 1)
	if len(byTool) != 2 || byTool[0].Group != "tool:propose_price" || byTool[0].Count != 3 || byTool[1].Count != 1 {
		t.Fatalf("groups by tool: %+v; want propose_price with 3, which expires first, and send_mail with 1", byTool)
	}
	g := byTool[0]
	if diff := cmp.Diff([]events.ApprovalID{other.ApprovalID, second.ApprovalID, first.ApprovalID}, g.IDs); diff != "" {
		t.Errorf("ids, newest first (-want +got)\n%s", diff)
	}
	if want := b.show(first.ApprovalID); !g.Oldest.Equal(want.CreatedAt) || !g.NextExpiry.Equal(want.ExpiresAt) || g.IDsCursor != "" || g.Sample.ApprovalID != other.ApprovalID {
		t.Errorf("group: %+v; want the oldest and the next to expire of %+v", g, want)
	}
	similar := all("similarity", 50)
	if len(similar) != 3 || similar[0].Count != 2 || similar[0].Sample.Preview != "B: → 9007199254740993" {
		t.Errorf("groups by similarity: %+v; want 3, of which one has the two numbers", similar)
	}
	if got := all("agent", 50); len(got) != 1 || got[0].Group != "agent:pricing" || got[0].Count != 4 {
		t.Errorf("groups by agent: %+v", got)
	}
	page, err := b.as("vic").Approvals(t.Context(), client.ApprovalFilter{Group: similar[0].Group}, client.PageRequest{Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Items[0].ApprovalID != second.ApprovalID || page.NextCursor == "" {
		t.Fatalf("members: %+v, %v", page, err)
	}
	page, err = b.as("vic").Approvals(t.Context(), client.ApprovalFilter{Group: similar[0].Group}, client.PageRequest{Cursor: page.NextCursor})
	if err != nil || len(page.Items) != 1 || page.Items[0].ApprovalID != first.ApprovalID {
		t.Errorf("members behind it: %+v, %v", page, err)
	}
	if foreign, err := b.as("zoe").ApprovalGroups(t.Context(), "tool", "", client.PageRequest{}); err != nil || len(foreign.Items) != 0 {
		t.Errorf("another namespace has %d groups, %v", len(foreign.Items), err)
	}
	for _, group := range []string{"tool", "shop:x", ":", "state:pending"} {
		if _, err := b.as("vic").Approvals(t.Context(), client.ApprovalFilter{Group: group}, client.PageRequest{}); client.StatusOf(err) != 422 {
			t.Errorf("group %q: %v, want 422", group, err)
		}
	}
	if _, err := b.as("vic").ApprovalGroups(t.Context(), "shape", "", client.PageRequest{}); client.StatusOf(err) != 422 {
		t.Errorf("grouped by shape: %v, want 422", err)
	}
}

// What runs in a flow is in the flow's group, however deep it is.
func TestGroups_ByTheFlowAtTheTop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	top, middle := events.NewRunID(), events.NewRunID()
	run := func(id events.RunID, kind, name string, parent any) {
		b.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, labels, trigger, accepted_at, parent_run_id)
			VALUES ($1, 'default', $2, $3, 'd', 'running', 1, 'null', '{}', '{}', now(), $4)`, string(id), kind, name, parent)
	}
	run(top, "flow", "night", nil)
	run(middle, "flow", "one-shop", string(top))
	in := func(kind, name string, parent any) func(*events.AskApproval) {
		return func(a *events.AskApproval) { run(a.RunID, kind, name, parent) }
	}
	b.ask(in("agent", "pricing", string(middle)))
	b.ask(in("flow", "night", nil))
	b.ask(in("agent", "pricing", nil))
	page, err := b.as("vic").ApprovalGroups(t.Context(), "flow", "", client.PageRequest{})
	got := map[string]int{}
	for _, g := range page.Items {
		got[g.Value] = g.Count
	}
	if diff := cmp.Diff(map[string]int{"night": 2, "": 1}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// A preview is one line that shows what it is, and never stands for the arguments.
func TestPreview_IsFitToShow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const evil = "Shop\u202eA\n<b>: \x1b[31m24.90 → 22.90"
	a := b.ask(shopped("x", "22.90"), func(a *events.AskApproval) { a.Preview = evil + strings.Repeat("y", 400) })
	got := b.show(a.ApprovalID)
	if want := `Shop\u202eA\n<b>: \u001b[31m24.90 → 22.90`; !strings.HasPrefix(got.Preview, want) || !strings.HasSuffix(got.Preview, "…") || len([]rune(got.Preview)) > 320 {
		t.Errorf("preview = %q, want it to begin with %q and to be cut", got.Preview, want)
	}
	b.book.apply(t, "reviewers", "  email: {server: 'mail.example.com:587', from: hf@example.com, to: [ops@example.com]}\n  people: [{name: ann, email: ann@example.com}]\n", nil)
	if status, _, page := b.page("GET", b.link(a, "ann"), nil); status != 200 || !strings.Contains(page, `<h1>Shop\u202eA\n&lt;b&gt;: `) || !strings.Contains(page, "Exactly this") || !strings.Contains(page, "22.90") {
		t.Errorf("page: %d\n%s", status, page)
	}
	if m := approvals.TellAsked(approvals.Request{Kind: "action", Preview: got.Preview, Summary: "pricing wants to call x", Args: a.Args}); !strings.HasPrefix(m.Title, `Shop\u202eA`) || m.Facts[0].Name != "arguments" {
		t.Errorf("told as %q with %v; want the preview and the arguments", m.Title, m.Facts)
	}
}
