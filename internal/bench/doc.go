// Package bench measures Holdfast beside what the machine can do at all: every
// figure of a run has the limits of the same run next to it, because only the
// ratio says something about Holdfast.
//
// It uses a private Postgres (with fsync) and NATS, and the real binary.
package bench
