package demo

import (
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
)

// facts is what was seen from outside: the input of the verdict.
type facts struct {
	Seed     uint64
	Scripted bool   // false when a real model answered
	Model    string // its name
	Took     time.Duration

	Runs        []runFact // every run of the night: flow, children, summary
	Kills       []runnerKill
	ToolsKilled int // tools processes killed between the other side's commit and its record
	Deaths      []lab.Death
	Tally       lab.Tally
	Approved    int // business keys that somebody approved
	Doubts      []doubtFact
	Focus       focusFact
	ManyPages   manyPagesFact
	Budget      budgetFact
	Approvals   approvalsFact
	Journal     journalFact
	Broken      []string // rules of the model API that were broken
	Incidents   []string // what did not go as the plan says; each fails the verdict
	Expected    int      // runs that one night has: flow + children + summary
}

// runFact is one row of runner.v_runs.
type runFact struct {
	ID, Kind, Name, Status, Shop string
}

// runnerKill is one SIGKILL of a runner and what became of its claims.
type runnerKill struct {
	Process string
	Worker  string
	Pid     int
	At      time.Time
	Alive   int // other runners alive until the measurement ended
	Claims  []claimFact
	// InFlight holds the model server's numbers of the calls that died with it.
	InFlight []int
}

// claimFact is one run that a dead process had claimed.
type claimFact struct {
	RunID     string
	Seq       int64 // journal seq at the kill
	FirstSeq  int64 // first row after it; 0 when none came
	FirstAt   time.Time
	FirstBy   string // worker of that row
	Completed bool
}

// doubtFact is one effect that was in doubt.
type doubtFact struct {
	ApprovalID, Business, Decision, By string
}

// focusFact is the proof about child 17.
type focusFact struct {
	RunID        string
	SeqAtKill    int64
	FirstSeq     int64
	WorkerBefore string
	WorkerAfter  string
	Requests     int // that reached the model server
	Answers      int // model_answered rows of its journal
	InFlight     int // of these, calls that were in flight at a kill
}

type manyPagesFact struct {
	Asked         int // fetches that the model asked for
	Fetched       int // that reached the web
	BudgetResults int // that were answered with the budget
}

type budgetFact struct {
	Pool    string
	Ceiling int64 // before the raise
	Raised  int64
	Used    int64 // at the end
	Paused  int   // runs that stood still for it
	Raises  int   // accepted raises
	Alerts  int   // alert events with different ids
	Copies  int   // alert events as they came
	Rows    int   // alerts that the view of the pool shows
}

type approvalsFact struct {
	Requests int // proposals that were put before a person
	Posts    int // decisions posted: at least two for each
	Pairs    int // of these, posted in the same moment
	Accepted int // posts answered 200
	Other    []string
	Decided  int // requests with exactly one decision on record
	Heard    int // requests whose run recorded exactly one decision
}

type journalFact struct {
	Rows         int
	Gaps         int // runs whose numbers are not 1..n
	DoubleCauses int // inbound causes that one run recorded twice
	Runs         int // all runs there are
	Requests     int // model requests of all conversations
	Answers      int // model_answered rows of all runs
	InFlight     int // calls that died with their runner
}
