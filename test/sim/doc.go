// Package sim plays the whole protocol, with everything that can go wrong between
// any two of its steps, in one goroutine and by a clock of its own. Hundreds of
// worlds are played in a second, and the same seed is the same world for ever.
//
// # What is real
//
// Every decision: runner.Decide, DecideOutcome, DecideDrive, Outgoing and the fold of
// the rows; tools.Decide, Conclude and DecideShut; approvals.Judge; trigger.Repeat;
// and the messages that each row makes. What is written anew, as short as it can
// be, is around them: the handlers (receive, load, decide, commit, publish,
// acknowledge), the statements that commit under a guard (runRows, ledger, questions,
// doorRows) and a broker (bus) that hands a message out again until somebody
// acknowledges it. The statements in SQL have tests of their own, on a real Postgres.
//
// # What goes wrong
//
// A process crashes between two steps, or sleeps and does not know it. A commit is
// refused, or its reply is lost. A message does not get out, is stored twice, is
// handed out again although somebody has it, or its acknowledgement is lost; messages
// come in any order. The model is busy, and says something else when it is asked
// again. The other side of a tool is silent, refuses or is not reached. People click
// twice, cancel, pause, let go on and raise. One world in four has a broker that loses what it
// has stored; only there the doctor asks again, so that it does not hide what
// redelivery alone must bring about.
//
// # What is promised
//
// Promise lists it. The checks believe rows and what the other side counts, and
// nothing that the product counts itself. Most are made when a row is written or a
// request leaves. In the end the faults stop, everybody who waits is answered, and
// when nothing is left to happen every run must have ended.
//
// # How a trace is read
//
// Each line is a stretch in which one process went on with one message:
//
//	 9  runner-1.1   start start:R1 (delivery 2): receive load decide commit →event →step ack
//	10  tools-2.1    call call:R1-2-0: receive load begin intent act
//	11  tools-2.1    CRASH
//
// runner-1.1 is the first process that was started in the place runner-1. R1 is the
// first run that got a row; R1-2-0 is call 0 of the answer in its row 2. What follows
// the colon are the steps, → is a message that left, and what is in brackets went
// wrong or was found. A line that ends with … before its colon goes on with work of a line above.
// The last line names the promise that broke.
//
// The trace that is printed is not the one that was found. A choice in which nothing
// goes wrong is 0, and every other is a fault with a place: the step of the handler at
// which it was made. Shrink takes faults away as long as the same promise breaks, so
// that whatever is left is needed.
//
// # Planted bugs
//
// A Flaw is a bug that is switched on. A test demands that the promises find each of them, so
// that a check which sees nothing is seen.
//
// # What it does not see
//
// SQL, NATS and the adapters; shared budgets, concurrency keys, forks and moves to
// another version; a process that sleeps between its last look at a claim and the
// act, which no ledger can stop (services/tools/DESIGN.md).
package sim
