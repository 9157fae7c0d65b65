package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// ErrTreeFull is a commit that would start more runs than may be below one root. It
// is decided again with what is left.
var ErrTreeFull = errors.New("as many runs are below the root as may be")

// Trees counts the runs below a root: below the run that nothing started, and below
// everything that it started.
type Trees interface {
	// BelowRoot returns how many runs were started below a root so far.
	BelowRoot(ctx context.Context, root events.RunID) (int64, error)
}

// Root is the run at the top of the tree that the run is in; itself when nothing
// started it. Below a run of a release that did not say, it is that run's parent.
func (s *State) Root() events.RunID {
	switch p := s.Started.Parent; {
	case p == nil:
		return s.RunID
	case p.Root != "":
		return p.Root
	default:
		return p.RunID
	}
}

// rootAbove is what a child is told; nothing when the run itself is the root.
func (s *State) rootAbove() events.RunID {
	if s.Started.Parent == nil {
		return ""
	}
	return s.Root()
}

// begins counts runs that a row starts. Those of copied rows are another tree's.
func (s *State) begins(seq int64, runs int) {
	if !s.copied(seq) {
		s.Begun += int64(runs)
	}
}

// BeginsRuns is how many runs the commit starts.
func (c Commit) BeginsRuns() int64 {
	if c.Before == nil {
		return c.After.Begun
	}
	return c.After.Begun - c.Before.Begun
}

// mayBegin is how far State.Begun may rise for now: nil while nobody has found the
// tree full, which is what the commit looks for.
func (s *Service) mayBegin(ctx context.Context, st *State, full bool) (*int64, error) {
	if !full {
		return nil, nil
	}
	below, err := s.store.BelowRoot(ctx, st.Root())
	if err != nil {
		return nil, err
	}
	most := st.Begun + max(s.cfg.MaxTreeRuns-below, 0)
	return &most, nil
}

// treeFull says that the tree has no room for the next n runs.
func (d *decision) treeFull(n int) error {
	if d.mayBegin == nil || d.state.Begun+int64(n) <= *d.mayBegin {
		return nil
	}
	return fullTree{d.state.Root()}
}

// codeTreeFull is why a call or a step starts no run: the tree is full.
const codeTreeFull = "tree_full"

type fullTree struct{ root events.RunID }

func (f fullTree) Error() string {
	return fmt.Sprintf("as many runs are below run %s as may be (--runner-max-tree-runs); end the run and start what is left as a run of its own", f.root)
}
