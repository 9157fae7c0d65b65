// Package approvals asks people and keeps their answers.
//
// It consumes APPROVALS (ask, withdraw, notify) with the durable "approvals", takes
// decisions through its HTTP door and publishes RUNS approval_decided. It owns
// the Postgres schema approvals: requests, decisions (an audit of every attempt,
// also of those that lost), notices, links, rejected messages, grants
// and audit, a chain of
// hashes that nothing can be taken out of unseen.
//
// It guarantees that a request ends exactly once, by one conditional write under
// the database clock: a decision, an expiry or a withdrawal, whichever commits
// first. A decision that was answered 2xx reaches the runner, however often this
// process, NATS or Postgres stops in between, and always under one logical id.
// It does not know whether the approved action then ran; the runner and the
// tools service say that.
package approvals
