// Package trigger is every way a run starts: signed webhooks, the API,
// schedules, and messages of other programs on hf.in.<name>. It verifies,
// recognises repeats, maps and checks the input, and accepts the start.
//
// Consumes: IN. Publishes: RUNS start. Owns: the Postgres schema trigger.
//
// It guarantees that a start it answered with 2xx becomes exactly one run, and
// that every repeat of it is answered with the same run id. The promise is a row
// of trigger.deliveries, committed before the answer, whose unique key admits
// one run id; a relay announces the row on RUNS until the runner has committed
// it. So a NATS that is away delays a start and loses none, and a Postgres that
// is away is an error that the sender sees.
//
// A schedule's fire is a row (schedule, nominal wall time, fold), taken by
// whichever replica comes first; no replica leads, and the database's clock is
// the only clock.
//
// It knows nothing of what a run does, and reads no table of another service:
// definitions come from the catalog's views, landed starts from runner.v_landed,
// and what a start's caller waits for from the views of runs that the API started.
package trigger
