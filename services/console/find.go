package console

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunFilter selects runs of one namespace, newest first. Zero fields do not narrow.
type RunFilter struct {
	Namespace   string
	Kind        string // agent, flow or program
	Name        string
	Statuses    []string          // any of them
	Labels      map[string]string // all of them
	TriggerKind string            // webhook, api, schedule, event, child, fork
	TriggerName string            // with TriggerKind
	From, To    time.Time         // accepted at From or later, and before To
	MinCost     int64             // micro-dollars
	IDPart      string            // the beginning of an id, or its last eight characters
	Words       []string          // each stands in the name, a label or what the run waits for, in any case
	IDs         []events.RunID    // any of them
	Parent      events.RunID
	Open        bool         // only runs of our agents and flows that have not ended
	Before      events.RunID // runs older than this one; empty for the newest
	NotBefore   events.RunID // and no older than this one
	Limit       int
}

// Indexed is the filter without what no index answers, because it changes with the
// steps of a run; and whether that leaves anything out.
func (f RunFilter) Indexed() (RunFilter, bool) {
	out := f
	out.MinCost, out.Words = 0, nil
	for _, status := range f.Statuses {
		if events.Ended(status) {
			out.Statuses = nil
		}
	}
	return out, f.MinCost > 0 || len(f.Words) > 0 || len(out.Statuses) != len(f.Statuses)
}

// FindLook is how many runs one page of a list is looked for in, when a filter has no
// index.
const FindLook = 10_000

// Found is one page of a list of runs.
type Found struct {
	Runs []Run
	// Next is where the next page begins: its runs are before this one; empty at the end.
	Next events.RunID
	// Looked says that the page ended because FindLook runs were looked at, and not
	// because it was full. It may be empty and more may come.
	Looked bool
}

// Find lists a page of at most f.Limit runs. What no index answers is looked for among
// the next FindLook runs that fit the rest; further ones are the next page's.
func (s *Service) Find(ctx context.Context, f RunFilter) (found Found, err error) {
	indexed, more := f.Indexed()
	if more {
		if f.NotBefore, err = s.NthRun(ctx, indexed, FindLook); err != nil {
			return Found{}, err
		}
	}
	limit := f.Limit
	f.Limit++
	found.Runs, err = s.Runs(ctx, f)
	switch {
	case err != nil:
		return Found{}, err
	case len(found.Runs) > limit:
		found.Runs = found.Runs[:limit]
		found.Next = found.Runs[limit-1].ID
	case f.NotBefore != "":
		found.Next, found.Looked = f.NotBefore, true
	}
	return found, nil
}

// FindText is Find by what a person types: eight or more characters of an id, or words.
// What looks like an id and is none is words.
func (s *Service) FindText(ctx context.Context, f RunFilter, text string) (Found, error) {
	words := strings.Fields(text)
	if len(words) == 1 && idPart.MatchString(words[0]) {
		byID := f
		byID.IDPart = strings.ToLower(words[0])
		if found, err := s.Find(ctx, byID); err != nil || len(found.Runs) > 0 {
			return found, err
		}
	}
	f.Words = words
	return s.Find(ctx, f)
}

var idPart = regexp.MustCompile(`^[0-9a-fA-F-]{8,36}$`)
