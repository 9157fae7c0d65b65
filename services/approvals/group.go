package approvals

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What the inbox groups by.
const (
	ByFlow       = "flow" // at the top of the run's tree
	ByAgent      = "agent"
	ByTool       = "tool"
	BySimilarity = "similarity" // see Similarity
)

// GroupKey names one group of the inbox.
type GroupKey struct{ By, Value string }

// String is the form that a door takes: "tool:propose_price".
func (k GroupKey) String() string { return k.By + ":" + k.Value }

// ParseGroup reads a group as String writes it. The error is ErrInvalid.
func ParseGroup(s string) (GroupKey, error) {
	by, value, ok := strings.Cut(s, ":")
	if !ok || !slices.Contains([]string{ByFlow, ByAgent, ByTool, BySimilarity}, by) || strings.ContainsRune(value, 0) {
		return GroupKey{}, fmt.Errorf("%w: group %.100q is none; take it from the list of groups, like tool:propose_price", ErrInvalid, s)
	}
	return GroupKey{by, value}, nil
}

// groupIDs is how many members a group names by itself.
const groupIDs = 20

// Group is what waits and belongs together.
type Group struct {
	Key            GroupKey
	Count          int
	Oldest, Newest time.Time           // when they were asked
	NextExpiry     time.Time           // the first of them to expire
	Sample         Request             // the newest
	IDs            []events.ApprovalID // the newest, at most groupIDs
	Last           Position            // of the last of IDs
	// Approved is how often people approved the same in the last 30 days and rejected
	// it never; zero when a grant is not proposed. By similarity only.
	Approved int
}

// GroupFilter narrows a list of groups.
type GroupFilter struct {
	Namespace string // required
	By        string // ByFlow, ByAgent, ByTool or BySimilarity
	Kind      string // empty: all
	Limit     int
	After     *GroupPosition // continues a list
}

// GroupPosition is a place in a list of groups, the next to expire first.
type GroupPosition struct {
	NextExpiry time.Time `json:"t"`
	Value      string    `json:"v"`
}

// Grouper shows what waits in groups.
type Grouper interface {
	Groups(ctx context.Context, f GroupFilter, ids int) ([]Group, error)
	// Members returns what waits in a group, newest first, and was asked at upTo or
	// before; a zero upTo is no bound.
	Members(ctx context.Context, namespace string, k GroupKey, upTo time.Time, before *Position, limit int) ([]Request, error)
	// Alike counts, for each of the similarities that nobody rejected in the last days,
	// how often people approved it then.
	Alike(ctx context.Context, namespace string, similarities []string, days int) (map[string]int, error)
}

// proposalDays is how far back a proposal looks.
const proposalDays = 30

// Groups returns what waits in groups, the next to expire first; by similarity with
// what people approved before as often as makes a grant worth proposing.
func (s *Service) Groups(ctx context.Context, f GroupFilter) ([]Group, error) {
	found, err := s.groups.Groups(ctx, f, groupIDs)
	if err != nil || f.By != BySimilarity || s.proposeAfter == 0 {
		return found, err
	}
	var values []string
	for _, g := range found {
		if g.Sample.Kind == events.ApprovalAction && !g.Sample.NeedsComment() && g.Sample.Quorum() == 1 {
			values = append(values, g.Key.Value)
		}
	}
	counts, err := s.groups.Alike(ctx, f.Namespace, values, proposalDays)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if n := counts[found[i].Key.Value]; n >= s.proposeAfter {
			found[i].Approved = n
		}
	}
	return found, nil
}

// Members returns what waits in a group, newest first.
func (s *Service) Members(ctx context.Context, namespace string, k GroupKey, upTo time.Time, before *Position, limit int) ([]Request, error) {
	return s.groups.Members(ctx, namespace, k, upTo, before, limit)
}
