package console

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// What a cost report is grouped by. Labels are CostByLabel with the key behind it.
const (
	CostByAgent   = "agent"
	CostByFlow    = "flow"
	CostByModel   = "model"
	CostByTrigger = "trigger"
	CostByDay     = "day"
	CostByLabel   = "label:"
)

// MaxCostRows is how many groups a report lists.
const MaxCostRows = 500

// CostQuery asks what model calls used and cost. Since and Until are whole hours, UTC:
// what was spent is kept by the hour.
type CostQuery struct {
	Namespace    string
	By           string
	Since, Until time.Time
}

// CostRow is what one group used. Key is empty for what belongs to no group: runs below
// no flow, or without the label.
type CostRow struct {
	Key                                            string
	Calls                                          int64
	InputTokens, CacheReadTokens, CacheWriteTokens int64 // the cached ones are part of the input
	OutputTokens                                   int64
	CostMicroUSD, CostEstimatedMicroUSD            int64 // the second is a part of the first
}

// CostReport is the answer, the dearest group first; days in their order.
type CostReport struct {
	CostQuery
	Total CostRow
	Rows  []CostRow
	More  bool // there are more groups; Total has them
}

// CostReader reads what was spent.
type CostReader interface {
	Cost(ctx context.Context, q CostQuery) (CostReport, error)
}

// NewCostQuery reads what a person asks for: since is a length of time before now like
// 7d or 12h, or a moment; until is a moment or nothing. It is pure.
func NewCostQuery(namespace, by, since, until string, now time.Time) (CostQuery, error) {
	q := CostQuery{Namespace: namespace, By: by, Until: now}
	if by == "" {
		q.By = CostByAgent
	}
	label, isLabel := strings.CutPrefix(q.By, CostByLabel)
	switch {
	case isLabel && !spec.ValidLabelKey(label):
		return q, fmt.Errorf("by: %q is not the key of a label", label)
	case isLabel:
	case q.By != CostByAgent && q.By != CostByFlow && q.By != CostByModel && q.By != CostByTrigger && q.By != CostByDay:
		return q, fmt.Errorf("by: %q is none of agent, flow, model, trigger, day and label:<key>", by)
	}
	if since == "" {
		since = "7d"
	}
	if d, err := spec.ParseDuration(since); err == nil {
		q.Since = now.Add(-time.Duration(d))
	} else if q.Since, err = moment(since); err != nil {
		return q, fmt.Errorf("since: %q is neither a length of time like 7d nor a moment like 2026-03-01 or 2026-03-01T08:00:00Z", since)
	}
	if until != "" {
		at, err := moment(until)
		if err != nil {
			return q, fmt.Errorf("until: %q is not a moment like 2026-03-01 or 2026-03-01T08:00:00Z", until)
		}
		q.Until = at
	}
	q.Since = q.Since.UTC().Truncate(time.Hour)
	if whole := q.Until.UTC().Truncate(time.Hour); whole.Before(q.Until) {
		q.Until = whole.Add(time.Hour)
	} else {
		q.Until = whole
	}
	if !q.Since.Before(q.Until) {
		return q, fmt.Errorf("since: %s is not before the end, %s", q.Since.Format(time.RFC3339), q.Until.Format(time.RFC3339))
	}
	return q, nil
}

func moment(s string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, s)
}
