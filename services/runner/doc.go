// Package runner is the run state machine: it turns starts, tool results,
// decisions, child results, timers and commands into journal rows, and owed
// model calls into answers.
//
// It consumes RUNS: the durable "runner" for facts and commands, which take
// milliseconds, and "runner-step" for owed model calls, of which it takes as
// many as it has free slots. It publishes RUNS (steps, child starts, child
// results), TOOLS, APPROVALS and EVENTS. It owns the Postgres schema "runner":
// runs, journal, pending, timers, pools, reservations, alerts, workers,
// rejected.
//
// Guarantee: a run resumes from its journal. A recorded model answer or tool
// result is never asked for again, an answer is committed before any of its
// calls is sent, and a worker that lost its claim neither writes nor sends.
//
// It does not know which broker or database it runs on, nor any provider.
package runner
