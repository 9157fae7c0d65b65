// Package demo runs the nightly competitor check for real and breaks things
// while it runs: every service is a process of its own, and processes are
// killed, stopped and restarted at moments that a seed picks.
//
// The world around the services belongs to this package: thirty shops that
// serve HTML, a pricing API that keeps its own file of what arrived, and a
// scripted model. The verdict is drawn from outside: from that file, from the
// model server's and the web's own counts, from the HTTP API and from the
// read-only SQL views. The services' internals are never asked.
//
// It does not know whether a failed check is the fault of a service or of the
// machine; it says what it expected and what it saw, and keeps the logs.
package demo
