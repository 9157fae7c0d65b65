package console

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunApproval is a question to people that a run asked, open or over.
type RunApproval struct {
	ID        events.ApprovalID
	Kind      string
	Tool      string
	State     string
	By        string
	CreatedAt time.Time
	DecidedAt time.Time
	ExpiresAt time.Time
}

// ChildRun is a run that another one started.
type ChildRun struct {
	ID           events.RunID
	Name, Status string
	Item         string // of the parent
	Input        string // its beginning
	ModelCalls   int64
	ToolCalls    int64
	Cost         int64
	Waiting      string
}

// ChildCount is how many runs of a step have a status.
type ChildCount struct {
	Step, Status string
	Runs         int64
}

// StepRow is a row of a flow's journal about one of its steps.
type StepRow struct {
	Seq     int64
	Step    string
	Items   int64 // that it starts
	Total   int64 // of the step
	Skipped bool
}

// PartReader reads what belongs to a run.
type PartReader interface {
	// RunApprovals lists at most limit questions of a run, the open ones first.
	RunApprovals(ctx context.Context, namespace string, run events.RunID, limit int) ([]RunApproval, error)
	// ChildRuns lists at most limit runs that a run started, the oldest first, and counts all.
	ChildRuns(ctx context.Context, namespace string, run events.RunID, limit int) ([]ChildRun, []ChildCount, error)
	// StepRows lists at most limit rows about the steps of a flow.
	StepRows(ctx context.Context, namespace string, run events.RunID, limit int) ([]StepRow, error)
}

// Label is what tells a child from its siblings: its input, or the first member of it, when
// that is a short value.
func (c ChildRun) Label() string {
	dec := json.NewDecoder(strings.NewReader(c.Input)) // perhaps cut, so it is read by tokens
	dec.UseNumber()
	tok, err := dec.Token()
	if tok == json.Delim('{') {
		_, err = dec.Token() // the name
		if err == nil {
			tok, err = dec.Token()
		}
	}
	if err != nil {
		return c.Name
	}
	switch x := tok.(type) {
	case string:
		if label := strings.Join(strings.Fields(x), " "); label != "" {
			return clip(label, 40)
		}
	case json.Number:
		return x.String()
	case bool:
		return strconv.FormatBool(x)
	}
	return c.Name
}

// What a step of a flow is at.
const (
	StepNotBegun = "not begun"
	StepOpen     = "running"
	StepWaits    = "waiting"
	StepDone     = "done"
	StepFailed   = "failed"
	StepSkip     = "skipped"
	StepEnded    = "not finished" // the run has ended before it
)

// StepState is what a step of a flow is at.
type StepState struct {
	State            string
	Total, Begun     int64 // items
	Done, Open, Lost int64 // of those that are runs
	WaitsForPeople   bool
}

// StepStates says what each step of a flow's run is at, by its rows, its children and what
// it waits for. It is pure.
func StepStates(run Run, rows []StepRow, counts []ChildCount, pending []Pending) map[string]StepState {
	out := map[string]StepState{}
	bySeq := map[int64]string{}
	for _, r := range rows {
		s := out[r.Step]
		s.Total, s.Begun = max(s.Total, r.Total), s.Begun+r.Items
		if r.Skipped {
			s.State = StepSkip
		}
		bySeq[r.Seq] = r.Step
		out[r.Step] = s
	}
	for _, c := range counts {
		s, ok := out[c.Step]
		if !ok {
			continue
		}
		switch {
		case !events.Ended(c.Status):
			s.Open += c.Runs
		case c.Status == events.StatusCompleted:
			s.Done += c.Runs
		default:
			s.Lost += c.Runs
		}
		out[c.Step] = s
	}
	waits := map[string]int64{}
	people := map[string]bool{}
	for _, p := range pending {
		if p.Kind == "child" || p.Kind == "started" {
			continue
		}
		step := ""
		_, item, _ := strings.Cut(p.Item, "/")
		if row := events.CallID(item).Row(); row > 0 {
			step = bySeq[row]
		} else {
			for name := range out {
				if strings.HasPrefix(item, "sleep-"+name+"-") || strings.HasPrefix(item, "again-"+name+"-") {
					step = name
				}
			}
		}
		waits[step]++
		people[step] = people[step] || p.Kind == "approval" || p.Kind == "doubt" || p.Kind == "question"
	}
	for name, s := range out {
		s.WaitsForPeople = people[name]
		switch {
		case s.State == StepSkip:
		case s.Open > 0:
			s.State = StepOpen
		case waits[name] > 0:
			s.State = StepWaits
		case s.Begun < s.Total && !events.Ended(run.Status):
			s.State = StepOpen
		case s.Begun < s.Total:
			s.State = StepEnded
		case s.Lost > 0 && s.Done == 0:
			s.State = StepFailed
		default:
			s.State = StepDone
		}
		out[name] = s
	}
	return out
}
