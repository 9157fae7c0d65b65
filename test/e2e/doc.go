// Package e2e proves the product's promises from outside: every service is a
// process of its own on loopback, and the tests use only what a user reaches,
// the HTTP doors, the command line, signals, and the read-only views. The model
// and the shop that the tools act on are servers of the test, which count what
// arrives.
//
// A deployment is started once for the tests that do not disturb each other;
// tests that kill or stop something have their own.
package e2e
