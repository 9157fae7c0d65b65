// Package e2e proves the product's promises from outside: every service is a
// process of its own on loopback, and the tests use only what a user reaches,
// the HTTP doors, the command line, signals, and the read-only views. The model
// and the shop that the tools act on are servers of the test, which count what
// arrives.
//
// Faults that users of such systems have reported have an id, C01 for instance, and
// the tests that hold one are named after it, here and beside the code: TestCaseC01.
// TestCaseC01_PausedRunner stops processes and wakes them up, TestCaseC07_Outage takes
// Postgres, its writes and NATS away, TestFlow_UnderKills kills runners beside a flow.
// TestDecisions lets people decide at the API, behind links and in Slack, through crashes,
// deploys and days that pass in the database.
// With HOLDFAST_LAB_LONG=1, which "make soak" sets, that one has 1,000 children.
//
// The journals that a deployment leaves behind are rebuilt at every commit and given to
// the strict validator of the scripted model (journals_test.go), beside what it refuses
// while the tests run.
//
// A deployment is started once for the tests that do not disturb each other;
// tests that kill or stop something have their own.
package e2e
