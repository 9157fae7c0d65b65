package console

import (
	"context"
	"time"
)

// Answers is what a list of runs says first: what runs, what is stuck, what waits for a
// person, what was changed and what it cost.
type Answers struct {
	Open   map[string]int // runs that have not ended, by status
	Asking int            // of the running ones, those that ask a model right now

	Approvals  int       // requests that wait for a person
	NextExpiry time.Time // of the first of them; zero without one

	Since   time.Time      // of what follows
	Effects map[string]int // that began since, by state
	Doubts  int            // effects of any age of which it is not known whether they happened
	Stops   int            // orders in force that no write leaves
	Runs    int            // that were accepted since
	Cost    int64          // of model calls since, of whatever run, micro-dollars
}

// AnswersReader counts for a namespace.
type AnswersReader interface {
	Answers(ctx context.Context, namespace string, since time.Time) (Answers, error)
}
