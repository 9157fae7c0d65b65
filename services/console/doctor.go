package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Severity of a Finding.
const (
	FindingProblem = "problem" // somebody must act
	FindingWarning = "warning" // somebody should look
)

// Finding is one thing that is not as it should be, and what to do about it.
type Finding struct {
	Severity string // FindingProblem or FindingWarning
	Code     string // stable: "parked_runs", "no_worker" …
	What     string // one sentence
	Next     string // a command or a place to look
	Count    int64
	Since    time.Time // of the oldest; zero when that is not known
}

// Tally is a number of like things and when the oldest of them was.
type Tally struct {
	Code  string // what tells them apart; empty when nothing does
	Count int64
	Since time.Time
}

// Checkup is what the doctor is told of a namespace, by the database's clock.
type Checkup struct {
	Parked    []Tally // runs that need attention, by the code of their error
	Paused    []Tally // paused runs, by what they are paused for; empty: by an operator
	Orphans   Tally   // runs with a model call that a dead worker holds, for over a minute
	Untaken   Tally   // starts that no runner has committed, for over a minute
	Unasked   Tally   // runs whose model call no runner has taken, for over a minute
	Unlanded  Tally   // commands that no runner has committed, for over a minute
	Doubts    Tally   // effects of which nobody knows whether they happened
	Waiting   Tally   // questions to people
	Rejected  []Tally // messages of the last day that no retry can cure, as "<service> <code>"; of all namespaces
	Notices   []Tally // to people, of the last week, that are not known to have arrived, by their state
	NewerRuns Tally   // open runs that need a newer release than this
}

// CheckupReader reads what the doctor asks about.
type CheckupReader interface {
	Checkup(ctx context.Context, namespace string) (Checkup, error)
}

// Doctor looks at a namespace and at the processes. It changes nothing.
func (s *Service) Doctor(ctx context.Context, namespace string) (findings []Finding, at time.Time, err error) {
	system, err := s.System(ctx, namespace)
	if err != nil {
		return nil, time.Time{}, err
	}
	c, err := s.Checkup(ctx, namespace)
	if err != nil {
		return nil, time.Time{}, err
	}
	return Examine(system, c), system.At, nil
}

// skewed is how far the clocks of a worker and of the database may be apart. A
// beat that Postgres kept waiting looks like a clock that is behind.
const skewed = 5 * time.Second

// stuck is how many messages one consumer may owe before it counts as behind.
const stuck = 1000

// Examine finds what is wrong, the worst first. It is pure.
func Examine(system System, c Checkup) []Finding {
	var out []Finding
	add := func(severity, code string, t Tally, next, format string, args ...any) {
		out = append(out, Finding{Severity: severity, Code: code, What: fmt.Sprintf(format, args...), Next: next, Count: t.Count, Since: t.Since})
	}
	alive := map[string]int{}
	for _, w := range system.Workers {
		if w.Alive() {
			alive[w.Service]++
		}
	}
	for _, w := range system.Workers {
		if w.Alive() && w.Skew.Abs() >= skewed {
			add(FindingWarning, "clock_skew", Tally{Count: 1}, "let the machine's clock be set by NTP; nothing of a run is decided by it, but logs and what is signed with a time are",
				"the clock of %s is %s %s the database's", w.Name, w.Skew.Abs().Round(time.Second), map[bool]string{true: "ahead of", false: "behind"}[w.Skew > 0])
		}
	}
	for _, service := range []string{"runner", "tools"} {
		if alive[service] == 0 {
			add(FindingProblem, "no_worker", Tally{}, "start one: holdfast serve "+service, "no process of %s is alive; what needs one waits, and nothing is lost", service)
		}
	}
	for _, t := range c.Parked {
		add(FindingProblem, "parked_runs", t, fmt.Sprintf(`mend the cause, then: holdfast runs resume --where 'status=="needs_attention" && error.code=="%s"'`, t.Code),
			"%s (%s)", many(t.Count, "run needs attention", "runs need attention"), t.Code)
	}
	tell := func(severity, code string, t Tally, next, one, more string) {
		if t.Count > 0 {
			add(severity, code, t, next, "%s", many(t.Count, one, more))
		}
	}
	tell(FindingProblem, "doubts", c.Doubts, "holdfast effects list --state unknown, then: holdfast effects resolve ID", "effect is in doubt: nobody knows whether it happened", "effects are in doubt: nobody knows whether they happened")
	tell(FindingProblem, "newer_runs", c.NewerRuns, "start a runner of the newer release", "run was written to by a newer release and waits for a runner of it", "runs were written to by a newer release and wait for a runner of it")
	tell(FindingProblem, "orphans", c.Orphans, "look at the runners' logs; whoever has their messages takes them over", "model call is held by a worker that is gone, for over a minute", "model calls are held by workers that are gone, for over a minute")
	tell(FindingWarning, "untaken_starts", c.Untaken, "are runners and NATS there? GET /v1/system says who works", "start was accepted over a minute ago and no runner has it yet", "starts were accepted over a minute ago and no runner has them yet")
	tell(FindingWarning, "unasked_calls", c.Unasked, "are runners alive, and have they slots? holdfast runs why RUN says what one waits behind", "run waits for a runner to make its model call, for over a minute", "runs wait for a runner to make their model call, for over a minute")
	tell(FindingWarning, "unlanded_commands", c.Unlanded, "are runners and NATS there? GET /v1/system says who works", "command is kept and has not reached its run for over a minute", "commands are kept and have not reached their run for over a minute")
	for _, t := range c.Rejected {
		service, code, _ := strings.Cut(t.Code, " ")
		add(FindingWarning, "rejected_messages", t, fmt.Sprintf("read them: SELECT * FROM %s.rejected ORDER BY id DESC LIMIT 20", service), "%s rejected %s within a day (%s), of all namespaces", service, many(t.Count, "message", "messages"), code)
	}
	for _, t := range c.Notices {
		next, what := "mend what \"problem\" says in: holdfast notices list --state failed; then: holdfast notices resend NOTICE", many(t.Count, "notice", "notices")+" of the last week did not reach people"
		if t.Code == "unknown" {
			next = "holdfast notices list --state unknown, look in the channel, then, knowing that people may read it twice: holdfast notices resend NOTICE --may-double"
			what = many(t.Count, "notice", "notices") + " of the last week may or may not have reached people"
		}
		add(FindingWarning, t.Code+"_notices", t, next, "%s", what)
	}
	for _, t := range c.Paused {
		if t.Code == "" {
			add(FindingWarning, "paused_runs", t, `holdfast runs resume --where 'status=="paused"'`, "%s paused by an operator", many(t.Count, "run is", "runs are"))
			continue
		}
		add(FindingWarning, "paused_runs", t, "raise the budget: POST /v1/runs/{id}/budget", "%s paused: %s is used up", many(t.Count, "run is", "runs are"), t.Code)
	}
	for _, h := range system.Stops {
		scope := strings.TrimSpace(h.Scope + " " + h.Name)
		add(FindingWarning, "stop_in_force", Tally{Count: 1, Since: h.Since}, "holdfast start", "writes of %s are stopped by %s: %s", scope, h.By, h.Note)
	}
	if system.NoLag != "" {
		add(FindingWarning, "streams_unread", Tally{}, "is NATS there?", "the streams cannot be read: %s", system.NoLag)
	}
	for _, l := range system.Lags {
		if l.Pending >= stuck {
			add(FindingWarning, "backlog", Tally{Count: int64(l.Pending)}, "more workers of that service, or wait", "consumer %s of %s is %d messages behind", l.Durable, l.Stream, l.Pending)
		}
	}
	tell(FindingWarning, "waiting_for_people", old(c.Waiting, system.At), "holdfast approvals list", "question waits for people, for over a day", "questions wait for people, the oldest for over a day")
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(severityRank(a), severityRank(b)) })
	return out
}

// many counts what is one or more.
func many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func severityRank(f Finding) int {
	if f.Severity == FindingProblem {
		return 0
	}
	return 1
}

// old keeps a tally whose oldest is over a day old.
func old(t Tally, now time.Time) Tally {
	if t.Since.IsZero() || now.Sub(t.Since) < 24*time.Hour {
		return Tally{}
	}
	return t
}
