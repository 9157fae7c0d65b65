package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func asking(t testing.TB, lines string) Asking {
	t.Helper()
	docs, err := Parse("agent.yaml", []byte("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  model: m\n  instructions: i\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	return docs[0].Agent.Asking()
}

// The stricter of the tool's and the run's policy wins.
func TestGate_TheStricterWins(t *testing.T) {
	t.Parallel()
	run := &RunFacts{Agent: "a", ModelCalls: 3, ToolCalls: 2, Tokens: 900, Cost: 1_900_000}
	now := time.Date(2026, 11, 29, 23, 30, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		tool, agent string
		run         *RunFacts
		ask         bool
		rule        string
	}{
		"neither asks":                         {"never", "", run, false, ""},
		"the tool asks":                        {"always", "  approvals: {policy: never}\n", run, true, ""},
		"the agent asks":                       {"never", "  approvals: {policy: always}\n", run, true, ""},
		"the agent asks about writes":          {"never", "  approvals: {policy: {when: tool.effect == 'write' && tool.name == 't'}}\n", run, true, ""},
		"the agent asks about others":          {"never", "  approvals: {policy: {when: tool.effect == 'read'}}\n", run, false, ""},
		"both rules hold":                      {"{deciders: {groups: [finance]}, requester: allowed}", "  approvals: {policy: {when: args.n > 5, deciders: {users: [ann], roles: [admin]}}}\n", run, true, "group finance, who must also be ann or role admin, but not by who started the run"},
		"a rule of an agent that does not ask": {"always", "  approvals: {policy: {when: args.n > 99, deciders: {users: [ann]}, requester: allowed}}\n", run, true, "ann"},
		"both allow who asked":                 {"{requester: allowed}", "  approvals: {policy: {requester: allowed}}\n", run, true, "every approver"},
		"a comment that one of both wants":     {"{requester: allowed, comment: optional}", "  approvals: {policy: {requester: allowed, comment: required}}\n", run, true, "every approver, and with a comment"},
		"a comment that the tool wants":        {"{deciders: {users: [ann]}, comment: required}", "  approvals: {policy: always}\n", run, true, "ann, but not by who started the run, and with a comment"},
		"the greater of two numbers":           {"{requester: allowed, quorum: 2}", "  approvals: {policy: {requester: allowed, quorum: 3}}\n", run, true, "3 people of: every approver"},
		"a condition that cannot be decided":   {"never", "  approvals: {policy: {when: args.none}}\n", run, true, ""},
		"money is nearly used up":              {"{when: budget.cost.left < 500000 && budget.cost.used == 1900000}", "  budget: {cost: \"2.00\"}\n", run, true, ""},
		"money is left":                        {"{when: budget.cost.left < 500000}", "  budget: {cost: \"20.00\"}\n", run, false, ""},
		"a ceiling that nobody set":            {"{when: budget.tokens.left < 1}", "", run, true, ""},
		"a run that is not known":              {"{when: budget.modelCalls.left < 1}", "", nil, true, ""},
		"at night, there":                      {"{when: timestamp(time).getHours('Europe/Warsaw') < 6}", "", run, true, ""},
		"by day, here":                         {"{when: timestamp(time).getHours() < 6}", "", run, false, ""},
	} {
		g := tool(t, "  approval: "+tc.tool+"\n").Gate(asking(t, tc.agent), GateCase{Args: json.RawMessage(`{"n":7}`), Run: tc.run, Now: now})
		rule := ""
		if g.Rule != nil {
			rule = g.Rule.String()
		}
		if g.Ask != tc.ask || rule != tc.rule {
			t.Errorf("%s: asks %t by %q, want %t by %q", name, g.Ask, rule, tc.ask, tc.rule)
		}
	}
}

// What a yes is bound to covers who may decide, of both; what says nothing new is
// bound to the words of earlier releases.
func TestGate_PolicyCoversTheRules(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, p := range [][2]string{
		{"always", ""}, {"never", "  approvals: {policy: always}\n"}, {"always", "  approvals: {policy: always}\n"},
		{"{deciders: {users: [ann]}}", ""}, {"{deciders: {users: [ben]}}", ""}, {"{deciders: {users: [ann]}, requester: allowed}", ""}, {"{deciders: {groups: [ann]}}", ""}, {"{deciders: {users: [ann]}, comment: required}", ""}, {"{deciders: {users: [ann]}, quorum: 2}", ""}, {"{deciders: {users: [ann]}, quorum: 3}", ""},
		{"{remind: [1h]}", ""}, {"{remind: [1h, 2h]}", ""},
		{"always", "  approvals: {policy: {deciders: {users: [ann]}}}\n"}, {"always", "  approvals: {policy: {deciders: {users: [ben]}}}\n"},
	} {
		g := tool(t, "  approval: "+p[0]+"\n").Gate(asking(t, p[1]), GateCase{Args: json.RawMessage(`{}`)})
		if before, ok := seen[g.Policy]; ok {
			t.Errorf("%q and %q are bound to the same: %s", p, before, g.Policy)
		}
		seen[g.Policy] = strings.Join(p[:], " ")
	}
	for _, old := range []string{"always", "{when: args.n >= 100}"} {
		x := tool(t, "  approval: "+old+"\n")
		want := strings.NewReplacer("{when: ", "when ", "}", "").Replace(old)
		if g := x.Gate(asking(t, "  approvals: {channel: ops}\n"), GateCase{}); g.Policy != want || g.Rule != nil {
			t.Errorf("%s: %+v, want %q", old, g, want)
		}
		if g := x.Gate(Asking{}, GateCase{Fork: true}); !g.Ask || g.Policy != events.RuleFork {
			t.Errorf("in a fork: %+v", g)
		}
	}
	old := PoliciesDigest([]*Tool{tool(t, ""), tool(t, "  approval: always\n"), tool(t, "  approval: {when: args.n >= 100}\n")})
	if old != "sha256:2c4d84a978e75880ad68406e95e65e108707ac475b4b8d0d0eaf95de0310589a" {
		t.Errorf("the digest of old forms is %s", old)
	}
	const bare = `always; rule {"deciders":[{"users":["ann"]}],"requester_denied":true}`
	for _, p := range []string{"{deciders: {users: [ann]}}", "{deciders: {users: [ann]}, comment: optional}"} {
		if got := tool(t, "  approval: "+p+"\n").Approval.String(); got != bare {
			t.Errorf("%s is bound to %s, want %s", p, got, bare)
		}
	}
}

// A policy is not for calls that nobody can hold back.
func TestGate_WhatWaitsForNobody(t *testing.T) {
	t.Parallel()
	always := asking(t, "  approvals: {policy: {deciders: {users: [ann]}}}\n")
	docs, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Tool\nmetadata: {name: p}\nspec: {builtin: plan}\n---\napiVersion: holdfast/v1\nkind: Tool\nmetadata: {name: s}\nspec: {description: d, input: {type: object}, effect: read, signal: {name: paid, timeout: 1h}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		if g := d.Tool.Gate(always, GateCase{Args: json.RawMessage(`{}`)}); g.Ask || g.Rule != nil {
			t.Errorf("%s: %+v", d.Name, g)
		}
	}
}

func TestApproval_FormsAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"always":                                  `"always"`,
		"{when: args.n > 1 && args.s == '<'}":     `{"when":"args.n > 1 && args.s == '<'"}`,
		"{deciders: {groups: [finance, leads]}}":  `{"deciders":{"groups":["finance","leads"]},"requester":"denied"}`,
		"{comment: required}":                     `{"requester":"denied","comment":"required"}`,
		"{quorum: 2}":                             `{"requester":"denied","quorum":2}`,
		"{comment: optional}":                     `{"requester":"denied"}`,
		"{when: args.n > 1, requester: allowed}":  `{"when":"args.n > 1","requester":"allowed"}`,
		"{escalate: [{after: 1h, channel: ops}]}": `{"requester":"allowed","escalate":[{"after":"1h","channel":"ops"}]}`,
		"{atExpiry: end}":                         `{"requester":"allowed","atExpiry":"end"}`,
		"{when: args.n > 1, remind: [1h, 1d]}":    `{"when":"args.n > 1","requester":"allowed","remind":["1h","24h"]}`,
	} {
		raw, err := tool(t, "  approval: "+in+"\n").Approval.MarshalJSON()
		if err != nil || string(raw) != want {
			t.Errorf("%s: %s (%v), want %s", in, raw, err, want)
		}
	}
}

// The reminders of both hold together, and alone they deny nobody.
func TestGate_RemindersOfBoth(t *testing.T) {
	t.Parallel()
	rule := asking(t, "  approvals: {policy: {remind: [2h, 4h]}}\n").RuleFor(tool(t, "  approval: {remind: [1h, 4h, 1d]}\n"))
	if want := []int64{3600_000, 2 * 3600_000, 4 * 3600_000, 24 * 3600_000}; rule == nil || rule.RequesterDenied || !slices.Equal(rule.RemindMs, want) {
		t.Errorf("%+v, want %v", rule, want)
	}
	for _, more := range []string{"deciders: {users: [ann]}", "comment: required", "quorum: 2"} {
		if rule := (Asking{}).RuleFor(tool(t, "  approval: {remind: [1h], "+more+"}\n")); !rule.RequesterDenied {
			t.Errorf("%s: %+v", more, rule)
		}
	}
	if raw := (Asking{}).RuleFor(tool(t, "  approval: {deciders: {users: [ann]}}\n")); raw.RemindMs != nil {
		t.Errorf("%+v", raw)
	}
}

// A request is kept when somebody says so and nobody says that it, or the run, ends.
func TestGate_AtExpiryTheStricterWins(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ tool, agent, want string }{
		{"{deciders: {users: [ann]}}", "", ""},
		{"{atExpiry: keep}", "", "keep"},
		{"{atExpiry: deny}", "", ""},
		{"always", "{atExpiry: keep}", "keep"},
		{"{deciders: {users: [ann]}}", "{atExpiry: keep}", "keep"},
		{"{atExpiry: keep}", "{atExpiry: deny}", ""},
		{"{atExpiry: deny}", "{atExpiry: keep}", ""},
		{"{atExpiry: deny}", "{atExpiry: end}", "end"},
		{"{atExpiry: end}", "{atExpiry: keep}", "end"},
		{"{atExpiry: keep, remind: [100h]}", "{atExpiry: keep}", "keep"}, // after the expiry
	} {
		lines := ""
		if tc.agent != "" {
			lines = "  approvals: {policy: " + tc.agent + "}\n"
		}
		rule := asking(t, lines).RuleFor(tool(t, "  approval: "+tc.tool+"\n"))
		if rule == nil || rule.AtExpiry != tc.want {
			t.Errorf("%s and %s: %+v, want %q", tc.tool, tc.agent, rule, tc.want)
		}
	}
}

// The steps of both hold, in the order of their times, each about the deciders of its
// own policy, and alone they deny nobody. They name channels that must exist.
func TestGate_EscalationsOfBoth(t *testing.T) {
	t.Parallel()
	agent := asking(t, "  approvals: {policy: {deciders: {groups: [leads]}, escalate: [{after: 1h, channel: ops}, {after: 3h, deciders: {roles: [admin]}, channel: bosses}]}}\n")
	with := tool(t, "  approval: {deciders: {users: [ann]}, escalate: [{after: 2h, deciders: {users: [ben]}}]}\n")
	raw, err := events.Marshal(agent.RuleFor(with).Escalate)
	want := `[{"after_ms":3600000,"channel":"ops"},{"after_ms":7200000,"deciders":{"users":["ben"]}},{"after_ms":10800000,"deciders":{"roles":["admin"]},"of":1,"channel":"bosses"}]`
	if err != nil || string(raw) != want {
		t.Errorf("%s (%v), want %s", raw, err, want)
	}
	rule := (Asking{}).RuleFor(tool(t, "  approval: {escalate: [{after: 1h, channel: ops}]}\n"))
	if rule == nil || rule.RequesterDenied || len(rule.Escalate) != 1 {
		t.Errorf("%+v", rule)
	}
	refs := fmt.Sprint(agent.Approvals.references(), tool(t, "  approval: {escalate: [{after: 1h, channel: late}]}\n").References())
	for _, want := range []string{"ops spec.approvals.policy.escalate[0].channel", "bosses spec.approvals.policy.escalate[1].channel", "late spec.approval.escalate[0].channel"} {
		if !strings.Contains(refs, want) {
			t.Errorf("%s is not in %s", want, refs)
		}
	}
	if said := agent.RuleFor(with).String(); said != "ann or, after 2h0m0s, ben, who must also be group leads or, after 3h0m0s, role admin, but not by who started the run" {
		t.Errorf("%s", said)
	}
}
