// Package bench measures Holdfast beside what the machine can do at all: every
// figure of a run has the limits of the same run next to it, because only the
// ratio says something about Holdfast.
//
// It uses a private Postgres (with fsync) and NATS, and the real binary: each
// service is a process of its own, started as operators start it. One workload is
// one file, listed in Workloads; lab.go is what they share, measure.go how every
// one of them counts, report.go what comes of it.
package bench
