package httpapi

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Group is what waits and belongs together.
type Group struct {
	Group      string    `json:"group" doc:"names it: list its members with group=, decide them with POST /v1/approvals/decide"`
	By         string    `json:"by" enum:"flow,agent,tool,similarity"`
	Value      string    `json:"value" doc:"name of the flow, agent or tool; empty for what runs in no flow"`
	Count      int       `json:"count" doc:"how many wait"`
	Oldest     time.Time `json:"oldest" doc:"when the first of them was asked"`
	Newest     time.Time `json:"newest" doc:"when the last of them was asked; send it back as up_to"`
	NextExpiry time.Time `json:"next_expiry" doc:"when the first of them expires"`
	Sample     Approval  `json:"sample" doc:"the newest"`
	IDs        []string  `json:"ids" doc:"the newest, at most 20"`
	Proposal   *Proposal `json:"proposal,omitempty" doc:"with group_by=similarity: the same was approved so often that a grant could do it"`
	IDsCursor  string    `json:"ids_cursor,omitempty" doc:"with group=: the members behind ids; absent when ids has all"`
}

// Proposal is a grant that could spare people the asking.
type Proposal struct {
	Approved int    `json:"approved" doc:"how often people approved the same in the last 30 days; nobody rejected it"`
	Like     string `json:"like" doc:"for POST /v1/grants"`
	Tool     string `json:"tool"`
	Agent    string `json:"agent"`
}

// members lists one group.
func (a api) members(ctx context.Context, in *listInput) (*listOutput, error) {
	if in.State != approvals.StatePending || in.Kind != "" || in.Run != "" || in.GroupBy != "" {
		return nil, invalid("query.group", "a group holds what is pending; it goes with no other filter")
	}
	k, err := approvals.ParseGroup(in.Group)
	if err != nil {
		return nil, invalid("query.group", err.Error())
	}
	who, _ := authn.FromContext(ctx)
	var before *approvals.Position
	var at approvals.Position
	if ok, err := door.DecodeCursor(in.Cursor, &at); err != nil {
		return nil, err
	} else if ok {
		before = &at
	}
	found, err := a.service.Members(ctx, who.Namespace, k, time.Time{}, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return a.listOf(ctx, found, in.Limit), nil
}

// groups lists what waits in groups.
func (a api) groups(ctx context.Context, in *listInput) (*listOutput, error) {
	if in.State != approvals.StatePending || in.Run != "" {
		return nil, invalid("query.group_by", "groups hold what is pending; leave state and run out")
	}
	who, _ := authn.FromContext(ctx)
	f := approvals.GroupFilter{Namespace: who.Namespace, By: in.GroupBy, Kind: in.Kind, Limit: in.Limit + 1}
	var after approvals.GroupPosition
	if ok, err := door.DecodeCursor(in.Cursor, &after); err != nil {
		return nil, err
	} else if ok {
		f.After = &after
	}
	found, err := a.service.Groups(ctx, f)
	if err != nil {
		return nil, err
	}
	var shown []approvals.Request
	page := door.PageOf(found, in.Limit, func(g approvals.Group) any {
		return approvals.GroupPosition{NextExpiry: g.NextExpiry, Value: g.Key.Value}
	}, func(g approvals.Group) Group {
		g.Sample = g.Sample.SeenBy(personOf(who))
		shown = append(shown, g.Sample)
		return showGroup(g)
	})
	a.service.Shown(ctx, who.Name, approvals.DoorAPI, shown...)
	out := &listOutput{}
	out.Body.Items, out.Body.Groups, out.Body.NextCursor = []Approval{}, page.Items, page.NextCursor
	return out, nil
}

func showGroup(g approvals.Group) Group {
	out := Group{
		Group: g.Key.String(), By: g.Key.By, Value: g.Key.Value, Count: g.Count,
		Oldest: g.Oldest, Newest: g.Newest, NextExpiry: g.NextExpiry, Sample: show(g.Sample),
	}
	for _, id := range g.IDs {
		out.IDs = append(out.IDs, string(id))
	}
	if g.Approved > 0 {
		out.Proposal = &Proposal{Approved: g.Approved, Like: string(g.Sample.ID), Tool: g.Sample.Tool, Agent: g.Sample.Agent}
	}
	if g.Count > len(g.IDs) {
		out.IDsCursor = door.EncodeCursor(g.Last)
	}
	return out
}
