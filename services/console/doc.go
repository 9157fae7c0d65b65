// Package console is the read side and the operators' hand: runs and their
// events, commands, definitions, tokens and the web pages.
//
// It consumes the EVENTS tail, once per process, and fans it out in memory. It
// publishes RUNS commands: cancel, pause, resume, raise_budget, signal,
// message, fork. It owns
// the Postgres schemas catalog (definitions and tokens, which every service
// reads through views) and console (commands, and the runs of
// users' own programs with their checkpoints), and reads the views of the other
// services. It decides nothing about a run.
//
// It guarantees: a command that was answered 202 is handed to the runner until
// the runner has recorded it, once; a set of definitions is stored whole or not
// at all; a run's event stream has no gap and no repeat after Last-Event-ID,
// whatever the tail misses; nothing of another namespace is shown.
package console
