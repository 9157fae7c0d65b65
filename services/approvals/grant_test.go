package approvals_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

func TestGrant_Allows(t *testing.T) {
	t.Parallel()
	base := approvals.Grant{Namespace: "default", Tool: "refund", AmountOf: "args.amount", MaxAmount: "100"}
	for name, tc := range map[string]struct {
		change func(*approvals.Grant, *approvals.Request)
		args   string
		want   string // amount; empty: not allowed
	}{
		"a number":             {args: `{"amount":24.90}`, want: "24.9"},
		"text keeps its form":  {args: `{"amount":"24.90"}`, want: "24.90"},
		"an exponent":          {args: `{"amount":1e2}`, want: "100"},
		"digits":               {args: `{"amount":9007199254740993}`, want: "9007199254740993"},
		"zero":                 {args: `{"amount":0}`, want: "0"},
		"negative":             {args: `{"amount":-1}`},
		"negative text":        {args: `{"amount":"-1"}`},
		"not a number":         {args: `{"amount":"NaN"}`},
		"infinite":             {args: `{"amount":"Infinity"}`},
		"huge":                 {args: `{"amount":1e400}`},
		"octal":                {args: `{"amount":"007"}`},
		"an amount with space": {args: `{"amount":" 1"}`},
		"null":                 {args: `{"amount":null}`},
		"absent":               {args: `{}`},
		"a list":               {args: `{"amount":[1]}`},
		"another tool":         {args: `{"amount":1}`, change: func(g *approvals.Grant, _ *approvals.Request) { g.Tool = "pay" }},
		"another agent":        {args: `{"amount":1}`, change: func(g *approvals.Grant, _ *approvals.Request) { g.Agent = "other" }},
		"the agent":            {args: `{"amount":1}`, want: "1", change: func(g *approvals.Grant, _ *approvals.Request) { g.Agent = "support" }},
		"another namespace":    {args: `{"amount":1}`, change: func(g *approvals.Grant, _ *approvals.Request) { g.Namespace = "other" }},
		"a doubt":              {args: `{"amount":1}`, change: func(_ *approvals.Grant, r *approvals.Request) { r.Kind = events.ApprovalDoubt }},
		"a question":           {args: `{"amount":1}`, change: func(_ *approvals.Grant, r *approvals.Request) { r.Kind = events.ApprovalQuestion }},
		"the condition holds":  {args: `{"amount":1,"to":"ann"}`, want: "1", change: when(`args.to == "ann"`)},
		"it does not":          {args: `{"amount":1,"to":"ben"}`, change: when(`args.to == "ann"`)},
		"it cannot be decided": {args: `{"amount":1}`, change: when(`args.to == "ann"`)},
		"the maker may decide": {args: `{"amount":1}`, want: "1", change: byRule(events.Deciders{Users: []string{"ann"}}, "opa")},
		"the maker may not":    {args: `{"amount":1}`, change: byRule(events.Deciders{Groups: []string{"finance"}}, "opa")},
		"the maker asked":      {args: `{"amount":1}`, change: byRule(events.Deciders{Users: []string{"ann"}}, "ann")},
		"without an amount": {args: `{"amount":-1}`, want: "0", change: func(g *approvals.Grant, _ *approvals.Request) {
			g.AmountOf, g.MaxAmount = "", ""
		}},
	} {
		g, r := base, approvals.Request{Namespace: "default", Kind: events.ApprovalAction, Tool: "refund", Agent: "support", Args: json.RawMessage(tc.args)}
		if tc.change != nil {
			tc.change(&g, &r)
		}
		if got, ok := g.Allows(r); ok != (tc.want != "") || ok && got != tc.want {
			t.Errorf("%s: %q, %t; want %q", name, got, ok, tc.want)
		}
	}
}

func byRule(d events.Deciders, requester string) func(*approvals.Grant, *approvals.Request) {
	return func(g *approvals.Grant, r *approvals.Request) {
		g.Maker, r.Requester = approvals.Maker{Name: "ann", Role: "approver"}, requester
		r.Rule = &events.DecisionRule{Deciders: []events.Deciders{d}, RequesterDenied: true}
	}
}

func when(cel string) func(*approvals.Grant, *approvals.Request) {
	return func(g *approvals.Grant, _ *approvals.Request) { g.When = cel }
}

func TestGrant_Check(t *testing.T) {
	t.Parallel()
	good := approvals.Grant{Tool: "refund", MaxUses: 1, When: "args.amount < 10.0", AmountOf: "args.amount", MaxAmount: "10.50", Maker: approvals.Maker{Name: "ann"}}
	if err := good.Check(time.Hour); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*approvals.Grant){
		"no tool":             func(g *approvals.Grant) { g.Tool = "" },
		"no count":            func(g *approvals.Grant) { g.MaxUses = 0 },
		"a count without end": func(g *approvals.Grant) { g.MaxUses = 1 << 40 },
		"a broken condition":  func(g *approvals.Grant) { g.When = "args.amount <" },
		"a condition on run":  func(g *approvals.Grant) { g.When = "run.tokens > 1" },
		"half an amount":      func(g *approvals.Grant) { g.MaxAmount = "" },
		"the other half":      func(g *approvals.Grant) { g.AmountOf = "" },
		"not an amount":       func(g *approvals.Grant) { g.MaxAmount = "1e9" },
		"not a path":          func(g *approvals.Grant) { g.AmountOf = "args.a} and ${args.b" },
		"another root":        func(g *approvals.Grant) { g.AmountOf = "run.id" },
		"NUL":                 func(g *approvals.Grant) { g.Comment = "\x00" },
		"nobody":              func(g *approvals.Grant) { g.Maker.Name = "" },
	} {
		g := good
		change(&g)
		if err := g.Check(time.Hour); !errors.Is(err, approvals.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, d := range []time.Duration{0, time.Second, 400 * 24 * time.Hour} {
		if err := good.Check(d); !errors.Is(err, approvals.ErrInvalid) {
			t.Errorf("it lasts %s: %v", d, err)
		}
	}
}

func (b *bench) grant(r client.GrantRequest) client.Grant {
	b.t.Helper()
	if r.ExpiresIn == 0 {
		r.ExpiresIn = 3600
	}
	g, err := b.as("ann").MakeGrant(b.t.Context(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return g
}

// asked publishes an ask and waits until the request is there, in whatever state.
func (b *bench) asked(change ...func(*events.AskApproval)) client.Approval {
	b.t.Helper()
	a := question(change...)
	b.publish(a, "ask:"+string(a.ApprovalID))
	var got client.Approval
	eventually(b.t, "it is asked", func() (ok bool) {
		var err error
		got, err = b.as("vic").Approval(b.t.Context(), a.ApprovalID)
		return err == nil
	})
	return got
}

// What a grant allows is born approved: bound to its digest, told to the runner, not to
// people, and counted; whatever is outside of its bounds waits for a person.
func TestGrant_ApprovesAtBirth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.reviewers(o)
	g := b.grant(client.GrantRequest{Tool: "propose_price", Agent: "pricing", When: `args.shop != "Z"`, Count: 2, Comment: "tonight"})
	a := question(in("reviewers"), shopped("A", "24.90"))
	b.publish(a, "1")
	d := b.decision(a.ApprovalID)
	if d.Decision != events.Approve || d.By != "grant:"+g.GrantID || d.Digest != a.Digest || d.ValidUntil.IsZero() {
		t.Errorf("the runner is told %+v", d)
	}
	b.publish(a, "2") // the runner's doctor asks again
	b.idle()
	got := b.show(a.ApprovalID)
	if got.State != events.Approve || got.Door != approvals.DoorGrant || got.DecidedBy != "grant:"+g.GrantID || got.Digest != a.Digest {
		t.Errorf("shown: %+v", got)
	}
	if s := b.asked(shopped("Z", "1")).State; s != approvals.StatePending {
		t.Errorf("outside of the condition: %s", s)
	}
	if s := b.asked(shopped("A", "1"), func(a *events.AskApproval) { a.ForkOf = events.NewRunID() }).State; s != approvals.StatePending {
		t.Errorf("what another run may have done before: %s", s)
	}
	if s := b.asked(shopped("A", "1"), doubt).State; s != approvals.StatePending {
		t.Errorf("a doubt: %s", s)
	}
	if s := b.asked(shopped("A", "1"), expiresIn(0), func(a *events.AskApproval) { a.ExpiresAfterMs = -1 }).State; s == events.Approve {
		t.Errorf("what has no time: %s", s)
	}
	if s := b.asked(shopped("B", "2")).State; s != events.Approve {
		t.Errorf("the second: %s", s)
	}
	if s := b.asked(shopped("C", "3")).State; s != approvals.StatePending {
		t.Errorf("the third: %s", s)
	}
	if got, err := b.as("vic").Grant(t.Context(), g.GrantID); err != nil || got.Used != 2 || got.State != "used_up" || got.CreatedBy != "ann" {
		t.Errorf("grant: %+v, %v; want 2 used", got, err)
	}
	if n := b.count("SELECT count(*) FROM approvals.grant_uses"); n != 2 {
		t.Errorf("%d uses are recorded, want 2", n)
	}
	if n := b.count("SELECT count(*) FROM approvals.notices WHERE approval_id = $1 AND state <> 'gone'", string(a.ApprovalID)); n != 0 || len(o.at("/")) > 0 {
		t.Errorf("%d notices, %d messages of what waits for nobody", n, len(o.at("/")))
	}
	rows, _ := b.audited("adm", client.AuditFilter{Approval: a.ApprovalID})
	story := strings.Join(said(rows), ", ")
	for _, want := range []string{"requested  run", "decided grant:" + g.GrantID + " grant", "grant_used grant:" + g.GrantID + " grant"} {
		if !strings.Contains(story, want) {
			t.Errorf("the audit says %s; want %s", story, want)
		}
	}
	all, head := b.audited("adm", client.AuditFilter{})
	if problems := verified(all, &head); len(problems) > 0 || all[0].Kind != approvals.AuditGrantMade || all[0].Actor != "ann" {
		t.Errorf("audit begins with %+v: %v", all[0], problems)
	}
}

// Two who ask at once never pass the bounds, of count or of amount.
func TestGrant_IsNeverOvershot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	counted := b.grant(client.GrantRequest{Tool: "send_mail", Count: 5})
	summed := b.grant(client.GrantRequest{Tool: "propose_price", Count: 1000, AmountOf: "args.price", MaxAmount: "10.00"})
	for i := range 40 {
		a := question(shopped("A", "3.30"))
		if i%2 == 0 {
			a = question(toolOf("send_mail"))
		}
		b.publish(a, fmt.Sprint(i))
	}
	b.idle()
	if n, lost := b.count("SELECT count(*) FROM approvals.v_requests"), b.count("SELECT count(*) FROM approvals.rejected"); n != 40 || lost != 0 {
		t.Errorf("%d are asked and %d lost, want 40", n, lost)
	}
	for tool, want := range map[string]int{"send_mail": 5, "propose_price": 3} {
		if n := b.count("SELECT count(*) FROM approvals.v_requests WHERE tool = $1 AND state = 'approved'", tool); n != want {
			t.Errorf("%d of %s are approved, want %d", n, tool, want)
		}
	}
	if got, err := b.as("vic").Grant(t.Context(), summed.GrantID); err != nil || got.Used != 3 || got.Amount != "9.9" {
		t.Errorf("grant: %+v, %v; want 3 uses of 9.9", got, err)
	}
	if s := b.asked(shopped("B", "0.10")).State; s != events.Approve {
		t.Errorf("what still fits is %s", s)
	}
	if got, err := b.as("vic").Grant(t.Context(), counted.GrantID); err != nil || got.Used != 5 {
		t.Errorf("grant: %+v, %v; want 5 uses", got, err)
	}
}

func TestGrant_EndsAndBelongsToSomebody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	revoked := b.grant(client.GrantRequest{Tool: "propose_price", Count: 10})
	for range 2 {
		if got, err := b.as("ben").RevokeGrant(t.Context(), revoked.GrantID); err != nil || got.State != "revoked" || got.RevokedBy != "ben" {
			t.Errorf("revoked: %+v, %v", got, err)
		}
	}
	old := b.grant(client.GrantRequest{Tool: "propose_price", Count: 10})
	b.exec("UPDATE approvals.grants SET expires_at = clock_timestamp() - interval '1 ms' WHERE grant_id = $1", old.GrantID)
	foreign, err := b.as("zoe").MakeGrant(t.Context(), client.GrantRequest{Tool: "propose_price", Count: 10, ExpiresIn: 3600})
	if err != nil {
		t.Fatal(err)
	}
	if s := b.asked().State; s != approvals.StatePending {
		t.Errorf("after a revocation, an end and in another namespace: %s", s)
	}
	list, err := b.as("vic").Grants(t.Context(), false, client.PageRequest{})
	all, err2 := b.as("vic").Grants(t.Context(), true, client.PageRequest{Limit: 1})
	if err != nil || err2 != nil || len(list.Items) != 0 || len(all.Items) != 1 || all.NextCursor == "" || all.Items[0].State != "expired" {
		t.Errorf("list: %+v %v, all: %+v %v", list, err, all, err2)
	}
	for who, want := range map[string]int{"vic": 403, "opa": 403, "": 401} {
		if _, err := b.as(who).MakeGrant(t.Context(), client.GrantRequest{Tool: "x", Count: 1, ExpiresIn: 3600}); client.StatusOf(err) != want {
			t.Errorf("%q makes a grant: %v, want %d", who, err, want)
		}
		if _, err := b.as(who).RevokeGrant(t.Context(), old.GrantID); client.StatusOf(err) != want {
			t.Errorf("%q revokes: %v, want %d", who, err, want)
		}
	}
	for _, id := range []string{foreign.GrantID, "g-0", "a.b"} {
		if _, err := b.as("ann").Grant(t.Context(), id); client.StatusOf(err) != 404 {
			t.Errorf("%s: %v, want 404", id, err)
		}
		if _, err := b.as("ann").RevokeGrant(t.Context(), id); client.StatusOf(err) != 404 {
			t.Errorf("%s: %v, want 404", id, err)
		}
	}
	if _, err := b.as("ann").MakeGrant(t.Context(), client.GrantRequest{Tool: "x", Count: 1, ExpiresIn: 3600, When: "args."}); client.StatusOf(err) != 422 {
		t.Errorf("a broken condition: %v", err)
	}
	if _, err := b.as("ann").MakeGrant(t.Context(), client.GrantRequest{Like: "nothing", Count: 1, ExpiresIn: 3600}); client.StatusOf(err) != 404 {
		t.Errorf("like nothing: %v", err)
	}
}

// The inbox proposes a grant when people have approved the same often enough, and
// nobody rejected it.
func TestGrant_IsProposed(t *testing.T) {
	t.Parallel()
	b := setup(t) // after three
	propose := func() *client.GrantProposal {
		t.Helper()
		page, err := b.as("vic").ApprovalGroups(t.Context(), "similarity", "", client.PageRequest{})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		return page.Items[0].Proposal
	}
	for i := range 3 {
		a := b.ask(shopped("A", fmt.Sprint(i)))
		if p := propose(); p != nil {
			t.Errorf("after %d: %+v", i, p)
		}
		if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); err != nil {
			t.Fatal(err)
		}
	}
	b.ask(shopped("B", "9"))
	p := propose()
	if p == nil || p.Approved != 3 || p.Tool != "propose_price" {
		t.Fatalf("after 3: %+v", p)
	}
	g := b.grant(client.GrantRequest{Like: p.Like, Count: 1})
	if g.Tool != "propose_price" || g.Agent != "pricing" {
		t.Errorf("grant: %+v", g)
	}
	if s := b.asked(shopped("C", "1")).State; s != events.Approve {
		t.Errorf("asked again: %s", s)
	}
	no1 := b.ask(shopped("C", "1"))
	if _, err := b.as("ann").Decide(t.Context(), no1.ApprovalID, no); err != nil {
		t.Fatal(err)
	}
	if p := propose(); p != nil {
		t.Errorf("after a rejection: %+v", p)
	}
}
